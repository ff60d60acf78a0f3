"""W&B without its key or its package is found before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from armada.config.hosts import Host
from armada.config.tasks.command import Command
from armada.config.tasks.sft import Sft
from armada.config.tracking import Tracking
from armada.launch.checks.check import Check
from armada.launch.checks.registry import check_launch
from armada.launch.checks.subject import Subject, Trained
from armada.launch.plans.tracking import tracking_imports
from armada.protocol.spec import TrackingSection, TrainingSection
from armada.provision.environment import Environment
from tests.host_facts import facts

DESK = Host(name="desk", ssh="desk")
HERE = Host(name="local", local=True)
CLUSTER = Host(name="c", ssh="me@login", scheduler="slurm")
Mode = Literal["auto", "online", "offline", "off"]


def check(subject: Subject) -> Check | None:
    return next((found for found in check_launch(subject) if found.code == "ARM023"), None)


def of_command(wandb: Mode, host: Host = DESK, **more: Any) -> Check | None:
    tracking = Tracking(wandb=wandb)
    command = Command.model_construct(name="c", task="command", command=("true",), tracking=tracking, **more)
    return check(Subject(command, host, None, facts(), 0, 1))


def of_training(wandb: Mode, requirements: str, *secrets: str) -> Check | None:
    section = TrainingSection.model_construct(
        tracking=TrackingSection(wandb=wandb, project=None, name="e", id="e-1"), train={}, deepspeed=""
    )
    environment = Environment("cpu-0", "3.12", requirements, None, ready=True)
    experiment = Sft.model_construct(name="e", task="sft", model="acme/m", secrets=secrets)
    return check(Subject(experiment, DESK, None, facts(), 0, 1, trained=Trained(section, environment)))


def test_wandb_online_without_a_key_is_named_with_its_line() -> None:
    found = of_command("online", places={"tracking.wandb": "e.yaml:9"})
    assert found is not None
    assert (found.outcome, found.message.startswith("e.yaml:9: tracking.wandb is online")) == ("warn", True)
    assert found.hint == "`secrets: [WANDB_API_KEY]`; ignore this if `wandb login` was done on the host"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k")


@pytest.mark.parametrize("given", [{"secrets": ("WANDB_API_KEY",)}, {"env": {"WANDB_API_KEY": ""}}])
def test_a_blank_key_is_none(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", " ")
    found = of_command("online", **given)
    assert found is not None
    assert found.outcome == "warn"


@pytest.mark.parametrize("given", [{"secrets": ("WANDB_API_KEY",)}, {"env": {"WANDB_API_KEY": "k"}}])
def test_a_key_that_is_sent_is_enough(given: dict[str, Any]) -> None:
    found = of_command("online", **given)
    assert found is not None
    assert (found.outcome, found.message) == ("ok", "W&B's key is sent")


def test_a_login_of_this_machine_counts_for_runs_here_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    outcomes = [found.outcome for host in (HERE, DESK) if (found := of_command("online", host))]
    (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password k3y\n")
    outcomes += [found.outcome for host in (HERE, DESK) if (found := of_command("online", host))]
    assert outcomes == ["warn", "warn", "ok", "warn"]


def test_where_nothing_is_reported_online_there_is_nothing_to_check() -> None:
    assert [of_command(mode) for mode in ("auto", "offline", "off")] == [None, None, None]
    assert of_command("online", CLUSTER) is None  # ARM013 refuses that
    assert of_training("auto", "torch==2.13.0\n") is None


def test_a_key_that_the_environment_cannot_use_is_named() -> None:
    found = of_training("auto", "torch==2.13.0\n", "WANDB_API_KEY")
    assert found is not None
    assert (found.outcome, "its environment has no wandb" in found.message) == ("warn", True)
    assert of_training("auto", "torch==2.13.0\nwandb==0.31.0\n", "WANDB_API_KEY") is None
    assert of_training("auto", "torch==2.13.0\n./own.whl\n", "WANDB_API_KEY") is None


@pytest.mark.parametrize(("mode", "asked"), [("online", True), ("offline", True), ("auto", False), ("off", False)])
def test_a_job_that_insists_on_wandb_needs_its_package(mode: Mode, asked: bool) -> None:
    command = Command.model_construct(
        name="c", task="command", command=("true",), tracking=Tracking(wandb=mode), places={"tracking.wandb": "e:3"}
    )
    assert tracking_imports(command) == ({"wandb": "e:3"} if asked else {})
    assert tracking_imports(command.model_copy(update={"tracking": None})) == {}
