"""The card of an unfolded host: its link, disk, money, environment, what is safe there, and what is wrong with it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.costs.report import Use, cost_of_host
from armada.foundation.sanitize import sanitize_line
from armada.protocol.recorded import RecordedFacts
from armada.tui.gpu_strips import HOT_C
from armada.tui.host_runs import idle_since, is_idle_money, needing
from armada.tui.widgets.host_safety import verdict
from armada.units import amount, clock, counted, span
from armada.verdicts.idle import stopped_spans, stopping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.costs.report import HostCost
    from armada.store.transfers import Transfer
    from armada.tui.host_runs import RunsOfHost
    from armada.tui.snapshot import HostView, RunRow
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.host_safety import Safety
    from armada.tui.widgets.table import Span

LABEL = 13
FULL = 0.05
"""A disk with a smaller share of free room is a trouble."""
COUNTED_S = 10.0
"""Costs are summed up again after so many seconds."""

Line = tuple["Span", ...]
_WORD = re.compile(r"\s*\S+|\s+")


class HostCosts:
    """What hosts have cost since they are rented; a host with thousands of runs is not summed up for every frame."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, HostCost]] = {}

    def of(self, host: HostView, rows: Sequence[RunRow], now: float) -> HostCost:
        stamp = (len(rows), int(now / COUNTED_S), host.tariff, host.record)
        known = self._known.get(host.name)
        if known is None or known[0] != stamp:
            known = self._known[host.name] = (stamp, cost_of(host, rows, now))
        return known[1]


def cost_of(host: HostView, rows: Sequence[RunRow], now: float) -> HostCost:
    """Return what a host has cost, from the runs that are known of it."""
    record = host.record
    uses = [Use(row.id, host.name, len(row.run.gpus), row.spans(now)) for row in rows]
    since = record.first_seen_at if record is not None else None
    until = record.released_at if record is not None and record.released_at is not None else now
    stopped = stopped_spans(stopping_of(record.stopping if record is not None else None), now)
    return cost_of_host(host.name, host.tariff, uses, (since, until), (0.0, now), stopped)


def card_lines(
    host: HostView,
    runs: RunsOfHost,
    costs: HostCosts,
    symbols: Symbols,
    now: float,
    safety: Safety | None = None,
    moving: Sequence[Transfer] = (),
) -> Iterator[Line]:
    """Yield the lines of a host's card, without its queue and its GPUs.

    Args:
        host: The host.
        runs: Its runs.
        costs: Sums up what it has cost.
        symbols: What the terminal can show.
        now: Unix time.
        safety: What of it is at home; None if home knows of nothing there.
        moving: Its transfers that run now.
    """
    yield _labelled("link", *_link(host, now))
    if (disk := _disk(host, now)) is not None:
        yield _labelled("disk", *disk)
    if (
        paid := _money(host, runs, costs.of(host, runs.rows, now) if host.tariff is not None else None, now)
    ) is not None:
        yield _labelled("money", *paid)
    if (found := _environment(host)) is not None:
        yield _labelled("environment", *found)
    yield _labelled("safe?", *_safety(safety, moving, symbols, now))
    yield _labelled("health", *_health(host, runs, symbols))


def wrapped(line: Line, room: int) -> Iterator[Line]:
    """Break a line of the card between words, so that nothing of it is cut; what follows stands under its words."""
    made: list[Span] = [*line[:1]]
    left = room - LABEL
    for word in _words(line[1:]):
        is_next = sum(cell_len(text) for text, _ in word) > left and len(made) > 1
        if is_next:
            yield tuple(made)
            made, left = [(" " * LABEL, "dim")], room - LABEL
            word[0] = (word[0][0].lstrip(), word[0][1])
        made += word
        left -= sum(cell_len(text) for text, _ in word)
    yield tuple(made)


