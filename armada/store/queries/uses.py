"""When runs were on their hosts: one span for each attempt, as home saw them begin and end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from armada.costs.report import Use
from armada.costs.tariff import is_possible, ran
from armada.store import transitions
from armada.store.transitions import RESUMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.costs.tariff import Span
    from armada.store.database import Database
    from armada.store.runs import Run


Seen: TypeAlias = tuple[float, str, str | None, str | None]
"""A transition as home saw it: unix time, state, reason, message."""

_WAITS = frozenset({"preparing", "submitted", "queued"})

_SLACK_S = 600.0
"""By how much a host's clock may differ from home's before what home saw counts."""


class Past(NamedTuple):
    """What home saw of a run's attempts.

    Attributes:
        earlier: When the attempts before the newest one ran, by home's clock.
        off_s: How many seconds the host's times of the newest attempt are ahead of home's clock; 0 where they fit.
        is_waiting: No newer attempt has begun since those.
    """

    earlier: tuple[Span, ...] = ()
    off_s: float = 0.0
    is_waiting: bool = False


def is_resumed(run: Run) -> bool:
    """Whether a run may have had an attempt before the newest one."""
    return run.attempt > 1 or run.submission > 1


def ran_until(run: Run, now: float) -> float:
    """Return when a run's newest attempt ended: of one that was lost without a record of its end, when it last was alive."""
    if not run.ended or run.ended_at:
        return run.ended_at if run.ended and run.ended_at else now
    alive_at = run.alive_at or run.observed_at or now
    if run.started_at is not None and not is_possible(run.started_at, run.created_at, now):
        return run.started_at + max(0.0, alive_at - run.created_at)  # both by the host's clock, as ends are
    return alive_at


def past_of(run: Run, seen: Sequence[Seen]) -> Past:
    """Return when a run's earlier attempts ran, and what to subtract from its host's times.

    Args:
        run: The run; its newest attempt is what the host said of it.
        seen: Its transitions. Of earlier attempts home knows when it saw them begin and end.
    """
    if run.started_at is None or not is_resumed(run):
        return Past()
    spells, doubts = _spells(seen)
    if run.state in _WAITS:  # what the host says is of an attempt that ended
        ended = tuple((begin, end) for begin, end in spells if end < math.inf)
        if not spells and run.alive_at is not None:  # home never saw it run
            ended = ((run.started_at, max(run.started_at, run.alive_at)),)
        return Past(ended, is_waiting=True)
    began = _began_at(run, run.started_at, spells, seen)
    earlier = tuple((begin, _end_of((begin, end), doubts, began)) for begin, end in spells if begin < began)
    return Past(earlier, run.started_at - began)


def spans_of(run: Run, past: Past, now: float) -> tuple[Span, ...]:
    """Return when a run was running, over all of its attempts; nothing if it never started.

    Args:
        run: The run.
        past: Its earlier attempts.
        now: Unix time: a run that has not ended, also one whose host does not answer, is counted until then.
    """
    if run.started_at is None or past.is_waiting:
        return past.earlier
    if not past.off_s:
        return (*past.earlier, ran(run.started_at, ran_until(run, now), run.created_at, now))
    start = run.started_at - past.off_s
    known = run.ended_at - past.off_s if run.ended_at else run.alive_at or run.observed_at or now
    return (*past.earlier, (start, max(start, min(known if run.ended else now, now))))


def _spells(seen: Sequence[Seen]) -> tuple[list[Span], list[Span]]:
    """Return from when until when home saw a run running (infinity: it still does), and the moments of doubt in between.

    A run that was `unknown` for a while and then runs again may have run on: that alone is no other attempt.
    """
    found: list[Span] = []
    doubts: list[Span] = []
    since: float | None = None
    doubted: float | None = None
    for moment, state, _, _ in seen:
        if state == "running":
            if since is not None and doubted is not None:
                doubts.append((doubted, moment))
            since, doubted = since if since is not None else moment, None
        elif since is not None and state == "unknown":
            doubted = doubted if doubted is not None else moment
        elif since is not None:
            found.append((since, doubted if doubted is not None else moment))
            since = doubted = None
    if since is not None:
        found.append((since, doubted if doubted is not None else math.inf))
    return found, doubts


def _end_of(spell: Span, doubts: Sequence[Span], began: float) -> float:
    """Return when an earlier attempt ended: where home doubted it until the newest attempt began, when the doubt began."""
    begin, end = spell
    over = [doubted for doubted, back in doubts if begin <= doubted < began <= back + _SLACK_S]
    return min([end, began, *over])


def _began_at(run: Run, started_at: float, spells: Sequence[Span], seen: Sequence[Seen]) -> float:
    """Return when a run's newest attempt began, by home's clock.

    The host's word counts where it fits what home saw: the attempt began after the run was submitted again, and before
    home saw it run. Otherwise the host's clock is off, by hours where its local time is taken for UTC.
    """
    resumed = [moment for moment, state, _, message in seen if (state, message) == ("submitted", RESUMED)]
    first = min((moment for moment, *_ in seen), default=run.created_at)
    lowest = resumed[-1] if resumed and run.submission > 1 else min(first, run.created_at)
    able = [number for number, (begin, _) in enumerate(spells) if begin >= lowest]
    are_all_seen = len(spells) == run.attempt and bool(able)
    for number in reversed(able[-1:] if are_all_seen else able):
        low, high = max(lowest, spells[number - 1][1]) if number else lowest, spells[number][0]
        if low - _SLACK_S <= started_at <= high + _SLACK_S:
            return min(max(started_at, low), high)
    if are_all_seen:
        return spells[-1][0]
    if started_at < lowest - _SLACK_S:
        return spells[able[0]][0] if able else lowest
    last = seen[-1][0] if seen else math.inf
    if run.ended and started_at > last + _SLACK_S:
        return max(lowest, last - max(0.0, (run.ended_at or started_at) - started_at))
    if able and run.observed_at is not None and started_at > run.observed_at + _SLACK_S:
        return spells[able[-1]][0]  # it runs since a moment that has not been
    return started_at  # an attempt that home did not see begin


def read_use(database: Database, run: Run, now: float) -> Use:
    """Return when a run was on its host, and with how many GPUs."""
    spans = spans_of(run, read_past(database, run), now)
    return Use(run.run_id, run.host, len(run.gpus), spans, not run.ended and run.unreachable_since is not None)


def read_past(database: Database, run: Run) -> Past:
    """Return the earlier attempts of a run."""
    return past_of(run, transitions.of_run(database, run.run_id)) if is_resumed(run) else Past()


def read_uses(database: Database, found: Iterable[Run], now: float) -> list[Use]:
    """Return the same of several runs, in their order."""
    return [read_use(database, run, now) for run in found]
