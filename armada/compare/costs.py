"""Gather what runs, sweeps, hosts and weeks cost, from the store and the hosts' prices."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from armada.costs.amounts import Amounts, total
from armada.costs.report import WEEK_S, HostCost, cost_of_host, forecast
from armada.costs.tariff import DAY_S, Tariff
from armada.store import adopted, runs
from armada.store import hosts as host_records
from armada.store.queries.uses import read_use
from armada.units import counted
from armada.verdicts.idle import stopped_spans, stopping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.costs.allowance import Allowance
    from armada.costs.report import Use
    from armada.paths import HomePaths
    from armada.store.database import Database
    from armada.store.runs import Run


class Books(Protocol):
    """What the costs are read from: a home's store, its files, its hosts and their prices."""

    @property
    def home(self) -> HomePaths: ...

    @property
    def database(self) -> Database: ...

    def hosts(self) -> Mapping[str, Host]:
        """The configured hosts by name."""

    def tariffs(self) -> Mapping[str, Tariff]:
        """What the configured hosts cost, by name."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run cost. `forecast` is at its last step; None if the time or the price is not known."""

    run_id: str
    host: str
    state: str
    sweep: str | None
    lasted_s: float
    gpu_hours: float
    cost: Amounts
    rate: tuple[float, str] | None
    forecast: Amounts | None
    is_assumed: bool


@dataclass(frozen=True, slots=True)
class SweepCost:
    """What a sweep cost: an hour of a box counts once."""

    name: str
    runs: int
    gpu_hours: float
    cost: Amounts


@dataclass(frozen=True, slots=True)
class AllowanceUse:
    """What the runs of this home used of an allowance."""

    host: str
    granted: Allowance
    used: float


@dataclass(frozen=True, slots=True)
class CostReport:
    """Everything; `notes` say what is assumed or not known."""

    hosts: tuple[HostCost, ...]
    weeks: tuple[HostCost, ...]
    runs: tuple[RunCost, ...]
    sweeps: tuple[SweepCost, ...]
    total: Amounts
    week: Amounts
    notes: tuple[str, ...]
    box_notes: tuple[str, ...] = ()
    """What is to be said of the sums of whole boxes; those of runs and of sweeps do not have these hours."""
    allowances: tuple[AllowanceUse, ...] = ()

    def as_json(self) -> dict[str, object]:
        """As `--json` prints it. Amounts are by currency; null is not known."""
        return {
            "hosts": [_host_json(each) for each in self.hosts],
            "weeks": [_host_json(each) for each in self.weeks],
            "runs": [
                {
                    "run_id": each.run_id, "host": each.host, "state": each.state, "sweep": each.sweep,
                    "seconds": each.lasted_s, "gpu_hours": each.gpu_hours, "costs": each.cost.as_json(),
                    "unknown_s": each.cost.unknown_s,
                    "per_hour": {each.rate[1]: each.rate[0]} if each.rate is not None else None,
                    "forecast": each.forecast.as_json() if each.forecast is not None else None,
                    "assumed": each.is_assumed,
                }
                for each in self.runs
            ],
            "sweeps": [
                {"sweep": each.name, "runs": each.runs, "gpu_hours": each.gpu_hours, "costs": each.cost.as_json()}
                for each in self.sweeps
            ],
            "total": self.total.as_json(),
            "week": self.week.as_json(),
            "allowances": [
                {
                    "host": each.host, "hours": each.granted.hours, "unit": each.granted.unit, "since": each.granted.since,
                    "used": each.used, "share": each.used / each.granted.hours,
                }
                for each in self.allowances
            ],
            "notes": [*self.notes, *self.box_notes],
        }  # fmt: skip


def _host_json(found: HostCost) -> dict[str, object]:
    return {
        "host": found.host, "since": found.since, "until": found.until, "costs": found.whole.as_json(),
        "runs": found.runs.as_json(), "unused": found.unused.as_json(),
        "idle": found.idle.as_json() if found.idle is not None else None, "idle_s": found.idle_s,
        "unknown_s": found.whole.unknown_s, "gpu_hours": found.gpu_hours, "run_hours": found.node_hours,
    }  # fmt: skip


