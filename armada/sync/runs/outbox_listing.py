"""List what a host has of runs, and how the runs are, before anything is fetched."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from armada.config.sync import settings_of
from armada.errors import ArmadaError
from armada.home import own
from armada.monitor.look import Folder
from armada.monitor.observe import observe
from armada.protocol.homes import asking
from armada.protocol.message import Misfit
from armada.protocol.sync import ListOutboxes, RunListing, RunToList
from armada.rpc.client import Call
from armada.store import checkpoints, runs
from armada.sync.schedule import due
from armada.sync.transfer.stream_transfer import Fetcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.home import Home
    from armada.protocol.observation import Wipe
    from armada.protocol.sync import Listings
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.sync.context import HostContext
    from armada.sync.transfer.streams import Streams

FRESH_S = 10.0
"""Seconds: a newer observation need not be repeated before a sync."""

LAG_S = 600.0
"""Seconds: so long a host's answer may come from another machine than the last one, or from a cache, and be older."""

_TIMEOUT_S = 120.0
_MANIFESTS = 2
"""How many of the newest checkpoints that no home has fetched send their manifests along; each saves a request."""


@dataclass(frozen=True, slots=True)
class OutboxListing:
    """A run's part of an answer to `sync.look`. `ended` and `submission` hold what was known before the host was queried.

    That order matters: of a submission that had already ended, the answer shows everything there will ever be. A run
    that another home has resumed since has not ended; and an answer that lags behind what was known shows no end.
    """

    entry: RunListing
    ended: bool
    submission: int = 0
    lags: bool = False
    root: str | None = None
    wiped: tuple[Wipe, ...] = ()

    @property
    def folder(self) -> Folder:
        """Whether the run's folder exists."""
        return Folder(self.entry.exists, self.root, self.wiped)

    @property
    def finishing(self) -> int:
        """How many checkpoints the host is hashing now because their supervisor died."""
        return self.entry.finishing or 0


def look_at(
    database: Database,
    session: HostSession,
    chosen: Sequence[Run],
    now: float | None = None,
    *,
    asker: Home | None = None,
) -> dict[str, OutboxListing]:
    """Ask a host what it has of these runs; return its answers by run id. The host then keeps for `asker` what that has not fetched."""
    moment = time.time() if now is None else now
    answer = session.call(_question(database, chosen, asker), timeout_s=_TIMEOUT_S)
    return _read(session, chosen, answer, moment)


def look_first(context: HostContext, pool: Streams, chosen: Sequence[Run], now: float) -> dict[str, OutboxListing]:
    """List what the host has of runs. Meanwhile open the streams, if the store knows of something to fetch.

    Raises:
        HostUnreachable: As in `observe`.
    """
    database, session = context.database, context.session
    for run in chosen:
        if expects(database, run.run_id):
            settings = settings_of(runs.spec(database, run.run_id))
            Fetcher(session, pool=pool, streams=settings.streams, bytes_per_s=settings.bytes_per_s).prepare()
    unseen = [run for run in chosen if run.is_watched(now) and not 0 <= now - (run.observed_at or 0) < FRESH_S]
    return observe_and_look(database, session, chosen, unseen, now, asker=own(context.home))


def expects(database: Database, run_id: str) -> bool:
    """Tell whether the store knows of a checkpoint to fetch."""
    known = checkpoints.of_run(database, run_id)
    return any(c.on_host and c.home_path is None and c.trouble != due.NOT_WANTED for c in known)


def observe_and_look(
    database: Database,
    session: HostSession,
    chosen: Sequence[Run],
    unseen: Sequence[Run],
    now: float,
    *,
    asker: Home,
) -> dict[str, OutboxListing]:
    """Observe some runs and list what the host has of all of them, in one round trip.

    Args:
        database: The store.
        session: A session with the host.
        chosen: The runs as the store has them now.
        unseen: Those whose state is not known well enough.
        now: Unix time.
        asker: As in `look_at`.

    Raises:
        HostUnreachable: As in `observe`.
    """
    if not unseen:
        looks = look_at(database, session, chosen, now, asker=asker)
        if resumed := [run for run in chosen if _was_resumed(run, looks[run.run_id].entry)]:
            observe(database, session, resumed)  # another home resumed it: record that now
        return looks
    (answer,) = observe(database, session, unseen, also=[Call.of(_question(database, chosen, asker), _TIMEOUT_S)])
    if isinstance(answer, ArmadaError):
        raise answer
    looks = _read(session, chosen, answer, now)
    seen_now = [runs.find(database, run.run_id) for run in chosen]
    # Of a run that runs again although its batch system had told its end, more is to come.
    back = {run.run_id for run in seen_now if not run.ended}
    looks = {run_id: replace(look, ended=look.ended and run_id not in back) for run_id, look in looks.items()}
    # Both requests ran at once. If a run has ended since, the listing may be older than its last output.
    ended = [run for run in seen_now if run.is_settled(now) and not looks[run.run_id].ended]
    return {**looks, **look_at(database, session, ended, now, asker=asker)} if ended else looks


def _question(database: Database, chosen: Sequence[Run], asker: Home | None) -> ListOutboxes:
    patterns = {run.run_id: tuple(settings_of(runs.spec(database, run.run_id)).outputs) for run in chosen}
    if asker is None:
        return ListOutboxes(runs=tuple(RunToList(run_id=run_id, outputs=each) for run_id, each in patterns.items()))
    asked = (RunToList(run_id=run_id, outputs=each, manifests=_MANIFESTS) for run_id, each in patterns.items())
    return ListOutboxes(runs=tuple(asked), home=asking(asker))


def _read(session: HostSession, chosen: Sequence[Run], answer: Listings, now: float) -> dict[str, OutboxListing]:
    found = {each.run_id: each for each in answer.runs}
    missing = [run.run_id for run in chosen if run.run_id not in found]
    if missing:
        raise ArmadaError(f"the agent's answer leaves out {missing[0]}", host=session.host.name)
    listed = {run.run_id: _listing(run.run_id, found[run.run_id]) for run in chosen}
    return {run.run_id: _of_run(run, listed[run.run_id], answer, now) for run in chosen}


def _of_run(run: Run, entry: RunListing, answer: Listings, now: float) -> OutboxListing:
    lags = _lags(run, entry, now)
    ended = run.is_settled(now) and not _was_resumed(run, entry) and not lags
    return OutboxListing(entry, ended, run.submission, lags, root=answer.root, wiped=answer.wiped)


def _was_resumed(run: Run, entry: RunListing) -> bool:
    """Whether the host has a newer submission than home knows of."""
    return entry.submission is not None and entry.submission > run.submission


def _lags(run: Run, entry: RunListing, now: float) -> bool:
    """Whether an answer shows an earlier submission than was seen on the host shortly before.

    What the later one saved is not listed, and may be there. Later, such an answer means that the host's disk was restored
    from a snapshot: then nothing more comes. A host that shows no submission may have refused the only one.
    """
    is_earlier = entry.submission is not None and 0 < entry.submission < run.submission
    return is_earlier and run.observed_at is not None and 0 <= now - run.observed_at < LAG_S


def _listing(run_id: str, part: RunListing | Misfit) -> RunListing:
    """Return a run's part of the answer; an invalid part is reported for this run alone."""
    if isinstance(part, Misfit):
        problem = f"its host's answer does not fit: {part.problem}"
        return RunListing(run_id=run_id, exists=True, truncated=True, problem=problem)
    return part
