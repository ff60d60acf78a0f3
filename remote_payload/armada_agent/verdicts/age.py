"""Decide which finished checkpoints of a run may be its newest, and which its oldest. No order alone is believed.

| order                          | misleads where                                                                   |
|--------------------------------|----------------------------------------------------------------------------------|
| by time                        | the host's clock was set                                                         |
| by step                        | the run was resumed from an earlier step: the highest is of a former attempt     |
| by attempt, and in it by step  | a script's steps go back within an attempt                                       |
| by attempt, and in it by time  | the clock was set during the newest attempt                                      |

The newest by any of them may be what a resume needs. So may the one that a supervisor recorded last, which callers add.
"""

from typing import Any, Dict, FrozenSet, List, Tuple

Entry = Dict[str, Any]
"""A finished checkpoint: at least its `digest`, `step`, `attempt` and `created_at`."""


def _by_time(entry: Entry) -> Tuple[float, ...]:
    return entry["created_at"], entry["attempt"], entry["step"]


def by_step(entry: Entry) -> Tuple[float, ...]:
    return entry["step"], entry["attempt"], entry["created_at"]


def by_attempt(entry: Entry) -> Tuple[float, ...]:
    return entry["attempt"], entry["step"], entry["created_at"]


def _by_attempt_and_time(entry: Entry) -> Tuple[float, ...]:
    return entry["attempt"], entry["created_at"], entry["step"]


ORDERS = (_by_time, by_step, by_attempt, _by_attempt_and_time)


def find_newest(entries: List[Entry]) -> FrozenSet[str]:
    """Return the digests of the checkpoints that are the newest by one of the orders."""
    return frozenset(max(entries, key=order)["digest"] for order in ORDERS if entries)


def find_oldest(entries: List[Entry]) -> FrozenSet[str]:
    """Return the digests of the checkpoints that are the oldest by one of the orders."""
    return frozenset(min(entries, key=order)["digest"] for order in ORDERS if entries)
