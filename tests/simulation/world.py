"""The world and its truth: what was saved, where it lies, who lives. After each step its invariants are held against it."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

from armada_agent.outbox import orphans

from armada.launch import stop as stopping
from armada.store.checkpoints import NEVER_CAME
from armada.sync.checkpoints import proof
from armada.sync.transfer.staging import read_right
from tests.simulation import folders
from tests.simulation import host as hosts
from tests.simulation.breaking import Breaking, Killed
from tests.simulation.cluster import SimCluster
from tests.simulation.disks import WrittenBack
from tests.simulation.home import SimHome, new_home
from tests.simulation.host import Scheduler, SimHost
from tests.simulation.idling import Idling
from tests.simulation.supervising import Job
from tests.simulation.work_files import WorkFiles

GUESSED = ("gone",)
"""Reasons of ends that armada itself calls a guess."""


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True)
class Saved:
    """One checkpoint that a job wrote whole."""

    run_id: str
    step: int
    model: bytes


class World:
    """Machines and homes in a folder.

    Args:
        folder: On a file system in memory, best.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = self.begun_at = 1_800_000_000.0
        self.hosts: dict[str, SimHost] = {}
        self.homes: dict[str, SimHome] = {}
        self.run_ids: list[str] = []
        self.all_saved: list[Saved] = []
        self.well_done: set[str] = set()
        self.silent: set[str] = set()  # their supervisors did nothing for a day or more while their jobs lived
        self.unseen: set[str] = set()  # their supervisors died after their jobs, and had not noticed
        self.with_optimizer: set[str] = set()
        """Runs whose checkpoints have an optimizer state; home wants only the newest's."""
        self.keeps_last: dict[str, int] = {}
        self.secretly_bad: set[tuple[str, int]] = set()
        self.root_was_lost = False
        """A power cut, or an older disk, may have taken the name of a root: then a run that is not there may be elsewhere."""
        self.names_results: set[str] = set()
        self.begins_anew: set[str] = set()
        """Runs whose plan does not say how to resume."""
        self.begun: Counter[str] = Counter()
        """How many jobs of each run were ever started."""
        self.files_read = 0
        """By homes, to prove checkpoints."""
        self.records_broken = False
        """Something else than armada wrote into its records."""
        self.supervisor_pid = 0
        self.home_clock_offset = 0.0
        self.written_back = WrittenBack()
        self.idling = Idling(self)
        self.work_files = WorkFiles(self)
        self._breaking = Breaking(self.written_back)
        self._gone_by_itself: dict[str, set[str]] = {}
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for module, name, instead in self.stand_ins():
            self._patches.enter_context(mock.patch.object(module, name, instead))
        self._patches.enter_context(mock.patch.object(time, "time", self.now))
        self._patches.enter_context(mock.patch.object(proof, "read_right", self._counted(read_right)))
        waiting = SimpleNamespace(monotonic=self.now, time=self.now, sleep=self.tick)
        self._patches.enter_context(mock.patch.object(stopping, "time", waiting))
        # What finishes another's checkpoints waits on its host, where nothing else may happen in the middle of its turn.
        self._patches.enter_context(mock.patch.object(orphans, "time", SimpleNamespace(sleep=self._pass)))
        self._patches.enter_context(mock.patch.dict(os.environ, {"KEY": "canary"}))
        return self

    def __exit__(self, *_: object) -> None:
        for home in self.homes.values():
            home.close()
        self._patches.close()

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """(module, name, what takes its place) while this world exists."""
        of_hosts = [*hosts.stand_ins(), *self._breaking.stand_ins(), *self.written_back.stand_ins()]
        return [*of_hosts, *self.idling.stand_ins()]

    def now(self) -> float:
        """What the clock shows of the machine that computes, or of all homes; it may have been set."""
        self.clock += 0.001
        computing = getattr(hosts.here, "host", None)
        return self.clock + (self.home_clock_offset if computing is None else computing.clock_offset)

    def break_off(self, after: int) -> None:
        """End whatever of armada's computes before its so many steps are done."""
        self._breaking.doom = after

    def interrupt_with(self, after: int, what: Callable[[], None], *, at_step: bool = False) -> None:
        self._breaking.interrupt_with(after, what, at_step=at_step)

    def be_calm(self) -> None:
        """Nothing that was announced happens any more, and homes' clocks are right; no verdict may wait for a host's to be."""
        self._breaking.calm()
        self.home_clock_offset = 0.0

    def step(self) -> None:
        self._breaking.step()

    def question(self) -> None:
        self._breaking.question()

    def add_host(self, name: str) -> SimHost:
        self.hosts[name] = SimHost(self, name, self.folder / name)
        self.hosts[name].root.mkdir(parents=True)
        return self.hosts[name]

    def add_cluster(self, name: str, scheduler: Scheduler) -> SimCluster:
        cluster = SimCluster(self, name, self.folder / name, scheduler)
        self.hosts[name] = cluster
        cluster.root.mkdir(parents=True)
        return cluster

    def add_home(self, name: str) -> SimHome:
        self.homes[name] = new_home(self, name, self.folder / name)
        return self.homes[name]

    def copy_home(self, home: SimHome, name: str) -> SimHome:
        home.close()
        folders.copy(home.place, self.folder / name)
        self.homes[name] = copy = SimHome(
            self, name, self.folder / name, was_damaged=home.was_damaged, was_killed=home.was_killed
        )
        copy.inherited = home.fetched | home.inherited
        return self.homes[name]

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*words: Any) -> Any:
            self.files_read += 1
            return real(*words)

        return counting

    def _pass(self, seconds: float) -> None:
        self.clock += seconds

    def tick(self, seconds: float = 1.0) -> None:
        """Supervisors get on."""
        self.clock += seconds
        for host in self.hosts.values():
            for one in list(host.supervisions):
                if one not in host.supervisions:  # its batch system ended it when the one before it left
                    continue
                with host.computes():
                    self.supervisor_pid = one.pid
                    try:
                        one.step()
                    except Killed:
                        one.die()

    def end_processes(self, found: list[Any]) -> None:
        """Signal what the process table showed."""
        pids = {process.pid for process in found}
        for host in self.hosts.values():
            for job in host.jobs:
                if job.pid in pids:
                    job.die(137)

    # What is true.

    def saved(self, job: Job, content: dict[str, bytes]) -> None:
        self.all_saved.append(Saved(job.run_id, job.step, content["model.bin"]))

    def alive(self, run_id: str) -> list[Job]:
        return [job for host in self.hosts.values() for job in host.jobs_of(run_id)]

    def supervised(self, run_id: str) -> bool:
        return any(one.run_id == run_id for host in self.hosts.values() for one in host.supervisions)

    def untaken(self, run_id: str) -> bool:
        """Whether its newest submission was claimed, and whoever should have taken it up was ended before: nothing of it ever lived."""
        claimed = [
            (int(number), f"{at}/submissions/{number}")
            for host in self.hosts.values()
            for at in host.folders(run_id)
            for number in folders.names(f"{at}/submissions")
            if os.path.exists(f"{at}/submissions/{number}/claim.json")
        ]
        return bool(claimed) and not os.path.exists(f"{max(claimed)[1]}/job.json")

    def waits(self, run_id: str) -> bool:
        return any(host.waits(run_id) for host in self.hosts.values())

    def knowably_waits(self, run_id: str) -> bool:
        return any(host.waits(run_id) and not host.misreports(run_id) for host in self.hosts.values())

    def is_anywhere(self, run_id: str) -> bool:
        """Whether a run's folder is on some disk, under its name: a job that starts without it does nothing."""
        there = [folder for host in self.hosts.values() for folder in host.folders(run_id)]
        return any(folder.exists() and folder.name == run_id for folder in there)

    def on_hosts(self, run_id: str, *, finished: bool = False) -> set[bytes]:
        """Models of a run that lie whole on some disk of a host; only under a manifest, where `finished`.

        Not what a job has yet to announce, or what a power cut made that again: the job's next save clears it away.
        Not what was being deleted: no one reads it there, and the next deletion clears away what is left of it.
        """
        return folders.models(self._places_on_hosts(run_id, finished=finished))

    def _places_on_hosts(self, run_id: str, *, finished: bool = False) -> list[str]:
        places: list[str] = []
        for host in self.hosts.values():
            for folder in map(str, host.folders(run_id)):
                outbox, out, left = f"{folder}/outbox", f"{folder}/work/out", f"{folder}/left"
                if finished and folder.endswith(hosts.RENAMED):
                    continue  # armada takes it for none of its own
                if finished:
                    places += [f"{outbox}/{name}" for name in folders.names(outbox) if len(name) == 64]
                    continue
                places += [
                    f"{outbox}/{name}" for name in folders.names(outbox) if not name.startswith((".part-", ".trash-"))
                ]
                places += [f"{out}/{name}" for name in folders.names(out)]
                outs = [f"{left}/{number}/out" for number in folders.names(left)]
                places += [f"{each}/{name}" for each in outs for name in folders.names(each)]
        return places

    def at_home(self, home: SimHome, run_id: str) -> set[bytes]:
        return folders.models(self._places_at_home(home, run_id))

    def _places_at_home(self, home: SimHome, run_id: str) -> list[str]:
        folder = home.checkpoints(run_id)
        return [f"{folder}/{name}" for name in folders.names(folder) if not name.startswith(".")]

    def newest_complete(self) -> dict[str, int]:
        """The step of the newest checkpoint that lies somewhere with its optimizer state, of each run that saves them."""
        found: dict[str, int] = {}
        for run_id in self.with_optimizer:
            places = self._places_on_hosts(run_id)
            for home in self.homes.values():
                places += self._places_at_home(home, run_id)
            found[run_id] = self._newest(run_id, places)
        return found

    def _newest(self, run_id: str, places: list[str]) -> int:
        complete = folders.complete(places)
        return max((s.step for s in self.all_saved if s.run_id == run_id and s.model in complete), default=0)

    def _all_at(self, home: SimHome) -> set[bytes]:
        """What a home has whole; not looked up where nobody asked for anything."""
        return {model for run_id in self.run_ids for model in self.at_home(home, run_id)} if home.wanted else set()

    def surviving(self) -> set[Saved]:
        """Every checkpoint that lies whole somewhere."""
        there: dict[str, set[bytes]] = {}
        for run_id in {saved.run_id for saved in self.all_saved}:
            there[run_id] = self.on_hosts(run_id)
            for home in self.homes.values():
                there[run_id] |= self.at_home(home, run_id)
        return {saved for saved in self.all_saved if saved.model in there[saved.run_id]}

    def finished_on_hosts(self, run_id: str) -> set[Saved]:
        there = self.on_hosts(run_id, finished=True)
        return {saved for saved in self.all_saved if saved.run_id == run_id and saved.model in there}

    def owed(self, home: SimHome) -> set[Saved]:
        """What lies on hosts, of runs that a home has registered for, and it has not fetched."""
        there = {saved for run_id in home.registered for saved in self.finished_on_hosts(run_id)}
        return {saved for saved in there if saved.model not in home.fetched}

    def fetched_by(self, name: str) -> set[Saved]:
        return {saved for saved in self.all_saved if saved.model in self.homes[name].fetched}

    def forget_words(self) -> None:
        """A host's disk is another, or an older one: which homes had registered is gone with it."""
        for home in self.homes.values():
            home.registered.clear()

    # What must hold.

    def job_started(self, job: Job) -> None:
        self.begun[job.run_id] += 1
        others = [other for other in self.alive(job.run_id) if other is not job and not job.host.has_given_up(other)]
        self.hold(not others, f"a second job of {job.run_id} was started beside one that lives")
        self.hold(job.environment.get("KEY") == "canary", f"a job of {job.run_id} was started without its secret")
        # What a power cut tore before a supervisor had noted it, or what a disk changed, looks as if it were whole.
        if job.origin is not None and (job.run_id, job.resumed_from) not in self.secretly_bad:
            is_whole = folders.model(job.origin) in {s.model for s in self.all_saved if s.run_id == job.run_id}
            self.hold(is_whole, f"{job.run_id} went on from {job.origin}, which is not whole")
        # Where a clock was set, times of files say nothing of what was whole.
        if job.script and job.run_id not in self.begins_anew | self.silent and not job.host.clock_was_set:
            newest = max(
                (s.step for s in self.all_saved if s.run_id == job.run_id and s.model in self.on_hosts(job.run_id)),
                default=0,
            )
            self.hold(
                (job.resumed_from or 0) >= newest, f"{job.run_id} went on from {job.resumed_from}, {newest} lies there"
            )

    def hold(self, holds: bool, words: str) -> None:
        if not holds:
            raise Broken(words)

    @contextlib.contextmanager
    def person_acts(self) -> Iterator[None]:
        """Around what a person has armada do whatever is lost: it may be broken off, too, and others may act meanwhile."""
        self._breaking.depth += 1
        try:
            yield
        finally:
            self._breaking.depth -= 1

    @contextlib.contextmanager
    def armada_acts(self, home: SimHome) -> Iterator[None]:
        """Around whatever armada does of its own: no last good copy goes, nothing outside the home, nothing that another home waits for."""
        # What it deletes of its own concerns those alone beside whose act it acts.
        mine = home.listing() if self._breaking.depth else set()
        home.wanted &= self._all_at(home)
        before, count = self.surviving(), len(self.all_saved)
        files_before = self.work_files.surviving()
        resumable = self.newest_complete()
        others = {other.name: other.listing() for other in self.homes.values() if other is not home}
        owed = {other.name: self.owed(other) for other in self.homes.values() if other is not home}
        self._breaking.depth += 1
        try:
            yield
        finally:
            self._breaking.depth -= 1
        if mine:
            self._gone_by_itself.setdefault(home.name, set()).update(mine - home.listing())
        self.hold(home.wanted <= self._all_at(home), f"{home.name} deleted what a person had asked it for by name")
        after = self.surviving()
        for run_id in home.registered:
            home.fetched |= self.at_home(home, run_id)
        for name, expected in owed.items():
            there = {saved for run_id in {s.run_id for s in expected} for saved in self.finished_on_hosts(run_id)}
            taken = {s for s in expected - there if s.run_id in self.homes[name].registered}
            taken = {s for s in taken if s.model not in self.homes[name].fetched}  # it may have come while we waited
            taken = {saved for saved in taken if not self._is_surplus(saved, there | self.fetched_by(name))}
            taken = {saved for saved in taken if not self._had_no_room(saved)}
            self.hold(not taken, f"{home.name} deleted what {name} has not fetched: {sorted(s.step for s in taken)}")
        lost = {saved for saved in before - after if not self._is_surplus(saved, after)}
        lost = {saved for saved in lost if not self._had_no_room(saved)}
        # Two jobs of one run, where a batch system believes one of them dead, may write to the same folder.
        written = {(saved.run_id, saved.step) for saved in self.all_saved[count:]}
        lost = {saved for saved in lost if (saved.run_id, saved.step) not in written}
        self.hold(not lost, f"armada destroyed the last good copy of {sorted((s.run_id, s.step) for s in lost)}")
        self.work_files.hold_kept(files_before)
        for run_id, step in self.newest_complete().items():
            is_less = step < resumable.get(run_id, 0) and not written
            self.hold(
                not is_less, f"armada deleted the newest optimizer state of {run_id}: step {resumable.get(run_id)}"
            )
        for name, listed in others.items():
            gone = listed - self.homes[name].listing() - self._gone_by_itself.get(name, set())
            self.hold(not gone, f"{home.name} deleted files of {name}: {sorted(gone)[:3]}")
        if not self._breaking.depth:
            self._gone_by_itself.clear()

    def _is_surplus(self, saved: Saved, after: set[Saved]) -> bool:
        """Whether the run's own rules let a checkpoint go: as many later ones as they keep are whole."""
        kept = self.keeps_last.get(saved.run_id)
        later = [
            other for other in after if other.run_id == saved.run_id and other != saved and other.step >= saved.step
        ]
        return kept is not None and len(later) >= kept

    def _had_no_room(self, saved: Saved) -> bool:
        """Whether a host had to free its disk: then the oldest and the newest stay there, and the best."""
        if all(host.room is None for host in self.hosts.values()):
            return False
        there = self.finished_on_hosts(saved.run_id)
        of_run = [each for each in self.all_saved if each.run_id == saved.run_id]
        place = of_run.index(saved)
        return any(each in there for each in of_run[:place]) and any(each in there for each in of_run[place + 1 :])

    def check_state(self, home: SimHome, run_id: str, state: str, reason: str | None) -> None:
        """After a look that was answered just now."""
        lives = bool(self.alive(run_id))
        if state in ("succeeded", "failed", "cancelled"):
            self.hold(not lives, f"{home.name} says that {run_id} is {state} ({reason}), and its job runs")
            stopped = state == "cancelled" and any(host.is_stopped(run_id) for host in self.hosts.values())
            self.hold(
                reason in GUESSED or stopped or not self.knowably_waits(run_id) or not self.is_anywhere(run_id),
                f"{home.name} says that {run_id} is {state} ({reason}), and its job waits to be started",
            )
        elif state in ("running", "queued", "submitted"):
            # An answer without a time may be a late one; an end that is recorded in part is completed, once a minute is tried.
            may_be_late = any("moment" in host.forgets or host.is_ending(run_id) for host in self.hosts.values())
            self.hold(
                may_be_late or self.untaken(run_id) or lives or self.supervised(run_id) or self.waits(run_id),
                f"{home.name} says that {run_id} is {state} ({reason}), and nothing of it lives",
            )

    def check_release(self, home: SimHome, host: SimHost) -> None:
        """After armada said that a host can be destroyed."""
        known = home.known()
        for run_id in {job.run_id for job in host.jobs}:
            if run_id not in known and not host.run_folder(run_id).exists():
                continue  # of another home, and its folder lies on a disk that is away, or was hidden by one
            there = {
                folders.read(f"{folder}/outbox/{name}/model.bin")
                for folder in host.folders(run_id)
                for name in folders.names(f"{folder}/outbox")
                if len(name) == 64
            }
            good = {saved.model for saved in self.all_saved if saved.run_id == run_id}
            alone = (there & good) - self.at_home(home, run_id)
            here = {s for s in self.all_saved if s.model in self.at_home(home, run_id)}
            lost = {s.step for s in self.all_saved if s.model in alone and not self._is_surplus(s, here)}
            self.hold(not lost, f"{home.name} would let {host.name} go, which alone has {lost}")
            alone_has = self.work_files.only_on(host, home, run_id)
            self.hold(not alone_has, f"{home.name} would let {host.name} go, which alone has {alone_has}")
            if run_id in self.with_optimizer:
                at = [
                    f"{folder}/outbox/{n}" for folder in host.folders(run_id) for n in folders.names(f"{folder}/outbox")
                ]
                newest = self._newest(run_id, [place for place in at if len(os.path.basename(place)) == 64])
                is_home = self._newest(run_id, self._places_at_home(home, run_id)) >= newest
                self.hold(
                    is_home, f"{home.name} would let {host.name} go, which alone has an optimizer state: {newest}"
                )
            log = folders.read(str(host.run_folder(run_id) / "output.log"))
            self.hold(
                folders.read(f"{home.kept(run_id)}/outputs/output.log").startswith(log),
                f"the log of {run_id} is not home",
            )
            # An older agent does not tell of processes whose folder was removed; none answers a home of this release.
            is_hidden = "remains" in host.forgets and not host.has(run_id)
            self.hold(is_hidden or not host.jobs_of(run_id), f"{run_id} runs on {host.name}")
            queued = host.waits(run_id) and not host.misreports(run_id)
            self.hold(not queued or not self.is_anywhere(run_id), f"a job of {run_id} waits on {host.name}")
            for other in self.homes.values() if host.mounted else ():
                waits = {s for s in self.owed(other) if s.run_id == run_id} if other is not home else set()
                had = self.finished_on_hosts(run_id) | self.fetched_by(other.name)
                left = {s.step for s in waits if not self._is_surplus(s, had)}
                self.hold(not left, f"{home.name} would let {host.name} go, and {other.name} has not fetched {left}")

    def check_final(self, home: SimHome, run_id: str) -> None:
        """After armada said that all of a run is home."""
        self.hold(
            home.has_seen_end(run_id), f"all of {run_id} is home, says {home.name}, and knows that it was resumed"
        )
        self._check_reasons(home, run_id)
        missing = home.missing(run_id)
        self.hold(not missing, f"all of {run_id} is home, says {home.name}, and nothing is said of step {missing}")
        here = self.at_home(home, run_id)
        # What a power cut tore before it was announced is as good as any to armada.
        torn = (
            {s for s in self.all_saved if s.model not in here | self.on_hosts(run_id)} if self.root_was_lost else set()
        )
        published = {at.name for at in home.published(run_id)}
        whole = {s for s in self.all_saved if s.model in here or (s in torn and f"checkpoint-{s.step}" in published)}
        alone = self.on_hosts(run_id, finished=True) - here
        left = {s.step for s in self.all_saved if s.model in alone and not self._is_surplus(s, whole)}
        self.hold(not left, f"all of {run_id} is home, says {home.name}, and step {sorted(left)} lies on a host only")
        is_named = run_id in self.names_results
        results = self.work_files.named_only_on(home.host_of(run_id), home, run_id) if is_named else []
        self.hold(not results, f"all of {run_id} is home, says {home.name}, and {results} lie on its host only")

    def _check_reasons(self, home: SimHome, run_id: str) -> None:
        """What is called lost before it came never was here, and what is called lost here was."""
        came = {s.step for s in self.all_saved if s.run_id == run_id and s.model in home.fetched | home.inherited}
        for step, why in home.reasons(run_id).items():
            if why == NEVER_CAME:
                # What a sync that was killed had published and not recorded, and somebody deleted then, nobody knows of.
                unknown = home.was_killed and home.was_damaged
                words = f"{home.name} says that step {step} of {run_id} never came, and it did"
                self.hold(unknown or step not in came, words)
            elif not home.was_restored:
                self.hold(step in came, f"{home.name} says that step {step} of {run_id} was here, and it never was")


def any_of(items: list[Any], number: int) -> Any:
    """One of a list by a number that a story says; None of an empty one."""
    return items[number % len(items)] if items else None
