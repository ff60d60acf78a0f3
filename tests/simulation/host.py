"""A simulated machine: a disk, a boot, processes, and the real agent asked in this process, under the world's clock."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from unittest import mock

from armada_agent.errors import AgentError
from armada_agent.foundation import files, process_identity
from armada_agent.foundation.session import Call, Session
from armada_agent.host import processes
from armada_agent.outbox import inventory, orphans, thinning
from armada_agent.outbox import listing as agent_checkpoints
from armada_agent.outbox.watch_record import read_record
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal
from armada_agent.rpc.serve import METHODS
from armada_agent.runs import observation, outputs, readable_files
from armada_agent.supervisor import progress, supervise

from armada.errors import HostUnreachable
from armada.rpc.agent_errors import call_error
from tests.simulation import folders
from tests.simulation.breaking import Killed
from tests.simulation.supervising import Job, Supervision

if TYPE_CHECKING:
    import subprocess

    from tests.simulation.world import World

Scheduler = Literal["direct", "slurm", "htcondor"]

RENAMED = ".old"
"""How a run's folder ends that somebody renamed."""

_write_json = Journal.write_json

here = threading.local()
"""`here.host`: the machine whose agent or supervisor computes now."""


@dataclass(eq=False)
class SimHost:
    """One machine. What its programs read of processes and boots is what the world says, whatever records say."""

    world: World
    name: str
    place: Path
    scheduler: Scheduler = "direct"
    boot: int = 1
    booted_at: float = 1_799_000_000.0
    reachable: bool = True
    clock_offset: float = 0.0
    clock_was_set: bool = False
    oddities: set[str] = field(default_factory=set)
    """Kinds of lines of a release's answer that are true of it because a story made them so."""
    room: int | None = None
    """For how many finished checkpoints its disk has room; None: for any number."""
    forgets: frozenset[str] = frozenset()
    """Fields that its agent, an older one, does not know."""
    misfits: frozenset[str] = frozenset()
    """Methods whose answers say of runs what no home understands."""
    hidden: set[str] = field(default_factory=set)
    """Runs that were put there while the file system was away: they lie below it."""
    asked_while_away: set[str] = field(default_factory=set)
    """Runs that a home asked for while the file system was away: it need not have heard whether they were put there."""
    hides_checkpoints: bool = False
    """Whether its disk gives an error where a supervisor or its agent asks which checkpoints there are."""
    hides_outputs: bool = False
    """Whether it gives an error where its agent lists what a run wrote."""
    runs_away: bool = False
    """Whether of its root only the folder of runs is not mounted."""
    finishes: bool = False
    """Whether processes that finish checkpoints without a supervisor get to run; nothing may rely on them."""
    jobs: list[Job] = field(default_factory=list)
    supervisions: list[Supervision] = field(default_factory=list)
    snapshots: list[Path] = field(default_factory=list)
    _folders: dict[str, list[Path]] = field(default_factory=dict)

    def waits(self, run_id: str) -> bool:
        """Whether something will start a job of a run by itself."""
        return False

    def is_stopped(self, run_id: str) -> bool:
        """Whether what waits of a run leaves again as soon as it starts, because its stop was asked for."""
        return False

    def misreports(self, run_id: str) -> bool:
        """Whether its batch system called a job ended that it puts back: until its node is cleared, or when it was asked last."""
        return False

    def has_given_up(self, job: Job) -> bool:
        """Whether something else than armada believes that a job is no more, and starts it anew."""
        return False

    def is_ending(self, run_id: str) -> bool:
        """Whether how a job ended is recorded, and the end of its attempt is not: that is being completed."""
        attempts = (at for folder in self.folders(run_id) for at in folder.glob("attempts/*"))
        return any((at / "status.json").exists() and not (at / "exit.json").exists() for at in attempts)

    @functools.cached_property
    def root(self) -> Path:
        return self.place / "disk" / "armada"

    @functools.cached_property
    def away(self) -> Path:
        """Where the root lies while its file system is not mounted."""
        return self.place / "unmounted"

    @functools.cached_property
    def _agent(self) -> str:
        return str(self.root / "agent")

    @property
    def mounted(self) -> bool:
        return not os.path.exists(self.away)

    def run_folder(self, run_id: str) -> Path:
        return self.folders(run_id)[0]

    def has(self, run_id: str) -> bool:
        """Whether the folder of a run is there, and not what its job made anew after that was deleted."""
        return (self.run_folder(run_id) / "spec.json").exists()

    def folders(self, run_id: str) -> list[Path]:
        """Where files of a run may lie on its disks."""
        if run_id not in self._folders:
            names = (run_id, f"{run_id}{RENAMED}")
            self._folders[run_id] = [at / "runs" / name for name in names for at in (self.root, self.away)]
        return self._folders[run_id]

    @contextlib.contextmanager
    def computes(self) -> Iterator[None]:
        """Programs of this machine run."""
        before = getattr(here, "host", None)
        here.host = self
        agent_checkpoints._known.clear()  # noqa: SLF001  # every conversation is a process of its own
        try:
            yield
        finally:
            here.host = before

    def now(self) -> float:
        """What its clock shows; it may have been set."""
        with self.computes():
            return self.world.now()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request to a fresh agent; what crosses is JSON, as it is on the wire."""
        self.require()
        self.world.question()
        self.world.step()
        module, name = METHODS[method].split(":")
        answer_to = getattr(importlib.import_module(f"armada_agent.{module}"), name)
        with self.computes():
            os.makedirs(self._agent, exist_ok=True)  # as the bootstrap does
            try:
                answer = answer_to(Call(cast("Session", _Talk(self)), 1), json.loads(json.dumps(params)))
            except AgentError as error:
                data = {"kind": error.kind, "hint": error.hint}
                raise call_error({"message": error.message, "data": data}, method, host=self.name) from None
            except Killed:
                raise HostUnreachable(f"the agent on {self.name} was killed", host=self.name) from None
        self.world.step()
        self.require()
        told = cast("dict[str, Any]", _without(json.loads(json.dumps(answer)), self.forgets))
        for each in told["runs"] if method in self.misfits else ():
            each["exists"] = "perhaps"
        return told

    def read(self, run_id: str, path: str, offset: int, length: int) -> bytes:
        """A block of a file, by the agent's own rules of what may travel."""
        self.require()
        self.world.step()
        with self.computes():
            try:
                descriptor = readable_files.open_file(RunPaths(str(self.root), run_id), path)
            except AgentError as error:
                data = {"kind": error.kind, "hint": error.hint}
                raise call_error({"message": error.message, "data": data}, "file.read", host=self.name) from None
            try:
                return os.pread(descriptor, length, offset)
            finally:
                os.close(descriptor)

    def require(self) -> None:
        if not self.reachable:
            raise HostUnreachable(f"{self.name} does not answer", host=self.name)

    # What happens to it.

    @property
    def up_s(self) -> float:
        """Seconds since it was started: what its monotonic clock shows."""
        return self.world.clock - self.booted_at

    def start_anew(self) -> None:
        self.boot += 1
        self.booted_at = self.world.clock

    def power_cut(self, chance: Random | None = None) -> None:
        """Every process dies at once; the disk stays, but for what it did not have yet, where `chance` says so."""
        self.start_anew()
        if chance is not None:
            self.world.secretly_bad |= {(saved.run_id, saved.step) for saved in self.world.all_saved} - self._taken()
            self.world.written_back.tear(self.root, chance)
        for job in self.jobs:
            job.die(137)
        self.supervisions.clear()

    def _taken(self) -> set[tuple[str, int]]:
        """The runs and steps of the scripts' checkpoints that supervisors have noted."""
        records = ((run_id, read_record(RunPaths(str(self.root), run_id))) for run_id in self.world.run_ids)
        return {(run_id, entry["step"]) for run_id, record in records for entry in record["taken"]}

    def note_new_clock(self) -> None:
        """Living supervisors write their telemetry at the new time; of a job without one, no date says any more how long it lived."""
        for one in self.supervisions:
            one.note_telemetry()
        supervised = {one.run_id for one in self.supervisions}
        self.world.unseen |= {job.run_id for job in self.jobs if job.alive and job.run_id not in supervised}

    def snapshot(self) -> None:
        copy = self.place / f"snapshot-{len(self.snapshots)}"
        shutil.copytree(self.root, copy, symlinks=True)
        self.snapshots.append(copy)

    def restore(self) -> None:
        """What its provider does with a snapshot: the machine starts anew from the older disk."""
        self.power_cut()
        self.put_back()

    def put_back(self) -> None:
        """Its disk is the older one."""
        shutil.rmtree(self.root, ignore_errors=True)  # it may have been wiped
        shutil.copytree(self.snapshots[-1], self.root, symlinks=True)
        self.world.written_back.settle(self.root)

    def unmount(self) -> None:
        self.root.rename(self.away)

    def unmount_runs(self, *, linked: bool) -> None:
        """The folder of runs is a mount point of its own, or a link to a disk: what it shows then is empty, or is not there."""
        self.away.mkdir()
        runs = self.root / "runs"
        runs.rename(self.away / "runs")
        if linked:
            runs.symlink_to(self.place / "no disk")
        else:
            runs.mkdir(0o700)
        self.runs_away = True

    def mount(self) -> None:
        written, real = (
            {folder.name.removesuffix(RENAMED) for folder in (root / "runs").glob("*")}
            for root in (self.root, self.away)
        )
        self.hidden |= written - real
        if self.runs_away:
            self.runs_away = False
            self._mount_runs()
            return
        shutil.rmtree(self.root, ignore_errors=True)  # what was written beside is hidden below the mount
        self.away.rename(self.root)

    def _mount_runs(self) -> None:
        runs = self.root / "runs"
        if runs.is_symlink():
            runs.unlink()
        else:
            shutil.rmtree(runs, ignore_errors=True)
        self.root.mkdir(parents=True, exist_ok=True)  # it may have been wiped
        (self.away / "runs").rename(runs)
        self.away.rmdir()

    # What the agent's code is told, in place of what the kernel would say.

    def measure_disk(self, _path: str) -> SimpleNamespace:
        """Stands in for `os.statvfs`: one block of one byte is free while there is room."""
        count = sum(len(name) == 64 for at in self.root.glob("runs/*/outbox") for name in folders.names(str(at)))
        return SimpleNamespace(f_bavail=int(self.room is None or count <= self.room), f_frsize=1)

    def start_detached(self, command: str, paths: RunPaths, submission: int) -> None:
        with contextlib.suppress(Killed):  # it is a process of its own: whoever started it goes on
            if command == "supervise":
                Supervision.begin(self, paths, submission)
            elif command == "clear":
                self.clear(paths, submission)
            elif command == "finish" and self.finishes:
                orphans.finish(paths.root, paths.run_id, submission)

    def clear(self, paths: RunPaths, submission: int) -> None:
        from armada_agent.supervisor import cleanup

        for job in self.jobs_of(paths.run_id):
            job.die(143)
        with as_a_process(paths):
            cleanup.clear(paths.root, paths.run_id, submission)

    def end_leftovers(self, paths: RunPaths) -> None:
        for job in self.jobs_of(paths.run_id):
            job.die(143)

    def jobs_of(self, run_id: str) -> list[Job]:
        return [job for job in self.jobs if job.run_id == run_id and job.alive]

    def identify(self, pid: int) -> dict[str, Any]:
        told = {
            "hostname": self.name,
            "boot_id": f"boot-{self.boot}",
            "pid_namespace": "1",
            "init_start": str(self.boot),
        }
        return {**told, "pid": pid, "start_time": str(pid)}

    def processes(self) -> list[processes.Process]:
        found = []
        for job in self.jobs:
            if job.alive:
                marks = {processes.RUN_MARKER: job.run_id, processes.ROOT_MARKER: str(self.root)}
                marks[processes.ATTEMPT_MARKER] = job.environment[processes.ATTEMPT_MARKER]
                found.append(_process(job.pid, marks))
        for one in self.supervisions:
            marks = {processes.SUPERVISOR_MARKER: one.run_id, processes.ROOT_MARKER: str(self.root)}
            marks[processes.SUBMISSION_MARKER] = str(one.submission)
            found.append(_process(one.pid, marks))
        return found

    def judge(self, recorded: Any) -> tuple[str, bool]:
        """What `supervisor_liveness.judge_supervisor` says: alive, dead, and whether the machine was started anew since."""
        if not isinstance(recorded, dict) or recorded.get("boot_id") != f"boot-{self.boot}":
            return "dead", True
        lives = any(one.pid == recorded.get("pid") for one in self.supervisions)
        return ("alive" if lives else "dead"), False


