"""What a job sees of the environment around it: the same at every attempt, whoever starts it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from armada_agent.paths import RunPaths
from armada_agent.runs import shell

from tests.agent.conversation import Conversation, Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PRINT = ("sh", "-c", "printf -- '-- %s\\n' $ARMADA_ATTEMPT; env -0; exit 3")
SHELL = {"LC_PAPER": "de_DE", "HF_HOME": "/data/hf", "WANDB_API_KEY": "k3y", "MY_OWN": "1", "NCCL_DEBUG": "INFO"}


def variables(host: Host, run_id: str, attempt: int) -> dict[str, str]:
    text = host.output(run_id).split(f"-- {attempt}\n")[1].split("-- ")[0]
    return dict(item.split("=", 1) for item in text.split("\0") if item)


def test_every_attempt_sees_the_same_whoever_starts_it(
    python: str, converse: Callable[..., Conversation], tmp_path: Path
) -> None:
    typed = Host(converse(python, environment={**os.environ, **SHELL, "PATH": f"{tmp_path}:{os.environ['PATH']}"}))
    typed.launch("same-1", *PRINT, job={"env": {"OWN": "1"}})
    typed.await_end("same-1")
    # A service manager's environment, as the daemon has it.
    daemon = Host(converse(python, environment={"PATH": "/usr/bin:/bin", "HOME": "/", "INVOCATION_ID": "1"}))
    daemon.call("run.submit", run_id="same-1", submission=2)
    daemon.await_state("same-1", "failed", submission=2)
    first, second = (variables(daemon, "same-1", attempt) for attempt in (1, 2))
    assert {**first, "ARMADA_ATTEMPT": "2"} == second
    assert (first["LC_PAPER"], first["HF_HOME"], first["OWN"]) == ("de_DE", "/data/hf", "1")
    assert first["PATH"].startswith(f"{tmp_path}:")
    assert not {"WANDB_API_KEY", "MY_OWN", "NCCL_DEBUG"} & set(first)


def test_what_is_left_out_is_named_without_its_value(converse: Callable[..., Conversation], some_python: str) -> None:
    bare = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "1", "PYTORCH_VERSION": "2"}
    host = Host(converse(some_python, environment={**bare, **SHELL}))
    assert host.call("host.facts")["left_out"] == ["NCCL_DEBUG", "WANDB_API_KEY"]


def test_the_base_is_recorded_for_its_owner_alone_and_a_damaged_one_is_made_anew(this_host: Host) -> None:
    this_host.launch("kept-1", "sh", "-c", "exit 3")
    this_host.await_end("kept-1")
    record = this_host.folder("kept-1") / "variables.json"
    assert record.stat().st_mode & 0o777 == 0o600
    record.write_text('{"variables": {"PATH": 1}}')
    this_host.call("run.submit", run_id="kept-1", submission=2)
    assert this_host.await_state("kept-1", "failed", submission=2)["reason"] == "exit_3"
    assert os.environ["PATH"] in record.read_text()


@pytest.mark.parametrize("line", ["export FROM_SETUP=yes", "export FROM_SETUP=yes PATH=/opt/tool/bin:$PATH"])
def test_what_the_hosts_setup_exports_is_seen_and_the_rest_of_the_shell_is_not(
    some_python: str, agent: Path, root: Path, line: str
) -> None:
    conversation = Conversation(some_python, agent, root, {**os.environ, **SHELL}, setup=[line])
    host = Host(conversation)
    host.launch("setup-1", *PRINT)
    host.await_end("setup-1")
    seen = variables(host, "setup-1", 1)
    assert seen["FROM_SETUP"] == "yes"
    assert ("/opt/tool/bin" in seen["PATH"].split(":")) == ("tool" in line)
    assert set(os.environ["PATH"].split(":")) <= set(seen["PATH"].split(":"))
    assert not {"WANDB_API_KEY", "MY_OWN", "NCCL_DEBUG"} & set(seen)
    conversation.hang_up()


def make_environment(folder: Path) -> Path:
    """A folder with the programs of an environment; its `python` says only its name."""
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "torchrun"):
        (folder / "bin" / name).write_text(f"#!/bin/sh\necho this is {name} of the environment\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("name", ["python", "torchrun"])
def test_a_job_inside_an_environment_finds_its_programs_first(host: Host, tmp_path: Path, name: str) -> None:
    folder = make_environment(tmp_path / "envs/cpu-1")
    place = {"key": "cpu-1", "path": str(folder), "active": True}
    host.launch("inside-1", name, environment=place, job={"env": {"PATH": "/opt/mine:/bin"}})
    assert host.await_end("inside-1")["state"] == "succeeded"
    assert host.output("inside-1") == f"this is {name} of the environment\n"
    host.launch("inside-2", *PRINT, environment=place, job={"env": {"PATH": "/opt/mine:/bin"}})
    host.await_end("inside-2")
    seen = variables(host, "inside-2", 1)
    assert (seen["PATH"], seen["VIRTUAL_ENV"]) == (f"{folder}/bin:/opt/mine:/bin", str(folder))


def test_a_job_whose_environment_is_gone_does_not_run_with_the_hosts_python(this_host: Host, tmp_path: Path) -> None:
    place = {"key": "existing", "path": str(tmp_path / "gone"), "active": True, "existing": True}
    this_host.launch("gone-1", "sh", "-c", "touch started", environment=place)
    ended = this_host.await_end("gone-1")
    assert (ended["state"], ended["reason"]) == ("failed", "env_error")
    assert f"{tmp_path}/gone/bin/python does not exist" in ended["message"]
    assert not (this_host.folder("gone-1") / "work/started").exists()


def test_an_environment_of_condas_is_named_as_conda_does(this_host: Host, tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "conda/envs/mine")
    place = {"key": "existing", "path": str(folder), "active": True, "existing": True, "conda": True}
    this_host.launch("conda-1", *PRINT, environment=place)
    this_host.await_end("conda-1")
    seen = variables(this_host, "conda-1", 1)
    assert (seen["PATH"].split(":")[0], seen["CONDA_PREFIX"]) == (f"{folder}/bin", str(folder))
    assert "VIRTUAL_ENV" not in seen


def test_a_job_whose_environment_is_not_active_keeps_its_path(this_host: Host, tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "envs/cpu-1")
    this_host.launch("outside-1", *PRINT, environment={"key": "cpu-1", "path": str(folder)})
    this_host.await_end("outside-1")
    seen = variables(this_host, "outside-1", 1)
    assert str(folder) not in seen["PATH"]
    assert "VIRTUAL_ENV" not in seen


def test_a_persons_shell_in_a_run_finds_the_programs_of_its_environment_first(this_host: Host, tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "envs/cpu-1")
    place = {"key": "cpu-1", "path": str(folder), "active": True}
    this_host.launch("inside-1", "true", environment=place)
    this_host.await_end("inside-1")
    seen = shell.compose_environment(RunPaths(str(this_host.root), "inside-1"), {})
    assert seen["PATH"].split(":")[0] == f"{folder}/bin"
    assert seen["VIRTUAL_ENV"] == str(folder)
