"""An export that is interrupted leaves nothing; hostile names and texts of a checkpoint stay text."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.errors import ArmadaError, Conflict, NotFound
from armada.export.folder import write_folder
from armada.export.merged import find_merged
from armada.export.subject import Kind, Subject, find_subject
from armada.foundation.progress import NullProgress, TransferProgress
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from armada.sync.checkpoints.new_folder import check_target
from armada.sync.errors import DiskFull
from tests.published_run import BASE, ON_HOST, adapter, opened, publish, record, sft_plan

RUN = "tune-1"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[tuple[HomePaths, Database]]:
    with opened(tmp_path / "home") as found:
        yield found


def subject_of(
    house: tuple[HomePaths, Database], files: dict[str, bytes], plan: dict[str, object] | None = None
) -> Subject:
    home, database = house
    record(database, RUN, plan or sft_plan(RUN))
    publish(database, home, RUN, 10, files)
    return find_subject(database, runs.find(database, RUN), "last", everything=False)


class Breaking(NullProgress):
    """Raises an error when the first bytes were copied."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def transfer(self, name: str, what: str, seen: TransferProgress) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull),
        (OSError(errno.EIO, "Input/output error"), ArmadaError),
    ],
)
@pytest.mark.fault("Ctrl-C, a full disk or a broken one during an export", "nothing is left of it")
def test_an_export_that_breaks_leaves_nothing(
    house: tuple[HomePaths, Database], tmp_path: Path, error: BaseException, raised: type[BaseException]
) -> None:
    subject = subject_of(house, adapter())
    before = sorted(tmp_path.iterdir())
    with pytest.raises(raised):
        write_folder(house[1], subject, tmp_path / "a" / "b" / "model", Breaking(error))
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_appears_during_the_export_is_left_alone(
    house: tuple[HomePaths, Database], tmp_path: Path
) -> None:
    subject, target = subject_of(house, adapter()), tmp_path / "model"
    check_target(target, house[0])

    def appear(part: Path) -> None:
        assert (part / "README.md").exists()
        target.mkdir()
        (target / "theirs").write_text("theirs")

    with pytest.raises(Conflict):
        write_folder(house[1], subject, target, NullProgress(), appear)
    assert [path.name for path in target.iterdir()] == ["theirs"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "model"]


def test_hostile_texts_of_a_checkpoint_stay_text_in_the_card(house: tuple[HomePaths, Database], tmp_path: Path) -> None:
    plan = sft_plan(RUN)
    plan["name"] = "x](javascript:0)\n---\nlicense: mit\n<script>"
    plan["training"]["train"] = {"learning_rate`|\x1b[31m\n# heading": "`| **bold** \x1b[0m"}
    config = {"architectures": ['Evil")\nimport os'], "_name_or_path": ON_HOST}
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": b"w", "```\n".strip() + " .txt": b"x"}
    subject = subject_of(house, files, plan)
    write_folder(house[1], subject, tmp_path / "mo`del", NullProgress())
    card = (tmp_path / "mo`del" / "README.md").read_text()
    assert subject.kind is Kind.MODEL
    assert "\x1b" not in card
    assert card.count("\n---\n") == 1
    assert "\nlicense:" not in card
    assert "<script>" not in card.replace("\\<script\\>", "")
    assert "import os" not in card
    assert card.count("```") == 2
    assert 'AutoModel.from_pretrained("./mo\\u0060del", dtype="auto")' in card
    assert json.loads((tmp_path / "mo`del" / "config.json").read_text())["_name_or_path"] == BASE


def test_weights_that_only_deepspeed_wrote_are_kept(house: tuple[HomePaths, Database]) -> None:
    shards = {"global_step5/mp_rank_00_model_states.pt": b"w", "latest": b"global_step5", "zero_to_fp32.py": b"#"}
    optimizer = {"global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt": b"o"}
    subject = subject_of(house, {**shards, **optimizer})
    assert {file.path for file in subject.files} == set(shards)
    publish(house[1], house[0], RUN, 20, {**shards, **optimizer, "model.safetensors": b"w", "config.json": b"{}"})
    subject = find_subject(house[1], runs.find(house[1], RUN), "20", everything=False)
    assert {file.path for file in subject.files} == {"model.safetensors", "config.json"}


def test_shards_of_fsdp_are_no_model_and_stay_behind_where_an_adapter_is_whole(
    house: tuple[HomePaths, Database],
) -> None:
    shards = {"pytorch_model_fsdp_0/__0_0.distcp": b"w", "pytorch_model_fsdp_0/.metadata": b"m", "shards.json": b"{}"}
    with pytest.raises(NotFound, match="are in shards") as refused:
        subject_of(house, {**shards, "config.json": b"{}", "optimizer_0/__0_0.distcp": b"o"})
    assert f"armada merge {RUN} --checkpoint" in (refused.value.hint or "")
    with pytest.raises(NotFound, match="was not merged yet"):
        find_merged(house[1], runs.find(house[1], RUN), "last", everything=False)
    files = {**shards, **adapter(ON_HOST)}
    publish(house[1], house[0], RUN, 30, files)
    subject = find_subject(house[1], runs.find(house[1], RUN), "30", everything=False)
    assert not {file.path for file in subject.files} & set(shards)
    assert subject.kind is Kind.ADAPTER


def test_a_base_model_that_the_run_created_is_named_by_its_folder(house: tuple[HomePaths, Database]) -> None:
    plan = sft_plan(RUN, model={"tiny": {"layers": 2}})
    plan["experiment"]["model"] = {"tiny": {"layers": 2}}
    files = adapter(
        "/root/.armada/runs/tune-1/model", **{"base_model/config.json": b"{}", "base_model/m.safetensors": b"b"}
    )
    subject = subject_of(house, files, plan)
    assert subject.base == "base_model"
    assert json.loads(subject.rewritten["adapter_config.json"])["base_model_name_or_path"] == "base_model"


def test_a_merged_model_is_described_by_its_training(house: tuple[HomePaths, Database], tmp_path: Path) -> None:
    home, database = house
    record(database, RUN, sft_plan(RUN))
    record(
        database, "merged-1", {"task": "merge", "name": "m", "experiment": {"merge": {"run": RUN, "checkpoint": "0"}}}
    )
    publish(
        database,
        home,
        "merged-1",
        10,
        {"config.json": b'{"architectures": ["Qwen2ForCausalLM"]}', "model.safetensors": b"w"},
    )
    subject = find_subject(database, runs.find(database, "merged-1"), "last", everything=False)
    write_folder(database, subject, tmp_path / "model", NullProgress())
    card = (tmp_path / "model" / "README.md").read_text()
    assert (subject.kind, subject.base, subject.training_id) == (Kind.MODEL, BASE, RUN)
    assert f'base_model: "{BASE}"\nbase_model_relation: finetune' in card
    assert 'model = AutoModelForCausalLM.from_pretrained("./model", dtype="auto")' in card
    assert "train.learning_rate" in card
