"""`armada recover`: read hosts and home, and record in the store what they have. Repeating it adds what was missing.

As much of a damaged store as SQLite can read is copied into a new one next to it. The new one then takes its place, and
the damaged one keeps another name. A sound store only gets additions.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from armada.daemon.instance import only_instance
from armada.errors import ArmadaError, Conflict
from armada.home import own
from armada.paths import HomePaths
from armada.recovery import published
from armada.recovery.host_runs import HostFindings, read_host
from armada.rpc.session import HostSession
from armada.store import adopted, checkpoints, file, files_home, labels, running_operations, runs, sweeps
from armada.store import operations as records
from armada.store.database import Database, newer
from armada.store.integrity import StoreFile, examine
from armada.store.salvage import forget_orphans, salvage
from armada.sync.checkpoints import folders
from armada.sync.checkpoints.lock import only_one
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from armada.config.hosts import Host
    from armada.foundation.progress import Progress
    from armada.recovery.published import Published

WORKSHOP = ".recover-"
"""The prefix of folders next to the store in which a new one is built. A leftover folder is from a recovery that was killed."""

_HOSTS_AT_ONCE = 8
_PATIENCE_S = 10.0


@dataclass(slots=True)
class Recovery:
    """What the recovery found and did.

    `salvaged`: rows of the damaged store by table. `recognised`: checkpoints at home that the store did not know.
    `wrong`: folders with wrong content, each with the reason and its new name. `unreadable`: folders that their disk cannot
    read, with the reason; they stay as they are. `gone`: checkpoints that are recorded
    but missing. `sweeps`: those that go on without their settings, which only the lost store had.
    """

    found: StoreFile
    aside: Path | None = None
    salvaged: dict[str, int] = field(default_factory=dict)
    hosts: list[HostFindings] = field(default_factory=list)
    runs_from_home: list[str] = field(default_factory=list)
    recognised: list[Published] = field(default_factory=list)
    already: int = 0
    gone: list[Path] = field(default_factory=list)
    wrong: list[tuple[Path, str]] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    sweeps: list[str] = field(default_factory=list)


def recover(
    home: HomePaths,
    hosts: Callable[[Database], Mapping[str, Host]],
    progress: Progress,
    *,
    dry_run: bool = False,
    read_data: bool = True,
) -> Recovery:
    """Record in the store what hosts and home have.

    Args:
        home: The home to recover.
        hosts: Returns the hosts to query. It gets the store, because the store may name the projects whose hosts they
            are.
        progress: Receives the progress.
        dry_run: Work in a temporary copy, and rename nothing.
        read_data: Read every byte of a checkpoint before it counts as verified; otherwise check names and sizes only.

    Raises:
        ConfigError: The store is of a newer armada, or its disk cannot read it.
        Conflict: The daemon, an operation or another program uses the store.
    """
    with _nobody_else(home), contextlib.ExitStack() as stack:
        progress.now("store", f"reading {home.store}")
        recovery = Recovery(examine(home.store))
        if recovery.found.condition == "newer":
            raise newer(recovery.found.version or 0, home.store)
        if recovery.found.obstacle is not None:
            raise recovery.found.obstacle
        for left in home.state.glob(f"{WORKSHOP}*"):
            shutil.rmtree(left)
        path = home.store
        if recovery.found.condition == "damaged" or dry_run:
            workshop = Path(tempfile.mkdtemp(prefix=WORKSHOP, dir=home.state))
            stack.callback(shutil.rmtree, workshop, ignore_errors=True)
            path = _prepare(home.store, workshop, recovery, progress, dry_run=dry_run)
        database = stack.enter_context(Database(path, below=home.state))
        if not dry_run:
            _refuse_while_operations_run(database)
            argv = tuple(sys.argv)
            recorded = stack.enter_context(running_operations.operation(database, kind="recover", argv=argv))
            progress = recorded.and_tell(progress)
        if recovery.found.orphans:
            forget_orphans(database)
        recovery.hosts = _read_hosts(path, home, hosts(database), progress, dry_run=dry_run)
        _read_home(database, home, recovery, progress, dry_run=dry_run, read_data=read_data)
        for run in runs.every(database):
            labels.restore(database, home, run)
        others = runs.launchers(database, own(home).id)
        lost = sweeps.without_settings(database)
        recovery.sweeps = [
            name for name in lost if not any(run.run_id in others for run in runs.of_sweep(database, name))
        ]
        return recovery


@contextlib.contextmanager
def _nobody_else(home: HomePaths) -> Iterator[None]:
    """Hold the daemon's lock, so that no daemon runs or starts meanwhile."""
    home.make()
    lock = only_instance(home)
    try:
        lock.__enter__()
    except Conflict as error:
        raise Conflict(
            f"{error.message}, which writes to the store", hint="armada daemon stop, then run the command again"
        ) from None
    with contextlib.ExitStack() as stack:
        stack.push(lock)
        yield


def _refuse_while_operations_run(database: Database) -> None:
    for each in records.running(database):
        if running_operations.is_alive(each):
            what = f"{each.kind}{f' of {each.run_id}' if each.run_id else ''}"
            raise Conflict(
                f"{what} is running (process {each.pid}), and writes to the store",
                hint="wait until it ends, then run the command again",
            )


