"""What each task comes to on a host of one's own, on a cluster and without GPUs; the host's answers are given here."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pytest

import armada.launch.plans
from armada.config.experiments import load_experiment
from armada.config.hosts import Host
from armada.config.profiles import load_profile
from armada.config.tasks.experiment import Resources
from armada.errors import PreflightRefused
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


class Answers(Answering):
    """A session whose host answers what a plan asks."""

    def __init__(self, host: dict[str, Any], gpus: int) -> None:
        self.host = Host.model_validate(host)
        self.paths = HostPaths(PurePosixPath("/root/.armada"))
        self._facts = host_facts.answer(gpus=[GPU] * gpus)

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> dict[str, Any]:
        if method == "environment.status":
            return dict.fromkeys(params["keys"], "ready")
        model = {"commit": "a" * 40, "path": "/root/.armada/models/hub/q", "size_bytes": 5_000_000}
        model |= {"present": False, "error": None, "refused": False}
        return {
            "host.facts": self._facts,
            "content.check": ABSENT,
            "model.find": model,
            "scheduler.check": {"refusal": None, "wait": None, "starts_in_s": 5.0},
        }[method]


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
