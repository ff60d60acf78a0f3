"""Machines and containers that start anew, are cloned or renamed under a run: real namespaces, real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from armada.verdicts.state import decide
from tests.agent.conversation import Conversation, Host
from tests.answers import observation
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAKE = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]


class Container:
    """A machine in namespaces: its own process table, host name and, where asked for, its own boot id and machine id."""

    def __init__(self, folder: Path, agent: Path, *, name: str, boot_id: str = "", machine_id: str = "") -> None:
        self._folder = folder
        self._agent = agent
        folder.mkdir(exist_ok=True)
        commands = [f"hostname {name}", "mount --make-rprivate /"]
        for content, over in ((boot_id, "/proc/sys/kernel/random/boot_id"), (machine_id, "/etc/machine-id")):
            if content:
                held = folder / over.rpartition("/")[2]
                held.write_text(content + "\n")
                commands.append(f"mount --bind {held} {over}")
        ready = folder / "ready"
        ready.unlink(missing_ok=True)
        script = " && ".join([*commands, f"touch {ready}", "exec sleep 100000"])
        self._outer = subprocess.Popen([*_MAKE, "sh", "-c", script], stdin=subprocess.DEVNULL)
        eventually(lambda: ready.exists() or self._outer.poll() is not None)
        assert self._outer.poll() is None
        self.init = int(Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text().split()[0])
        self._python = folder / "python"
        self._python.write_text(f'#!/bin/sh\nexec nsenter -t {self.init} -m -p -u -i "{sys.executable}" "$@"\n')
        self._python.chmod(0o755)
        self._talks: list[Conversation] = []

    def host(self, root: Path) -> Host:
        self._talks.append(Conversation(str(self._python), self._agent, root))
        return Host(self._talks[-1])

    def run(self, *argv: str) -> str:
        enter = ["nsenter", "-t", str(self.init), "-m", "-p", "-u", "-i"]
        return subprocess.run([*enter, *argv], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def start_under(self, pid: int) -> int:
        """Start a stranger's process under a number in the container's table; its number outside."""
        # A length of sleep that no other test has: several of these tests run at once, and all see one another.
        own = f"54321.{uuid.uuid4().int % 10**15}"
        # The kernel gives the number after this one next; between the two lines nothing else starts in this container.
        self.run(
            "sh",
            "-c",
            f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid; exec setsid --fork sleep {own} > /dev/null 2>&1",
        )
        (found,) = eventually(lambda: _pids_of(f"sleep\0{own}\0"))
        return found

    def power_off(self) -> None:
        for talk in self._talks:
            talk.process.kill()
            talk.process.wait()
        self._talks.clear()
        if self._outer.poll() is None:
            os.kill(self.init, signal.SIGKILL)  # with its first process a process table goes
            self._outer.wait()


def _pids_of(command_line: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cmdline").read_bytes() == command_line.encode():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _inner_pid(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    (line,) = [line for line in status.splitlines() if line.startswith("NSpid:")]
    return int(line.split()[-1])


@pytest.fixture
def container(tmp_path: Path, agent: Path) -> Iterator[Callable[..., Container]]:
    probe = [*_MAKE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    if os.geteuid() != 0 or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs root and namespaces")
    made: list[Container] = []

    def make(**what: Any) -> Container:
        made.append(Container(tmp_path / f"container-{len(made)}", agent, **what))
        return made[-1]

    yield make
    for one in made:
        one.power_off()


def verdict(host: Host, run_id: str) -> tuple[str, str | None]:
    decided = decide(observation(host.look(run_id)))
    return decided.state, decided.reason


def begin(host: Host, run_id: str, root: Path) -> int:
    """Start a run that lives; its job's pid, as the host counts."""
    host.launch(run_id, "sleep", "12345")
    host.await_state(run_id, "running")
    pid: int = host.look(run_id)["evidence"]["attempt"]["run"]["process"]["pid"]
    return pid