def _words(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield the words, each with the blanks before it; what has no blank between is one: the two parts of a bar."""
    word: list[Span] = []
    for text, style in ((text, style) for words, style in spans for text in _WORD.findall(words)):
        if word and (text[0].isspace() or word[-1][0][-1].isspace()):
            yield word
            word = []
        word.append((text, style))
    if word:
        yield word


def _labelled(label: str, *spans: Span) -> Line:
    return ((f"{label:<{LABEL}}", "dim"), *spans)


def _link(host: HostView, now: float) -> Iterator[Span]:
    config, record = host.config, host.record
    yield (sanitize_line(host.ssh, 120) if host.ssh else "this machine" if host.local else "no address", "plain")
    if config is not None and config.scheduler != "direct":
        yield (f" · {config.scheduler}", "plain")
    if record is None or record.observed_at is None:
        yield (" · never asked: c checks it", "dim")
        return
    yield (f" · answered {span(now - record.observed_at)} ago", "dim")
    if record.first_seen_at is not None:
        yield (f" · first seen {clock(record.first_seen_at, now)}", "dim")


def _disk(host: HostView, now: float) -> list[Span] | None:
    disk = host.facts.disk if host.facts is not None else None
    free = disk.free_bytes if disk is not None else None
    if free is None or disk is None:
        return None
    total = disk.total_bytes
    said: list[Span] = [(f"{amount(free)} free" + (f" of {amount(total)}" if total else ""), "plain")]
    forecast = host.record.forecast if host.record is not None else None
    if forecast is None or (forecast.full_at is None and not forecast.bytes_per_s):
        return [*said, (" · no run saves anything there now", "dim")] if forecast is not None else said
    if forecast.full_at is not None:
        left_s = forecast.full_at - now
        said.append((f" · full in about {span(left_s)}" if left_s > 0 else " · full now", "warn"))
    elif forecast.needed_bytes is not None:
        said.append((f" · enough: its runs need at most {amount(forecast.needed_bytes)} more", "good"))
    return [*said, (f" · {amount(forecast.bytes_per_s * 3600)} an hour", "dim")]


def _money(host: HostView, runs: RunsOfHost, cost: HostCost | None, now: float) -> list[Span] | None:
    price = host.tariff.price_at(now) if host.tariff is not None else None
    if price is None or cost is None or not price.amount:
        return None
    said: list[Span] = [(price.text, "plain")]
    if cost.whole.is_known and cost.since is not None:
        said.append((f" · {cost.whole.text()} since {clock(cost.since, now)}", "plain"))
    if cost.idle is not None and cost.idle.is_known and cost.idle_s >= 60:
        said.append((f", {cost.idle.text()} of it idle ({span(cost.idle_s)})", "dim"))
    if host.config is not None and host.config.budget is not None:
        said.append((f" · budget {sanitize_line(host.config.budget, 40)}", "dim"))
    if (since := idle_since(host, runs)) is not None:
        said.append((f" · idle for {span(now - since)}", "warn" if is_idle_money(host, runs, now) else "plain"))
    config, record = host.config, host.record
    if config is not None and config.stop_when_idle:
        said.append((f" · is stopped after {sanitize_line(config.stop_when_idle, 20)} idle", "dim"))
    stopping = stopping_of(record.stopping if record is not None else None)
    if stopping.said:
        said.append((f" · {sanitize_line(stopping.said, 200)}", "warn"))
    return said


def _environment(host: HostView) -> list[Span] | None:
    found = host.environment
    if found is None or found.condition == "unknown":
        return None
    style = {"ready": "good", "building": "accent"}.get(found.condition, "plain")
    said: list[Span] = [(found.condition, style), (f" {found.key or ''}", "plain")]
    if found.profile:
        said.append((f" · profile {sanitize_line(found.profile, 60)}", "dim"))
    if found.condition in ("absent", "partial"):
        said.append((" · p builds it", "dim"))
    return said


def _safety(safety: Safety | None, moving: Sequence[Transfer], symbols: Symbols, now: float) -> list[Span]:
    """Say what would be lost with the host, as far as home knows; `r` asks the host itself."""
    if safety is None:
        return [("home knows of nothing there", "dim"), (" · r asks the host", "dim")]
    (sign, style), said = verdict(symbols, safety, moving, now)
    shown = [(words, "dim" if name == "more" else name) for words, name in said]
    more = " · r asks the host for the rest" if style == "good" else " · r asks the host"
    return [(f"{sign} ", style), *shown, (more, "dim")]


def _health(host: HostView, runs: RunsOfHost, symbols: Symbols) -> list[Span]:
    wrong = list(troubles_of(host))
    if words := needing(runs.active):
        wrong.append(words)
    if not wrong and (host.record is None or host.record.observed_at is None):
        return [("not known", "dim"), (" · d diagnoses it", "dim")]
    if wrong:
        return [(f"{symbols.attention} {'; '.join(wrong)}", "warn"), (" · d diagnoses it", "dim")]
    return [(f"{symbols.states['succeeded']} nothing wrong in what it last said", "good"), (" · d diagnoses it", "dim")]


def troubles_of(host: HostView) -> Iterator[str]:
    """Yield what is wrong with a host, by its newest facts."""
    if host.silent is not None:
        yield f"unreachable since {clock(host.silent.since, time.time())}"
    if host.record is None:
        return
    facts = host.facts or RecordedFacts()
    hot = [points[-1].temperature_c for points in host.telemetry.values() if points]
    hottest = max((each for each in hot if each is not None), default=0.0)
    if hottest >= HOT_C:
        yield f"a GPU has {hottest:.0f} °C"
    disk = facts.disk
    if (
        disk is not None
        and disk.free_bytes is not None
        and disk.total_bytes
        and disk.free_bytes < FULL * disk.total_bytes
    ):
        yield f"its disk has {amount(disk.free_bytes)} left"
    strangers = [gpu for gpu in facts.gpus or () if any(not each.run_id for each in gpu.processes or ())]
    if strangers:
        yield f"strangers use {counted(len(strangers), 'GPU')}"
    if facts.queue is not None and facts.queue.error:
        yield "its scheduler does not answer"
