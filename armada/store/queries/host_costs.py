"""What a host has cost since it is rented, from the store and the host's own price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.costs.price import money, parse_money
from armada.costs.report import cost_of_host
from armada.store import hosts as host_records
from armada.store import runs
from armada.store.queries.tariffs import gpu_counts
from armada.store.queries.uses import read_uses
from armada.verdicts.idle import stopped_spans, stopping_of

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.costs.report import HostCost
    from armada.store.database import Database


def read_host_cost(database: Database, host: Host, now: float) -> HostCost:
    """Return what a host has cost since it was first seen, until now or until everything there was deleted.

    Runs of before were on another box of this name: they do not count. A host that was never seen has cost nothing.
    """
    record = host_records.find(database, host.name)
    since = record.first_seen_at if record is not None else None
    released = record.released_at if record is not None else None
    stopped = stopped_spans(stopping_of(record.stopping if record is not None else None), now)
    tariff = host.tariff(gpu_counts(database).get(host.name))
    uses = read_uses(database, runs.every(database, host=host.name), now)
    rented = (since, released if released is not None else now)
    window = (since if since is not None else now, now)
    return cost_of_host(host.name, tariff, uses, rented, window, stopped)


def why_over_budget(database: Database, host: Host, now: float) -> str | None:
    """Say that a host has cost what its budget allows; None if it has not, or has no budget."""
    if host.budget is None:
        return None
    limit, currency = parse_money(host.budget)
    amount = read_host_cost(database, host, now).whole.by_currency.get(currency, 0.0)
    if amount < limit:
        return None
    return f"{host.name} has cost {money(amount, currency)}, and its budget is {money(limit, currency)}"


def why_not_counted(database: Database, host: Host, now: float) -> str | None:
    """Say that nobody can tell what a host with a budget costs; None if that is known, or it was never seen."""
    record = host_records.find(database, host.name)
    tariff = host.tariff(record.most_gpus) if record is not None and record.first_seen_at is not None else None
    price = tariff.price_at(now) if tariff is not None and tariff.is_box else None
    if host.budget is None or tariff is None or price is None or tariff.box_per_hour(price) is not None:
        return None
    return f"what {host.name} costs is not known, so its budget cannot be kept: its price is per GPU, and it showed none yet"
