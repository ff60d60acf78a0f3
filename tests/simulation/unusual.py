"""Rarer things that happen to hosts, and questions about what lies where: what stories of one condition of the core need."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, Conflict
from armada.verdicts.release import may_go, must_stay
from tests.simulation import folders
from tests.simulation.answers import of_release
from tests.simulation.breaking import Killed
from tests.simulation.host import RENAMED
from tests.simulation.words import knows_disk
from tests.simulation.work_files import Writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.simulation.home import SimHome
    from tests.simulation.host import SimHost

_OLDER = (
    "may_have_succeeded",
    "moment",
    "written_at",
    "remains",
    "wiped",
    "submission",
    "scheduler",
    "id",
    "job",
    "root",
)
"""Fields that agents of earlier releases did not know."""

_WHOLE = ".MANIFEST.json.whole"
_BROKEN = (b"{", b"[]", b"null", b"{}")
_WATCHES: tuple[dict[str, Any], ...] = (
    {"looks": "gone"}, {"since": "x", "still": "x"}, {"changed": "y"}, {"word": 7}, {"since": 1e12}, {"sign": "gone"},
)  # fmt: skip
_LOG_RECORDS: tuple[dict[str, Any], ...] = (
    {"offset": "x"}, {"offset": -5}, {"seen": []}, {"seen": {"state": "no state"}}, {"offset": 1 << 40},
    {"inode": 1}, {"last": "other"}, {"last": 7},
    {"offset": -5, "last": ""}, {"offset": 1 << 40, "last": ""}, {"last": ""},
)  # fmt: skip
"""What may stand in such records instead; `gone`: the field is missing."""


class Unusual(Writing):
    """What a teller can also tell."""

    def _host(self, number: int) -> SimHost:
        raise NotImplementedError

    def _published(self, one: int, two: int) -> list[Path]:
        raise NotImplementedError

    def _act(self, home: SimHome | None, act: Callable[[], None]) -> None:
        raise NotImplementedError

    # Disks.

    def do_fill_disk(self, one: int, two: int) -> None:
        """From now on a host's disk has room for a few finished checkpoints."""
        self._host(two).room = one

    def do_clear_disk(self, _one: int, two: int) -> None:
        self._host(two).room = None

    def do_unmount_runs(self, one: int, two: int) -> None:
        """The folder of runs of a host's root, a mount point (0) or a link to another disk (1), has that disk no longer."""
        if (host := self._host(two)).mounted and (host.root / "runs").exists():
            host.unmount_runs(linked=bool(one))

    def do_unmount_home(self, one: int, two: int) -> None:
        """The folder of runs at home, a mount point (0) or a link to another disk (1), has that disk no longer."""
        home = self._home(one)
        if knows_disk(home):
            home.disk_went |= folders.unmount(home.paths.state / "runs", linked=bool(two % 2))

    def do_mount_home(self, one: int, _two: int) -> None:
        folders.mount(self._home(one).paths.state / "runs")

    def do_wipe(self, one: int, two: int) -> None:
        """A person has a home delete everything of armada's on a host, whatever would be lost."""
        home, host = self._home(one), self._host(two)
        try:
            with self.world.person_acts():
                home.wipe(host)
            self.said = "done"
        except Conflict:
            self.said = "Conflict"
            return
        except (ArmadaError, Killed) as error:  # how far it came, it did not say
            self.said = type(error).__name__
        self.world.root_was_lost = True

    def do_second_host(self, _one: int, _two: int) -> None:
        """A person has another machine, with a disk of its own."""
        if len(self.world.hosts) == 1:
            self.world.add_host("box2")

    def do_clone_host(self, _one: int, two: int) -> None:
        """Another machine is started from a copy of a host's disk, as providers offer it: nothing of the first one lives there."""
        host = self._host(two)
        if len(self.world.hosts) == 1 and host.mounted and host.root.exists():
            clone = self.world.add_host("box2")
            clone.oddities.add("logs")  # its older ones are nowhere else
            shutil.copytree(host.root, clone.root, symlinks=True, dirs_exist_ok=True)

    def do_damage_optimizer(self, one: int, two: int) -> None:
        """A byte of a published optimizer state is another one."""
        self._home(one).was_damaged = True
        for place in self._published(one, two):
            if (state := place / "optimizer.pt").exists() and (data := state.read_bytes()):
                state.chmod(0o600)
                state.write_bytes(bytes(each ^ 1 for each in data[:1]) + data[1:])

    def do_repair(self, one: int, two: int) -> None:
        """Somebody puts the right bytes back into a published file that was damaged."""
        for place in self._home(one).published(self.world.run_ids[0])[two : two + 1]:
            model = place / "model.bin"
            data = model.read_bytes()
            model.write_bytes(bytes(each ^ 1 for each in data[:1]) + data[1:])

    def do_break_manifest(self, one: int, _two: int) -> None:
        """Something else than armada writes into a published checkpoint's manifest."""
        self._home(one).was_damaged = True
        for place in self._of_first(one)[:1]:
            if (manifest := place / "MANIFEST.json").exists():
                manifest.chmod(0o600)
                manifest.write_bytes(manifest.read_bytes().replace(b"1", b"2"))

    def do_damage_there(self, _one: int, two: int) -> None:
        """A byte of every finished checkpoint of the first run on its host is another one; sizes and times are as they were."""
        self.world.secretly_bad |= {(saved.run_id, saved.step) for saved in self.world.all_saved}
        finished = (at for at in self._folder(self._host(two)).glob("outbox/*/model.bin") if len(at.parent.name) == 64)
        for model in sorted(finished):
            data, status = model.read_bytes(), model.stat()
            model.chmod(0o600)
            model.write_bytes(bytes(each ^ 1 for each in data[:1]) + data[1:])
            os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))

    def do_save_again(self, _one: int, _two: int) -> None:
        """The first living job, a script, writes its last checkpoint once more."""
        job = self._job(0)
        if job is not None:
            job.save_again()

    def do_overwrite(self, _one: int, _two: int) -> None:
        """The first living job, a script, writes its last checkpoint anew in place, and has written half of it."""
        job = self._job(0)
        if job is not None:
            job.overwrite()

    def do_trim(self, _one: int, _two: int) -> None:
        """The first living job, a script, deletes a part of its oldest checkpoint."""
        job = self._job(0)
        if job is not None:
            (job.folder / "work" / "out" / "checkpoint-1" / "config.json").unlink()

    def do_tear_manifest(self, one: int, two: int) -> None:
        """Half is left of the manifest of a finished checkpoint of the first run on its host: its oldest, or a later one."""
        host = self._host(two)
        host.oddities.add("unread")
        manifest = self._manifests(host)[one]
        shutil.copy(manifest, manifest.with_name(_WHOLE))
        manifest.write_bytes(manifest.read_bytes()[:40])

    def do_mend_manifests(self, _one: int, two: int) -> None:
        """Somebody puts back the manifests of which half was left."""
        for whole in self._folder(self._host(two)).glob(f"outbox/*/{_WHOLE}"):
            whole.rename(whole.with_name("MANIFEST.json"))

    def _manifests(self, host: SimHost) -> list[Path]:
        steps = {saved.model: saved.step for saved in self.world.all_saved}
        there = [at for at in self._folder(host).glob("outbox/*/MANIFEST.json") if len(at.parent.name) == 64]
        return sorted(there, key=lambda at: steps.get((at.parent / "model.bin").read_bytes(), 0))

    def do_lose_plan(self, _one: int, two: int) -> None:
        """Somebody deletes the plan of the first run on its host."""
        (self._folder(self._host(two)) / "spec.json").unlink()

    def do_break_plan(self, _one: int, two: int) -> None:
        """Something else than armada writes into the plan of the first run on its host."""
        path = self._folder(self._host(two)) / "spec.json"
        told = json.loads(path.read_bytes())
        path.write_text(json.dumps({**told, "outbox": {**told["outbox"], "disk_floor_bytes": "much"}}))

    def do_hide_checkpoints(self, one: int, two: int) -> None:
        """From now on the disk gives an error where a supervisor or an agent asks which checkpoints there are, or no more."""
        self._host(two).hides_checkpoints = not one
        self._host(two).oddities.add("unreadable")

    def do_hide_outputs(self, one: int, two: int) -> None:
        """The same where an agent lists what runs wrote."""
        self._host(two).hides_outputs = not one
        self._host(two).oddities.add("unlistable")

    def do_rename_run(self, one: int, two: int) -> None:
        """Somebody renames the folder of a run of which nothing lives, or gives it its name back."""
        run_ids, host = self.world.run_ids, self._host(two)
        run_id = run_ids[one % len(run_ids)] if run_ids else None
        if run_id is None or self.world.alive(run_id) or self.world.supervised(run_id):
            return
        here = host.run_folder(run_id)
        other = here.with_name(f"{run_id}{RENAMED}")
        if here.exists() != other.exists():
            here.rename(other) if here.exists() else other.rename(here)

    def do_hide_run(self, _one: int, two: int) -> None:
        """Somebody removes the folder of the first run while its job goes on."""
        shutil.rmtree(self._folder(self._host(two)), ignore_errors=True)
        self.world.forget_words()

    def do_touch(self, one: int, _two: int) -> None:
        """Somebody changes the times of everything that a home has published of the first run; its bytes stay."""
        for place in self._of_first(one):
            if (model := place / "model.bin").exists():
                os.utime(model, (1.0, 1.0))

    # The daemon's idle rule.

    def do_daemon(self, one: int, two: int) -> None:
        """A home's daemon looks at a host, and stops it once it was idle for long enough."""
        self.said = self.world.idling.look(self._home(one), self._host(two))

    def do_stop_command(self, one: int, _two: int) -> None:
        """What hosts' stop commands do from now on."""
        self.world.idling.command = ("stops", "fails", "answers on")[one % 3]

    # What jobs write.

    def do_write(self, one: int, two: int) -> None:
        """The first job writes something of its own: notes, a result, a result whose name is not valid, much into its log, …"""
        host = self._host(two)
        work = self._folder(host) / "work"
        kind = ("unnamed", "result", "unnameable", "middle", "too_many", "outside", "link", "other result", "copy")[
            one % 9
        ]
        host.oddities.add("unnamed" if kind == "copy" else kind)
        (work / "results").mkdir(parents=True, exist_ok=True)
        if kind == "unnamed":
            (work / "notes.txt").write_text("mine")
        elif kind == "copy":
            shutil.copy(next(self._folder(host).glob("outbox/*/model.bin")), work / "copy.bin")
        elif kind == "result":
            (work / "results" / "a.csv").write_text("1,2")
        elif kind == "other result":
            (work / "results" / "a.csv").write_text("3,4")
        elif kind == "unnameable":
            with open(os.fsencode(work / "results") + b"/\xff", "wb") as stream:
                stream.write(b"1")
        elif kind == "middle":
            with (self._folder(host) / "output.log").open("ab") as stream:
                stream.write(b"a line\n" * 40_000)
        elif kind == "too_many":
            for number in range(10_001):
                (work / "results" / str(number)).touch()
        elif kind == "outside":
            (work / "out").mkdir(parents=True, exist_ok=True)
            (work / "out" / "checkpoint-99").symlink_to(self.world.folder)

    def do_put_back(self, _one: int, two: int) -> None:
        """A host's disk is put back to what it was while the machine runs on, as an administrator does it on a file server."""
        host = self._host(two)
        if host.snapshots and host.mounted and not any(job.alive for job in host.jobs):
            host.supervisions.clear()
            self.world.well_done.clear()  # with its disk goes every end; only the homes that had seen one know of it
            host.put_back()
            self.world.root_was_lost = True
            self.world.forget_words()

    # What records and answers lack.

    def do_old_agent(self, one: int, two: int) -> None:
        """A host has the agent of an earlier release, which does not say one of the fields."""
        self._host(two).forgets = frozenset({_OLDER[one % len(_OLDER)]})

    def do_misfit(self, one: int, two: int) -> None:
        """A host's agent says of runs what no home understands: of what they are (0), or of what they wrote (1); no more (2)."""
        self.world.records_broken = True
        self._host(two).misfits = frozenset((("run.observe",), ("sync.look",), ())[one % 3])

    def do_old_store(self, one: int, _two: int) -> None:
        """A home's store was written by an earlier release, which did not note when its host answered."""
        self._home(one).forget_times()

    def do_break_record(self, one: int, two: int) -> None:
        """Something else than armada writes into what the host remembers of its polls."""
        name, changes = ("watch.json", _LOG_RECORDS) if two else ("liveness.json", _WATCHES)
        for kept in sorted(self._folder(self._host(0)).glob(f"submissions/*/{name}")):
            told = json.loads(kept.read_bytes())
            for each in [reader["watch"] for reader in told["readers"]] if not two else [told]:
                each.update(changes[one % len(changes)])
                for gone in [key for key, value in each.items() if value == "gone"]:
                    del each[gone]
            kept.write_text(json.dumps(told))

    def do_break_state(self, one: int, _two: int) -> None:
        host = self._host(0)
        host.oddities.add("unreadable")
        self.world.records_broken = True
        (self._folder(host) / "state.json").write_bytes(_BROKEN[one % len(_BROKEN)])

    def do_lose_attempt(self, _one: int, two: int) -> None:
        """Somebody deletes how the attempts of the first run began."""
        for record in self._folder(self._host(two)).glob("attempts/*/run.json"):
            record.unlink()

    def do_pause(self, one: int, two: int) -> None:
        """Nobody does anything for so many quarters of a minute, and so many days."""
        self.world.clock += 15.0 * one + 86_400.0 * two
        if two:  # no supervisor wrote anything for so long: which files were whole before a power cut, no date says
            self.world.silent |= {job.run_id for host in self.world.hosts.values() for job in host.jobs if job.alive}

    # What lies where, and what was begun.

    def do_home(self, one: int, _two: int) -> None:
        """Which steps of the first run are at home."""
        run_id = self.world.run_ids[0]
        here = self.world.at_home(self._home(one), run_id)
        self.said = self._steps(here)

    def do_host(self, _one: int, _two: int) -> None:
        """Which steps of the first run are finished on its host."""
        self.said = self._steps(self.world.on_hosts(self.world.run_ids[0], finished=True))

    def do_begun(self, _one: int, _two: int) -> None:
        """How many jobs of the first run were started."""
        jobs = [job for host in self.world.hosts.values() for job in host.jobs]
        self.said = str(sum(job.run_id == self.world.run_ids[0] for job in jobs))

    def do_waits(self, _one: int, two: int) -> None:
        self.said = "yes" if self._host(two).waits(self.world.run_ids[0]) else "no"

    def do_living(self, _one: int, _two: int) -> None:
        self.said = str(len(self.world.alive(self.world.run_ids[0])))

    def do_secrets(self, _one: int, two: int) -> None:
        """Whether the first run's secrets are on its host."""
        self.said = "there" if folders.read(str(self._folder(self._host(two)) / "secrets.env")) else "gone"

    def do_log_at_home(self, one: int, two: int) -> None:
        """How the log at home relates to that on the host."""
        run_id = self.world.run_ids[0]
        there = folders.read(str(self._folder(self._host(two)) / "output.log"))
        here = folders.read(f"{self._home(one).kept(run_id)}/outputs/output.log")
        self.said = "same" if here == there else "other"

    def do_newer_state(self, _one: int, _two: int) -> None:
        """The supervisor is of a later release, and wrote a state that nobody here knows."""
        path = self._folder(self._host(0)) / "state.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "state": "hibernating"}))

    def do_ask_stop(self, one: int, two: int) -> None:
        """A home asks for the end of a run, and does not wait for it."""
        home = self._home(one)
        self._act(home, lambda: home.ask_stop(self.world.run_ids[two]))

    def do_demand_former(self, one: int, two: int) -> None:
        """A home that believes another store asks for a submission of the first run by its number: the first, or another."""
        home = self._home(one)
        self._act(home, lambda: home.demand_submission(self.world.run_ids[0], number=two or 1))

    def do_break_stopping(self, one: int, two: int) -> None:
        """The first home's store says that a host was stopped, or told to stop, and not when."""
        self._home(0).record_stopping(self._host(two), {"state": "asked" if one else "gone"})

    def do_stopped(self, one: int, two: int) -> None:
        """For which minutes, counted from its first one to its last, a home says that a host was stopped; they cost nothing."""
        spans = self._home(one).stopped_spans(self._host(two), self.world.now())
        self.said = ",".join(f"{(end - begin) / 60:.0f}" for begin, end in spans) or "never"

    def do_stop_runs(self, _one: int, _two: int) -> None:
        """How often the stop commands of hosts were run."""
        self.said = str(self.world.idling.count)

    def do_readable(self, one: int, _two: int) -> None:
        """Whether a home could read all that its host told it of the first run."""
        self.said = "no" if self._home(one).unreadable(self.world.run_ids[0]) else "yes"

    # What is said in sentences.

    def do_why(self, one: int, two: int) -> None:
        """The sentence beside the state of a run, as a home shows it."""
        self.said = _slug(self._home(one).message_of(self.world.run_ids[two]))

    def do_because(self, one: int, two: int) -> None:
        """What a home bases the state of a run on."""
        self.said = _slug(self._home(one).because_of(self.world.run_ids[two]))

    def do_lines(self, one: int, two: int) -> None:
        """The sentences of a release, and its hints."""
        home, host = self._home(one), self._host(two)

        def ask() -> None:
            items = home.judge(host)
            self.said = "+".join(_slug(f"{item.what} → {item.hint}") for item in items) or "none"

        self._act(home, ask)

    def do_release_anyway(self, one: int, two: int) -> None:
        """The kinds of lines of a release where a person says that files outside and the middle of long logs do not count."""
        home, host = self._home(one), self._host(two)

        def ask() -> None:
            self.said = of_release(home.judge(host, ignore_work=True))

        self._act(home, ask)

    def do_reap(self, one: int, two: int) -> None:
        """What a home finds of processes without a supervisor on a host, of which it then ends those that it may."""
        home, host = self._home(one), self._host(two)

        def reap() -> None:
            living = {job for job in host.jobs if job.alive}
            events = self._events
            found = home.reap(host)
            self.said = "+".join(sorted({each.left.value for each in found})) or "none"
            over = {each.run_id for each in found if each.left.may_be_ended}
            ended = {job.run_id for job in living if not job.alive}
            if events == self._events:  # else somebody did something meanwhile
                self.world.hold(ended <= over, f"{home.name} ended jobs of {sorted(ended - over)}, which were not over")

        self._act(home, reap)

    def do_sizes_only(self, one: int, _two: int) -> None:
        """A home without its store recognises what it has of the first run by names and sizes."""
        self._home(one).recognise_by_sizes(self.world.run_ids[0])

    def do_verified(self, one: int, _two: int) -> None:
        """How many minutes ago each checkpoint of the first run at home was verified; `!` if something is wrong with it."""
        told = []
        for step, at, is_wrong in self._home(one).verified(self.world.run_ids[0]):
            ago = "never" if at is None else f"{(self.world.clock - at) / 60:.0f}"
            told.append(f"{step}/{ago}{'!' if is_wrong else ''}")
        self.said = ",".join(told) or "none"

    def do_keeps(self, one: int, _two: int) -> None:
        """Which steps of the first run a home says that it keeps."""
        self.said = ",".join(map(str, self._home(one).keeps(self.world.run_ids[0]))) or "none"

    def do_lets_go(self, one: int, _two: int) -> None:
        """Which steps of the first run a home says that its host need not keep."""
        self.said = ",".join(map(str, self._home(one).lets_go(self.world.run_ids[0]))) or "none"

    def do_over(self, one: int, two: int) -> None:
        """Whether a home has stopped waiting for better evidence about a run."""
        self.said = "yes" if self._home(one).is_over(self.world.run_ids[two]) else "no"

    def do_from(self, one: int, _two: int) -> None:
        """From which step a home says that the first run resumes."""
        self.said = str(self._home(one).resumes_from(self.world.run_ids[0]))

    def do_resumed_from(self, _one: int, _two: int) -> None:
        """From which step the newest job of the first run resumed."""
        jobs = [job for host in self.world.hosts.values() for job in host.jobs if job.run_id == self.world.run_ids[0]]
        self.said = str(jobs[-1].resumed_from)

    def do_read(self, _one: int, _two: int) -> None:
        """How many files of checkpoints homes have read since this was asked last."""
        self.said, self.world.files_read = str(self.world.files_read), 0

    def do_sum_up(self, one: int, two: int) -> None:
        """Whether the sentences of a release treat a host as the user's own."""
        host = self._host(two)
        words = may_go(host.name, host.scheduler), must_stay(host.name, host.scheduler, "everything")
        self.said = "+".join("own" if "destroyed" in each else "shared" for each in words)

    def do_settle(self, one: int, two: int) -> None:
        """As `hosts release` begins: the ends of runs that a person stopped and their batch system forgot are recorded."""
        self.said = str(len(self._home(one).settle(self._host(two))))

    def _of_first(self, one: int) -> list[Path]:
        """What a home has published of the first run, if there is one."""
        return self._home(one).published(self.world.run_ids[0]) if self.world.run_ids else []

    def _steps(self, models: set[bytes]) -> str:
        run_id = self.world.run_ids[0]
        steps = sorted(saved.step for saved in self.world.all_saved if saved.run_id == run_id and saved.model in models)
        return ",".join(map(str, steps)) or "none"

    def _folder(self, host: SimHost) -> Path:
        return host.run_folder(next(iter(self.world.run_ids), "run-0"))


def _slug(words: str) -> str:
    """A sentence as one word of a story: letters and digits stay; folders, ids, dates and sizes, which differ, do not."""
    for differs in (r"\S*/(?=runs/)", r"\S+@\S+", r"\b[0-9a-f]{8}\b", r"\d{4}-\d\d-\d\d", r"\([\d.]+ k?B\)"):
        words = re.sub(differs, "", words)
    return re.sub(r"[^A-Za-z0-9.,→]+", "_", words).strip("_.,") or "nothing"
