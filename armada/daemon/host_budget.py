"""Stop the runs of a host whose budget is spent: each saves in its grace period, and its checkpoints stay until home.

Runs that another home launched continue, and the user is told: that home never set this budget, and `armada stop` asks
before it ends them. That holds for a home of which this one is a copy, too: whether it still lives, its silence does not
say. `armada hosts forget-home` says that it is gone, and then its runs are this home's.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from armada.costs.price import money, parse_money
from armada.errors import ArmadaError
from armada.home import copied_from, launched_by, own
from armada.launch.stop import request_of
from armada.notifications.events import Continuing
from armada.protocol.message import Misfit
from armada.protocol.sync import ListOutboxes, RunToList
from armada.rpc.client import Call
from armada.store import runs
from armada.store.queries.host_costs import why_over_budget
from armada.verdicts.again import is_copied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from armada.rpc.session import HostSession
    from armada.store.database import Database

log = logging.getLogger(__name__)

EVERY_S = 30.0
"""Seconds between two looks at what a host has cost."""

_AT_ONCE = 200
"""Runs of which one request asks."""


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
        for run_id in self._of_forgotten_homes(database, theirs) if theirs else ():
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
        spent, copied = money(*parse_money(self.session.host.budget or "0 USD")), copied_from(self.session.home)
        for home_id, run_ids in homes.items():
            label, is_former = theirs[run_ids[0]], home_id in copied and not self._is_within
            yield Continuing(self.session.host.name, spent, home_id, label, tuple(run_ids), is_former)

    @property
    def _is_within(self) -> bool:
        """The runs lie within this home: one of a former home may be a copy, too."""
        return self.session.host.local and self.session.host.root is None

    def _of_forgotten_homes(self, database: Database, theirs: Mapping[str, str]) -> Iterator[str]:
        """Return those of other homes' runs that are this home's: it is a copy of their launcher, which the host was told to forget."""
        copied = copied_from(self.session.home)
        if not copied:
            return
        launchers = {run_id: launched_by(runs.spec(database, run_id)) for run_id in theirs}
        here, is_within = own(self.session.home).id, self._is_within
        former = {
            run_id: launcher.id
            for run_id, launcher in launchers.items()
            if launcher is not None and launcher.id in copied and not is_copied(launcher.id, here, is_within=is_within)
        }
        registered = self._registered(list(former)[:_AT_ONCE]) if former else {}
        yield from (run_id for run_id, homes in registered.items() if here in homes and former[run_id] not in homes)

    def _registered(self, run_ids: Sequence[str]) -> dict[str, set[str]]:
        """Ask the host which homes are registered there, by run; without runs of which it does not say."""
        listed = ListOutboxes(runs=tuple(RunToList(run_id=run_id) for run_id in run_ids))
        (answer,) = self.session.call_all([Call.of(listed, 60.0)])
        if isinstance(answer, ArmadaError):
            log.warning("%s: which homes are registered is not known: %s", self.session.host.name, answer.message)
            return {}
        return {
            run_id: {home.id for home in entry.homes}
            for run_id, entry in zip(run_ids, answer.runs, strict=False)
            if not isinstance(entry, Misfit) and entry.run_id == run_id
        }
