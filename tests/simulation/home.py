"""A simulated home: the real store, engine and decisions, asked to do what a person or the daemon would."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from armada.config.sync import settings_of
from armada.errors import ArmadaError
from armada.home import own
from armada.launch import reap as reaping
from armada.launch import stop as stopping
from armada.launch.resume import resume_run
from armada.launch.retry import Retries
from armada.monitor.observe import observe
from armada.paths import HomePaths
from armada.recovery import published as recognised
from armada.recovery.host_runs import read_host
from armada.store import checkpoints, files_home, run_sync, runs
from armada.store import hosts as host_records
from armada.store.database import Database
from armada.sync.checkpoints import apply_retention
from armada.sync.context import HostContext, SyncContext
from armada.sync.release.judge import judge_and_forget_secrets, judge_host, settle_stopped
from armada.sync.runs.sync_run import sync_run
from armada.verdicts.again import resumes_from
from armada.verdicts.idle import stopped_spans, stopping_of
from armada.verdicts.state import PUT_BACK
from tests.simulation import folders
from tests.simulation.cluster import job_file
from tests.simulation.link import SimSession
from tests.simulation.plans import changed
from tests.simulation.removing import remove_run
from tests.simulation.work_files import put_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.rpc.session import HostSession
    from armada.verdicts.release import Item
    from tests.simulation.host import SimHost
    from tests.simulation.world import World


@dataclass(eq=False)
class SimHome:
    """One store and what lies beside it."""

    world: World
    name: str
    place: Path
    snapshots: list[Path] = field(default_factory=list)
    registered: set[str] = field(default_factory=set)
    """Runs that it launched, synced or recovered since it is this home: what it has not fetched of them, nobody else may delete."""
    fetched: set[bytes] = field(default_factory=set)
    inherited: set[bytes] = field(default_factory=set)
    """What the home had fetched of which this one is a copy."""
    wanted: set[bytes] = field(default_factory=set)
    """What a person asked for by name, as with `armada pull RUN CHECKPOINT`: no rule of retention deletes it here."""
    was_damaged: bool = False
    was_restored: bool = False
    """Somebody changed or deleted what it had, or a disk of it was reset."""
    was_killed: bool = False
    """One of its programs was: a checkpoint may be here that its store has no record of, until the next sync reads it."""
    done: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Runs that it said have succeeded: how many jobs of each had been started then, and its submission."""
    moves: int = 0
    """How often it was moved."""
    _idle: Database | None = None
    disk_went: bool = False
    """The folder of its runs was without its disk for a while."""

    @functools.cached_property
    def paths(self) -> HomePaths:
        return HomePaths(self.place / "config", self.place / "state")

    @contextlib.contextmanager
    def store(self) -> Iterator[Database]:
        """The store, as a program of its own has it.

        What a program closed well, the next one takes over: to open a store takes longer than most of what is asked of it.
        One that is killed, or says no, leaves its connection as it is, and the next opens its own.
        """
        database, self._idle = self._idle or Database(self.paths.store), None
        try:
            yield database
        except BaseException:
            database.close()
            raise
        if self._idle is None and database.state == "there":
            self._idle = database
        else:
            database.close()

    def close(self) -> None:
        """Have no connection of a program that ended: the store is one file again."""
        if self._idle is not None:
            self._idle.close()
            self._idle = None

    def session(self, host: SimHost) -> HostSession:
        return cast("HostSession", SimSession(host, self.paths))

    def known(self) -> list[str]:
        with self.store() as database:
            return [run_id for run_id in self.world.run_ids if runs.is_known(database, run_id)]

    def host_of(self, run_id: str) -> SimHost:
        with self.store() as database:
            return self.world.hosts[runs.find(database, run_id).host]

    def succeeded(self) -> list[str]:
        """The runs that it has seen to end well."""
        with self.store() as database:
            return [run.run_id for run in runs.every(database) if run.state == "succeeded"]

    # What a person or the daemon does.

    def launch(
        self, host: SimHost, run_id: str, *, script: bool, retries: int = 0, plan: Sequence[str] = (), **sync: Any
    ) -> None:
        spec = changed(_spec(run_id, host, script=script, retries=retries, sync=sync), plan)
        spec["job"]["code"] = put_code(host) if "code" in plan else None
        files = job_file(host.scheduler, run_id) if "scheduler" in spec else {}
        with self.store() as database:
            root = host.ask("run.observe", {"runs": []}).get("root")  # as the facts of its preflight say
            runs.insert(
                database, run_id=run_id, name=run_id, host=host.name, task="command", experiment=None, spec=spec
            )
            runs.set_root(database, run_id, root)
            question = {"run_id": run_id, "spec": spec, "files": files, "secrets": {"KEY": "canary"}, "submission": 1}
            self.session(host).call("run.create", {**question, "home": own(self.paths).as_json()})
            runs.set_state(database, run_id, "submitted")

    def launch_sweep(self, host: SimHost, run_ids: Sequence[str], *, at_once: int) -> None:
        """Launch runs as one array of a batch system, of which so many may run at once."""
        specs = {each: _spec(each, host, script=False, retries=0, sync={"keep_remote": 1}) for each in run_ids}
        with self.store() as database:
            root = host.ask("run.observe", {"runs": []}).get("root")
            for run_id, spec in specs.items():
                runs.insert(
                    database, run_id=run_id, name=run_id, host=host.name, task="command", experiment=None, spec=spec
                )
                runs.set_root(database, run_id, root)
            cells = [{"run_id": each, "spec": spec} for each, spec in specs.items()]
            arrays = [{"cells": list(run_ids), "files": {"job.sub": "queue\n"}}]
            question = {"sweep": "sweep-0", "cells": cells, "arrays": arrays, "parallel": at_once}
            shared = {"secrets": {"KEY": "canary"}, "home": own(self.paths).as_json()}
            self.session(host).call("sweep.start", {**question, **shared})
            for run_id in run_ids:
                runs.set_state(database, run_id, "submitted")

    def look(self, run_id: str) -> runs.Run:
        with self.store() as database:
            run = runs.find(database, run_id)
            observe(database, self.session(self.world.hosts[run.host]), [run])
            return runs.find(database, run_id)

    def sync(self, run_id: str) -> bool:
        """Sync a run; whether home now believes that nothing more will come of it."""
        with self.store() as database:
            run = runs.find(database, run_id)
            context = SyncContext(database, self.session(self.world.hosts[run.host]), self.paths, run_id)
            sync_run(context, now=self.world.now, insist=True)
            return run_sync.find(database, run_id).final_done

    def is_final(self, run_id: str) -> bool:
        with self.store() as database:
            return run_sync.find(database, run_id).final_done

    def has_seen_end(self, run_id: str) -> bool:
        with self.store() as database:
            return runs.find(database, run_id).ended

    def is_put_back(self, run_id: str) -> bool:
        """Whether it saw a submission of which its host shows nothing any more, and whose job may live."""
        with self.store() as database:
            return runs.find(database, run_id).reason == PUT_BACK

    def why_not(self, run_id: str) -> str | None:
        """What keeps it from believing that all of a run is here."""
        with self.store() as database:
            return run_sync.find(database, run_id).reason

    def join(self, host: SimHost) -> None:
        """As `armada recover`, on a machine that has not seen the host before."""
        with self.store() as database:
            read_host(database, self.session(host), lambda _: None)

    def id(self) -> str:
        return own(self.paths).id

    def forget(self, host: SimHost, other_id: str) -> None:
        """As `armada hosts forget-home`."""
        words = {"home": own(self.paths).as_json(), "forget": other_id}
        self.session(host).call("homes.forget", words)

    def judge(self, host: SimHost, *, ignore_work: bool = False) -> list[Item]:
        """What armada says that would be lost with the host, and what else it says of it."""
        with self.store() as database:
            return judge_host(HostContext(database, self.session(host), self.paths), ignore_work=ignore_work)

    def release(self, host: SimHost) -> list[Item]:
        """As `armada hosts release`: what would be lost, and what else it says; then secrets go there."""
        with self.store() as database:
            items, _ = judge_and_forget_secrets(HostContext(database, self.session(host), self.paths))
        return items

    def reap(self, host: SimHost) -> list[reaping.Orphaned]:
        """As `armada hosts reap --yes`: what there was."""
        session = cast("HostSession", _Pausing(self.session(host), self.world))
        with self.store() as database:
            found, _ = reaping.look(database, session)
            wanted = [each for each in found if each.left.may_be_ended]
            reaping.reap(
                database, session, wanted, 0.0, lambda _: None, sleep=self.world.tick, monotonic=self.world.now
            )
        return found

    def remove(self, run_id: str) -> None:
        """As `armada rm RUN`."""
        with self.store() as database:
            run = runs.find(database, run_id)
            remove_run(database, self.paths, self.session(self.world.hosts[run.host]), run)
        self.registered.discard(run_id)
        self.done.pop(run_id, None)

    def kept(self, run_id: str) -> str:
        """Where what it has of a run is, be its disk mounted or not: what lies below the mount point is nowhere."""
        return f"{folders.on_disk(str(self.paths.state))}/{run_id}"

    def listing(self) -> set[str]:
        """All of its files, but for its store, where they are while its disk is mounted."""
        return folders.of_home(str(self.place), str(self.paths.state))

    def stop(self, run_id: str) -> runs.Run:
        with self.store() as database:
            run = runs.find(database, run_id)
            session = self.session(self.world.hosts[run.host])
            session.call("run.stop", {"run_id": run_id, "grace_s": 0.0}) if run.ended else None
            return stopping.stop_run(
                database, cast("HostSession", _Pausing(session, self.world)), run, 0.0, lambda _: None
            )

    def ask_stop(self, run_id: str) -> None:
        session, _ = self._of(run_id)
        session.call("run.stop", {"run_id": run_id, "grace_s": 0.0})

    def resume(self, run_id: str) -> None:
        with self.store() as database:
            run, asked = runs.find(database, run_id), runs.spec(database, run_id).get("job", {}).get("secrets", ())
            resume_run(database, self.session(self.world.hosts[run.host]), run, confirmed=asked)

    def retry(self, host: SimHost) -> list[str]:
        with self.store() as database:
            return Retries(self.session(host)).look(database, self.world.now())

    def settle(self, host: SimHost) -> list[str]:
        return settle_stopped(self.session(host), sleep=self.world.tick)

    def is_over(self, run_id: str) -> bool:
        """Whether the daemon neither looks at a run nor syncs it any more."""
        with self.store() as database:
            return runs.find(database, run_id).is_settled(self.world.now())

    def watches(self, run_id: str) -> bool:
        """Whether the daemon still looks at a run."""
        with self.store() as database:
            watched = runs.every(database, watched=True, now=self.world.now())
        return any(run.run_id == run_id for run in watched)

    def root_of(self, run_id: str) -> str | None:
        with self.store() as database:
            return runs.find(database, run_id).root_id if runs.is_known(database, run_id) else None

    def resumes_from(self, run_id: str) -> int | None:
        """As `armada show` says it."""
        with self.store() as database:
            there = [each.step for each in checkpoints.of_run(database, run_id) if each.on_host]
            return resumes_from(runs.spec(database, run_id), there)

    def wipe(self, host: SimHost) -> None:
        """As `armada hosts release --wipe`, once a person has said that nothing there counts."""
        answer = self.session(host).call("host.wipe", {"home": own(self.paths).as_json()})
        with self.store() as database:
            runs.mark_wiped(database, host.name, answer["root"])

    def ask_for(self, place: Path) -> None:
        """As `armada pull RUN CHECKPOINT`, of one that is here."""
        run_id = place.parents[1].name
        with self.store() as database:
            known = [each for each in checkpoints.of_run(database, run_id) if each.home_path == place]
            for each in known:
                checkpoints.pin(database, run_id, each.digest)
        if known and (model := folders.model(str(place))):
            self.wanted.add(model)

    def recognise_by_sizes(self, run_id: str) -> None:
        """As `armada recover --sizes-only`, of a store that knows nothing of what is published."""
        with self.store() as database:
            for each in checkpoints.of_run(database, run_id):
                if each.home_path is not None:
                    files_home.forget(database, each.home_path)
                    checkpoints.mark_not_home(database, run_id, each.digest, None)
            for found in recognised.find(self.paths, run_id):
                recognised.record(database, found, None)

    def verified(self, run_id: str) -> list[tuple[int, float | None, bool]]:
        """Return of each checkpoint that is here: its step, when it was verified, and whether something is wrong with it."""
        with self.store() as database:
            here = [each for each in checkpoints.of_run(database, run_id) if each.home_path is not None]
            return [(each.step, each.verified_at, each.trouble is not None) for each in here]

    def recorded(self, run_id: str) -> set[bytes]:
        """Return the models of what its store knows to be here."""
        with self.store() as database:
            places = [each.home_path for each in checkpoints.of_run(database, run_id) if each.home_path is not None]
        return folders.models(list(map(str, places)))

    def keeps(self, run_id: str) -> list[int]:
        """Return the steps that stay here by the run's settings, as `armada sync prune --dry-run` shows them."""
        with self.store() as database:
            settings = settings_of(runs.spec(database, run_id))
            plan = apply_retention.plan_home(database, run_id, settings)
            return [each.candidate.step for each in plan if each.keep]

    def lets_go(self, run_id: str) -> list[int]:
        """Return the steps that a host need no longer keep, by the run's settings and what is proven here."""
        with self.store() as database:
            plan = apply_retention.plan_host(database, run_id, settings_of(runs.spec(database, run_id)))
            return [each.candidate.step for each in plan if not each.keep]

    def stopped_spans(self, host: SimHost, now: float) -> tuple[tuple[float, float], ...]:
        """When a host was stopped, as what it costs is counted."""
        with self.store() as database:
            record = host_records.find(database, host.name)
            return stopped_spans(stopping_of(record.stopping if record is not None else None), now)

    def unreadable(self, run_id: str) -> str | None:
        with self.store() as database:
            return runs.find(database, run_id).unreadable

    def message_of(self, run_id: str) -> str:
        with self.store() as database:
            return runs.find(database, run_id).message or ""

    def because_of(self, run_id: str) -> str:
        with self.store() as database:
            return runs.find(database, run_id).because or ""

    def record_stopping(self, host: SimHost, stopping: dict[str, Any]) -> None:
        with self.store() as database:
            host_records.record_stopping(database, host.name, stopping)

    def forget_times(self) -> None:
        columns = ("seen_boot", "seen_at_s", "less_boot", "less_since_s")
        with self.store() as database, database.transaction() as connection:
            for column in columns:
                connection.execute(f"UPDATE runs SET {column} = NULL")  # names of this list

    def demand_deletion(self, run_id: str) -> None:
        """Ask for the deletion of all checkpoints, without a reason for any."""
        session, digests = self._of(run_id)
        session.call("outbox.prune", {"run_id": run_id, "digests": digests, "home": own(self.paths).as_json()})

    def demand_submission(self, run_id: str, number: int | None = None) -> None:
        """Ask for the next submission, or one by its number, without a look."""
        session, _ = self._of(run_id)
        with self.store() as database:
            number = number or runs.find(database, run_id).submission + 1
        session.call("run.submit", {"run_id": run_id, "submission": number, "home": own(self.paths).as_json()})

    def _of(self, run_id: str) -> tuple[HostSession, list[str]]:
        with self.store() as database:
            session = self.session(self.world.hosts[runs.find(database, run_id).host])
        (answer,) = session.call("run.observe", {"runs": [{"run_id": run_id}]})["runs"]
        return session, [entry["digest"] for entry in answer["outbox"]]

    # What happens to it.

    def snapshot(self) -> None:
        self.close()
        copy = self.place.parent / f"{self.name}-backup-{len(self.snapshots)}"
        folders.copy(self.place, copy)
        self.snapshots.append(copy)

    def restore(self) -> None:
        self.close()
        shutil.rmtree(self.place)
        shutil.copytree(self.snapshots[-1], self.place, symlinks=True)
        self.was_damaged = self.was_restored = True
        self.registered.clear()  # it is another home now, which has yet to sync
        self.done.clear()
        self.fetched.clear()
        self.wanted.clear()

    def move(self) -> None:
        """A person moves it to another folder of the same disk, while nothing of it runs."""
        self.close()
        self.moves += 1
        new = self.place.parent / f"{self.name}-moved-{self.moves}"
        self.place.rename(new)
        self.place = new
        self.__dict__.pop("paths", None)  # it is made anew

    def checkpoints(self, run_id: str) -> str:
        return f"{self.kept(run_id)}/checkpoints"

    def published(self, run_id: str) -> list[Path]:
        folder = self.checkpoints(run_id)
        return [Path(folder, name) for name in sorted(folders.names(folder)) if not name.startswith(".")]

    def missing(self, run_id: str) -> list[int]:
        """Steps that home has heard of, does not have, and has no word about."""
        with self.store() as database:
            return [c.step for c in checkpoints.of_run(database, run_id) if c.home_path is None and c.trouble is None]

    def reasons(self, run_id: str) -> dict[int, str]:
        """What it says of each checkpoint that is neither here nor on its host, by step; not of a step that was saved twice."""
        saved = Counter(each.step for each in self.world.all_saved if each.run_id == run_id)
        with self.store() as database:
            known = checkpoints.of_run(database, run_id)
        return {c.step: c.nowhere for c in known if c.nowhere is not None and saved[c.step] == 1}

    def overlooked(self) -> list[str]:
        """Runs of which it says that all is home, while its own records have a checkpoint of theirs that is to come."""
        with self.store() as database:
            rows = database.connection.execute(
                """SELECT DISTINCT run_id FROM checkpoints JOIN run_sync USING (run_id)
                   WHERE final_done AND on_host AND home_path IS NULL AND trouble IS NULL"""
            )
            return [run_id for (run_id,) in rows]


