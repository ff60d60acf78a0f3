from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.experiments import Experiment
from armada.config.hosts import Host
from armada.launch.checks import SchedulerAnswer
from armada.launch.preflight import _engine, _hub_id, _shell  # those that word the answer of somebody else
from armada.provision.hub import HubAnswer

CLUSTER = Host(name="c", ssh="me@login", scheduler="slurm")


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (SchedulerAnswer(refusal="no such node"), "fail", "slurm would never run this: no such node"),
        (
            SchedulerAnswer(wait="n1 is drained"),
            "warn",
            "cannot start this now, and nobody knows for how long: n1 is drained",
        ),
        (SchedulerAnswer(starts_in_s=7200.0), "ok", "slurm takes the job file, and expects to start it in 2 h 00 m"),
        (SchedulerAnswer(starts_in_s=5.0), "ok", "slurm takes the job file"),
        (SchedulerAnswer(), "ok", "slurm takes the job file"),
    ],
)
def test_what_may_change_is_a_warning_and_what_never_can_run_is_refused(
    answer: SchedulerAnswer, outcome: str, said: str
) -> None:
    check = _engine(CLUSTER, answer)
    assert (check.code, check.outcome) == ("ARM012", outcome)
    assert said in check.message


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (None, "ok", "model models/v3 is a hub id"),
        (HubAnswer(size_bytes=5_000_000), "ok", "is a hub id: 5.0 MB"),
        (HubAnswer(size_bytes=810_000_000_000), "warn", "is 810 GB at the hub, and the host has 67.0 GB free"),
        (HubAnswer("https://huggingface.co says 401"), "warn", "model models/v3: https://huggingface.co says 401"),
        (
            HubAnswer("https://huggingface.co says 404", token=True),
            "fail",
            "model models/v3: https://huggingface.co says 404",
        ),
    ],
)
def test_what_the_hub_says_of_a_model_is_said_before_anything_starts(
    tmp_path: Path, answer: HubAnswer | None, outcome: str, said: str
) -> None:
    experiment = Experiment.model_construct(name="e", task="sft", model="models/v3", origin=tmp_path / "e.yaml")
    (check,) = _hub_id(experiment, {"disk": {"free_bytes": 67_000_000_000}}, answer)
    assert (check.code, check.outcome) == ("ARM016", outcome)
    assert said in check.message


def test_a_hub_id_beside_which_other_models_lie_is_said(tmp_path: Path) -> None:
    (tmp_path / "models" / "v2").mkdir(parents=True)
    (tmp_path / "models" / "v2" / "config.json").write_text("{}")
    experiment = Experiment.model_construct(name="e", task="sft", model="models/v3", origin=tmp_path / "e.yaml")
    (check,) = _hub_id(experiment, {"disk": {"free_bytes": 1}}, None)
    assert (check.outcome, "here lie models/v2, and no folder of that name" in check.message) == ("warn", True)
    folder = Experiment.model_construct(name="e", task="sft", model=str(tmp_path / "models" / "v2"))
    assert _hub_id(folder, {}, None) == ()


def test_what_a_job_does_not_see_of_the_shell_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k3y")
    monkeypatch.setenv("HF_HOME", "/home/me/hf")  # a path of home's means nothing on another host
    experiment = Experiment.model_construct(name="e", task="command", env={"NCCL_DEBUG": "INFO"}, secrets=())
    facts = {"left_out": ["NCCL_DEBUG", "PYTHONPATH"]}
    local, remote = (_shell(experiment, host, None, facts) for host in (Host(name="local", local=True), CLUSTER))
    assert (local.code, local.outcome) == ("ARM017", "warn")
    assert local.message == "the job does not see PYTHONPATH of the shell"
    assert local.hint == "if it needs them: `env: {PYTHONPATH: …}`"
    assert remote.message == "the job does not see PYTHONPATH, WANDB_API_KEY of the shell"
    assert remote.hint == "if it needs them: `secrets: [WANDB_API_KEY]`, `env: {PYTHONPATH: …}`"
    named = experiment.model_copy(update={"env": {}, "secrets": ("WANDB_API_KEY",)})
    assert _shell(named, CLUSTER, None, {}).outcome == "ok"
