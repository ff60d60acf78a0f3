"""The cores that runs without GPUs compute on, by their plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.validation import mapping, whole
from armada.store.values import decode

if TYPE_CHECKING:
    from armada.store.database import Database

_MOST = 64


@dataclass(frozen=True, slots=True)
class CoresTaken:
    """A run that computes on a host's cores, and on how many."""

    run_id: str
    cores: int


def read_cores_taken(database: Database, host: str, *, without: str, sweep: str | None) -> list[CoresTaken]:
    """Return the runs without GPUs that are under way on a host, as last seen.

    Args:
        database: The store.
        host: Its name.
        without: A run that does not count.
        sweep: A sweep whose cells do not count.
    """
    query = f"""SELECT run_id, spec FROM runs WHERE host = ? AND run_id != ? AND sweep IS NOT ?
        AND (state IN ('running', 'queued') OR (state = 'submitted' AND sweep IS NULL)) LIMIT {_MOST}"""  # noqa: S608  # a constant
    found = []
    for row in database.connection.execute(query, (host, without, sweep or "")):
        spec = decode(dict, row["spec"] or "{}", f"the column spec of {row['run_id']}")
        if not whole(spec.get("gpus")):
            found.append(CoresTaken(row["run_id"], _cores(spec)))
    return found


def _cores(spec: dict[str, object]) -> int:
    """Return the threads of all processes; a job of which they are not known has one for each process."""
    threads = mapping(mapping(spec.get("job")).get("env")).get("OMP_NUM_THREADS")
    of_each = (
        int(threads)
        if isinstance(threads, str) and threads.isascii() and threads.isdecimal() and len(threads) < 6
        else 1
    )
    return max(1, whole(spec.get("processes")) or 1) * max(1, of_each)
