"""Decide from which checkpoint an attempt resumes, and why not from the others.

| a checkpoint of a script                                        | it may be chosen                        |
|-----------------------------------------------------------------|-----------------------------------------|
| in the work folder, with the files that were taken              | yes, before its copy in the outbox      |
| in the work folder, changed since                               | no: it may be half of the next one      |
| in the outbox, with files as large as they were                 | yes                                     |
| in the outbox, announced and not hashed yet                     | yes, once it is hashed: it then stays   |
| in the outbox, shorter than it was announced, or than listed    | no: a power cut, or somebody, took that |
| neither here nor there any more                                 | no                                      |
| kept aside because it may be incomplete (`left/`)               | no                                      |
| in the outbox, and nobody noted that it was taken               | yes, if its step is above that one's    |

Of those that were noted, the one that was taken last counts, also if its step is lower: a script that was resumed from an
earlier checkpoint goes on from there. Who took one that nobody noted was killed before it noted that.

A training chooses among the checkpoints in its own folder (`armada_train/checkpoints/complete.py`). What it lost there is
put back from the outbox first. One that was announced there and not hashed yet, beyond all in its own folder, is hashed
before this is decided:

| the newest checkpoint in the outbox, by attempt, then by step | it is put back                |
|---------------------------------------------------------------|-------------------------------|
| its step is above that of each in the training's own folder   | yes, if its bytes are right   |
| its own folder has one of this step, or of a higher one       | no: that one counts           |
"""

from typing import Dict, List, NamedTuple, Optional, Sequence

WORK, OUTBOX, LEFT = "its work folder", "the outbox", "what was kept aside"
"""Where a checkpoint lies."""


class Candidate(NamedTuple):
    """A checkpoint from which an attempt might resume.

    Attributes:
        path: Where it lies; the only file of a checkpoint that is a file.
        place: `WORK`, `OUTBOX` or `LEFT`.
        step: Its step.
        taken: Its number among those that were noted, in the order in which they were taken; None if nobody noted it.
        why_not: Why it is not whole; None if it is.
    """

    path: str
    place: str
    step: int
    taken: Optional[int]
    why_not: Optional[str]


class Choice(NamedTuple):
    """The chosen checkpoint, or None.

    Attributes:
        chosen: It.
        reasons: A sentence for each other one.
        missed: What is not whole of the steps beyond it, the highest first: one place of each.
    """

    chosen: Optional[Candidate]
    reasons: List[str]
    missed: List[Candidate]


class Kept(NamedTuple):
    """A finished checkpoint of a training in the outbox."""

    digest: str
    step: int
    attempt: int


def choose(candidates: Sequence[Candidate]) -> Choice:
    """Choose where a script resumes.

    Args:
        candidates: What lies there. Of two places of one checkpoint, the preferred one comes first.
    """
    whole = [each for each in candidates if each.why_not is None]
    noted = max((each for each in whole if each.taken is not None), key=lambda each: each.taken or 0, default=None)
    unnoted = max((each for each in whole if each.taken is None), key=lambda each: (each.step, each.path), default=None)
    is_ahead = unnoted is not None and (noted is None or unnoted.step > noted.step)
    chosen = unnoted if is_ahead else noted
    reached = -1 if chosen is None else chosen.step
    missed: Dict[int, Candidate] = {}
    for each in candidates:
        if each.why_not is not None and each.step > reached:
            missed.setdefault(each.step, each)
    reasons = [_reason(each, chosen) for each in candidates if each is not chosen]
    return Choice(chosen, reasons, [missed[step] for step in sorted(missed, reverse=True)])


def _reason(each: Candidate, chosen: Optional[Candidate]) -> str:
    if each.why_not is not None or chosen is None:
        return "%s, step %d: %s" % (each.path, each.step, each.why_not)
    if each.taken is not None and each.taken == chosen.taken:
        return "%s, step %d: %s has it, too" % (each.path, each.step, chosen.place)
    return "%s, step %d: step %d counts" % (each.path, each.step, chosen.step)


def find_lost(kept: Sequence[Kept], own_steps: Sequence[int]) -> Optional[Kept]:
    """Find the checkpoint that a training's own folder lost, and that the outbox has; None if there is none.

    Args:
        kept: The finished checkpoints in the outbox.
        own_steps: The steps of those in its own folder, whole or not.
    """
    newest = max(kept, key=lambda each: (each.attempt, each.step, each.digest), default=None)
    return newest if newest is not None and newest.step > max(own_steps, default=-1) else None
