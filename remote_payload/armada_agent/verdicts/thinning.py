"""Choose the finished checkpoint to delete next on a nearly full disk. The newest and the best always stay.

| a checkpoint                                   | is deleted                                                           |
|------------------------------------------------|----------------------------------------------------------------------|
| the newest, the best, what the job called best | never                                                                |
| the only one that calls another the best       | never                                                                |
| every home of the run holds it                 | first, oldest first                                                  |
| a home lacks it                                | next, while the disk is scarce: the one that leaves the smallest gap |
| the oldest, and a home lacks it                | never                                                                |
"""

import math
from typing import Any, Dict, FrozenSet, List, Optional

Entry = Dict[str, Any]
"""A finished checkpoint: `digest`, `step`, the `metrics` of its manifest, and whether every home has `acknowledged` it."""


def choose(entries: List[Entry], best: FrozenSet[str], is_scarce: bool) -> Optional[Entry]:
    """Choose the next checkpoint to delete, or None.

    Args:
        entries: Finished checkpoints, oldest first.
        best: Digests that stay because they are, or may be, the best.
        is_scarce: Whether checkpoints that a home has not acknowledged may be deleted too.
    """
    spare = [entry for entry in entries[:-1] if entry["digest"] not in best]
    acknowledged = [entry for entry in spare if entry["acknowledged"]]
    if acknowledged:
        return acknowledged[0]
    middle = [entry for entry in spare if entry is not entries[0]]
    if not is_scarce or not middle:
        return None
    # Delete the one that leaves the smallest gap in steps, so that the remaining ones are spread over the run.
    steps = {entry["digest"]: index for index, entry in enumerate(entries)}

    def gap(entry: Entry) -> int:
        index = steps[entry["digest"]]
        return int(entries[index + 1]["step"] - entries[index - 1]["step"])

    return min(middle, key=gap)


def find_best(entries: List[Entry]) -> FrozenSet[str]:
    """Find the checkpoint with the lowest evaluation loss, and the one that the job last called its best.

    They differ if a former attempt measured the best, or if the best one's manifest has no loss. A checkpoint that calls
    another the best stays with it, unless one that stays anyway does so too.

    Args:
        entries: Finished checkpoints, oldest first.

    Returns:
        Their digests.
    """
    losses = {}
    called = None  # type: Optional[int]
    for entry in entries:
        loss, step = entry["metrics"].get("eval_loss"), entry["metrics"].get("best_step")
        if isinstance(loss, (int, float)) and math.isfinite(loss):
            losses[entry["digest"]] = float(loss)
        if isinstance(step, int):
            called = step
    best = {entry["digest"] for entry in entries if entry["step"] == called}
    if losses:
        best.add(min(losses, key=lambda digest: losses[digest]))
    if any(entry["step"] == called for entry in entries):
        # Without a checkpoint that says so, nobody would know which one it is.
        callers = [entry["digest"] for entry in entries if entry["metrics"].get("best_step") == called]
        if not (best | {entries[-1]["digest"]}) & set(callers):
            best.add(callers[-1])
    return frozenset(best)
