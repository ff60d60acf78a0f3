"""Handle ends that no process recorded: what a scheduler's silence means, and how long to wait for better evidence.

| what is known                   | shown as     | consequence                                                               |
|---------------------------------|--------------|---------------------------------------------------------------------------|
| an end was recorded or observed | as recorded  | the run is over                                                           |
| `gone`: only guessed            | failed: gone | it may be resumed; polls and syncs continue for `WATCHED_S`, nothing else |

Only positive evidence revises a guess. Silence of a host or a scheduler leaves it unchanged.
"""

from __future__ import annotations

GUESSES = frozenset({("failed", "gone")})
"""All guesses, as (state, reason)."""

WATCHED_S = 7 * 86_400.0
"""How long a guess is watched, in seconds: a long weekend plus a site's maintenance. After that no better evidence will come, since
accounting records, notifications and the daemon also give up by then. A poll costs one row of an answer, or one
file."""


def is_guess(state: str, reason: str | None) -> bool:
    """Whether an end is only guessed."""
    return (state, reason) in GUESSES


def is_waited_for(state: str, reason: str | None, since: float | None, now: float) -> bool:
    """Whether better evidence may still come.

    Args:
        state: The run's state.
        reason: The reason of that state.
        since: When it was first guessed, unix time; None if not recorded.
        now: Unix time. A guess dated in the future was made under a wrong clock and counts as new.
    """
    return is_guess(state, reason) and since is not None and now - since < WATCHED_S


def stays(
    state: str, reason: str | None, *, known: tuple[int, int], seen: tuple[int, int], scheduler_status: object
) -> bool:
    """Whether an observation leaves a guess unchanged: the scheduler does not report the job, and the run has written nothing since.

    Args:
        state: The run's known state.
        reason: The reason of that state.
        known: (attempt, number) of the last known record.
        seen: (attempt, number) of the last record in this observation.
        scheduler_status: The scheduler's status in this observation; None without a scheduler.
    """
    return is_guess(state, reason) and scheduler_status == "unknown" and seen == known
