"""Handle ends that no process recorded: what a scheduler's word or silence means, and how long to wait for better evidence.

| what is known                            | shown as     | consequence                                                   |
|------------------------------------------|--------------|---------------------------------------------------------------|
| an end was recorded or observed          | as recorded  | the run is over                                               |
| only its batch system told that it ended | as told      | the run is over; polls continue for `WATCHED_S`, nothing else |
| `gone`: only guessed                     | failed: gone | it may be resumed; polls and syncs continue for `WATCHED_S`   |

Only positive evidence revises either. Silence of a host or a scheduler leaves both unchanged.

| evidence                                                         | of a guess | of an end that was only told |
|------------------------------------------------------------------|------------|------------------------------|
| a newer record of its supervisor                                 | revises    | revises                      |
| its scheduler shows it as waiting or running, or its files change | revises    | revises                      |
| processes of it live on the machine that was asked               | revises    | revises                      |
| its scheduler reports the end, or another one                    | revises    | that is the end              |
| its scheduler reports an end that is not believed yet            | revises    | no                           |
| its scheduler no longer lists it                                 |            | no                           |
| its scheduler does not answer                                    | no         | no                           |

An end that was recorded or observed, and of which the host shows nothing any more because its disk was reset to an older
copy, stays until something that is not on that disk shows that the run lives (`outlives_its_disk`).
"""

from __future__ import annotations

from armada.verdicts.states import ENDED

GUESSES = frozenset({("failed", "gone")})
"""All guesses, as (state, reason)."""

WATCHED_S = 7 * 86_400.0
"""How long a guess, or an end that was only told, is watched, in seconds: a long weekend plus a site's maintenance.

After that no better evidence will come, since accounting records, notifications and the daemon also give up by then. A
poll costs one row of an answer, or one file."""

_PROVES_NOTHING = ("unknown", "ending", "gone")
"""What a scheduler may say of a job that ended: it does not answer, its answers are too few to be believed, or it has forgotten it."""


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


def may_return(told_at: float | None, now: float) -> bool:
    """Whether a run may run again whose end only its batch system told: an administrator requeues its job, or the word was wrong.

    Args:
        told_at: When that was first told, unix time; None if its end was recorded or guessed, or if it has not ended.
        now: Unix time. A date in the future was noted under a wrong clock and counts as new.
    """
    return told_at is not None and now - told_at < WATCHED_S


def stays(
    state: str,
    reason: str | None,
    *,
    is_told: bool,
    known: tuple[int, int, int],
    seen: tuple[int, int, int],
    scheduler_status: object,
    processes: int,
) -> bool:
    """Whether an observation leaves a guess, or an end that was only told, unchanged: it has no positive evidence.

    Args:
        state: The run's known state.
        reason: The reason of that state.
        is_told: Only its batch system told its end.
        known: (submission, attempt, number) of the last known record.
        seen: The same of the last record in this observation.
        scheduler_status: The scheduler's status in this observation; None without a scheduler.
        processes: Number of the run's processes that live on the machine that was asked.
    """
    if seen[0] > known[0] or seen[1:] != known[1:]:
        return False
    if is_told:
        return scheduler_status in _PROVES_NOTHING and not processes
    return is_guess(state, reason) and scheduler_status == "unknown"


def outlives_its_disk(kind: str | None, *, scheduler_status: object, detail: str | None, processes: int) -> bool:
    """Whether a run lives of which an older copy of its host's disk does not show the end: what shows it is not on that disk.

    Args:
        kind: The batch system that has its job. What HTCondor says is read from a log in the run's folder, so it may be as old.
        scheduler_status: The scheduler's status in this observation; None without a scheduler.
        detail: The scheduler's own word. A status may be `running` because files changed, and they changed with the disk.
        processes: Number of the run's processes that live on the machine that was asked.
    """
    if processes:
        return True
    is_listed = scheduler_status in ("pending", "held") or (scheduler_status == "running" and detail == "RUNNING")
    return kind == "slurm" and is_listed


def begins_anew(state: str, *, was_told: bool, known: tuple[int, int, int], seen: tuple[int, int, int]) -> bool:
    """Whether a run that had ended has to be synced to its end once more.

    Args:
        state: Its state now.
        was_told: Only its batch system had told its end: it may have run, and ended, since the last observation.
        known: (submission, attempt, number) of the last record that was known.
        seen: The same of the last record in this observation.
    """
    return state not in ENDED or seen[0] != known[0] or (was_told and seen > known)
