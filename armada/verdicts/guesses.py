"""Handle ends that no process recorded: what a scheduler's silence means, and how long to wait for better evidence.

| what is known               | shown as     | relied on                                                                    |
|-----------------------------|--------------|------------------------------------------------------------------------------|
| an end was written, or seen | as it says   | the run is over                                                              |
| `gone`: only guessed        | failed: gone | it may be resumed; nothing else: it is looked at and synced on, for `WATCHED_S` |

A guess is revised by evidence that says something. That a host or a scheduler does not say anything leaves it as it is.
"""

from __future__ import annotations

GUESSES = frozenset({("failed", "gone")})
"""(state, reason) of all of them."""

WATCHED_S = 7 * 86_400.0
"""A long weekend and a site's maintenance. Then the guess is all that will ever be known: accounts of jobs, notifications and the daemon
give a run up after the same time. A look costs a row of an answer that is asked for anyway, or one file."""


def is_guess(state: str, reason: str | None) -> bool:
    """Whether an end is only guessed."""
    return (state, reason) in GUESSES


def is_waited_for(state: str, reason: str | None, since: float | None, now: float) -> bool:
    """Whether better evidence may still come.

    Args:
        state: The run's.
        reason: Why.
        since: When it was first guessed; None where that was not noted.
        now: Unix time; a guess from the future is one of a clock that was wrong, and as new as can be.
    """
    return is_guess(state, reason) and since is not None and now - since < WATCHED_S


def stays(
    state: str, reason: str | None, *, known: tuple[int, int], seen: tuple[int, int], scheduler_status: object
) -> bool:
    """Whether a look leaves a guess as it is: the scheduler says nothing, and the run has written nothing since.

    Args:
        state: The run's, as known.
        reason: Why.
        known: The place of its last record that is known.
        seen: The place of its last record in this look.
        scheduler_status: The scheduler's word in this look; None without a scheduler.
    """
    return is_guess(state, reason) and scheduler_status == "unknown" and seen == known
