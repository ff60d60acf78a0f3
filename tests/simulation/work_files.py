"""What jobs write besides checkpoints: results, notes, logs. The truth about it, and what must hold of it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada_agent.provision import content, integrity

from tests.simulation import folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.home import SimHome
    from tests.simulation.host import SimHost
    from tests.simulation.supervising import Job
    from tests.simulation.world import World

RESULT = "work/results/a.csv"
"""`launch+results` names it."""
ELSEWHERE = "work/elsewhere/c.csv"
BESIDE = ("model.pt", "checkpoints/mine.pt")
"""What a script puts into `$ARMADA_RUN_DIR`, the second in a folder that a training of armada's own has there."""
PLACES = (RESULT, "work/notes.txt", "work/results/b.csv", ELSEWHERE, "work/train.py", *BESIDE)
"""Where jobs write. `ELSEWHERE` lies behind a link to a folder outside of the root; `work/train.py` is code that was sent."""
LONG_AGO = 1_500_000_000.0
"""The time of what a job unpacked, or copied with its time."""

Content = tuple[str, bytes]
"""A run, and what it wrote: no two of its writings are alike."""


class WorkFiles:
    """What the jobs of one world wrote besides checkpoints.

    Attributes:
        everything: All of it that no job has written over since, but for lines of logs.
        lines: Lines of logs.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._count = 0
        self.everything: set[Content] = set()
        self.lines: set[Content] = set()

    def next_line(self, job: Job) -> str:
        """The next line of a job's log; it is like no other."""
        self._count += 1
        line = f"step {job.step} of {job.pid}: {self._count}"
        self.lines.add((job.run_id, line.encode() + b"\n"))
        return line

    def write(self, job: Job, path: str, *, is_old: bool = False) -> None:
        """A job writes a file, or writes it anew. `is_old`: it keeps the time of its origin, or that of the file it replaces."""
        if not (job.folder / "work").is_dir() or (path in BESIDE and not job.script):
            return
        job.host.oddities.add("unnamed")
        place = job.folder / path
        if path.startswith("work/elsewhere/"):
            self._elsewhere(job.host, job.run_id).mkdir(parents=True, exist_ok=True)
            if not place.parent.is_symlink():
                place.parent.symlink_to(self._elsewhere(job.host, job.run_id))
        place.parent.mkdir(parents=True, exist_ok=True)
        self._count += 1
        content = b"%s wrote %06d" % (job.run_id.encode(), self._count)
        self.everything.discard((job.run_id, folders.read(str(place))))
        old = place.stat().st_mtime if place.exists() else LONG_AGO + self._count
        place.write_bytes(content)
        now = self._world.now() if job.host.clock_offset == 0.0 else self._world.clock + job.host.clock_offset
        os.utime(place, (old, old) if is_old else (now, now))
        self.everything.add((job.run_id, content))

    def surviving(self) -> set[Content]:
        """All files and lines that lie somewhere: on a disk of a host, or in what a home has of the run."""
        found: set[Content] = set()
        for run_id in {run_id for run_id, _ in self.everything | self.lines}:
            there = set[bytes]()
            for host in self._world.hosts.values():
                there |= self._on_host(host, run_id)
                there |= {line for at in host.folders(run_id) for line in _lines(f"{at}/output.log")}
            for home in self._world.homes.values():
                there |= self.at_home(home, run_id)
            found |= {(run_id, content) for content in there}
        return found & (self.everything | self.lines)

    @contextlib.contextmanager
    def by_others(self) -> Iterator[None]:
        """Around what persons, jobs and machines do while armada acts: what they destroy, armada did not."""
        before = self.surviving()
        yield
        gone = before - self.surviving()
        self.everything -= gone
        self.lines -= gone

    def hold_kept(self, before: set[Content]) -> None:
        """What lay somewhere before an act of armada's does so after it, but for what its job wrote over."""
        lost = (before - self.surviving()) & (self.everything | self.lines)
        self._world.hold(not lost, f"armada destroyed the last copy of {sorted(lost)[:3]}")

    def at_home(self, home: SimHome, run_id: str) -> set[bytes]:
        """Files and lines of logs that a home has of a run."""
        if not any(each == run_id for each, _ in self.everything | self.lines):
            return set()
        found = set[bytes]()
        for path in folders.listing(home.kept(run_id)):
            if "/.staging" in path:
                continue  # it never came
            found |= set(_lines(path)) if "output.log" in os.path.basename(path) else {folders.read(path)}
        return found

    def only_on(self, host: SimHost, home: SimHome, run_id: str) -> list[bytes]:
        """What a host's disk has of a run's files that a home lacks. Where its log was cut, its middle is said."""
        mine = {content for each, content in self.everything if each == run_id}
        return sorted((self._on_host(host, run_id) & mine) - self.at_home(home, run_id)) if mine else []

    def named_only_on(self, host: SimHost, home: SimHome, run_id: str) -> list[bytes]:
        """The same of results that the run's experiment names."""
        there = {folders.read(f"{host.run_folder(run_id)}/{path}") for path in PLACES if "/results/" in path}
        mine = {content for each, content in self.everything if each == run_id}
        return sorted((there & mine) - self.at_home(home, run_id))

    def _elsewhere(self, host: SimHost, run_id: str) -> Path:
        return host.place / "scratch" / run_id

    def _on_host(self, host: SimHost, run_id: str) -> set[bytes]:
        if not any(each == run_id for each, _ in self.everything):
            return set()
        places = set[str]()
        for folder in map(str, host.folders(run_id)):
            places |= folders.listing(f"{folder}/work") | folders.listing(f"{folder}/left")
            places |= {f"{folder}/{path}" for path in (ELSEWHERE, *BESIDE)}
        return {folders.read(path) for path in places}


