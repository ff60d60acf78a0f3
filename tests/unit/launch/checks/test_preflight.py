from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Literal

import pytest

from armada.config.hosts import Host
from armada.config.tasks.command import Command
from armada.config.tasks.experiment import Experiment
from armada.config.tasks.sft import Sft
from armada.config.tracking import Tracking
from armada.launch.checks.check import Answer, Check, SchedulerAnswer
from armada.launch.checks.registry import check_launch
from armada.launch.checks.subject import Subject, Trained
from armada.protocol.environment import HubCache
from armada.protocol.spec import TrackingSection, TrainingSection
from armada.provision.environment import Environment
from armada.provision.hub import HubAnswer
from tests.host_facts import TOOLS, facts

CLUSTER = Host(name="c", ssh="me@login", scheduler="slurm")
DESK = Host(name="desk", ssh="desk")
TRACKING = TrackingSection(wandb="off", project=None, name="e", id="e-1")
DISK = {"total_bytes": 10**12, "free_bytes": 67_000_000_000}


def checks(experiment: Experiment, host: Host, **changes: Any) -> dict[str, Check]:
    subject = Subject(experiment, host, None, facts(disk=DISK, tools={**TOOLS, "rsync": None}), 0, 1)
    return {check.code: check for check in check_launch(dataclasses.replace(subject, **changes))}


@pytest.mark.parametrize(
    ("wandb", "host", "outcome"),
    [("online", CLUSTER, "fail"), ("auto", CLUSTER, "ok"), ("off", CLUSTER, "ok"), ("online", DESK, "ok")],
)
def test_a_command_that_wants_wandb_online_where_there_is_no_internet_is_refused(
    wandb: Literal["online", "auto", "off"], host: Host, outcome: str
) -> None:
    command = Command.model_construct(name="c", task="command", command=("true",), tracking=Tracking(wandb=wandb))
    assert checks(command, host)["ARM013"].outcome == outcome


@pytest.mark.parametrize(
    ("off_s", "said"),
    [
        (0.0, "clocks agree"),
        (300.0, "the host's clock is 5 m 00 s ahead"),
        (-300.0, "the host's clock is 5 m 00 s behind"),
    ],
)
def test_a_hosts_clock_is_judged_by_when_it_answered_however_long_the_plan_took(off_s: float, said: str) -> None:
    command = Command.model_construct(name="c", task="command", command=("true",))
    earlier = facts(disk=DISK, tools={**TOOLS, "rsync": None}, time=1_000_000.0)
    assert checks(command, DESK, facts=earlier, clock_off_s=off_s)["ARM007"].message.startswith(said)


def of_hub(experiment: Sft, answer: HubAnswer | None = None) -> Answer | None:
    environment = Environment("cpu-0", "3.12", "", None, ready=True)
    section = TrainingSection.model_construct(tracking=TRACKING)
    trained = Trained(section, environment, hub_model=experiment.hub_model, answer=answer or HubAnswer())
    return checks(experiment, DESK, trained=trained).get("ARM016")


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        (SchedulerAnswer(refusal="no such node"), "fail", "slurm would never run this: no such node"),
        (
            SchedulerAnswer(wait="n1 is drained"),
            "warn",
            "cannot start this now, and gives no time when it can: n1 is drained",
        ),
        (SchedulerAnswer(starts_in_s=7200.0), "ok", "slurm accepts the job file, and expects to start it in 2 h 00 m"),
        (SchedulerAnswer(starts_in_s=5.0), "ok", "slurm accepts the job file"),
        (SchedulerAnswer(), "ok", "slurm accepts the job file"),
    ],
)
def test_what_may_change_is_a_warning_and_what_never_can_run_is_refused(
    answer: SchedulerAnswer, outcome: str, said: str
) -> None:
    command = Command.model_construct(name="c", task="command", command=("true",))
    check = checks(command, CLUSTER, scheduler=answer)["ARM012"]
    assert check.outcome == outcome
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
        (
            HubAnswer(unreachable="the hub cannot be reached from here"),
            "warn",
            "model models/v3 was not looked up: the hub cannot be reached from here",
        ),
        (
            HubAnswer(denied="answered 401 for config.json"),
            "warn",
            "model models/v3: the hub shows it, but lets only some users read its files (answered 401 for config.json)",
        ),
        (HubAnswer(denied="answered 403 for config.json", token=True), "fail", "lets only some users read its files"),
        (
            HubAnswer(size_bytes=5_000_000, cache=HubCache(size_bytes=5_000_000, free_bytes=1, shares_disk=True)),
            "ok",
            "is a hub id: 5.0 MB, which the host has",
        ),
    ],
)
def test_what_the_hub_says_of_a_model_is_said_before_anything_starts(
    tmp_path: Path, answer: HubAnswer | None, outcome: str, said: str
) -> None:
    experiment = Sft.model_construct(name="e", task="sft", model="models/v3", origin=tmp_path / "e.yaml")
    check = of_hub(experiment, answer)
    assert check is not None
    assert check.outcome == outcome
    assert said in check.message


