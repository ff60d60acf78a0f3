"""Decide whether an attempt that its scheduler ended, or that failed, returns to the queue.

| it ended by          | the job can resume | its newest checkpoint                   | the run   |
|----------------------|--------------------|-----------------------------------------|-----------|
| its time limit       | no                 |                                         | fails     |
| its time limit       | yes                | is newer than before the attempt        | goes back |
| its time limit       | yes                | is not, for fewer attempts than allowed | goes back |
| its time limit       | yes                | is not, for as many attempts as allowed | fails     |
| its time limit       | yes                | is unknown: an older armada's record    | goes back |
| preemption, its node |                    |                                         | goes back |

An attempt that failed by itself goes back as often as `max_retries` says, unless armada's trainer refused what it was
asked to do.

Attempts without a newer checkpoint are counted from the newest back to one that saved a newer checkpoint. Attempts that
a scheduler ended for its own reasons, and those whose progress is unknown, count neither way.
"""

from typing import Any, Dict, List, Optional

TIME_LIMIT = "time_limit"
REQUEUED = "requeued"
"""The end of an attempt whose job is requeued, as in exit.json."""
LOST = "lost"
"""The reason of an end that the next attempt's supervisor wrote: this one's wrote none, and may go on where nobody sees it."""


class Attempt:
    """How one attempt ended.

    Args:
        number: Its number.
        reason: Why it ended, as in exit.json.
        step_before: Step of the newest checkpoint before it started; None if there was none.
        step: Step of the newest checkpoint after it; None if there was none.
        is_known: Whether these two steps were recorded.
    """

    def __init__(
        self,
        number: int,
        reason: Optional[str],
        step_before: Optional[int] = None,
        step: Optional[int] = None,
        is_known: bool = True,
    ) -> None:
        self.number = number
        self.reason = reason
        self.step_before = step_before
        self.step = step
        self.is_known = is_known

    @property
    def gained(self) -> Optional[int]:
        """Return the steps it gained: 0 without a newer checkpoint, None if unknown."""
        if not self.is_known:
            return None
        if self.step is None:
            return 0
        # A first checkpoint may have step 0, and still is progress.
        return max(1, self.step) if self.step_before is None else max(0, self.step - self.step_before)


TRAININGS = ("sft", "pretrain", "dpo", "reward", "kto", "grpo", "distill")
"""The tasks of armada's trainer."""


_REFUSED_CODE = 2
_REFUSED = ("bad_spec", "resume_mismatch")
"""What the trainer finds again wherever it starts. Data, packages and GPUs may be others on another node, or later."""


class Decision:
    """The verdict: whether the run is requeued, and a message with the reason and its progress."""

    def __init__(self, again: bool, message: str) -> None:
        self.again = again
        self.message = message


def can_resume(spec: Dict[str, Any]) -> bool:
    """Tell from a run's plan whether its next attempt resumes from a checkpoint; otherwise it starts from the beginning."""
    if spec.get("task") in TRAININGS:
        return True  # armada's trainer finds its checkpoint itself; merging and preparing data simply start again
    watch = spec.get("watch") or {}
    return bool(watch.get("resume") and watch.get("checkpoints"))


def would_fail_again(spec: Dict[str, Any], reason: Optional[str], exit_code: Optional[int]) -> bool:
    """Tell whether armada's trainer refused what it was asked to do, so that a retry only waits for GPUs to hear it again.

    Args:
        spec: The run's plan.
        reason: Why the attempt failed, as in its failure.json.
        exit_code: Its exit code.
    """
    return spec.get("task") in TRAININGS and exit_code == _REFUSED_CODE and reason in _REFUSED


def decide(attempts: List[Attempt], spec: Dict[str, Any], most_without: int) -> Decision:
    """Decide whether to requeue a run whose newest attempt was ended by its scheduler or its time limit.

    Args:
        attempts: The attempts of this submission, newest last; the newest is the one to decide on.
        spec: The run's plan.
        most_without: How many attempts in a row may reach the time limit without a newer checkpoint.
    """
    last = attempts[-1]
    if last.reason != TIME_LIMIT:
        from_start = "attempt %d; it cannot resume, so the next one starts from the beginning" % last.number
        return Decision(True, describe(last) if can_resume(spec) else from_start)
    if not can_resume(spec):
        return Decision(False, "%s; %s" % (reached(spec), advise(spec, last.step)))
    fruitless = count_fruitless(attempts)
    if fruitless == 0:
        return Decision(True, "%s; %s" % (reached(spec), describe(last)))
    if fruitless < most_without:
        rest = "%d in a row, and the run fails at %d" % (fruitless, most_without)
        return Decision(True, "%s; %s (%s)" % (reached(spec), describe(last), rest))
    in_a_row = "attempt %d" % last.number if fruitless == 1 else "%d attempts in a row" % fruitless
    message = "%s; %s brought no newer checkpoint (%s). Raise `resources.time_limit`, or save checkpoints more often"
    return Decision(False, message % (reached(spec), in_a_row, name_newest(last.step)))


def count_fruitless(attempts: List[Attempt]) -> int:
    """Count the attempts that reached the time limit without a newer checkpoint since the last that saved one; 0 if the newest did."""
    if attempts[-1].gained is None:
        return 0
    count = 0
    for attempt in reversed(attempts):
        gained = attempt.gained
        if gained:
            break
        if gained == 0 and attempt.reason == TIME_LIMIT:
            count += 1
    return count


def describe(attempt: Attempt) -> str:
    """Describe an attempt's progress: `attempt 3, +1,200 steps: step 2,400`."""
    gained, step = attempt.gained, attempt.step
    if gained is None:
        return "attempt %d" % attempt.number
    if not gained or step is None:
        return "attempt %d, no newer checkpoint: %s" % (attempt.number, name_newest(step))
    if attempt.step_before is None:
        return "attempt %d, first checkpoint: step %s" % (attempt.number, _grouped(step))
    steps = "1 step" if gained == 1 else "%s steps" % _grouped(gained)
    return "attempt %d, +%s: step %s" % (attempt.number, steps, _grouped(step))


def reached(spec: Dict[str, Any]) -> str:
    """Say that a run reached its time limit, with the limit if the plan has it."""
    limit_s = spec.get("time_limit_s")
    return "it reached its time limit%s" % (" of %s" % span(limit_s) if isinstance(limit_s, (int, float)) else "")


def advise(spec: Dict[str, Any], step: Optional[int]) -> str:
    """Say what the user can do about a run that failed at its time limit.

    Args:
        spec: The run's plan.
        step: Step of the newest checkpoint.
    """
    if can_resume(spec):
        if step is None:
            return "there is no checkpoint yet: raise `resources.time_limit`, or save checkpoints more often"
        return "`armada resume %s` continues from step %s" % (spec.get("run_id"), _grouped(step))
    if spec.get("task") in ("script", "command"):
        return "it cannot resume: raise `resources.time_limit`, or give the task a `resume` and a `checkpoint`"
    if spec.get("task") == "merge":
        return "it cannot resume: raise the host's `time_limit`"
    return "it cannot resume: raise `resources.time_limit`"


def span(seconds: float) -> str:
    """Format a duration as in experiment files: `90s`, `2m`, `24h`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0 and not (unit == "d" and seconds == size):
            return "%d%s" % (seconds // size, unit)
    return "%gs" % seconds


def name_newest(step: Optional[int]) -> str:
    """Name the newest checkpoint."""
    return "there is none" if step is None else "the newest is of step %s" % _grouped(step)


def _grouped(number: int) -> str:
    return "{:,}".format(number)