def is_whole(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def check_that_it_failed_and_goes_on(host: Host, run_id: str, stranger: int) -> None:
    """The run failed with its host, nobody else's process is touched by a stop, and a second submission runs."""
    evidence = host.look(run_id)["evidence"]
    assert (evidence["supervisor"], evidence["rebooted"], evidence["processes"]) == ("dead", True, 0)
    assert verdict(host, run_id) == ("failed", "host_rebooted")
    assert host.call("run.submit", run_id=run_id, submission=2)["outcome"] == "started"
    state = host.await_state(run_id, "running", submission=2)
    assert state["attempt"] == 2
    host.call("run.stop", run_id=run_id, grace_s=0)
    assert host.await_end(run_id)["reason"] == "killed_by_user"
    assert is_whole(stranger)


@pytest.mark.fault(
    "machine rebooted, its pids given to strangers",
    "failed: host_rebooted; a stop touches no stranger; it can be submitted again",
)
def test_a_rebooted_machine_fails_its_runs_and_no_stranger_under_their_pids_is_touched(
    container: Callable[..., Container], root: Path
) -> None:
    first = container(name="box", boot_id=str(uuid.uuid4()))
    job = begin(first.host(root), "boot-1", root)
    first.power_off()
    second = container(name="box", boot_id=str(uuid.uuid4()))
    stranger = second.start_under(job)
    assert _inner_pid(stranger) == job
    check_that_it_failed_and_goes_on(second.host(root), "boot-1", stranger)


@pytest.mark.fault(
    "container started anew on the same boot of its machine, its pids given to strangers",
    "failed: host_rebooted; a stop touches no stranger; it can be submitted again",
)
def test_a_container_started_anew_has_the_same_boot_id_and_is_known_for_another_all_the_same(
    container: Callable[..., Container], root: Path
) -> None:
    first = container(name="box")
    job = begin(first.host(root), "again-1", root)
    first.power_off()
    second = container(name="box")
    stranger = second.start_under(job)
    assert _inner_pid(stranger) == job
    check_that_it_failed_and_goes_on(second.host(root), "again-1", stranger)


@pytest.mark.fault(
    "container made anew under another host name, on its old volume",
    "failed: host_rebooted, where it would have been called running for ever",
)
def test_a_container_that_comes_back_under_another_name_has_lost_its_runs(
    container: Callable[..., Container], root: Path
) -> None:
    first = container(name="3f2a9c1b07d3")
    job = begin(first.host(root), "name-1", root)
    first.power_off()
    second = container(name="77c0ffee77c0")
    stranger = second.start_under(job)
    check_that_it_failed_and_goes_on(second.host(root), "name-1", stranger)


@pytest.mark.fault(
    "machine renamed while a run is on it",
    "the run goes on being seen, and can be stopped",
)
def test_a_machine_that_gets_another_name_keeps_its_runs(container: Callable[..., Container], root: Path) -> None:
    box = container(name="ip-10-0-0-7")
    begin(box.host(root), "renamed-1", root)
    box.run("hostname", "trainer")
    host = box.host(root)
    assert host.look("renamed-1")["evidence"]["supervisor"] == "alive"
    assert verdict(host, "renamed-1") == ("running", None)
    host.call("run.stop", run_id="renamed-1", grace_s=0)
    assert host.await_end("renamed-1")["state"] == "cancelled"


@pytest.mark.fault(
    "machine cloned with its machine-id and its running runs",
    "on the clone failed: host_rebooted; the original's processes are not touched",
)
def test_on_a_clone_with_the_same_machine_id_the_runs_are_lost_and_the_originals_live(
    container: Callable[..., Container], root: Path, tmp_path: Path
) -> None:
    machine_id = uuid.uuid4().hex
    original = container(name="box", boot_id=str(uuid.uuid4()), machine_id=machine_id)
    host = original.host(root)
    begin(host, "clone-1", root)
    copy = tmp_path / "copied root"
    subprocess.run(["cp", "-a", str(root), str(copy)], check=True)
    clone = container(name="box", boot_id=str(uuid.uuid4()), machine_id=machine_id)
    assert clone.run("cat", "/etc/machine-id") == original.run("cat", "/etc/machine-id")
    there = clone.host(copy)
    assert verdict(there, "clone-1") == ("failed", "host_rebooted")
    there.call("run.stop", run_id="clone-1", grace_s=0)
    assert there.await_end("clone-1")["reason"] == "killed_by_user"
    assert verdict(host, "clone-1") == ("running", None)
    assert host.look("clone-1")["evidence"]["processes"] == 1


@pytest.mark.fault(
    "two containers of one name share a volume",
    "the run of one is not called dead in the other, nor started twice",
)
def test_of_two_containers_of_one_name_and_volume_the_other_one_does_not_call_a_run_dead(
    container: Callable[..., Container], root: Path
) -> None:
    first, second = container(name="box"), container(name="box")
    begin(first.host(root), "twin-1", root)
    neighbour = second.host(root)
    evidence = neighbour.look("twin-1")["evidence"]
    assert (evidence["supervisor"], evidence["rebooted"]) == ("unknown", False)
    assert verdict(neighbour, "twin-1") == ("running", None)
    with pytest.raises(Exception, match="has submission 1 already"):
        neighbour.call("run.submit", run_id="twin-1", submission=2)
    neighbour.call(
        "run.stop", run_id="twin-1", grace_s=0
    )  # the wish lies in the run's folder, where its supervisor reads it
    assert neighbour.await_end("twin-1")["state"] == "cancelled"
