"""Carry a search on: where cells of a host have ended, choose as many new ones and hand them over together.

Everything is read from the store each time, so a command or daemon that was killed leaves nothing but cells that are
recorded and not handed over; the next look hands them over under the same numbers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.documents import Document
from armada.errors import ArmadaError, HostUnreachable, OutcomeUnknown
from armada.foundation.locks import FileLock
from armada.foundation.sanitize import sanitize_line
from armada.provision.admission import refuse_over_budget, refuse_while_clearing
from armada.provision.namesakes import refuse_other_machine
from armada.store import runs, sweeps
from armada.store.running_operations import operation
from armada.sweeps.cells import Known, draft_of_cells, expand
from armada.sweeps.counts import newest_runs
from armada.sweeps.equal_cells import identity
from armada.sweeps.planning import Asked
from armada.sweeps.rules import settings_of
from armada.sweeps.search import AT_ONCE, free_places, propose, why_give_up
from armada.sweeps.searched import change_search, last_number, search_of, trials_of
from armada.sweeps.service import hand_over_more
from armada.sweeps.unfinished import not_handed_over
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.sweeps import SweepRecord
    from armada.sweeps.cells import Cell
    from armada.sweeps.search import Trial
    from armada.sweeps.searched import SearchRecord

log = logging.getLogger(__name__)

AGAIN_S = 600.0
"""Seconds until the next try after a refusal, such as a full disk on the host."""
SOON_S = 60.0
"""The same after a hand-over of which it is unknown whether the host has it."""


class Rounds:
    """Carries the searches of one host on.

    Args:
        session: A session with the host.
    """

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._not_before: dict[str, float] = {}

    def look(self, database: Database, now: float) -> None:
        """Hand over what is due of each search that uses the host.

        Raises:
            HostUnreachable: The host does not answer.
        """
        for record in sweeps.searches(database):
            if now < self._not_before.get(record.name, 0.0):
                continue
            try:
                self._look(database, record.name, now)
            except HostUnreachable:
                raise
            except ArmadaError as error:
                self._not_before[record.name] = now + (SOON_S if isinstance(error, OutcomeUnknown) else AGAIN_S)
                words = sanitize_line(str(error), 500)
                change_search(database, record.name, note=words)
                log.info("%s: no new trials: %s", record.name, words)

    def _look(self, database: Database, name: str, now: float) -> None:
        if not self._due(database, name, now):
            return
        with FileLock(self._session.home.lock(f"sweep-{name}")) as lock:
            if not lock.try_acquire():
                return  # another daemon or command is at it
            due = self._due(database, name, now)  # it may have been done a moment ago
            if due is None:
                return
            record = sweeps.find(database, name)
            if why := why_give_up(due.trials, due.at_once, due.search.since):
                log.info("%s is stopped: %s", name, why)
                sweeps.set_state(database, name, "stopped", why)
                return
            self._round(database, record, due)

    def _due(self, database: Database, name: str, now: float) -> _Due | None:
        """What is due of a search on this host; None if nothing is."""
        record = sweeps.find(database, name)
        search = search_of(record)
        if search is None or record.state != "started":
            return None
        host = self._session.host.name
        found = newest_runs(runs.of_sweep(database, name))
        if not any(run.host == host for run in found):
            return None
        at_once = search.cells.at_once or AT_ONCE
        left = {run.run_id for run in not_handed_over(database, name) if run.host == host}
        first = [run.host for run in found if (run.cell or 0) <= at_once]
        pending = [run.host for run in found if not run.is_settled(now)]
        count = min(free_places(host, first, pending, at_once), search.cells.trials - last_number(record))
        if count <= 0 and not left:
            return None
        return _Due(search, trials_of(database, record, now), max(0, count), frozenset(left), at_once)

    def _round(self, database: Database, record: SweepRecord, due: _Due) -> None:
        host, name = self._session.host.name, record.name
        argv = ["armada", "sweep", "show", name]
        with operation(database, kind="launch", run_id=name, host=host, argv=argv) as recorded:
            refuse_other_machine(database, self._session.host)
            refuse_over_budget(database, self._session.host)
            refuse_while_clearing(database, host)
            cells = _cells(record, due, settings_of(record).decided_goal)
            if not cells:
                change_search(database, name, note="all combinations of its space were tried")
                return
            shares = record.settings.get("shares")
            parallel = shares.get(host) if isinstance(shares, dict) else None
            profile = record.settings.get("profile")
            asked = Asked(
                name=name,
                title=record.title,
                experiment=_path(record),
                cells=cells,
                sessions={host: self._session},
                home=self._session.home,
                database=database,
                profile=profile if isinstance(profile, str) else None,
                parallel=parallel if isinstance(parallel, int) and parallel > 0 else None,
                settings=record.settings,
            )
            outcome = hand_over_more(asked, recorded)
            change_search(database, name, note="")
            outcome.raise_if_incomplete()
        log.info("%s: %s on %s", name, counted(len(cells), "new trial"), host)


@dataclass(frozen=True, slots=True)
class _Due:
    """What is due of a search on one host.

    Attributes:
        search: The search.
        trials: All there are.
        count: How many new ones.
        left: Runs that are recorded, and that the host may not have.
        at_once: How many are under way at once, on all hosts together.
    """

    search: SearchRecord
    trials: Sequence[Trial]
    count: int
    left: frozenset[str]
    at_once: int


def _cells(record: SweepRecord, due: _Due, goal: str) -> list[Cell]:
    """The cells to hand over: those that were left, under their numbers, and new ones."""
    last = last_number(record)
    left = [trial for trial in due.trials if trial.run_id in due.left]
    new = propose(due.search.cells, goal, due.trials, last + 1, due.count) if due.count else []
    document = Document(_path(record), dict(due.search.experiment))
    known = Known(pending={identity(trial.values): trial.number for trial in left}, last=last)
    return expand(draft_of_cells(document, [*(trial.values for trial in left), *new]), known)


def _path(record: SweepRecord) -> Path:
    return Path(record.experiment or "experiment.yaml")
