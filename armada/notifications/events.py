"""Find the events that are worth a message in the store, so that it does not matter which process saw them first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from armada.costs.price import money
from armada.foundation.sanitize import sanitize_line
from armada.protocol.recorded import recorded_facts
from armada.store import checkpoints, operations, run_sync, runs, transitions
from armada.store import hosts as host_records
from armada.store.queries.uses import read_use
from armada.units import amount, counted, span
from armada.verdicts.again import resumes_from, resuming_words
from armada.verdicts.guesses import WATCHED_S, is_guess
from armada.verdicts.idle import stopping_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from armada.costs.tariff import Tariff
    from armada.notifications.settings import Kind
    from armada.store.database import Database
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run

YOUNG_S = 86_400.0
"""Seconds after home learned of an event, after which it is no longer reported."""

KNOWN_S = 7 * 86_400.0
"""Runs that ended more than this many seconds ago are not examined."""

SOON_FULL_BYTES = 10_000_000_000
SOON_FULL_SHARE = 0.02

STALLED_S = 60.0
"""Seconds of silence before a run counts as stalled: a host that wakes from sleep shows old heartbeats for a moment."""

CURRENT_S = 3600.0
"""Seconds for which facts of a disk are taken for those of now; a host that answers is asked every few minutes."""

_NAMED = 5
"""Runs that one message names."""

_NOT_WORTH_IT = frozenset({"killed_by_user", "interrupted", "launched_again", "pruned", "sweep_stopped"})
"""Reasons of ends that the user has just caused, or asked for with a sweep's rule."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened once: equal `key`s mean the same event.

    `at` is when home learned of it, in unix time: a laptop that slept learns later, and a host's clock may be wrong. What
    `goes_on` is reported however long ago it began.
    """

    key: str
    kind: Kind
    title: str
    body: str
    at: float
    goes_on: bool = False


class Continuing(NamedTuple):
    """Runs of another home that continue on a host whose budget is spent.

    Attributes:
        host: Its name.
        budget: What was spent, as text.
        home_id: Which home launched them, or its label where it has no id.
        label: Its label, for display.
        run_ids: The runs.
        is_former: It is the home of which this one is a copy.
    """

    host: str
    budget: str
    home_id: str
    label: str
    run_ids: tuple[str, ...]
    is_former: bool = False


def find_events(
    database: Database,
    now: float,
    *,
    sync_failing_s: float,
    disk_full_s: float = 12 * 3600.0,
    tariffs: Mapping[str, Tariff] | None = None,
    continuing: Iterable[Continuing] = (),
) -> list[Event]:
    """Return all events that home learned of in the last day, and those that go on.

    Args:
        database: The store.
        now: Unix time.
        sync_failing_s: Report a run after nothing of it came home for this many seconds.
        disk_full_s: Report a disk that is expected to be full within this many seconds.
        tariffs: What hosts cost, by name.
        continuing: Runs that continue on hosts whose budgets are spent.
    """
    recent = runs.recent(database, now - KNOWN_S)
    found = [
        *_ends(database, recent),
        *_revisions(database, recent),
        *_retries(database, recent, now),
        *_stalls(database, recent, now),
        *_spent_budgets(database, recent, tariffs or {}, now),
        *_continuing_runs(continuing, now),
        *_failing_syncs(database, recent, now, sync_failing_s),
        *_full_disks(database, recent, now, disk_full_s),
        *_stopped_hosts(database, now),
    ]
    return [event for event in found if event.goes_on or now - event.at < YOUNG_S]


def _ends(database: Database, recent: list[Run]) -> Iterator[Event]:
    for run in recent:
        if not run.ended or run.reason in _NOT_WORTH_IT:
            continue
        at = _learned_at(database, run)
        lasted = f" after {span(run.ended_at - run.started_at)}" if run.ended_at and run.started_at else ""
        step = f", step {run.step:,}" if run.step else ""
        loss = f", loss {run.loss_text}" if run.loss_text is not None else ""
        key = f"{run.run_id}:{run.submission}:{run.attempt}:{run.state}"
        if run.is_guess:
            told = f"{sanitize_line(run.message, 200)}{step}; armada keeps checking for {span(WATCHED_S)} and reports what becomes of it"
            body = f"{run.run_id} on {run.host}: {told}\narmada why {run.run_id}"
            title = f"{sanitize_line(run.name, 80)}: its scheduler no longer lists it"
            # It has its own key, so the later outcome is reported, too.
            yield Event(f"{key}:guess", "run_failed", title, body, run.guessed_at or at)
            continue
        if run.state == "succeeded":
            body = f"{run.run_id} on {run.host}: succeeded{lasted}{step}{loss}"
            yield Event(key, "run_finished", f"{sanitize_line(run.name, 80)} finished", body, at)
        else:
            said = f" ({sanitize_line(run.message, 200)})" if run.message else ""
            body = f"{run.run_id} on {run.host}: {run.state}, {run.reason or 'no reason recorded'}{lasted}{step}{said}"
            yield Event(
                key, "run_failed", f"{sanitize_line(run.name, 80)} {run.state}", f"{body}\narmada logs {run.run_id}", at
            )


def _learned_at(database: Database, run: Run) -> float:
    """Return when home learned of a run's end, by home's clock.

    A later reason of the same end is no news, unless the end was only guessed before. Of a run that `armada recover`
    found in its end, home knew nothing before: the host's time counts.
    """
    seen = transitions.of_run(database, run.run_id)
    since = len(seen)
    while since and seen[since - 1][1] == run.state and is_guess(*seen[since - 1][1:3]) == run.is_guess:
        since -= 1
    return seen[since][0] if 0 < since < len(seen) else run.ended_at or run.observed_at or run.created_at


def _revisions(database: Database, recent: list[Run]) -> Iterator[Event]:
    """Yield runs whose end nobody had recorded and that have appeared again. Their later ends are separate events."""
    for run in recent:
        guessed_at = transitions.revised_at(database, run.run_id) or 0.0
        at = max(guessed_at, run.revised_at or 0.0)
        if run.ended or not at:
            continue
        why = (
            "its scheduler had wrongly stopped listing it"
            if at == guessed_at
            else "its scheduler had reported its end, and has the job again"
        )
        body = f"{run.run_id} on {run.host}: it is {run.state}; {why}"
        title = f"{sanitize_line(run.name, 80)} is {run.state} after all"
        # The same kind as the message that it corrects, so that it reaches the same people.
        yield Event(f"{run.run_id}:revised:{int(at)}", "run_failed", title, body, at)


def _retries(database: Database, recent: list[Run], now: float) -> Iterator[Event]:
    known = {run.run_id: run for run in recent}
    for each in operations.done(database, "retry", since=now - YOUNG_S):
        run = known.get(each.run_id or "")
        if run is None:
            continue
        known_then = [c for c in checkpoints.of_run(database, run.run_id) if (c.created_at or 0.0) < each.started_at]
        step = resumes_from(runs.spec(database, run.run_id), (c.step for c in known_then if c.on_host))
        body = f"{run.run_id} on {run.host} was lost and resumed {resuming_words(step)} ({sanitize_line(each.message)})"
        yield Event(each.id, "run_resumed", f"{sanitize_line(run.name, 80)} goes on", body, each.started_at)


def _stalls(database: Database, recent: list[Run], now: float) -> Iterator[Event]:
    for run in recent:
        since = (
            transitions.stalled_since(database, run.run_id)
            if (run.state, run.reason) == ("running", "stalled")
            else None
        )
        if since is None or now - since < STALLED_S or run.unreachable_since is not None:
            continue
        body = (
            f"{run.run_id} on {run.host}: {sanitize_line(run.message, 200)}; its processes are alive\n"
            f"armada logs {run.run_id}; armada stop {run.run_id}"
        )
        key = f"{run.run_id}:{run.attempt}:stalled:{int(since)}"
        yield Event(key, "run_stalled", f"{sanitize_line(run.name, 80)} is stalled", body, since, goes_on=True)


def _spent_budgets(database: Database, recent: list[Run], tariffs: Mapping[str, Tariff], now: float) -> Iterator[Event]:
    for run in recent:
        tariff = tariffs.get(run.host)
        rate = tariff.run_rate(len(run.gpus), now) if tariff is not None else None
        told = runs.setting(database, run.run_id, "budget") if rate is not None else None
        budget = told if isinstance(told, int | float) and not isinstance(told, bool) else None
        if tariff is None or rate is None or not rate[0] or not budget:
            continue
        use = read_use(database, run, now)
        reached_at = tariff.reached_at(use.held, use.spans, budget, rate[1])
        if reached_at is None:
            continue
        body = (
            f"{run.run_id} on {run.host}: its budget of {money(budget, rate[1])} is spent, at {money(*rate)} per hour while it ran"
            + ("" if run.ended else f"; it continues\narmada stop {run.run_id}")
        )
        yield Event(
            f"{run.run_id}:budget:{budget:g}",
            "budget_reached",
            f"{sanitize_line(run.name, 80)}: budget reached",
            body,
            max(reached_at, _learned_at(database, run)) if run.ended else reached_at,
            goes_on=not run.ended,
        )


def _continuing_runs(continuing: Iterable[Continuing], now: float) -> Iterator[Event]:
    """Say once of each other home that its runs continue on a host whose budget is spent."""
    for each in continuing:
        one = len(each.run_ids) == 1
        some = ", ".join(each.run_ids[:_NAMED]) + (", …" if len(each.run_ids) > _NAMED else "")
        body = (
            f"{each.host}: its budget of {each.budget} is spent; {counted(len(each.run_ids), 'run')} of "
            f"{sanitize_line(each.label, 80)} {'continues' if one else 'continue'}, as another home launched "
            f"{'it' if one else 'them'}: {some}\narmada stop {each.run_ids[0] if one else 'RUN'} --other-home"
        )
        if each.is_former:
            body += f"\nthis home is a copy of that one; if that is gone: armada hosts forget-home {each.host} {each.home_id[:8]}"
        key = f"{each.host}:budget:{each.budget}:{each.home_id}"
        yield Event(key, "budget_reached", f"{each.host}: budget spent, and runs continue", body, now, goes_on=True)


def _stopped_hosts(database: Database, now: float) -> Iterator[Event]:
    """Say once for each idleness that a stop command worked, failed or was not run."""
    for record in host_records.every(database):
        found = stopping_of(record.stopping)
        if found.state not in ("refused", "failed", "gone"):
            continue
        what = {"refused": "not stopped", "failed": "its stop command failed", "gone": "stopped"}[found.state]
        later = f"; next try in {span(max(0.0, found.next_try_at - now))}" if found.state != "gone" else ""
        body = f"{record.name}: {sanitize_line(found.said, 300)}{later}"
        at = found.asked_at if found.asked_at is not None else now
        yield Event(
            f"{record.name}:stop:{int(found.since or 0)}:{found.state}", "host_stop", f"{record.name}: {what}", body, at
        )


def _failing_syncs(database: Database, recent: list[Run], now: float, patience_s: float) -> Iterator[Event]:
    records = run_sync.every(database)
    unreachable = {
        record.name: (record.unreachable_since, record.unreachable_why)
        for record in host_records.every(database)
        if record.unreachable_since is not None
    }
    for run in recent:
        record = records.get(run.run_id)
        if run.ended and record is not None and record.final_done:
            continue
        since, why = _failing_since(run, record, unreachable)
        if since is None or now - since < patience_s:
            continue
        waiting = [c for c in checkpoints.of_run(database, run.run_id) if c.on_host and c.home_path is None]
        size = amount(sum(c.size_bytes for c in waiting))
        body = (
            f"{run.run_id} on {run.host}: nothing came home for {span(now - since)} ({sanitize_line(why, 200)}); "
            f"{len(waiting)} checkpoints, {size}, exist only there, as far as armada knows"
        )
        key = f"{run.run_id}:sync:{int(since)}"
        yield Event(
            key,
            "sync_failing",
            f"{sanitize_line(run.name, 80)}: sync is failing",
            body,
            since + patience_s,
            goes_on=True,
        )


def _failing_since(
    run: Run, record: RunSync | None, unreachable: Mapping[str, tuple[float | None, str | None]]
) -> tuple[float | None, str]:
    """Return since when nothing of a run can come home, and why: its syncs fail, or its host does not answer."""
    host_since, host_why = unreachable.get(run.host, (None, None))
    own_since = record.failing_since if record is not None else None
    if own_since is not None and (host_since is None or own_since < host_since):
        return own_since, (record.reason if record is not None else None) or "no reason recorded"
    return host_since, host_why or "the host does not answer"


def _full_disks(database: Database, recent: list[Run], now: float, soon_s: float) -> Iterator[Event]:
    busy = {run.host for run in recent if not run.ended}
    for record in host_records.every(database):
        disk = recorded_facts(record.facts).disk
        free, total = (disk.free_bytes, disk.total_bytes) if disk is not None else (None, None)
        seen_at = record.observed_at
        if record.name not in busy or free is None or total is None or record.unreachable_since is not None:
            continue
        if seen_at is None or now - seen_at > CURRENT_S:
            continue  # nobody knows how full it is now; `sync_failing` says that it does not answer
        foreseen = record.forecast
        full_at = foreseen.full_at if foreseen is not None else None
        is_soon = full_at is not None and full_at - now < soon_s
        if is_soon or free < min(SOON_FULL_BYTES, total * 0.1) or free < total * SOON_FULL_SHARE:
            day = time.strftime("%Y-%m-%d", time.gmtime(now))
            body = f"{record.name}: {amount(free)} of {amount(total)} are free; a run saves checkpoints there"
            if foreseen is not None and full_at is not None:
                pace = amount(foreseen.bytes_per_s * 3600)
                body += f", {pace} per hour: full in about {span(full_at - now)}"
            yield Event(f"disk:{record.name}:{day}", "disk_soon_full", f"{record.name}: disk soon full", body, now)
