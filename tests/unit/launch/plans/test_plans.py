"""What each task comes to on a host of one's own, on a cluster and without GPUs; the host's answers are given here."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pytest

import armada.launch.plans
from armada.cli.plans import show_plan
from armada.cli.progress import Reporter
from armada.config.experiments import load_experiment
from armada.config.hosts import Host
from armada.config.profiles import load_profile
from armada.config.tasks.experiment import Resources
from armada.errors import ConfigError, PreflightRefused
from armada.launch.plans.machine import count_gpus
from armada.launch.plans.plan import Plan
from armada.launch.plans.task import Order
from armada.launch.service import launch_of
from armada.paths import HomePaths, HostPaths
from armada.protocol.spec import WatchSpec
from armada.store.database import Database
from tests import host_facts
from tests.answers import Answering

if TYPE_CHECKING:
    from armada.rpc.session import HostSession

GPU = {"name": "NVIDIA A100-SXM4-80GB", "compute_capability": "8.0"}
ABSENT = {"present": False, "path": "/root/.armada/x", "staging": "/root/.armada/.x"}
DESK = {"name": "desk", "ssh": "desk", "profile": "cpu"}
A100 = {"name": "a100", "ssh": "a100"}
CLUSTER = {"name": "hpc", "ssh": "hpc", "scheduler": "slurm", "profile": "a100-80gb-8x"}
SFT = """\
name: t
task: sft
model: Qwen/Qwen2.5-0.5B
data: {train: [{path: rows.jsonl}]}
train: {global_batch_size: 16, max_steps: 20}
"""
SCRIPT = "name: s\ntask: script\nscript: train.py\ncode: .\narguments: [--x]\ndata: {train: [{path: rows.jsonl}]}\n"
COMMAND = "name: c\ntask: command\ncommand: [echo, hi]\n"


EXISTING = {"path": "/home/me/venv", "python": "/home/me/venv/bin/python", "is_conda": False}


class Answers(Answering):
    """A session whose host answers what a plan asks."""

    host_packages: tuple[str | None, str | None] = ("2.4.0", "1.0.1")
    host_python = "3.12.1"
    config: str | None = None

    def __init__(self, host: dict[str, Any], gpus: int) -> None:
        self.host = Host.model_validate(host)
        self.paths = HostPaths(PurePosixPath("/root/.armada"))
        self._facts = host_facts.answer(gpus=[GPU] * gpus)

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> dict[str, Any]:
        if method == "environment.status":
            return dict.fromkeys(params["keys"], "ready")
        model = {"commit": "a" * 40, "path": "/root/.armada/models/hub/q", "size_bytes": 5_000_000}
        model |= {"present": False, "error": None, "refused": False, "config": self.config}
        torch, accelerate = self.host_packages
        packages = dict.fromkeys(params.get("packages", ()))
        packages |= {"torch": torch, "accelerate": accelerate} if packages else {}
        answers: dict[str, dict[str, Any]] = {
            "container.examine": {"tool": "podman", "version": "5.2.1", "id": None, "digest": None},
            "environment.examine": EXISTING | {"packages": packages, "version": self.host_python},
            "host.facts": self._facts,
            "content.check": ABSENT,
            "model.find": model,
            "scheduler.check": {"refusal": None, "wait": None, "starts_in_s": 5.0},
        }
        return answers[method]


Resolve = Callable[..., Plan]


@pytest.fixture
def resolve(tmp_path: Path) -> Iterator[Resolve]:
    (tmp_path / "rows.jsonl").write_text('{"text": "hello"}\n' * 3)
    (tmp_path / "train.py").write_text("print(1)\n")
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    home.make()
    with Database(home.store) as database:

        def make(text: str, host: dict[str, Any], gpus: int = 0, *, only_prepare: bool = False) -> Plan:
            (tmp_path / "e.yaml").write_text(text)
            order = Order(cast("HostSession", Answers(host, gpus)), home, database)
            return launch_of(load_experiment(tmp_path / "e.yaml"), order, only_prepare=only_prepare).plan("r-1")

        yield make


def training_of(plan: Plan) -> dict[str, Any]:
    """spec["training"] as JSON."""
    training = plan.spec.as_json()["training"]
    assert isinstance(training, dict)
    return training


def test_a_training_takes_the_gpus_of_its_profile_and_its_batch_comes_out(resolve: Resolve) -> None:
    plan = resolve(SFT, A100, gpus=8)
    assert (plan.gpus, plan.spec.processes, plan.dataset_rows) == (8, 8, 3)
    assert plan.batch is not None
    assert plan.batch.micro * plan.batch.accumulation * 8 == 16
    assert training_of(plan)["model"] == {"path": "Qwen/Qwen2.5-0.5B"}
    assert plan.spec.watch is None
    assert [content.kind for content in plan.contents] == ["code", "data"]
    assert set(plan.files) == {"launch/command.json", "launch/accelerate.yaml"}
    assert {"ARM001", "ARM015", "ARM016"} <= {check.code for check in plan.checks}
    assert [check.code for check in plan.checks] == sorted(check.code for check in plan.checks)


@pytest.mark.parametrize("host", [A100, CLUSTER])
def test_the_memory_of_a_hub_model_is_estimated_from_the_config_that_the_host_read(
    resolve: Resolve, host: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2}
    shape |= {"intermediate_size": 4864, "vocab_size": 151_936, "max_position_embeddings": 1024}
    config = {"model_type": "qwen2", "tie_word_embeddings": True, **shape}
    monkeypatch.setattr(Answers, "config", json.dumps(config))
    plan = resolve(SFT, host, gpus=8 if host is A100 else 0)
    assert plan.memory is not None
    assert plan.memory.parameters == 494_032_768
    checks = {check.code: check for check in plan.checks}
    assert "an estimated" in checks["ARM021"].message
    assert "2048 is more than the 1024 positions of Qwen/Qwen2.5-0.5B" in checks["ARM022"].message
    show_plan(Reporter(io.StringIO()), plan, as_json=True)
    told = json.loads(capsys.readouterr().out)["memory"]
    assert told["total_bytes"] == sum(term["size_bytes"] for term in told["terms"])
    assert {"weights", "optimizer"} <= {term["name"] for term in told["terms"]}


def test_on_a_cluster_its_model_is_fetched_beforehand_and_a_job_file_is_written(resolve: Resolve) -> None:
    plan = resolve(SFT, CLUSTER)
    assert plan.hub is not None
    assert training_of(plan)["model"] == {"path": "/root/.armada/models/hub/q", "name": "Qwen/Qwen2.5-0.5B"}
    assert plan.spec.scheduler is not None
    assert plan.spec.scheduler.kind == "slurm"
    assert "#SBATCH --gres=gpu:8" in plan.files["launch/job.sbatch"]
    assert plan.spec.job.env["HF_HUB_OFFLINE"] == "1"
    codes = {check.code for check in plan.checks}
    assert ("ARM012" in codes, "ARM001" in codes) == (True, False)


def test_a_preparation_is_the_same_training_without_its_gpus(resolve: Resolve) -> None:
    training, plan = resolve(SFT, A100, gpus=8), resolve(SFT, A100, gpus=8, only_prepare=True)
    assert (plan.spec.task, plan.spec.name, plan.gpus, plan.spec.processes) == ("prepare", "t: data", 0, 1)
    assert plan.spec.job.argv[1:4] == ("-m", "armada_train", "prepare")
    assert training_of(plan)["batch"] == training_of(training)["batch"]
    assert set(plan.files) == {"launch/command.json"}
    assert plan.spec.launch_key != training.spec.launch_key


def test_a_script_travels_with_its_project_and_finds_its_data(resolve: Resolve) -> None:
    plan = resolve(SCRIPT, DESK)
    assert plan.spec.job.argv[-4:] == ("--script", "train.py", "--", "--x")
    assert plan.spec.job.env["ACCELERATE_USE_CPU"] == "true"
    assert plan.spec.watch == WatchSpec(checkpoints=None, resume=())
    assert (plan.spec.training, plan.batch) == (None, None)
    assert "train.py" in plan.contents[0].files


TRACKED = 'tracking: {wandb: online, project: mine}\nenv: {WANDB_NAME: "own", A: "1"}\n'


@pytest.mark.parametrize("text", [SCRIPT, COMMAND])
def test_a_script_or_command_is_told_where_wandb_reports_and_its_own_words_count(resolve: Resolve, text: str) -> None:
    plan = resolve(text + TRACKED, DESK)
    told = {name: value for name, value in plan.spec.job.env.items() if name.startswith("WANDB")}
    assert told == {
        "WANDB_PROJECT": "mine",
        "WANDB_MODE": "online",
        "WANDB_NAME": "own",
        "WANDB_RUN_ID": plan.run_id,
        "WANDB_RESUME": "allow",
        "WANDB_DIR": told["WANDB_DIR"],
    }
    assert told["WANDB_DIR"].endswith(plan.run_id)
    off = resolve(text + "tracking: {wandb: off}\n", DESK).spec.job.env
    assert off["WANDB_MODE"] == "disabled"
    assert "WANDB_MODE" not in resolve(text + "tracking: {}\n", DESK).spec.job.env
    assert "WANDB_DIR" not in resolve(text, DESK).spec.job.env


def test_a_command_is_started_as_it_is_and_brings_no_environment(resolve: Resolve) -> None:
    plan = resolve(COMMAND, A100, gpus=8)
    assert plan.spec.job.argv == ("echo", "hi")
    assert (plan.gpus, plan.environment, plan.contents) == (0, None, ())
    assert json.loads(plan.files["launch/command.json"])["env"] == {"PYTHONUNBUFFERED": "1"}


def test_a_command_works_inside_the_environment_of_its_profile_where_it_says_so(resolve: Resolve) -> None:
    plan = resolve(f"{COMMAND}environment: profile\n", A100, gpus=8)
    script = resolve(SCRIPT, A100, gpus=8)
    assert plan.environment is not None
    assert script.environment is not None
    assert (plan.gpus, plan.environment.key) == (0, script.environment.key)
    told = plan.spec.as_json()["environment"]
    assert isinstance(told, dict)
    assert (told["path"], told["active"]) == (f"/root/.armada/envs/{plan.environment.key}", True)
    assert script.spec.environment is not None
    assert "active" not in script.spec.environment.model_dump(exclude_unset=True)


@pytest.mark.parametrize("text", [SFT, SCRIPT])
def test_the_environment_of_a_training_or_script_is_the_profiles_whether_it_says_so_or_not(
    resolve: Resolve, text: str
) -> None:
    plain, said = resolve(text, DESK), resolve(f"{text}environment: profile\n", DESK)
    assert plain.environment == said.environment
    assert plain.spec.environment == said.spec.environment


def test_requirements_of_a_script_are_put_on_top_of_torch_and_kept_beside_the_plan(resolve: Resolve) -> None:
    plan = resolve(f"{SCRIPT}environment: {{requirements: [einops]}}\n", A100, gpus=8)
    profiles = resolve(SCRIPT, A100, gpus=8)
    assert plan.environment is not None
    assert profiles.environment is not None
    assert plan.environment.key != profiles.environment.key
    assert plan.environment.requirements == "torch==2.13.0\naccelerate==1.15.0\neinops\n"
    listed = plan.files["launch/requirements.txt"]
    assert listed == f"# held to torch==2.13.0\n{plan.environment.requirements}"
    assert plan.spec.job.argv[0] == f"/root/.armada/envs/{plan.environment.key}/bin/python"
    assert "launch/requirements.txt" not in profiles.files


def test_requirements_of_a_training_are_put_on_top_of_the_profiles(resolve: Resolve) -> None:
    plan = resolve(f"{SFT}environment: {{requirements: [einops]}}\n", A100, gpus=8)
    profiles = resolve(SFT, A100, gpus=8)
    assert plan.environment is not None
    assert profiles.environment is not None
    assert plan.environment.requirements == profiles.environment.requirements + "einops\n"
    assert plan.environment.flash_attn == profiles.environment.flash_attn


def test_requirements_that_contradict_the_profile_are_refused_before_anything(resolve: Resolve) -> None:
    with pytest.raises(ConfigError, match=r"e\.yaml:7: torch==2\.4\.0 contradicts torch==2\.13\.0, .*\.yaml:\d+"):
        resolve(f"{SCRIPT}environment: {{requirements: [torch==2.4.0]}}\n", DESK)


def test_a_script_runs_in_an_environment_that_its_host_has_and_nothing_is_built(resolve: Resolve) -> None:
    plan = resolve(f"{SCRIPT}environment: {{existing: ~/venv}}\n", A100, gpus=8)
    assert plan.environment is None
    assert plan.spec.job.argv[:5] == ("/home/me/venv/bin/python", "-B", "-P", "-m", "armada_train.launch")
    assert plan.spec.as_json()["environment"] == {
        "key": "existing",
        "path": "/home/me/venv",
        "active": True,
        "existing": True,
        "python": "3.12.1",
    }
    assert plan.existing is not None
    assert plan.existing.said == "Python 3.12.1, torch 2.4.0, accelerate 1.0.1"
    assert plan.gpus == 8


def test_a_script_under_an_older_python_is_started_without_the_option_that_it_lacks(
    resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answers, "host_python", "3.9.18")
    plan = resolve(f"{SCRIPT}environment: {{conda: mine}}\n", DESK)
    assert plan.spec.job.argv[:3] == ("/home/me/venv/bin/python", "-B", "-c")
    assert "armada_train.launch" in plan.spec.job.argv[3]
    assert plan.spec.job.argv[4] == "--config_file"


@pytest.mark.parametrize(
    ("packages", "python", "said"),
    [
        ((None, "1.0"), "3.12.1", "/home/me/venv has no torch, which this task needs"),
        ((None, None), "3.12.1", "has no torch and accelerate, which this task needs"),
        (("2.4", "1.0"), "3.8.10", r"/home/me/venv has Python 3\.8\.10; 3\.9 is the oldest that works"),
    ],
)
def test_an_environment_that_lacks_what_a_script_needs_is_refused(
    resolve: Resolve,
    monkeypatch: pytest.MonkeyPatch,
    packages: tuple[str | None, str | None],
    python: str,
    said: str,
) -> None:
    monkeypatch.setattr(Answers, "host_packages", packages)
    monkeypatch.setattr(Answers, "host_python", python)
    with pytest.raises(PreflightRefused, match=said) as refused:
        resolve(f"{SCRIPT}environment: {{existing: ~/venv}}\n", DESK)
    assert "leave `environment:` out" in (refused.value.hint or "")


def test_a_command_takes_any_environment_of_its_host_and_needs_no_profile(
    resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Answers, "host_packages", (None, None))
    bare = {key: value for key, value in CLUSTER.items() if key != "profile"}
    plan = resolve(f"{COMMAND}environment: {{existing: /home/me/venv}}\n", bare)
    assert (plan.profile, plan.environment) == (None, None)
    assert plan.spec.environment is not None
    assert (plan.spec.environment.path, plan.spec.environment.active) == ("/home/me/venv", True)
    assert plan.spec.job.argv == ("echo", "hi")


IMAGE = "nvcr.io/nvidia/pytorch:24.10-py3"


def test_a_command_in_a_container_builds_nothing_and_needs_no_profile(resolve: Resolve) -> None:
    plan = resolve(f"{COMMAND}environment: {{container: '{IMAGE}'}}\n", {"name": "desk", "ssh": "desk"})
    assert (plan.profile, plan.environment, plan.existing) == (None, None, None)
    assert plan.container is not None
    assert (plan.container.runner, plan.container.ready, plan.container.packages) == ("podman 5.2.1", False, ())
    assert plan.spec.as_json()["container"] == {"image": IMAGE, "tool": "podman"}
    assert plan.spec.job.argv == ("echo", "hi")
    assert "container" not in resolve(COMMAND, DESK).spec.as_json()


def test_a_script_in_a_container_starts_by_the_images_python_and_says_what_it_must_have(resolve: Resolve) -> None:
    plan = resolve(f"{SCRIPT}environment: {{container: '{IMAGE}'}}\n", A100, gpus=8)
    assert plan.container is not None
    assert (plan.container.packages, plan.container.needs_gpus) == (("torch", "accelerate"), True)
    assert plan.spec.job.argv[:3] == ("python3", "-B", "-c")
    assert "armada_train.launch" in plan.spec.job.argv[3]
    assert plan.spec.environment is None


@pytest.mark.parametrize("text", [SFT, SCRIPT, COMMAND])
def test_a_container_on_a_cluster_is_refused_before_the_cluster_is_asked(resolve: Resolve, text: str) -> None:
    with pytest.raises(
        PreflightRefused, match=r"`environment\.container` does not work on clusters yet, and hpc is one"
    ):
        resolve(f"{text}environment: {{container: '{IMAGE}'}}\n", CLUSTER)


BOXED = f"{SFT}environment: {{container: '{IMAGE}'}}\n"


def test_a_training_in_a_container_starts_by_the_images_python_which_has_what_the_profile_pins(
    resolve: Resolve,
) -> None:
    text = f"{BOXED}lora: {{r: 8}}\ntracking: {{wandb: online}}\nsecrets: []\n"
    plan = resolve(text, A100, gpus=8)
    assert (plan.environment, plan.spec.environment) == (None, None)
    assert plan.spec.job.argv[:3] == ("python3", "-m", "armada_train.launch")
    assert plan.container is not None
    assert plan.container.needs_gpus
    needs = plan.container.needs
    assert needs is not None
    assert needs.needs_gpus
    assert {"torch", "transformers", "trl", "accelerate", "datasets", "peft", "wandb"} <= set(needs.asked)
    profile = load_profile("a100-80gb-8x", HomePaths(Path("/none"), Path("/none")))
    assert needs.tested["torch"] == profile.environment.torch
    assert None not in {needs.tested[name] for name in ("transformers", "trl", "accelerate", "datasets", "peft")}
    env = plan.spec.job.env
    # One cache for several images would mix their modules; an image has its own beside them.
    assert ("PYTHONPYCACHEPREFIX" in env, env["PYTHONSAFEPATH"]) == (False, "1")
    assert "PYTHONPYCACHEPREFIX" in resolve(SFT, A100, gpus=8).spec.job.env


def test_a_preparation_in_a_container_needs_neither_gpus_nor_what_only_a_training_has(resolve: Resolve) -> None:
    plan = resolve(f"{BOXED}lora: {{r: 8}}\n", A100, gpus=8, only_prepare=True)
    assert plan.spec.job.argv[:4] == ("python3", "-m", "armada_train", "prepare")
    assert plan.container is not None
    assert plan.container.needs is not None
    assert (plan.container.needs_gpus, plan.container.needs.needs_gpus) == (False, False)
    assert "peft" not in plan.container.needs.asked


def test_flash_attention_that_a_profile_wants_is_looked_for_in_the_image(resolve: Resolve, tmp_path: Path) -> None:
    folder = tmp_path / "config" / "profiles"
    folder.mkdir(parents=True)
    (folder / "flash.yaml").write_text("extends: a100-80gb-8x\ntrain: {attention: flash_attention_2}\n")
    plan = resolve(BOXED, A100 | {"profile": "flash"}, gpus=8)
    assert plan.container is not None
    assert plan.container.needs is not None
    assert plan.container.needs.one_of == (("flash_attn", "kernels"),)


def test_without_internet_a_training_in_a_container_takes_no_model_that_the_host_would_have_to_fetch(
    resolve: Resolve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    host = A100 | {"internet": False}
    assert resolve(SFT, host, gpus=8).hub is not None
    with pytest.raises(PreflightRefused, match=r"with `environment\.container` the host cannot fetch it") as refused:
        resolve(BOXED, host, gpus=8)
    assert "hf download Qwen/Qwen2.5-0.5B here at home" in (refused.value.hint or "")


def test_lines_of_the_hosts_shell_have_no_place_in_a_container(resolve: Resolve) -> None:
    with pytest.raises(ConfigError, match=r"e\.yaml:\d+: `setup` runs on the host"):
        resolve(f"{COMMAND}environment: {{container: '{IMAGE}'}}\nsetup: [module load x]\n", DESK)
    with pytest.raises(ConfigError, match=r"e\.yaml:\d+: `setup` runs on the host") as refused:
        resolve(f"{BOXED}setup: [module load x]\n", DESK)
    assert refused.value.hint == "build an image in which they are done, and name that one"


@pytest.mark.parametrize("text", [SFT, SCRIPT, COMMAND])
def test_lines_of_shell_are_part_of_the_plan_of_every_task(resolve: Resolve, text: str) -> None:
    plan = resolve(f"{text}setup: ['module load cuda/12.4', 'export A=\"b c\"']\n", DESK)
    assert plan.spec.job.setup == ("module load cuda/12.4", 'export A="b c"')
    assert "setup" not in resolve(text, DESK).spec.job.model_dump(exclude_unset=True)


def test_a_command_with_an_environment_needs_a_profile_on_a_cluster(resolve: Resolve) -> None:
    bare = {key: value for key, value in CLUSTER.items() if key != "profile"}
    assert resolve(COMMAND, bare).profile is None
    with pytest.raises(PreflightRefused, match="does not show which GPUs") as refused:
        resolve(f"{COMMAND}environment: profile\n", bare)
    assert "--profile" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("profile", "asked", "seen", "takes", "cluster", "count"),
    [
        ("a100-80gb-8x", None, 8, True, False, 8),
        ("a100-80gb-8x", "all", 2, True, False, 2),
        ("a100-80gb-8x", None, 8, False, False, 0),
        ("a100-80gb-8x", 3, 8, False, False, 3),
        ("a100-80gb-8x", "all", 0, True, True, 8),
        ("cpu", None, 8, True, False, 0),
        (None, 2, 0, False, True, 2),
        (None, None, 0, False, True, 0),
        (None, 2, 0, False, False, 0),
        ("a100-80gb-8x", 0, 8, True, False, "profile a100-80gb-8x trains on GPUs"),
        ("cpu", 1, 8, True, False, "profile cpu is for machines without GPUs"),
        (None, "all", 0, False, True, "the number of GPUs in a node is unknown"),
        ("a100-80gb", None, 3, True, False, 3),
        ("a100-80gb", 2, 0, True, True, 2),
        ("a100-80gb", None, 0, True, True, "is for 1-8 GPUs, so the number of GPUs in a node is unknown"),
        ("a100-80gb", "all", 0, True, True, "is for 1-8 GPUs, so the number of GPUs in a node is unknown"),
    ],
)
def test_so_many_gpus_does_a_run_take(
    tmp_path: Path, profile: str | None, asked: Any, seen: int, takes: bool, cluster: bool, count: int | str
) -> None:
    home = HomePaths(tmp_path / "config", tmp_path / "state")
    made = load_profile(profile, home) if profile else None
    host = Host.model_validate(CLUSTER if cluster else DESK)
    facts = host_facts.facts(gpus=[GPU] * seen)
    if isinstance(count, int):
        assert count_gpus(Resources(gpus=asked), host, made, facts, takes_gpus=takes) == count
        return
    with pytest.raises(PreflightRefused, match=count):
        count_gpus(Resources(gpus=asked), host, made, facts, takes_gpus=takes)


_BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.IfExp, ast.BoolOp, ast.comprehension, ast.ExceptHandler)


def test_a_plan_can_be_read_one_screen_at_a_time() -> None:
    """What `make_plan` had grown to: 178 lines, 51 branches, held together by asserts."""
    long = []
    for file in sorted(Path(armada.launch.plans.__path__[0]).glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        long += [f"{file.name}: an assert" for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                branches = sum(isinstance(below, _BRANCHES) for below in ast.walk(node))
                long += [f"{file.name}: {node.name}"] if lines > 60 or branches > 15 else []
    assert long == []


def test_evaluation_sets_keep_their_names_and_a_single_one_needs_none(resolve: Resolve) -> None:
    single = SFT.replace("rows.jsonl}]}", "rows.jsonl}], eval: [{path: rows.jsonl}]}")
    (alone,) = training_of(resolve(single, A100, gpus=8))["data"]["eval"]
    several = SFT.replace(
        "rows.jsonl}]}", "rows.jsonl}], eval: {math: {path: rows.jsonl}, code: [{path: rows.jsonl}]}}"
    )
    plan = resolve(several, A100, gpus=8)
    assert training_of(plan)["data"]["eval"] == [{**alone, "set": "math"}, {**alone, "set": "code"}]
    assert {check.code: check.outcome for check in plan.checks}["ARM015"] == "ok"