class _Pausing:
    """A session of somebody who waits: with each question the world gets on."""

    def __init__(self, session: HostSession, world: World) -> None:
        self._session, self._world = session, world

    def __getattr__(self, name: str) -> Any:
        self._world.tick()
        return getattr(self._session, name)


def new_home(world: World, name: str, place: Path) -> SimHome:
    home = SimHome(world, name, place)
    home.paths.make()
    home.paths.store.write_bytes(_empty_store())
    return home


@functools.cache
def _empty_store() -> bytes:
    """A new store's bytes: making one takes longer than most stories."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "armada.db"
        Database(path).close()
        return path.read_bytes()


MOST_WITHOUT = 2
"""Attempts in a row that may reach the time limit without a newer checkpoint."""

EXPECTED = (ArmadaError, OSError)
"""What an armada command may say no with; anything else is a defect of its own."""


def _spec(run_id: str, host: SimHost, *, script: bool, retries: int, sync: dict[str, Any]) -> dict[str, Any]:
    watch = {
        "resume": ["--resume", "{step}", "{checkpoint}"],
        "checkpoints": {"pattern": "out/checkpoint-*", "quiet_s": 0.0},
    }
    batch = {"kind": host.scheduler, "poll_s": 15.0, "max_retries": 0, "max_attempts_without_progress": MOST_WITHOUT}
    return {
        **({"scheduler": batch} if host.scheduler != "direct" else {}),
        "format": 1,
        "run_id": run_id,
        "name": run_id,
        "task": "command",
        "created_at": "2026-01-01T00:00:00+00:00",
        "host": host.name,
        "profile": "cpu",
        "job": {"argv": ["script" if script else "training"], "env": {}, "code": None, "secrets": ["KEY"]},
        "gpus": 0,
        "processes": 1,
        "environment": None,
        "stop_grace_s": 0.0,
        "outbox": {"keep": 2, "disk_floor_bytes": 0},
        "training": None,
        "experiment": {"retries": retries},
        "sync": sync,
        "watch": watch if script else None,
    }