def _prepare(store: Path, workshop: Path, recovery: Recovery, progress: Progress, *, dry_run: bool) -> Path:
    """Return the path of the store to work on: the new store that replaces the damaged one or, in a dry run, a copy."""
    new = workshop / store.name
    condition = recovery.found.condition
    if condition == "missing":
        return new
    if condition != "damaged":
        file.back_up(store, new)
        with Database(new, below=store.parent) as database:
            _refuse_while_operations_run(database)
        return new
    progress.now("store", f"it is damaged ({recovery.found.problems[0]}); reading what can be read")
    with file.alone(store) as descriptor:
        damaged = workshop / "damaged.db"
        begun = file.begun_aside(store)
        file.copy(descriptor, begun or store, damaged)
        with Database(new, below=store.parent) as database:
            recovery.salvaged = salvage(damaged, database)
        if dry_run:
            return new
        recovery.aside = file.replace(store, new)
    progress.stage("kept", f"the damaged store is now {recovery.aside}")
    return store


def _read_hosts(
    path: Path, home: HomePaths, hosts: Mapping[str, Host], progress: Progress, *, dry_run: bool
) -> list[HostFindings]:
    """Query all hosts in parallel. A host that does not answer neither delays nor affects the others."""
    lock = threading.Lock()

    def tell(name: str, message: str, *, done: bool) -> None:
        with lock:
            (progress.stage if done else progress.now)("host", f"{name}: {message}")

    def read(name: str) -> HostFindings:
        try:
            with (
                Database(path, below=home.state) as database,
                HostSession(hosts[name], home, patience_s=_PATIENCE_S) as session,
            ):
                said = functools.partial(tell, name, done=False)
                found = read_host(database, session, said, enroll=not dry_run)
        except ArmadaError as error:
            tell(name, f"could not be read: {error.message}", done=True)
            return HostFindings(name, error=error)
        tell(name, f"{counted(found.seen, 'run')}, {len(found.added)} new to the store", done=True)
        return found

    with ThreadPoolExecutor(max_workers=max(1, min(_HOSTS_AT_ONCE, len(hosts)))) as pool:
        return list(pool.map(read, hosts))


def _read_home(
    database: Database, home: HomePaths, recovery: Recovery, progress: Progress, *, dry_run: bool, read_data: bool
) -> None:
    """Recognise what is at home: runs that no host reported, and checkpoints that the store does not know."""
    known_runs = {run.run_id for run in runs.every(database)}
    unknown: list[Published] = []
    for run_id in sorted(known_runs | set(published.run_ids(home))):
        progress.now("home", f"checking {run_id}")
        lying = list(published.find(home, run_id))
        placeless = run_id not in known_runs or runs.find(database, run_id).host == adopted.NO_HOST
        if placeless and (lying or (home.run(run_id) / "outputs").is_dir()):
            if published.adopt_run(database, home, run_id):
                recovery.runs_from_home.append(run_id)
            known_runs.add(run_id)
        deleted = folders.find_deleted(database, checkpoints.of_run(database, run_id))
        for checkpoint in deleted:
            if checkpoint.home_path is not None:
                files_home.forget(database, checkpoint.home_path)
                checkpoints.mark_not_home(database, run_id, checkpoint.digest, None)
                recovery.gone.append(checkpoint.home_path)
        recorded = {c.digest: c.home_path for c in checkpoints.of_run(database, run_id) if c.home_path is not None}
        for found in lying:
            if found.manifest is not None and recorded.get(found.manifest.digest) is not None:
                recovery.already += 1
            elif found.place not in recorded.values():  # a recorded but damaged one is for `armada sync verify`
                unknown.append(found)
    reader = published.Reader(
        lambda what, seen: progress.transfer("verify", what, seen), sum(found.size_bytes for found in unknown)
    )
    for each in unknown:
        look = folders.look_of(each.place)
        found, problem = each, _problem_of(each, reader, read_data=read_data)
        with only_one(home.checkpoints(found.run_id)):
            known = checkpoints.of_run(database, found.run_id)
            if any(checkpoint.home_path == found.place for checkpoint in known):
                recovery.already += 1  # a sync has recorded it meanwhile
                continue
            if found.problem is not None or folders.look_of(found.place) != look:  # or has mended it
                again = next((now for now in published.find(home, found.run_id) if now.place == found.place), None)
                if again is None:
                    continue
                found, problem = again, _problem_of(again, reader, read_data=read_data)
            if problem is None:
                published.record(database, found, reader if read_data else None)
                recovery.recognised.append(found)
                progress.now("home", f"{found.run_id} {found.place.name}")  # hundreds: their number is said at the end
            elif isinstance(problem, OSError):  # nothing is known of its bytes: it may be the only copy
                recovery.unreadable.append((found.place, problem.strerror or str(problem)))
                progress.stage("unreadable", f"{found.place}: {problem.strerror}; it stays as it is")
            else:
                place = found.place if dry_run else published.put_aside(found)
                recovery.wrong.append((place, problem))
                progress.stage("wrong", f"{place}: {problem}")


def _problem_of(found: Published, reader: published.Reader, *, read_data: bool) -> str | OSError | None:
    """Say what is wrong with a checkpoint at home, or why its disk cannot read it; None: nothing, as far as it was read."""
    if found.obstacle is not None or found.problem is not None or not read_data:
        return found.obstacle or found.problem
    try:
        wrong = reader.first_wrong(found)
    except OSError as error:
        return error
    return f"{wrong.path} does not match its manifest" if wrong is not None else None