def _lines(path: str) -> list[bytes]:
    return [line for line in folders.read(path).splitlines(keepends=True) if line.endswith(b"\n")]


def put_code(host: SimHost) -> str:
    """Put code onto a host, as a launch sends it; return its folder there."""
    new = host.root / "code" / ".new"
    shutil.rmtree(new, ignore_errors=True)
    (new / "lib").mkdir(parents=True)
    manifest: list[integrity.Entry] = []
    for name in ("lib/data.py", "train.py"):
        (new / name).write_text(f"# {name}")
        manifest.append((name, (new / name).stat().st_size, integrity.hash_file(str(new / name)), 0o644))
    folder = new.with_name(integrity.digest(manifest))
    if not folder.exists():
        new.rename(folder)
        integrity.note(content.record_path(str(folder)), str(folder), manifest)
    return str(folder)


class Writing:
    """What a teller can tell of what jobs write, of what becomes of it at home, and of runs that are removed."""

    world: World
    said: str
    _events: int

    def _home(self, number: int) -> SimHome:
        raise NotImplementedError

    def _job(self, number: int) -> Any:
        raise NotImplementedError

    def _on_run(self, one: int, two: int, act: Callable[[SimHome, str], None]) -> None:
        raise NotImplementedError

    def do_note(self, one: int, two: int) -> None:
        """A job writes a result that its experiment may name, or notes, or one more; or into a folder elsewhere, through a link."""
        if job := self._job(one):
            self.world.work_files.write(job, PLACES[two % len(PLACES)])

    def do_unpack(self, one: int, two: int) -> None:
        """The same with the time of long ago, and, in the place of the result, code that was sent."""
        if job := self._job(one):
            self.world.work_files.write(job, PLACES[(1 + two) % len(PLACES)], is_old=True)

    def do_delete_output(self, one: int, two: int) -> None:
        """Somebody deletes a result of a run that a home has."""
        for place in self._outputs(one, two):
            os.unlink(place)

    def do_damage_output(self, one: int, two: int) -> None:
        """A byte of it is another one; size and times are as they were."""
        for place in self._outputs(one, two):
            data, status = folders.read(place), os.lstat(place)
            Path(place).write_bytes(bytes(each ^ 1 for each in data[:1]) + data[1:])
            os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))

    def do_rm(self, one: int, two: int) -> None:
        """As `armada rm RUN`: nobody said that anything may be lost."""

        def remove(home: SimHome, run_id: str) -> None:
            events = self._events
            home.remove(run_id)
            self.said = "removed"
            if events == self._events:  # else somebody did something meanwhile
                is_there = any(host.run_folder(run_id).exists() for host in self.world.hosts.values())
                waits = is_there and self.world.knowably_waits(run_id)
                lives = self.world.alive(run_id) or waits
                self.world.hold(not lives, f"{home.name} forgot {run_id}, and its job lives or waits")

        self._on_run(one, two, remove)

    def _outputs(self, one: int, two: int) -> list[str]:
        home = self._home(one)
        places = [
            path
            for run_id in self.world.run_ids
            for path in sorted(folders.listing(f"{home.kept(run_id)}/outputs/work"))
        ]
        return places[two % len(places) :][:1] if places else []
