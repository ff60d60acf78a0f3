"""Can this host be destroyed without losing anything? Nothing is assumed: the host is asked, home's files are looked at."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.sync import settings_of
from armada.errors import NotFound
from armada.home import own
from armada.inert import inert_line
from armada.monitor.observe import AWAY_WORDS, outbox_entries, where
from armada.paths import RUN_ID
from armada.store import checkpoints, run_sync, runs
from armada.sync.outputs import read_listing, stale
from armada.sync.proof import Proof, prove
from armada.sync.schedule import NOT_WANTED
from armada.sync.telling import registered
from armada.units import amount, counted
from armada.verdicts.presence import There

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.paths import HomePaths
    from armada.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.sync.telling import Registered

_AT_ONCE = 200
_BEYOND = 1 << 50
"""Past the end of any file: only the evidence is wanted, no metrics and no events."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the verdict; `lost` says whether destroying the host would lose it."""

    run_id: str
    what: str
    lost: bool
    hint: str | None = None


def judge_host(database: Database, session: HostSession, home: HomePaths, *, ignore_work: bool = False) -> list[Item]:
    """List what destroying the host would lose, and what a person may want to know before.

    Args:
        database: The store.
        session: With the host.
        home: Home's folders.
        ignore_work: Do not count files that runs wrote below work/ and that no `sync.outputs` names.

    Raises:
        HostUnreachable: Nothing can be said then.
    """
    run_ids = runs_there(session)
    items = _not_there(database, session, run_ids)
    for start in range(0, len(run_ids), _AT_ONCE):
        items += _judge_some(database, session, home, run_ids[start : start + _AT_ONCE], ignore_work=ignore_work)
    return items


def _not_there(database: Database, session: HostSession, there: Sequence[str]) -> list[Item]:
    """Runs that home put on this host and that are not on it now: where its root is another one, they may be on a disk of its."""
    missing = [run for run in runs.every(database, host=session.host.name) if run.run_id not in there]
    if not missing:
        return []
    question = {
        "runs": [{"run_id": run.run_id, "metrics_offset": _BEYOND, "events_offset": _BEYOND} for run in missing[:1000]]
    }
    answer = session.call("run.observe", question, timeout_s=60.0)
    items = []
    for run in missing:
        if run.root_id is None and run.observed_at is None:
            continue  # it never got there
        entry = {"exists": False, **{key: answer.get(key) for key in ("root", "wiped")}}
        seen = where(run, entry)
        if seen is not There.REMOVED and not _is_settled(database, run.run_id):
            items.append(Item(run.run_id, AWAY_WORDS, lost=True, hint="mount it, then repeat the command"))
    return items


def _is_settled(database: Database, run_id: str) -> bool:
    """Whether all of a run came home, and what its host had last is proven to be here still."""
    left = [c for c in checkpoints.of_run(database, run_id) if c.on_host and c.trouble != NOT_WANTED]
    if runs.find(database, run_id).is_guess:
        return False
    return run_sync.find(database, run_id).final_done and all(prove(database, c) is Proof.PROVEN for c in left)


def runs_there(session: HostSession) -> list[str]:
    """The ids of the runs that a host has."""
    listed = session.call("run.list", {}).get("runs")
    found = [run.get("run_id") for run in listed if isinstance(run, dict)] if isinstance(listed, list) else []
    return [run_id for run_id in found if isinstance(run_id, str) and RUN_ID.fullmatch(run_id)]


def losses(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.lost]


def _judge_some(
    database: Database, session: HostSession, home: HomePaths, run_ids: Sequence[str], *, ignore_work: bool
) -> list[Item]:
    specs = {run_id: _spec(database, run_id) for run_id in run_ids}
    looks = session.call(
        "sync.look",
        {"runs": [{"run_id": r, "outputs": list(settings_of(specs[r] or {}).outputs)} for r in run_ids]},
        timeout_s=300.0,
    )
    evidence = session.call(
        "run.observe",
        {"runs": [{"run_id": r, "metrics_offset": _BEYOND, "events_offset": _BEYOND} for r in run_ids]},
        timeout_s=60.0,
    )
    looked, observed = _seen(looks), _seen(evidence)
    items: list[Item] = []
    for run_id in run_ids:
        if run_id not in looked or run_id not in observed:
            what = "it was there a moment ago and cannot be seen now"
            items.append(Item(run_id, what, lost=True, hint=f"armada hosts release {session.host.name}"))
            continue
        life = _life(run_id, observed[run_id].get("evidence") or {})
        host, entry, spec = session.host.name, looked[run_id], specs[run_id]
        items += _judge_run(database, home, host, run_id, entry, spec, life, ignore_work=ignore_work)
    return items


