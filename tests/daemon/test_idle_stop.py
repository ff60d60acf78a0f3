"""A host's stop command: run once it was idle for long enough, only if release says yes, and never believed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.idle_stop import IdleStop, run_command, why_busy
from armada.daemon.watcher import Watcher
from armada.notifications.events import find_events
from armada.paths import HomePaths
from armada.protocol.facts import AskFacts
from armada.rpc.session import HostSession
from armada.store import hosts, operations, runs
from armada.store.database import Database
from armada.store.running_operations import operation
from armada.verdicts.idle import BELIEVED_S, Stopping, stopping_of
from armada.verdicts.states import Verdict
from tests.conftest import Armada, eventually

START = 1_700_000_000.0


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Stop:
    """An idle stop of this machine itself: what it asks is real, the time is not."""

    def __init__(self, home: HomePaths, database: Database, command: str) -> None:
        self.clock = Clock()
        self.database = database
        known = Host(name="local", local=True)
        # A file could not say so of `local`; the connection alone is what makes this one quick.
        self.host = known.model_copy(update={"stop_when_idle": "30m", "stop_command": command})
        with HostSession(known, home) as session:
            hosts.record_facts(database, "local", session.call(AskFacts()).as_json())
        self.stop = IdleStop(self.host, home, now=self.clock)

    def idle(self, minutes: int = 31) -> Stopping:
        """Look once a minute, and wait for a try that this begins."""
        for _ in range(minutes):
            self.look()
            self.clock.now += 60
        return self.look()

    def look(self) -> Stopping:
        self.stop.answered(self.database)
        if self.stop.trying is not None:
            self.stop.trying.join()
        return self.record

    @property
    def record(self) -> Stopping:
        found = hosts.find(self.database, "local")
        assert found is not None
        return stopping_of(found.stopping)


@pytest.fixture
def stop(home: HomePaths, database: Database) -> Callable[[str], Stop]:
    return lambda command: Stop(home, database, command)


def ran(armada: Armada) -> list[str]:
    file = armada.folder / "ran"
    return file.read_text().splitlines() if file.exists() else []


def noting(armada: Armada, code: int = 0) -> str:
    script = armada.folder / "stop.sh"
    script.write_text(
        f'echo "$1 $ARMADA_HOST $ARMADA_IDLE_S" >> {armada.folder}/ran; echo no such instance; exit {code}\n'
    )
    return f"sh {script} 'a  b; $(touch owned)'"


def test_the_command_is_run_once_the_host_was_idle_and_a_host_that_goes_is_gone(
    armada: Armada, database: Database, stop: Callable[[str], Stop]
) -> None:
    box = stop(noting(armada) + " --api-key canary-9912")
    assert box.idle(29).state == ""
    assert ran(armada) == []
    assert box.idle(2).state == "asked"
    assert ran(armada) == ["a  b; $(touch owned) local 1800"]
    assert not (armada.folder / "owned").exists()
    (kept,) = [each for each in operations.on_host(database, "local") if each.kind == "release"]
    assert kept.message is not None
    assert kept.message.startswith("stop command: sh ")
    assert kept.message.endswith(" --api-key '***'")
    assert kept.argv == ("armada", "daemon", "start"), "if it is interrupted, nobody is told to release the host"
    box.stop.silent(database)
    assert box.record.state == "gone"
    assert len(ran(armada)) == 1
    gone_at = box.record.asked_at
    box.clock.now += 7200
    assert box.look().away == ((gone_at, box.clock.now),)  # it is back, and idle from now on
    assert box.idle(29).state == ""
    assert box.idle(2).state == "asked"
    assert len(ran(armada)) == 2


def test_a_watcher_notes_idleness_while_the_host_answers(
    armada: Armada, home: HomePaths, database: Database, stop: Callable[[str], Stop]
) -> None:
    box = stop(noting(armada))
    watcher = Watcher(box.host, home, HostStatusRegistry(), now=box.clock)
    for _ in range(32):
        watcher.look(database)
        box.clock.now += 60
    eventually(lambda: box.record.state == "asked")
    watcher.close()
    assert len(ran(armada)) == 1
    gone = box.host.model_copy(update={"name": "gone", "local": False, "ssh": "nobody@127.0.0.1:1"})
    hosts.record_facts(database, "gone", {})
    hosts.record_stopping(database, "gone", Stopping("asked", START, asked_at=START).as_json())
    silent = Watcher(gone, home, HostStatusRegistry(), now=box.clock)
    silent.look(database)
    silent.close()
    found = hosts.find(database, "gone")
    assert found is not None
    assert stopping_of(found.stopping).state == "gone"


def test_a_command_that_fails_is_told_and_tried_again_and_again_later(
    armada: Armada, database: Database, stop: Callable[[str], Stop]
) -> None:
    box = stop(noting(armada, code=3))
    found = box.idle()
    assert (found.state, found.tries) == ("failed", 2)
    assert found.said == "the stop command exited with 3: no such instance"
    events = [event for event in find_events(database, box.clock.now, sync_failing_s=1) if event.kind == "host_stop"]
    assert [event.title for event in events] == ["local: its stop command failed"]
    assert "exited with 3: no such instance" in events[0].body
    before = len(ran(armada))
    assert box.idle(60).tries == len(ran(armada))
    assert before < len(ran(armada)) < before + 6  # after 2, 4, 8, 16, 32 minutes


def test_a_host_that_still_answers_is_not_believed_to_be_stopped(
    armada: Armada, database: Database, stop: Callable[[str], Stop]
) -> None:
    box = stop(noting(armada))
    assert box.idle().state == "asked"
    box.clock.now += BELIEVED_S - 120
    assert box.look().state == "asked"
    box.clock.now += 120
    found = box.look()
    assert (found.state, found.tries) == ("failed", 1)
    assert "still answers" in found.said
    box.stop.silent(database)
    assert box.record.state == "failed"
    assert len(ran(armada)) == 1


def test_what_goes_on_there_keeps_it_and_silence_is_not_idleness(
    armada: Armada, database: Database, stop: Callable[[str], Stop]
) -> None:
    box = stop(noting(armada))
    box.idle(20)
    box.stop.silent(database)
    assert box.idle(20).state == ""
    with operation(database, kind="exec", host="local", argv=["armada", "exec"]):
        assert box.idle(40).state == ""
        assert (why_busy(database, "local", None) or "").startswith("exec goes on there")
    box.idle(20)
    runs.insert(database, run_id="q-aaaaaa", name="q", host="local", task="command", experiment=None, spec={})
    assert box.idle(40).state == ""
    assert why_busy(database, "local", None) == "1 run there: q-aaaaaa"
    gpu = {"index": 0, "uuid": "u", "name": "A100", "memory_total_bytes": 1, "processes": [{"pid": 1, "user": "them"}]}
    hosts.record_facts(database, "gpus", {"gpus": [gpu]})
    assert why_busy(database, "gpus", hosts.find(database, "gpus")) == "1 process on its GPUs"
    hosts.record_facts(database, "gpus", {"gpus": [], "gpu_trouble": "nvidia-smi: Driver/library version mismatch"})
    cannot = "who uses its GPUs cannot be asked (nvidia-smi: Driver/library version mismatch)"
    assert why_busy(database, "gpus", hosts.find(database, "gpus")) == cannot
    hosts.record_facts(database, "gpus", {"gpus": [], "gpu_trouble": None, "amd_gpus": 2})
    assert why_busy(database, "gpus", hosts.find(database, "gpus")) == "armada cannot ask who uses its 2 AMD GPUs"
    assert ran(armada) == []


def test_nothing_is_stopped_that_release_would_lose(
    armada: Armada, database: Database, stop: Callable[[str], Stop]
) -> None:
    done = armada.run(
        "launch", "--host", "local", armada.command(sys.executable, "-c", "open('kept', 'w').write('x')"), "--follow"
    )
    assert done.returncode == 0, done.stderr
    box = stop(noting(armada))
    found = box.idle()
    assert found.state == "refused"
    assert found.said.startswith("not stopped, because something would be lost: ")
    assert ran(armada) == []
    (run,) = runs.every(database)
    assert runs.record(database, run.run_id, Verdict("succeeded", None, None, 99, 99), observed_at=box.clock.now)
    events = [event for event in find_events(database, box.clock.now, sync_failing_s=1) if event.kind == "host_stop"]
    assert [event.title for event in events] == ["local: not stopped"]


@pytest.mark.fault("another home launches while a host is about to be stopped", "the host is not stopped")
def test_what_another_home_launches_at_the_last_moment_keeps_the_host(
    armada: Armada, stop: Callable[[str], Stop], monkeypatch: pytest.MonkeyPatch
) -> None:
    box, ask = stop(noting(armada)), HostSession.call

    def launch_first(session: HostSession, request: Any, *words: Any, **more: Any) -> Any:
        if isinstance(request, AskFacts):
            (armada.local_runs / "theirs-1").mkdir(parents=True, exist_ok=True)
        return ask(session, request, *words, **more)

    monkeypatch.setattr(HostSession, "call", launch_first)
    found = box.idle(30)
    assert (found.state, found.said) == (
        "refused",
        "not stopped: theirs-1: it was launched or resumed while the host was checked",
    )
    assert ran(armada) == []


def test_a_job_that_saves_at_the_last_moment_keeps_the_host(
    armada: Armada, database: Database, stop: Callable[[str], Stop], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = armada.run("launch", "--host", "local", armada.command(sys.executable, "-c", "pass"), "--follow")
    assert done.returncode == 0, done.stderr
    box, ask = stop(noting(armada)), HostSession.call
    (run,) = runs.every(database)

    def save_first(session: HostSession, request: Any, *words: Any, **more: Any) -> Any:
        if isinstance(request, AskFacts):
            (armada.local_runs / run.run_id / "outbox" / ("a" * 64)).mkdir(exist_ok=True)
        return ask(session, request, *words, **more)

    monkeypatch.setattr(HostSession, "call", save_first)
    found = box.idle(30)
    assert (found.state, found.said) == (
        "refused",
        f"not stopped: {run.run_id}: it got a checkpoint while the host was checked",
    )
    assert ran(armada) == []


def test_a_command_is_no_shells_and_one_that_hangs_is_ended(tmp_path: Path) -> None:
    assert run_command(["echo", "$HOME", ";", "\x1b]0;owned\x07"], {"PATH": "/usr/bin:/bin"})[0] == 0
    assert "\x1b" not in run_command(["echo", "\x1b]0;owned\x07"], {"PATH": "/usr/bin:/bin"})[1]
    token = f"hf_{'a' * 30}"
    assert run_command(["echo", "denied:", token], {"PATH": "/usr/bin:/bin"}) == (0, "denied: …"), (
        "others may read this"
    )
    assert run_command(["/no/such/program"], {}) == (127, "/no/such/program: No such file or directory")
    assert run_command([str(tmp_path)], {})[0] == 127
    assert run_command(["sleep", "1000"], {"PATH": "/usr/bin:/bin"}, limit_s=0.01) == (None, "")


def test_a_command_ends_with_the_daemon_and_leaves_in_the_background_what_it_wants(tmp_path: Path) -> None:
    mark, script = tmp_path / "pid", f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 600"
    program = f"from armada.daemon.idle_stop import run_command; run_command(['sh', '-c', {script!r}], {{}})"
    with subprocess.Popen([sys.executable, "-c", program]) as daemon:
        eventually(mark.exists)
        daemon.kill()
    running = Path("/proc") / mark.read_text().strip()
    eventually(lambda: not running.exists() or "State:\tZ" in (running / "status").read_text())
    left = f"(until [ -e {tmp_path}/go ]; do sleep 0.05; done; touch {tmp_path}/later) &"
    assert run_command(["sh", "-c", left], {"PATH": "/usr/bin:/bin"}) == (0, "")
    (tmp_path / "go").touch()
    eventually((tmp_path / "later").exists)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--stop-when-idle", "30m"], "needs `stop_command`"),
        (["--stop-command", "stop it"], "needs `stop_when_idle`"),
        (["--stop-when-idle", "1s", "--stop-command", "x"], "less than a minute"),
        (["--stop-when-idle", "90d", "--stop-command", "x"], "not between 1m and 30d"),
        (["--stop-when-idle", "soon", "--stop-command", "x"], "duration"),
        (["--stop-when-idle", "30m", "--stop-command", "x 'y"], "is not a command"),
        (["--stop-when-idle", "30m", "--stop-command", " "], "must"),
    ],
)
def test_what_cannot_be_meant_is_refused(armada: Armada, home: HomePaths, words: list[str], said: str) -> None:
    home.hosts_file.write_text("hosts: {box: {ssh: 'me@127.0.0.1:1'}}\n")
    done = armada.run("hosts", "set", "box", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_it_is_set_by_a_person_and_never_by_a_project(armada: Armada, home: HomePaths) -> None:
    home.hosts_file.write_text("hosts:\n  box: {ssh: 'me@127.0.0.1:1'}\n")
    words = ["hosts", "set", "box", "--stop-when-idle", "30m", "--stop-command", "sh -c 'vastai stop 1'"]
    seen = armada.run(*words, "--dry-run")
    assert "armada daemon start) runs here: sh -c 'vastai stop 1'" in seen.stdout
    assert "stop_command" not in home.hosts_file.read_text()
    assert armada.run(*words).returncode == 0
    (box,) = [each for each in armada.json("hosts", "ls") if each["name"] == "box"]
    assert (box["stop_when_idle"], box["stop_command"]) == ("30m", "sh -c 'vastai stop 1'")
    keyed = [*words[:-1], "curl -H 'Authorization: Bearer CANARY' https://cloud/stop"]
    assert armada.run(*keyed).returncode == 0
    assert "CANARY" in home.hosts_file.read_text()
    assert "CANARY" not in armada.run("hosts", "ls", "--json").stdout, "assistants are shown this"
    done = armada.run("hosts", "set", "box", "--unset", "stop-command", "--unset", "stop-when-idle")
    assert done.returncode == 0, done.stderr
    project = {"hosts": {"evil": {"ssh": "me@127.0.0.1:1", "stop_when_idle": "30m", "stop_command": "touch owned"}}}
    (armada.folder / "armada.yaml").write_text(json.dumps(project))
    refused = armada.run("hosts", "ls")
    assert refused.returncode == 2
    assert "is for your own hosts.yaml, not for a project's file" in refused.stderr