@contextlib.contextmanager
def as_a_process(paths: RunPaths) -> Iterator[None]:
    """What holds the supervisor's lock until its process ends lets it go at the end of this block, however that comes."""
    held, lock = [], files.lock

    def take(path: str, timeout_s: float | None = None) -> int | None:
        descriptor = lock(path, timeout_s)
        if path == paths.supervisor_lock and descriptor is not None:
            held.append(descriptor)
        return descriptor

    with mock.patch.object(files, "lock", take):
        try:
            yield
        finally:
            for descriptor in held:
                os.close(descriptor)


def _process(pid: int, marks: dict[str, str]) -> processes.Process:
    return processes.Process(process_identity.Stat(pid, "S", 1, pid, str(pid)), marks)


def _without(answer: Any, names: frozenset[str]) -> Any:
    """Leave out what an older agent does not say."""
    if not names:
        return answer
    if isinstance(answer, list):
        return [_without(each, names) for each in answer]
    if isinstance(answer, dict):
        return {key: _without(value, names) for key, value in answer.items() if key not in names}
    return answer


class _Talk:
    """As much of an agent's session as its methods use."""

    def __init__(self, host: SimHost) -> None:
        self.root = str(host.root)
        self.agent_path = "agent.pyz"


def current() -> SimHost:
    return cast("SimHost", here.host)


