"""Lines of shell that an experiment wants to have run before its job (`setup:`)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.paths import RunPaths
from armada_agent.runs import shell

from tests.agent.conversation import Conversation, Host
from tests.agent.test_agent_job_variables import PRINT, make_environment, variables
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable


def launch(host: Host, run_id: str, *lines: str, argv: tuple[str, ...] = PRINT, **changes: Any) -> None:
    job = {"setup": list(lines), **changes.pop("job", {})}
    host.launch(run_id, *argv, job=job, **changes)


def ended(host: Host, run_id: str, *lines: str, **changes: Any) -> dict[str, str]:
    launch(host, run_id, *lines, **changes)
    host.await_end(run_id)
    return variables(host, run_id, 1)


def test_what_the_lines_export_is_seen_by_the_job(some_python: str, converse: Callable[..., Conversation]) -> None:
    host = Host(converse(some_python))
    lines = (
        "export FIRST=größe PATH=/opt/tool/bin:$PATH",
        'export SECOND="$FIRST and $GIVEN" WHERE=$PWD',
        "unset GONE",
    )
    seen = ended(host, "setup-1", *lines, job={"env": {"GIVEN": "日本", "GONE": "1"}})
    assert (seen["FIRST"], seen["SECOND"]) == ("größe", "größe and 日本")
    assert "/opt/tool/bin" in seen["PATH"].split(":")
    assert set(os.environ["PATH"].split(":")) <= set(seen["PATH"].split(":"))
    assert seen["WHERE"] == str(host.folder("setup-1") / "work")
    assert "GONE" not in seen


def test_the_lines_see_no_secret_and_change_nothing_that_is_armadas(this_host: Host) -> None:
    lines = ("export SEEN=${TOKEN:-nothing} TOKEN=other ARMADA_RUN_ID=other ARMADA_MORE=1 CUDA_VISIBLE_DEVICES=7",)
    seen = ended(this_host, "setup-1", *lines, job={"secrets": ["TOKEN"]}, secrets={"TOKEN": "hidden"})
    assert (seen["SEEN"], seen["TOKEN"]) == ("nothing", "hidden")
    assert (seen["ARMADA_RUN_ID"], seen["CUDA_VISIBLE_DEVICES"]) == ("setup-1", "")
    assert "ARMADA_MORE" not in seen


def test_an_environments_programs_come_before_those_of_the_lines(this_host: Host, tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "envs/cpu-1")
    place = {"key": "cpu-1", "path": str(folder), "active": True}
    seen = ended(this_host, "setup-1", "export PATH=/opt/tool/bin:$PATH VIRTUAL_ENV=/other", environment=place)
    assert seen["PATH"].split(":")[0] == f"{folder}/bin"
    assert "/opt/tool/bin" in seen["PATH"].split(":")
    assert seen["VIRTUAL_ENV"] == str(folder)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo no such module >&2; false", "failed with exit code 1: no such module"),
        ("no-such-program-at-all", "failed with exit code 127"),
        ("exit 4", r"ended the shell \(exit code 4\)"),
        ("if", r"setup line 2 of this experiment \(`if`\)"),
    ],
)
def test_a_line_that_fails_ends_the_run_before_its_job(this_host: Host, line: str, said: str) -> None:
    launch(this_host, "setup-1", "true", line, argv=("touch", "started"))
    state = this_host.await_end("setup-1")
    assert (state["state"], state["reason"]) == ("failed", "env_error")
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(state["message"])
    assert "setup line 2 of this experiment" in state["message"]
    assert not (this_host.folder("setup-1") / "work/started").exists()
    assert not (this_host.folder("setup-1") / "secrets.env").exists()


def test_the_lines_run_anew_at_each_attempt(this_host: Host) -> None:
    launch(this_host, "setup-1", "echo x >> ../count", argv=("sh", "-c", "exit 3"))
    this_host.await_end("setup-1")
    this_host.call("run.submit", run_id="setup-1", submission=2)
    this_host.await_state("setup-1", "failed", submission=2)
    assert (this_host.folder("setup-1") / "count").read_text() == "x\n" * 2


def test_a_stop_ends_lines_that_take_long(this_host: Host) -> None:
    launch(this_host, "setup-1", "echo $$ > pid; sleep 600", argv=("touch", "started"))
    pid = this_host.folder("setup-1") / "work/pid"
    shell_pid = int(eventually(lambda: pid.exists() and pid.read_text()) or 0)
    assert "setup" in this_host.state("setup-1")["message"]
    this_host.call("run.stop", run_id="setup-1", grace_s=1)
    state = this_host.await_end("setup-1")
    assert (state["state"], state["reason"]) == ("cancelled", "killed_by_user")
    eventually(lambda: not Path(f"/proc/{shell_pid}/cwd").exists())
    assert not (pid.parent / "started").exists()


def test_lines_whose_supervisor_is_killed_are_not_taken_for_the_job(this_host: Host) -> None:
    launch(this_host, "setup-1", "echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done", argv=("touch", "started"))
    work = this_host.folder("setup-1") / "work"
    shell_pid = int(eventually(lambda: (work / "pid").exists() and (work / "pid").read_text()) or 0)
    job = this_host.look("setup-1")["evidence"]["submission"]["job"]
    os.kill(job["supervisor"]["pid"], signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{job['guardian']['pid']}/cwd").exists())
    assert not (this_host.folder("setup-1") / "submissions/1/successor.json").exists()
    (work / "go").touch()
    eventually(lambda: not Path(f"/proc/{shell_pid}/cwd").exists())
    evidence = this_host.look("setup-1")["evidence"]
    assert evidence["supervisor"] != "alive"
    assert evidence["state"]["state"] not in {"succeeded", "running"}
    assert not (work / "started").exists()
    this_host.call("run.submit", run_id="setup-1", submission=2)
    assert this_host.await_state("setup-1", "succeeded", submission=2)["reason"] is None


def test_a_persons_program_sees_what_the_lines_export(this_host: Host) -> None:
    launch(this_host, "setup-1", "export MINE=yes; [ ! -e broken ]", argv=("true",))
    this_host.await_end("setup-1")
    paths = RunPaths(str(this_host.root), "setup-1")
    assert shell.compose_environment(paths, {})["MINE"] == "yes"
    (this_host.folder("setup-1") / "work/broken").touch()
    with pytest.raises(AgentError, match="setup line 1 of this experiment"):
        shell.compose_environment(paths, {})


def test_a_plan_without_lines_starts_no_shell(this_host: Host, tmp_path: Path) -> None:
    launch(this_host, "setup-1", argv=("true",))
    this_host.await_end("setup-1")
    spec = json.loads((this_host.folder("setup-1") / "spec.json").read_text())
    assert spec["job"]["setup"] == []
    assert "setup" not in json.dumps(this_host.events("setup-1"))
