"""Deal cells to hosts by the room that each host has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.sweeps.cells import MOST_CELLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.protocol.facts import Facts


def room_for(facts: Facts, gpus: int, processes: int) -> int:
    """How many cells a host has room for at once: by its GPUs, or by its cores for cells without GPUs.

    Args:
        facts: What the host said of itself.
        gpus: Of one cell.
        processes: Of one cell.
    """
    if gpus:
        return max(1, len(facts.gpus) // gpus)
    return max(1, facts.cpu_count // max(1, processes))


def share(parallel: int | None, rooms: Mapping[str, int]) -> dict[str, int]:
    """How many cells may run at once on each host. Hosts that get none are left out.

    Args:
        parallel: On all hosts together; None: as many as there is room for.
        rooms: Cells that each host has room for, at least 1.
    """
    if parallel is None:
        return dict(rooms)
    given = dict.fromkeys(rooms, 0)
    for _ in range(min(parallel, MOST_CELLS)):
        given[_next(given, rooms)] += 1
    return {host: count for host, count in given.items() if count}


def deal(count: int, rooms: Mapping[str, int], already: Mapping[str, int] | None = None) -> list[str]:
    """Name the host of each cell, in their order: hosts with more room get more, and each gets early and late ones.

    Args:
        count: Of cells.
        rooms: Cells that each host may run at once, at least 1.
        already: Cells that each host has.
    """
    given = {host: (already or {}).get(host, 0) for host in rooms}
    dealt = []
    for _ in range(count):
        host = _next(given, rooms)
        given[host] += 1
        dealt.append(host)
    return dealt


def _next(given: Mapping[str, int], rooms: Mapping[str, int]) -> str:
    return min(rooms, key=lambda host: (given[host] + 1) / rooms[host])