def gather_costs(books: Books, *, hosts: Sequence[str], run_id: str | None, weeks: int) -> CostReport:
    """Gather the costs of hosts, weeks, runs and sweeps.

    Args:
        books: Where they are read from.
        hosts: Only these; all without any.
        run_id: Of the runs, only this one.
        weeks: How many weeks back.
    """
    now = time.time()
    tariffs = books.tariffs()
    found = [run for run in runs.every(books.database) if not hosts or run.host in hosts]
    used: dict[str, list[Use]] = {name: [] for name in tariffs if not hosts or name in hosts}
    by_run = {run.run_id: read_use(books.database, run, now) for run in found}
    for run in found:
        if run.host != adopted.NO_HOST:
            used.setdefault(run.host, []).append(by_run[run.run_id])
    records = {record.name: record for record in host_records.every(books.database)}
    known = dict(tariffs)
    for run in found:
        if run.host not in known and (tariff := _recorded(books, run)) is not None:
            known[run.host] = tariff
    whole, recent, by_week, silent = [], [], [], []
    for name in sorted(used):
        record = records.get(name)
        # A host that is in no file any more is nobody's cost beyond its runs.
        seen = record.first_seen_at if record is not None and name in tariffs else None
        released = record.released_at if record is not None else None
        rented = (seen, released if released is not None else now)
        stopping = stopping_of(record.stopping if record is not None else None)
        stopped = stopped_spans(stopping, now)
        if stopping.state == "gone":
            silent.append(f"{name} has not answered since its stop command: it is assumed to cost nothing since then")
        if (note := _uncounted(name, known.get(name), used[name], seen, has_price=name in tariffs)) is not None:
            silent.append(note)
        if name not in tariffs:
            rented = (None, max((end for use in used[name] for _, end in use.spans), default=now))
        whole.append(cost_of_host(name, known.get(name), used[name], rented, (0.0, now), stopped))
        recent.append(cost_of_host(name, known.get(name), used[name], rented, (now - WEEK_S, now), stopped))
        for begin, end in _weeks(now, weeks):
            one = cost_of_host(name, known.get(name), used[name], rented, (begin, end), stopped)
            if one.whole.is_known and any(one.whole.by_currency.values()):
                by_week.append(one)
    listed = [run for run in found if run_id in (None, run.run_id)]
    return CostReport(
        tuple(whole),
        tuple(by_week),
        tuple(_run_cost(run, by_run[run.run_id], known.get(run.host), now) for run in listed),
        tuple(_sweeps(found, by_run, known)),
        total(each.whole for each in whole),
        total(each.whole for each in recent),
        tuple(_notes(found, by_run, known)),
        tuple(silent),
        tuple(_allowances(books, used, hosts, now)),
    )


def _allowances(books: Books, used: dict[str, list[Use]], wanted: Sequence[str], now: float) -> Iterator[AllowanceUse]:
    from armada.config.prices import allowance_of
    from armada.errors import ConfigError

    try:
        hosts = books.hosts()
    except ConfigError:
        return  # other commands say what is wrong
    for name, host in hosts.items():
        if host.allowance is not None and (not wanted or name in wanted):
            granted = allowance_of(host.allowance)
            yield AllowanceUse(name, granted, granted.used(used.get(name, []), now))


def _recorded(books: Books, run: Run) -> Tariff | None:
    from armada.records.launch_record import read_record

    record = read_record(books.home, run.run_id)
    return record.tariff if record is not None else None


def _run_cost(run: Run, use: Use, tariff: Tariff | None, now: float) -> RunCost:
    rate = tariff.run_rate(use.held, now) if tariff is not None else None
    later = forecast(tariff, use, run.eta_s, now) if not run.ended else None
    hours = use.held * use.lasted_s / 3600
    return RunCost(
        run.run_id, run.host, run.state, run.sweep, use.lasted_s, hours, use.cost(tariff), rate, later, use.is_assumed
    )


def _sweeps(found: Sequence[Run], by_run: dict[str, Use], tariffs: dict[str, Tariff]) -> Iterator[SweepCost]:
    groups: dict[str, list[Use]] = {}
    for run in found:
        if run.sweep is not None:
            groups.setdefault(run.sweep, []).append(by_run[run.run_id])
    for name, uses in groups.items():
        parts = []
        for host in {use.host for use in uses}:
            own = [use for use in uses if use.host == host]
            tariff = tariffs.get(host)
            unknown = Amounts({}, sum(use.lasted_s for use in own))
            parts.append(tariff.cost_together([(use.held, use.spans) for use in own]) if tariff else unknown)
        yield SweepCost(name, len(uses), sum(use.held * use.lasted_s for use in uses) / 3600, total(parts))


def _weeks(now: float, count: int) -> Iterator[tuple[float, float]]:
    """Return calendar weeks, from Monday to Monday on this machine's clock, the newest first."""
    day = time.localtime(now)

    def monday(weeks_ago: int) -> float:
        return time.mktime((day.tm_year, day.tm_mon, day.tm_mday - day.tm_wday - 7 * weeks_ago, 0, 0, 0, 0, 0, -1))

    for number in range(count):
        yield monday(number), min(now, monday(number - 1))


def _uncounted(
    host: str, tariff: Tariff | None, used: Sequence[Use], seen: float | None, *, has_price: bool
) -> str | None:
    """Say that a box was paid at times of which only runs are counted; None where nothing is left out."""
    if tariff is None or not tariff.is_box or not any(use.spans for use in used):
        return None
    if not has_price:
        return f"{host} has no price in your files any more: only its runs are counted, and not what nobody used of it"
    if seen is None:
        return f"{host} has not answered yet: only earlier runs of that name are counted, and not what nobody used then"
    if min(start for use in used for start, _ in use.spans) >= seen - DAY_S:  # a host's clock may be that far off
        return None
    day = time.strftime("%Y-%m-%d", time.localtime(seen))
    return f"{host} is counted since {day}: of the time before, only its runs are, and not what nobody used of it"


def _notes(found: Sequence[Run], by_run: dict[str, Use], tariffs: dict[str, Tariff]) -> Iterator[str]:
    away = sorted({run.host for run in found if by_run[run.run_id].is_assumed})
    for host in away:
        count = sum(by_run[run.run_id].is_assumed for run in found if run.host == host)
        yield f"{host} does not answer: it is assumed that {counted(count, 'run')} there still {'runs' if count == 1 else 'run'}"
    unpriced = sorted({run.host for run in found if run.host not in tariffs and by_run[run.run_id].spans})
    if unpriced:
        host = unpriced[0] if len(unpriced) == 1 else "HOST"
        yield f"no price is known of {', '.join(unpriced)}: armada hosts set {host} --price '12.40 EUR'"
