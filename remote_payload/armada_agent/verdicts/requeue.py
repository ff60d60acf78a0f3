"""Decide whether an attempt that its scheduler ended returns to the queue.

| it ended by          | the job can resume | its newest checkpoint                     | the run   |
|----------------------|--------------------|-------------------------------------------|-----------|
| its time limit       | no                 |                                           | fails     |
| its time limit       | yes                | is newer than before the attempt          | goes back |
| its time limit       | yes                | is not, for fewer attempts than allowed   | goes back |
| its time limit       | yes                | is not, for as many attempts as allowed   | fails     |
| its time limit       | yes                | nobody knows: an older armada's record    | goes back |
| preemption, its node |                    |                                           | goes back |

Attempts without a newer checkpoint are counted back from the newest, up to one that brought a newer checkpoint. Attempts that a
scheduler took for its own reasons, and those of which nobody knows how far they got, are passed over: they are neither gain nor loss.
"""

from typing import Any, Dict, List, Optional

TIME_LIMIT = "time_limit"
REQUEUED = "requeued"
"""How an attempt ended whose job goes back, as exit.json has it."""


class Attempt:
    """How one attempt ended.

    Args:
        number: Which.
        reason: Why it ended, as exit.json has it.
        step_before: The newest checkpoint's before it started; None: there was none.
        step: The newest checkpoint's after it; None: there was none.
        is_known: Whether anybody wrote these two down.
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
        """Steps that it brought: 0 for no newer checkpoint, None where nobody knows."""
        if not self.is_known:
            return None
        if self.step is None:
            return 0
        # A first checkpoint may be of step 0, and is one more than none.
        return max(1, self.step) if self.step_before is None else max(0, self.step - self.step_before)


class Decision:
    """What follows: whether the run goes back into the queue, and the words that say why and where it stands."""

    def __init__(self, again: bool, message: str) -> None:
        self.again = again
        self.message = message


def can_resume(spec: Dict[str, Any]) -> bool:
    """Say from a run's plan whether its next attempt goes on from a checkpoint; otherwise it starts from the beginning."""
    if spec.get("task") == "sft":
        return True  # armada's own trainer finds its checkpoint; merging and preparing data start again
    watch = spec.get("watch") or {}
    return bool(watch.get("resume") and watch.get("checkpoints"))


def decide(attempts: List[Attempt], spec: Dict[str, Any], most_without: int) -> Decision:
    """Decide what becomes of a run whose newest attempt was ended by its scheduler, or by its time limit.

    Args:
        attempts: Of this submission, the newest last; the newest is the one to decide on.
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
    """Count the attempts that reached the time limit without a newer checkpoint, since one brought some; 0 if the newest did."""
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
    """Say where a run stands: `attempt 3, +1,200 steps: step 2,400`."""
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
    """Say that a run's time limit was reached, and which that is where the plan says it."""
    limit_s = spec.get("time_limit_s")
    return "it reached its time limit%s" % (" of %s" % span(limit_s) if isinstance(limit_s, (int, float)) else "")


def advise(spec: Dict[str, Any], step: Optional[int]) -> str:
    """Say what a person can do about a run that failed at its time limit.

    Args:
        spec: The run's plan.
        step: The newest checkpoint's.
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
    """Write a duration the way that experiments do: `90s`, `2m`, `24h`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0 and not (unit == "d" and seconds == size):
            return "%d%s" % (seconds // size, unit)
    return "%gs" % seconds


def name_newest(step: Optional[int]) -> str:
    """Say which checkpoint is the newest."""
    return "there is none" if step is None else "the newest is of step %s" % _grouped(step)


def _grouped(number: int) -> str:
    return "{:,}".format(number)