def _seen(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The runs whose folders an answer has seen."""
    entries = [entry for entry in answer.get("runs") or [] if isinstance(entry, dict)]
    return {str(entry.get("run_id")): entry for entry in entries if entry.get("exists") is True}


def _life(run_id: str, evidence: dict[str, Any]) -> Item | None:
    """What of a run lives, or may live."""
    if (evidence.get("scheduler") or {}).get("state") == "gone":
        what = "its scheduler no longer lists its job, and nothing says how it ended: it may still run"
        return Item(run_id, what, lost=True, hint=f"armada stop {run_id}, once you know that it does not")
    return Item(run_id, "its job is running", lost=True, hint=f"armada stop {run_id}") if _is_alive(evidence) else None


def _is_alive(evidence: dict[str, Any]) -> bool:
    if evidence.get("supervisor") in ("alive", "unknown") or evidence.get("processes"):
        return True
    submission = evidence.get("submission") or {}
    state = (evidence.get("state") or {}).get("state")
    return bool(submission.get("claimed")) and not submission.get("job") and state not in runs.ENDED


def _judge_run(
    database: Database,
    paths: HomePaths,
    host: str,
    run_id: str,
    entry: dict[str, Any],
    spec: dict[str, Any] | None,
    life: Item | None,
    *,
    ignore_work: bool,
) -> list[Item]:
    items = [] if life is None else [life]
    others = [home for home in registered(entry) or () if home.id != own(paths).id]
    if spec is None:
        whose = " and ".join(home.named for home in others) or "another home"
        items.append(
            Item(
                run_id,
                f"{whose} started it, and this home knows nothing of it",
                lost=True,
                hint="ask its owner, or take it up: armada recover",
            )
        )
    items += [item for home in others if (item := _not_fetched(run_id, home, entry, host))]
    here = {c.digest: c for c in checkpoints.of_run(database, run_id)} if spec is not None else {}
    for checkpoint in outbox_entries(entry):
        known = here.get(checkpoint["digest"])
        proof = Proof.MISSING if known is None else prove(database, known)
        if proof is Proof.DAMAGED:
            what = f"checkpoint-{checkpoint['step']} is damaged at home: the only whole copy is there"
            items.append(Item(run_id, what, lost=True, hint=f"armada sync verify {run_id}"))
        elif proof is Proof.MISSING:
            # Not wanted beside what home keeps: where that is no longer whole, it may be wanted again.
            unwanted = known is not None and known.trouble == NOT_WANTED and _keeps_whole(database, here.values())
            what = f"checkpoint-{checkpoint['step']} ({amount(checkpoint['size_bytes'])}) is only there"
            what += "; sync.keep_home does not want it" if unwanted else ""
            items.append(
                Item(run_id, what, lost=not unwanted, hint=f"armada pull {run_id} --checkpoint {checkpoint['step']}")
            )
    if announced := _count(entry.get("announced")):
        items.append(_unhashed(run_id, announced, _count(entry.get("finishing")), alive=life is not None))
    listing, skipped = read_listing(entry)
    if spec is not None and (missing := stale(paths, run_id, listing)):
        named = ", ".join(inert_line(item.path, 60) for item in missing[:3])
        size = amount(sum(item.size_bytes for item in missing))
        what = f"{len(missing)} logs and outputs are not home ({size}): {named}"
        items.append(Item(run_id, what, lost=True, hint=f"armada sync now {run_id}"))
    if skipped:
        what = f"{len(skipped)} outputs have names that cannot come home, such as {inert_line(ascii(skipped[0]), 60)}"
        items.append(Item(run_id, what, lost=True, hint="rename them on the host"))
    if isinstance(problem := entry.get("problem"), str):
        items.append(Item(run_id, f"what it has there cannot be listed: {inert_line(problem)}", lost=True))
    elif entry.get("truncated"):
        items.append(Item(run_id, "it has more outputs than can be listed", lost=True, hint="copy them yourself"))
    unnamed = entry.get("others") if isinstance(entry.get("others"), dict) else None
    if unnamed and (count := _count(unnamed.get("count"))):
        examples = unnamed.get("examples")
        named = ", ".join(inert_line(path, 60) for path in examples[:3]) if isinstance(examples, list) else ""
        what = f"{count} files it wrote ({amount(_count(unnamed.get('size_bytes')))}) are named by no sync.outputs: {named}"
        items.append(Item(run_id, what, lost=not ignore_work, hint="copy what you need, then --ignore-work"))
    project = (spec or {}).get("project") or {}
    if project.get("dirty"):
        what = "its code had changes that no revision holds; the snapshot it ran lies only on the host"
        items.append(Item(run_id, what, lost=False, hint="commit them, if they are worth it"))
    return items


def _keeps_whole(database: Database, known: Iterable[Checkpoint]) -> bool:
    return all(prove(database, each) is Proof.PROVEN for each in known if each.home_path is not None)


def _not_fetched(run_id: str, home: Registered, entry: dict[str, Any], host: str) -> Item | None:
    """What another home that registered for the run would lose."""
    there = {checkpoint["digest"] for checkpoint in outbox_entries(entry)}
    missing = there - home.held - home.unwanted
    if not missing and home.settled:
        return None
    what = counted(len(missing), "checkpoint") if missing else "the end of its logs and outputs"
    last = f", last here on {time.strftime('%Y-%m-%d', time.localtime(home.seen_at))}" if home.seen_at else ""
    return Item(
        run_id,
        f"{home.named}{last}, has not fetched {what}",
        lost=True,
        hint=f"sync there; or, if that home is gone or agrees: armada hosts forget-home {host} {home.id[:8]}",
    )


def _unhashed(run_id: str, announced: int, finishing: int, *, alive: bool) -> Item:
    named = counted(announced, "checkpoint")
    if finishing >= announced or alive:
        return Item(run_id, f"{named} announced and still being hashed", lost=True, hint="look again in a while")
    hint = "its supervisor.log on the host says why; copy it yourself"
    return Item(run_id, f"{named} announced that cannot be hashed", lost=True, hint=hint)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _spec(database: Database, run_id: str) -> dict[str, Any] | None:
    try:
        return runs.spec(database, runs.find(database, run_id).run_id) if _known(database, run_id) else None
    except NotFound:
        return None


def _known(database: Database, run_id: str) -> bool:
    found = database.connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return found is not None
