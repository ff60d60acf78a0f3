"""`armada store check`: check the store's file, and compare its records with the files at home."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.recovery import published
from armada.recovery.recover import WORKSHOP
from armada.store import checkpoints, file, runs
from armada.store.database import Database
from armada.store.integrity import StoreFile, examine
from armada.sync.checkpoints.folders import find_away, is_seen
from armada.sync.checkpoints.lock import FORGOTTEN
from armada.sync.checkpoints.published import TRASH, read_published
from armada.sync.errors import ManifestRejected
from armada.sync.transfer.staging import digest_of, has_size
from armada.units import amount

if TYPE_CHECKING:
    from pathlib import Path

    from armada.paths import HomePaths

Kind = Literal["damaged", "orphans", "missing", "wrong", "unrecorded", "unknown_run", "left_over", "kept"]

SERIOUS: frozenset[Kind] = frozenset({"damaged", "orphans", "missing", "wrong", "unrecorded", "unknown_run"})
"""Findings of these kinds give an exit code above 0; the others are only reported."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and the command that fixes it."""

    kind: Kind
    message: str
    command: str | None
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The store's file, the findings, and the number of checkpoints at home that were compared with the store."""

    store: StoreFile
    findings: tuple[Finding, ...]
    checkpoints: int = 0


def check(home: HomePaths) -> Check:
    """Check the store without changing it. `armada sync verify --read-data` checks the contents of checkpoints."""
    store = examine(home.store)
    found = [Finding("damaged", problem, "armada recover") for problem in store.problems]
    found += [
        Finding("orphans", f"{count} rows of {table} belong to no run", "armada recover")
        for table, count in (store.orphans or {}).items()
    ]
    count = 0
    if store.condition == "missing" and published.run_ids(home):
        found.append(
            Finding("missing", "there is no store, but there are results at home", "armada recover", home.store)
        )
    if store.condition == "sound":
        with Database(home.store) as database:
            known = {run.run_id for run in runs.every(database)}
            for run_id in sorted(known | set(published.run_ids(home))):
                looked_at, more = _hold_against(database, home, run_id, known=run_id in known)
                count += looked_at
                found += more
    found += _left_over(home)
    return Check(store, tuple(found), count)


def _hold_against(database: Database, home: HomePaths, run_id: str, *, known: bool) -> tuple[int, list[Finding]]:
    recorded = [c for c in checkpoints.of_run(database, run_id) if c.home_path is not None]
    found: list[Finding] = []
    for checkpoint in recorded:
        place = checkpoint.home_path
        if place is None:
            continue
        name, mend = f"{run_id} checkpoint-{checkpoint.step}", f"armada sync verify {run_id}"
        if not is_seen(place):
            if (away := find_away(database, run_id)) is not None:
                found.append(
                    Finding("missing", f"{name} is not seen: {away.message}", f"armada sync now {run_id}", place)
                )
                continue
            again = f"armada sync now {run_id}" if checkpoint.on_host else "armada recover"
            found.append(Finding("missing", f"{name} is recorded as home, but is not there", again, place))
            continue
        try:
            _, files = read_published(place, checkpoint.digest)
        except ManifestRejected as error:
            found.append(Finding("wrong", f"{name}: its manifest cannot be used: {error.message}", mend, place))
            continue
        wrong = [item for item in files if not has_size(place, item)]
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            what = f"{name}: {wrong[0].path}{more} missing or of another size"
            found.append(Finding("wrong", what, mend, place))
    here = {c.home_path for c in recorded}
    lying = list(published.find(home, run_id))
    for item in lying:
        if item.place not in here:
            what = f"{run_id} {item.place.name} is at home, but not in the store"
            found.append(Finding("unrecorded", what, "armada recover", item.place))
    if not known and lying and (home.run(run_id) / FORGOTTEN).exists():
        what = f"{run_id} was removed (armada rm); its checkpoints stay at home, and `armada recover` lists it again"
        return len(lying), [Finding("kept", what, _delete(home.run(run_id), "-r"), home.run(run_id))]
    if not known and lying:
        what = f"{run_id} has results at home, but is not in the store"
        found.append(Finding("unknown_run", what, "armada recover", home.run(run_id)))
    found += [
        Finding("kept", f"{path.name} has the wrong content; put aside by armada recover", _delete(path, "-r"), path)
        for path in published.put_aside_before(home, run_id)
    ]
    coming = {c.digest for c in checkpoints.of_run(database, run_id) if c.on_host and c.home_path is None}
    folder = home.checkpoints(run_id)
    for path in (folder / ".staging").glob("*"):
        if digest_of(path) not in coming:
            found.append(
                Finding(
                    "left_over",
                    f"{run_id}: an unfinished transfer that nothing continues",
                    f"armada sync now {run_id}",
                    path,
                )
            )
    if (folder / TRASH).is_dir():
        found.append(
            Finding("left_over", f"{run_id}: deleted checkpoints", f"armada sync now {run_id}", folder / TRASH)
        )
    return len(lying), found


def _left_over(home: HomePaths) -> list[Finding]:
    found = [
        Finding("left_over", "left by a recovery that was killed", "armada recover", path)
        for path in home.state.glob(f"{WORKSHOP}*")
    ]
    for path in file.kept_aside(home.store):
        size = amount(path.stat().st_size)
        found.append(
            Finding("kept", f"a damaged store ({size}); delete it when nothing is missing", _delete(path), path)
        )
    for pattern in ("runs/*/.quota.json.*", "ssh/*.tmp", "daemon/*.tmp"):
        found += [
            Finding("left_over", "a partly written file", _delete(path), path) for path in home.state.glob(pattern)
        ]
    return found


def _delete(path: Path, *options: str) -> str:
    return shlex.join(["rm", *options, f"{path}"])
