"""Where a merge finds its adapter, its base and rows to compare on: on the training's host, and away from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.config.hosts import Host
from armada.errors import ArmadaError, NotFound, PreflightRefused
from armada.launch.plans.merge import MergeTask, Source, choose_host, refuse_unmergeable
from armada.launch.plans.plan import Plan, make_plan
from armada.launch.plans.task import Order
from armada.paths import HomePaths, HostPaths
from armada.protocol.recorded import RecordedContainer, recorded_spec
from armada.protocol.spec import MergeRequest, MergeSection
from armada.provision.model import model_content
from armada.rpc.session import HostSession
from armada.store import checkpoints, runs
from armada.store.checkpoints import Checkpoint
from armada.store.database import Database
from armada.store.runs import Run
from tests import host_facts, published_run
from tests.answers import Answering

if TYPE_CHECKING:
    from collections.abc import Callable

ABSENT = {"present": False, "path": "/root/.armada/x", "staging": "/root/.armada/.x"}


class Answers(Answering):
    """A session whose host answers what a plan asks; a real one would need the training's host as well."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.paths = HostPaths(PurePosixPath("/root/.armada"))

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> dict[str, Any]:
        if method == "environment.status":
            return dict.fromkeys(params["keys"], "ready")
        tool = {"tool": "podman", "version": "5", "id": "c" * 64, "digest": None}
        return {"host.facts": host_facts.answer(), "content.check": ABSENT, "container.examine": tool}[method]


FILES = ("adapter_model.safetensors", "adapter_config.json", "optimizer.pt", "rng_state.pth", "base_model/x")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return saved(tmp_path / "checkpoint-30", *FILES)


def saved(home: Path, *names: str) -> Checkpoint:
    """Write a checkpoint as it comes home."""
    digest = published_run.write(home, 30, dict.fromkeys(names, b"{}"))
    return Checkpoint("t-1", digest, 30, 100, 4, 1.0, True, home, 2.0, None, None)


def source(
    checkpoint: Checkpoint, model: dict[str, Any], experiment: dict[str, Any], profile: str = "a100-80gb-8x"
) -> Source:
    values: dict[str, Any] = dict.fromkeys(Run._fields)
    run = Run(**{**values, "run_id": "t-1", "host": "a100-1", "name": "train"})
    training = {
        "model": model, "precision": "bf16", "lora": {"r": 8, "quantize": "none"},
        "data": {"train": [{"path": "/root/.armada/data/1/t.jsonl"}], "eval": [{"path": "/root/.armada/data/2/e.jsonl"}]},
    }  # fmt: skip
    spec = {
        "task": "sft", "name": "train", "profile": profile, "training": training, "experiment": experiment,
        "job": {"secrets": ["HF_TOKEN", "WANDB_API_KEY"]}, "sync": None,
    }  # fmt: skip
    return Source(run, recorded_spec(spec), checkpoint)


def plan(tmp_path: Path, given: Source, host: str) -> tuple[Plan, MergeRequest]:
    session = Answers(Host.model_validate({"name": host, "ssh": host, "profile": "cpu"}))
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    with Database(tmp_path / "armada.db") as database:
        record(database, given.checkpoint)
        made = make_plan(MergeTask(given, "auto", Order(cast("HostSession", session), home, database)))
    assert isinstance(made.spec.training, MergeSection)
    return made, made.spec.training.merge


def record(database: Database, checkpoint: Checkpoint) -> None:
    known: dict[str, Any] = {"size_bytes": 100, "file_count": 4, "created_at": 1.0, "home_path": checkpoint.home_path}
    if not checkpoints.of_run(database, "t-1") and checkpoint.home_path is not None:
        runs.insert(database, run_id="t-1", name="train", host="a100-1", task="sft", experiment=None, spec={})
        checkpoints.adopt(database, "t-1", checkpoint.digest, step=30, **known)


def test_on_the_trainings_host_everything_is_there_already(tmp_path: Path, checkpoint: Checkpoint) -> None:
    made, request = plan(tmp_path, source(checkpoint, {"path": "/root/.armada/models/9"}, {}), "a100-1")
    assert request.adapter == f"/root/.armada/runs/t-1/outbox/{checkpoint.digest}"
    assert request.base == "/root/.armada/models/9"
    assert request.rows == (
        "/root/.armada/data/2/e.jsonl",
        "/root/.armada/data/1/t.jsonl",
    )
    assert [content.kind for content in made.contents] == ["code"]
    assert (made.spec.task, made.spec.gpus, made.spec.name) == ("merge", 0, "train merged")
    assert made.profile is not None
    assert made.profile.name == "a100-80gb-8x"  # whose environment is there


