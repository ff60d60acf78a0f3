"""Resume runs that were lost with their host or their supervisor automatically, as often as `retries` of their experiment allows.

A run that failed by itself (an exit code, out of memory, a NaN loss) is left to the user: it would fail again, at the
cost of its host. So is a cell of a sweep that was stopped.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, OutcomeUnknown, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.home import launched_by, own
from armada.launch.service import retry
from armada.monitor.observe import ask_about, observe
from armada.store import runs
from armada.store.queries.former_runs import failed_with
from armada.store.queries.stopped_cells import is_of_stopped_sweep, was_pruned
from armada.verdicts.again import announces, is_copied, may_have_succeeded

if TYPE_CHECKING:
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run

log = logging.getLogger(__name__)

LOST = ("host_rebooted", "supervisor_lost")
RECENT_S = 86_400.0
"""Seconds: a run that was lost longer ago is left to the user."""

NOT_SEEN = "armada does not resume it automatically: it may have succeeded, because its exit code was not recorded. Read its log;"

COPIED = (
    "armada does not resume it automatically: this home is a copy of the one that launched it, and it may run there."
    " If it does not,"
)

AGAIN_S = 600.0
"""Seconds until the retry after a temporary problem, such as a full disk on the host; a refusal is not retried."""


class Retries:
    """Resumes the runs that one host lost.

    Args:
        session: A session with the host.
    """

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._not_before: dict[tuple[str, int], float] = {}

    def look(self, database: Database, now: float | None = None, *, only: str | None = None) -> list[str]:
        """Resume lost runs, except those that were refused before. Return the ids of the resumed runs.

        Args:
            database: The store.
            now: Unix time.
            only: Check only this run.

        Raises:
            HostUnreachable: The host does not answer now.
        """
        if self._session.host.batch is not None:
            return []  # a batch system requeues the jobs that its nodes lose
        now = time.time() if now is None else now
        gone_on = []
        for run in failed_with(database, self._session.host.name, LOST, since=now - RECENT_S):
            if only not in (None, run.run_id):
                continue
            if is_of_stopped_sweep(database, run) or was_pruned(database, run):
                continue
            retries = runs.setting(database, run.run_id, "retries") or 0
            if run.submission <= retries and now >= self._not_before.get((run.run_id, run.submission), 0.0):
                gone_on += [run.run_id] if self._try(database, run, retries, now) else []
        return gone_on

    def _try(self, database: Database, run: Run, retries: int, now: float) -> bool:
        """Return whether the run goes on. What is wrong with this run alone, such as its part of an answer, stops no other."""
        try:
            return self._resume(database, run, retries, now)
        except HostUnreachable:
            raise
        except ArmadaError as error:
            self._not_before[run.run_id, run.submission] = now + AGAIN_S
            log.info("%s: not resumed now: %s", run.run_id, sanitize_line(error.message))
            return False

    def _resume(self, database: Database, run: Run, retries: int, now: float) -> bool:
        """Return whether the run goes on: this resumed it, or somebody else did."""
        words = f"{run.reason}: retry {run.submission} of {retries}"
        if not _is_same(known := _now(database, run), run):
            return _goes_on(known, run)  # somebody was faster while the runs before it took their time
        if self._is_of_original(database, run):
            return self._leave(database, run, words, f"{COPIED} `armada resume {run.run_id} --other-home` runs it here")
        evidence = ask_about(self._session, run).run.evidence
        is_announcing = announces(runs.spec(database, run.run_id))
        rebooted = evidence is not None and evidence.rebooted
        said = evidence.may_have_succeeded if evidence is not None else None
        if evidence is not None and said is None:
            # It lives, was resumed, or its end is recorded by now; an older agent says nothing of a dead one either.
            observe(database, self._session, [run])
            known = _now(database, run)
            if known is not None and known.state == "submitted" and evidence.supervisor == "none":
                # Somebody decided to resume it and claimed a submission, which nothing has started. Its number starts once.
                return self._submit(database, known, words, now)
            if not _is_same(known, run):
                return _goes_on(known, run)
            if evidence.supervisor != "dead":
                self._not_before[run.run_id, run.submission] = now + AGAIN_S
                return False
        if may_have_succeeded(said, run.reason, is_announcing=is_announcing, rebooted=rebooted):
            return self._leave(database, run, words, f"{NOT_SEEN} `armada resume {run.run_id}` runs it again")
        return self._submit(database, run, words, now)

    def _is_of_original(self, database: Database, run: Run) -> bool:
        """Whether a run is on this machine, and was launched by the home of which this one is a copy."""
        host, launcher = self._session.host, launched_by(runs.spec(database, run.run_id))
        is_within = host.local and host.root is None  # another root was not copied with the home
        return launcher is not None and is_copied(launcher.id, own(self._session.home).id, is_within=is_within)

    def _leave(self, database: Database, run: Run, words: str, told: str) -> bool:
        """Leave a run to the user, and say why."""
        self._not_before[run.run_id, run.submission] = float("inf")
        _say(database, run, told)
        log.info("%s: %s: %s", run.run_id, words, told)
        return False

    def _submit(self, database: Database, run: Run, words: str, now: float) -> bool:
        try:
            retry(database, self._session, run, words)
        except (HostUnreachable, OutcomeUnknown) as error:
            # The next call finds out whether the run continues; if not, it tries again.
            log.info("%s: %s: %s", run.run_id, words, sanitize_line(error.message))
            if isinstance(error, HostUnreachable):
                raise
            return True  # its supervisor may only be slow
        except ArmadaError as error:
            if _goes_on(_now(database, run), run):
                return True  # something else was faster: the daemon, a follower, the user
            final = isinstance(error, Conflict | NotFound | UsageError)
            self._not_before[run.run_id, run.submission] = float("inf") if final else now + AGAIN_S
            told = sanitize_line(f"not resumed automatically: {error.message}")
            _say(database, run, told)
            log.info("%s: %s: %s", run.run_id, words, sanitize_line(error.message))
            return False
        log.info("%s resumed (%s)", run.run_id, words)
        return True


def _now(database: Database, run: Run) -> Run | None:
    """Return what the store has of a run now; None if it was forgotten."""
    try:
        return runs.find(database, run.run_id)
    except NotFound:
        return None


def _is_same(known: Run | None, run: Run) -> bool:
    """Whether a run is as it was listed: nobody has resumed it, seen another end of it or forgotten it since."""
    listed = (run.state, run.reason, run.submission)
    return known is not None and (known.state, known.reason, known.submission) == listed


def _goes_on(known: Run | None, run: Run) -> bool:
    """Whether somebody has resumed a run since it was listed."""
    return known is not None and (not known.ended or known.submission > run.submission)


def _say(database: Database, run: Run, told: str) -> None:
    """Say why a run is not resumed, unless it is no longer the lost run of which that was decided."""
    known = _now(database, run)
    if known is not None and _is_same(known, run):
        runs.set_state(database, run.run_id, run.state, reason=run.reason, message=told, judged=known)
