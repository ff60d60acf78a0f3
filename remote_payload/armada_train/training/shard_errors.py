"""Say what a rank raised while all ranks wrote or read shards together.

torch collects it in a `CheckpointException`, which is no `Exception` (torch 2.13): neither a full disk would be
recognised in it, nor would the attempt's failure be recorded.
"""

from __future__ import annotations

from torch.distributed.checkpoint import CheckpointException

__all__ = ["CheckpointException", "of_its_rank"]


def of_its_rank(error: CheckpointException) -> RuntimeError:
    """Return an exception that names the first rank that failed, with what it raised as the cause."""
    rank, (raised, _) = min(error.failures.items(), key=lambda failure: failure[0])
    found = RuntimeError(f"rank {rank}: {type(raised).__name__}: {raised}")
    found.__cause__ = raised
    return found
