"""What hosts cost: their prices of hosts.yaml, with the number of GPUs that each was seen to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.hosts import Host
    from armada.costs.tariff import Tariff
    from armada.store.database import Database


def gpu_counts(database: Database) -> dict[str, int]:
    """Return how many GPUs each host has, as it last said; hosts that never said so are left out."""
    query = """SELECT name, json_array_length(facts, '$.gpus') AS gpus FROM hosts
               WHERE facts IS NOT NULL AND json_valid(facts) AND json_type(facts, '$.gpus') = 'array'"""
    return {row["name"]: row["gpus"] for row in database.connection.execute(query) if row["gpus"]}


def switched_off(database: Database) -> frozenset[str]:
    """Return the hosts that were released, or stopped by their stop command: nobody pays for them now."""
    query = """SELECT name FROM hosts WHERE released_at IS NOT NULL
               OR (json_valid(stopping) AND json_extract(stopping, '$.state') = 'gone')"""
    return frozenset(row["name"] for row in database.connection.execute(query))


def read_tariffs(database: Database, hosts: Mapping[str, Host]) -> dict[str, Tariff]:
    """Return what hosts cost, by name; those without a price are left out."""
    counts = gpu_counts(database)
    found = {name: host.tariff(counts.get(name)) for name, host in hosts.items()}
    return {name: tariff for name, tariff in found.items() if tariff is not None}