def test_a_training_in_a_container_is_merged_in_its_image_on_its_own_host(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    given = source(checkpoint, {"path": "/root/.armada/models/9"}, {})
    image = RecordedContainer(image="x:1", id="c" * 64, digest="docker.io/library/x@sha256:" + "c" * 64)
    given = dataclasses.replace(given, spec=given.spec.model_copy(update={"container": image}))
    made, _ = plan(tmp_path, given, "a100-1")
    assert (made.environment, made.spec.job.argv[:3]) == (None, ("python3", "-m", "armada_train.merge"))
    assert made.container is not None
    assert made.container.needs is not None
    assert (made.container.image, made.container.needs_gpus) == (image.digest, False)
    assert "peft" in made.container.needs.asked


def test_a_derived_profile_is_derived_again(tmp_path: Path, checkpoint: Checkpoint) -> None:
    """It has no file; the host's own profile, or its GPUs, decide as they did."""
    given = source(checkpoint, {"path": "/root/.armada/models/9"}, {}, profile="derived:1x-some-gpu")
    made, _ = plan(tmp_path, given, "a100-1")
    assert made.profile is not None
    assert made.profile.name == "cpu"


def test_elsewhere_adapter_base_and_rows_travel_and_the_optimizer_stays(tmp_path: Path, checkpoint: Checkpoint) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (tmp_path / "e.jsonl").write_text("{}")
    experiment = {"model": str(model), "data": {"train": [], "eval": [{"path": str(tmp_path / "e.jsonl")}]}}
    made, request = plan(tmp_path, source(checkpoint, {"path": "/root/.armada/models/9"}, experiment), "desk")
    by_kind = {content.kind: content for content in made.contents if content.kind != "models"}
    adapter, base = [content for content in made.contents if content.kind == "models"]
    assert set(adapter.files) == {"adapter_config.json", "adapter_model.safetensors", "base_model/x"}
    assert request.adapter == f"/root/.armada/models/{adapter.sha}"
    assert request.base == f"/root/.armada/models/{base.sha}"
    assert request.rows == (f"/root/.armada/data/{by_kind['data'].sha}/e.jsonl",)
    assert set(made.missing) == set(made.contents)


def test_a_base_of_the_hub_is_fetched_and_one_made_on_the_spot_lies_beside_its_adapter(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("WANDB_API_KEY", "other")
    nothing = {"model": "Qwen/x", "data": {"train": [{"path": "/gone.jsonl"}]}}
    made, request = plan(tmp_path, source(checkpoint, {"path": "Qwen/x"}, nothing), "desk")
    assert (request.base, request.rows) == ("Qwen/x", ())
    assert made.spec.job.secrets == ("HF_TOKEN",)
    _, request = plan(tmp_path, source(checkpoint, {"tiny": {}}, {"data": {}}), "desk")
    assert request.base is None


def flip(path: Path) -> None:
    path.chmod(0o644)
    path.write_text("[]")


def lose(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [flip, lose])
@pytest.mark.parametrize("name", ["adapter_model.safetensors", "MANIFEST.json"])
def test_an_adapter_that_is_not_as_it_came_is_refused_and_doubted(
    tmp_path: Path, checkpoint: Checkpoint, name: str, change: Callable[[Path], None]
) -> None:
    assert checkpoint.home_path is not None
    change(checkpoint.home_path / name)
    given = source(checkpoint, {"tiny": {}}, {"data": {}})
    with pytest.raises(ArmadaError) as refused:
        plan(tmp_path, given, "desk")
    assert f"checkpoint-30 of t-1 is damaged at home: {name} is not as it came" in refused.value.message
    assert refused.value.hint == "armada sync verify t-1 --read-data"
    with Database(tmp_path / "armada.db") as database:
        [known] = checkpoints.of_run(database, "t-1")
    assert not known.is_good_home


def test_a_file_that_is_not_of_the_checkpoint_is_not_sent(tmp_path: Path, checkpoint: Checkpoint) -> None:
    assert checkpoint.home_path is not None
    (checkpoint.home_path / "foreign.safetensors").write_text("x")
    made, _ = plan(tmp_path, source(checkpoint, {"tiny": {}}, {"data": {}}), "desk")
    [adapter] = [content for content in made.contents if content.kind == "models"]
    assert set(adapter.files) == {"adapter_config.json", "adapter_model.safetensors", "base_model/x"}


def test_a_base_that_has_changed_since_the_training_is_refused(tmp_path: Path, checkpoint: Checkpoint) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    trained_on = f"/root/.armada/models/{model_content(model).sha}"
    given = source(checkpoint, {"path": trained_on}, {"model": str(model), "data": {}})
    _, request = plan(tmp_path, given, "desk")
    assert request.base == trained_on
    (model / "config.json").write_text('{"hidden_size": 8}')
    with pytest.raises(PreflightRefused) as refused:
        plan(tmp_path, given, "desk")
    assert refused.value.message == f"{model} is not the model that t-1 was trained on: its files have changed since"
    assert refused.value.hint == "--host a100-1 merges with the files that it has; or put the former ones back"


def test_what_can_be_had_nowhere_is_said_with_the_way_out(tmp_path: Path, checkpoint: Checkpoint) -> None:
    gone = source(checkpoint, {"path": "/root/.armada/models/9"}, {"model": "/gone", "data": {}})
    with pytest.raises(NotFound) as refused:
        plan(tmp_path, gone, "desk")
    assert refused.value.hint == "--host a100-1 merges there"
    there = dataclasses.replace(gone, checkpoint=dataclasses.replace(checkpoint, home_path=None))
    with pytest.raises(NotFound) as refused:
        plan(tmp_path, there, "desk")
    assert refused.value.hint == "armada pull t-1 --checkpoint 30"


def test_a_merge_goes_where_the_checkpoint_lies(checkpoint: Checkpoint) -> None:
    run = source(checkpoint, {}, {}).run
    assert choose_host(run, checkpoint) == "a100-1"
    assert choose_host(run, dataclasses.replace(checkpoint, on_host=False)) == "local"


def test_shards_are_joined_without_base_and_rows(tmp_path: Path) -> None:
    shards = ("pytorch_model_fsdp_0/.metadata", "pytorch_model_fsdp_0/__0_0.distcp", "optimizer_0/__0_0.distcp")
    checkpoint = saved(tmp_path / "checkpoint-31", *FILES, *shards)
    trained = source(checkpoint, {"path": "/root/.armada/models/9"}, {"model": "/gone", "data": {}})
    divided = {"lora": None, "precision": "bf16", "train": {"sharding": "fsdp"}, "batch": {"processes": 2}}
    sharded = dataclasses.replace(trained, spec=recorded_spec({"task": "sft", "training": divided}))
    refuse_unmergeable(sharded.run, sharded.spec)
    refuse_unmergeable(sharded.run, recorded_spec({"task": "reward", "training": divided}))  # its head is in the shards
    planned, request = plan(tmp_path, sharded, "desk")
    assert (request.sharded, request.base, request.rows) == (True, None, ())
    sent = {entry[0] for content in planned.contents if content.kind == "models" for entry in content.manifest}
    assert {"pytorch_model_fsdp_0/.metadata", "pytorch_model_fsdp_0/__0_0.distcp"} <= sent
    assert not any(name.startswith("optimizer") for name in sent)
    alone = recorded_spec({"task": "sft", "training": {**divided, "batch": {"processes": 1}}})
    with pytest.raises(PreflightRefused, match="saved them whole"):
        refuse_unmergeable(sharded.run, alone)
    odd = recorded_spec({"task": "sft", "training": {**divided, "batch": {"processes": "\x1b[31m"}, "train": 3}})
    with pytest.raises(PreflightRefused, match="saved them whole"):
        refuse_unmergeable(sharded.run, odd)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"task": "script"}, "is a script, not a `task: sft` training"),
        ({"task": "sft", "training": {"lora": None}}, "trained every weight"),
        ({"task": "reward", "training": {"lora": {"r": 8}}}, "is a reward model, whose adapter holds its head"),
        ({"task": "sft", "training": None}, "trained every weight"),
    ],
)
def test_what_has_no_adapter_is_refused(checkpoint: Checkpoint, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(PreflightRefused, match=words):
        refuse_unmergeable(source(checkpoint, {}, {}).run, recorded_spec(spec))