def test_a_mistyped_hub_id_names_the_nearest_model_in_homes_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub" / "models--Qwen--Qwen2.5-0.5B").mkdir(parents=True)
    experiment = Sft.model_construct(name="e", task="sft", model="Qwen/Qwen2.5-0.5")
    check = of_hub(experiment, HubAnswer("says 404"))
    assert check is not None
    assert check.hint is not None
    assert check.hint.endswith("did you mean Qwen/Qwen2.5-0.5B?")
    denied = of_hub(experiment, HubAnswer(denied="answered 403"))
    assert denied is not None
    assert denied.hint is not None
    assert denied.hint.startswith("accept its terms")


@pytest.mark.parametrize(
    ("cached", "free", "shares", "outcome", "said"),
    [
        (0, 10**12, True, "fail", "not enough disk on the host: 71.0 GB of 67.0 GB free"),
        (60_000_000_000, 1, True, "ok", "model 10.0 GB"),
        (0, 10**12, False, "ok", "disk: needs 1.0 GB of 67.0 GB free"),
        (
            0,
            10**9,
            False,
            "fail",
            "the model is 70.0 GB to download, and the disk of the host's Hugging Face cache has",
        ),
    ],
)
def test_what_a_run_downloads_of_its_model_must_fit_the_disk_of_the_cache(
    cached: int, free: int, shares: bool, outcome: str, said: str
) -> None:
    experiment = Sft.model_construct(name="e", task="sft", model="acme/m")
    answer = HubAnswer(
        size_bytes=70_000_000_000, cache=HubCache(size_bytes=cached, free_bytes=free, shares_disk=shares)
    )
    environment = Environment("cpu-0", "3.12", "", None, ready=True)
    section = TrainingSection.model_construct(tracking=TRACKING)
    trained = Trained(section, environment, hub_model="acme/m", answer=answer)
    check = checks(experiment, DESK, trained=trained)["ARM005"]
    assert check.outcome == outcome
    assert said in check.message


def test_a_hub_id_beside_which_other_models_lie_is_said(tmp_path: Path) -> None:
    (tmp_path / "models" / "v2").mkdir(parents=True)
    (tmp_path / "models" / "v2" / "config.json").write_text("{}")
    experiment = Sft.model_construct(name="e", task="sft", model="models/v3", origin=tmp_path / "e.yaml")
    check = of_hub(experiment)
    assert check is not None
    assert (check.outcome, "this machine has models/v2, but no folder of that name" in check.message) == ("warn", True)
    folder = Sft.model_construct(name="e", task="sft", model=str(tmp_path / "models" / "v2"))
    assert of_hub(folder) is None


def test_what_a_job_does_not_see_of_the_shell_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k3y")
    monkeypatch.setenv("HF_HOME", "/home/me/hf")  # a path of home's means nothing on another host
    experiment = Command.model_construct(name="e", task="command", env={"NCCL_DEBUG": "INFO"}, secrets=())
    told = facts(left_out=["NCCL_DEBUG", "PYTHONPATH"])
    here = Host(name="local", local=True)
    local, remote = (checks(experiment, host, facts=told)["ARM017"] for host in (here, CLUSTER))
    assert local.outcome == "warn"
    assert local.message == "the job does not see PYTHONPATH of the shell"
    assert local.hint == "if it needs them: `env: {PYTHONPATH: …}`"
    assert remote.message == "the job does not see PYTHONPATH, WANDB_API_KEY of the shell"
    assert remote.hint == "if it needs them: `secrets: [WANDB_API_KEY]`, `env: {PYTHONPATH: …}`"
    named = experiment.model_copy(update={"env": {}, "secrets": ("WANDB_API_KEY",)})
    assert checks(named, CLUSTER)["ARM017"].outcome == "ok"
