"""Stop the runs of a host whose budget is spent: each saves in its grace period, and its checkpoints stay until home.

Runs that another home launched continue, and the user is told: that home never set this budget, and `armada stop` asks
before it ends them. A home of which this one is a copy is no other one, unless it was seen on the host since: it was
moved, or this one was restored from it.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import TYPE_CHECKING

from armada.costs.price import money, parse_money
from armada.errors import ArmadaError
from armada.home import copied_from, launched_by, own
from armada.launch.stop import request_of
from armada.notifications.events import Continuing
from armada.protocol.host import Probe
from armada.protocol.message import Misfit
from armada.protocol.sync import ListOutboxes, RunToList
from armada.rpc.client import Call
from armada.store import runs
from armada.store.queries.host_costs import why_over_budget
from armada.verdicts.again import is_copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from armada.home import Copied
    from armada.rpc.session import HostSession
    from armada.store.database import Database

log = logging.getLogger(__name__)

EVERY_S = 30.0
"""Seconds between two looks at what a host has cost."""

SHOWS_WITHIN_S = 3600.0
"""A home of which this one is a copy has so many seconds to sync again, which shows that it is still there."""

_AT_ONCE = 200
"""Runs of which one request asks."""

_SETTLES_S = 600.0
"""Seconds within which a sync that began before this home was a copy may have ended."""


@dataclasses.dataclass(slots=True)
class HostBudget:
    """Watches over the budget of one host.

    Attributes:
        session: A session with the host.
        tell: Takes the runs that continue although the budget is spent, at each look; for a notification.
    """

    session: HostSession
    tell: Callable[[Sequence[Continuing]], None] = lambda _: None
    _next_at: float = 0.0
    _told: frozenset[str] = frozenset()
    """Runs of other homes, which were named in the log."""
    _living: set[str] = dataclasses.field(default_factory=set)
    """Homes of which this one is a copy, and which were seen since."""

    def look(self, database: Database, now: float) -> None:
        """Stop the runs of this home there if the host's budget is spent, unless that was looked at a moment ago.

        Raises:
            HostUnreachable: The host does not answer now.
        """
        host = self.session.host
        if host.budget is None or now < self._next_at <= now + EVERY_S:
            return
        self._next_at = now + EVERY_S
        active = [run for run in runs.every(database, host=host.name, active=True) if run.state != "preparing"]
        why = why_over_budget(database, host, now) if active else None
        if why is None:
            self.tell(())
            return
        others = runs.launchers(database, own(self.session.home).id)
        theirs = {run.run_id: others[run.run_id] for run in active if run.run_id in others}
        for run_id in self._of_former_homes(database, theirs, now) if theirs else ():
            del theirs[run_id]
        self._say_theirs(database, theirs, why)
        mine = [run for run in active if run.run_id not in theirs]
        if mine:
            log.warning("%s; %d of its runs are stopped", why, len(mine))
            requests = [request_of(database, run, None).model_copy(update={"budget": why}) for run in mine]
            self.session.call_all([Call.of(each, 60.0) for each in requests])

    def _say_theirs(self, database: Database, theirs: Mapping[str, str], why: str) -> None:
        """Tell of the runs that continue: as a notification for each home, and in the log when another one is among them."""
        self.tell(list(self._continuing(database, theirs)))
        if theirs.keys() - self._told:
            self._told = frozenset(theirs)
            named = ", ".join(f"{run_id} of {label}" for run_id, label in sorted(theirs.items()))
            log.warning("%s; other homes launched %s: armada stop RUN --other-home stops one", why, named)

    def _continuing(self, database: Database, theirs: Mapping[str, str]) -> Iterator[Continuing]:
        homes: dict[str, list[str]] = {}
        for run_id in sorted(theirs):
            launcher = launched_by(runs.spec(database, run_id))
            homes.setdefault(launcher.id if launcher is not None else theirs[run_id], []).append(run_id)
        spent = money(*parse_money(self.session.host.budget or "0 USD"))
        for home_id, run_ids in homes.items():
            yield Continuing(self.session.host.name, spent, home_id, theirs[run_ids[0]], tuple(run_ids))

    # A home that is a copy -------------------------------------------------------------------------------------------

    def _of_former_homes(self, database: Database, theirs: Mapping[str, str], now: float) -> list[str]:
        """Return those of other homes' runs that are this home's: it is a copy of their launcher, which is not there any more."""
        copied = copied_from(self.session.home)
        if copied is None or now - copied.at < SHOWS_WITHIN_S:
            return []
        launchers = {run_id: launched_by(runs.spec(database, run_id)) for run_id in theirs}
        here, host = own(self.session.home).id, self.session.host
        is_within = host.local and host.root is None  # then it may be a copy of a run, too
        former = {
            run_id: launcher.id
            for run_id, launcher in launchers.items()
            if launcher is not None
            and launcher.id in copied.ids
            and not is_copied(launcher.id, here, is_within=is_within)
        }
        asked = [run_id for run_id, home_id in former.items() if home_id not in self._living][:_AT_ONCE]
        if not asked or not self._saw_living(asked, copied):
            return []
        return [run_id for run_id in asked if former[run_id] not in self._living]

    def _saw_living(self, run_ids: Sequence[str], copied: Copied) -> bool:
        """Ask the host which of the former homes were there since this one is a copy; return whether it has said so."""
        listed = ListOutboxes(runs=tuple(RunToList(run_id=run_id) for run_id in run_ids))
        began = time.time()
        clock, answer = self.session.call_all([Call.of(Probe(send_bytes=0, padding="")), Call.of(listed, 60.0)])
        for each in (clock, answer):
            if isinstance(each, ArmadaError):
                log.warning("%s: which homes were there is not known: %s", self.session.host.name, each.message)
                return False
        if len(answer.runs) < len(run_ids) or any(isinstance(entry, Misfit) for entry in answer.runs):
            return False
        ahead_s = clock.time - began
        for entry in answer.runs:
            for home in entry.homes:
                if home.seen_at is not None and home.seen_at - ahead_s > copied.at + _SETTLES_S:
                    self._living.add(home.id)
        return True
