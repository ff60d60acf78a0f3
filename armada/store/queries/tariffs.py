"""What hosts cost: their prices of hosts.yaml, with the number of GPUs that each was seen to have."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.hosts import Host
    from armada.costs.tariff import Tariff
    from armada.store.database import Database


def gpu_counts(database: Database) -> dict[str, int]:
    """Return the largest number of GPUs that each host was seen to have; hosts that never showed one are left out.

    A GPU that is broken, or an nvidia-smi that does not answer, makes a rented box no cheaper.
    """
    rows = database.connection.execute("SELECT name, most_gpus FROM hosts WHERE most_gpus > 0")
    return {row["name"]: row["most_gpus"] for row in rows}


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