class _Measuring:
    """Stands in for `os` where a disk is measured."""

    statvfs = staticmethod(lambda path: current().measure_disk(path))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _Hiding:
    """Stands in for the listing of checkpoints where a supervisor measures progress and an agent observes, or lists outputs."""

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def list_finished(self, paths: RunPaths) -> Any:
        if getattr(current(), self._flag):
            raise OSError(errno.EIO, "Input/output error", paths.outbox)
        return agent_checkpoints.list_finished(paths)

    def __getattr__(self, name: str) -> Any:
        return getattr(agent_checkpoints, name)


def start_job(paths: RunPaths, argv: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Stands in for `armada_agent.supervisor.job.start`."""
    host = current()
    job = Job(host, paths.run_id, argv, environment)
    host.jobs.append(job)
    host.world.job_started(job)
    return cast("subprocess.Popen[bytes]", job)


def write_at_the_worlds_time(journal: Journal, path: str, value: dict[str, Any]) -> None:
    """Stands in for `Journal.write_json`: a file's time is its machine's."""
    _write_json(journal, path, value)
    host = current()
    now = host.world.clock + host.clock_offset
    with contextlib.suppress(FileNotFoundError):
        os.utime(path, (now, now))


class _InTurn:
    """Stands in for a pool of threads: one thread does everything, because who computes is a matter of the thread."""

    def __init__(self, max_workers: int) -> None:
        """It has no workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to be done."""

    map = staticmethod(map)


def stand_ins() -> list[tuple[Any, str, Any]]:
    """(module, name, what takes its place) while a world exists."""
    from armada_agent.engines import engine
    from armada_agent.host import detached
    from armada_agent.runs import arrays, leftover_processes, submissions, supervisor_liveness, sweeps
    from armada_agent.supervisor import batch, cleanup, job

    from tests.simulation.cluster import BatchSupervision, WorkersTime, controller

    return [
        (detached, "start", lambda command, _agent, paths, number: current().start_detached(command, paths, number)),
        (processes, "scan", lambda: current().processes()),
        (supervisor_liveness, "judge_supervisor", lambda _paths, recorded: current().judge(recorded)),
        (process_identity, "identify", lambda pid=0: current().identify(pid or current().world.supervisor_pid)),
        (process_identity, "current_host", lambda: current().identify(0)),
        (
            process_identity,
            "moment",
            lambda: {"boot": f"{current().name} {current().boot}", "seconds": current().up_s},
        ),
        (process_identity, "judge", lambda recorded: current().judge(recorded)[0]),
        (job, "start", start_job),
        (files, "time_beside", lambda _path: current().now()),
        (inventory, "changed_ns", lambda found: found.st_mtime_ns),  # an inode's times are the real machine's
        (Journal, "write_json", write_at_the_worlds_time),
        (processes, "sweep", lambda find, *_: current().world.end_processes(find())),
        (cleanup, "_ask", lambda *_: 0.0),
        (thinning, "os", _Measuring()),
        (progress, "listing", _Hiding("hides_checkpoints")),
        (observation, "listing", _Hiding("hides_checkpoints")),
        (outputs, "listing", _Hiding("hides_outputs")),
        (sweeps, "ThreadPoolExecutor", _InTurn),
        (arrays, "ThreadPoolExecutor", _InTurn),
        (leftover_processes, "start_ending", lambda _agent, paths, _grace_s: current().end_leftovers(paths)),
        (os, "fork", lambda: 0),
        (os, "nice", lambda _by: 0),
        (os, "umask", lambda _mask: 0),
        (supervise, "_PREDECESSOR_S", 0.0),
        (engine, "run_tool", lambda *words, **more: controller().run_tool(*words, **more)),
        (engine, "run_tool_aloud", lambda *words, **more: controller().run_tool_aloud(*words, **more)),
        (batch.BatchSupervisor, "run", lambda real: BatchSupervision.take_up(real)),  # noqa: PLW0108  # so that it is a method
        (batch, "time", WorkersTime()),
        (signal, "signal", lambda *_: None),
        (submissions, "_TAKE_UP_S", 0.1),
    ]
