"""Choose the finished checkpoint to delete next on a nearly full disk. The newest and the best always stay.

| a checkpoint                                   | is deleted                                                           |
|------------------------------------------------|----------------------------------------------------------------------|
| the newest by any order (`age`), or by records | never                                                                |
| the best, what the job called best             | never                                                                |
| the only one that calls another the best       | never                                                                |
| every home of the run holds it                 | first, oldest first                                                  |
| a home lacks it                                | next, while the disk is scarce: the one that leaves the smallest gap |
| the oldest by any order, and a home lacks it   | never                                                                |
"""

import math
from typing import Any, Dict, FrozenSet, List, Optional

from armada_agent.verdicts.age import ORDERS, by_attempt, by_step, find_newest, find_oldest

Entry = Dict[str, Any]
"""A finished checkpoint: what `age` needs, the `metrics` of its manifest, and whether every home has `acknowledged` it."""


def choose(entries: List[Entry], best: FrozenSet[str], is_scarce: bool) -> Optional[Entry]:
    """Choose the next checkpoint to delete, or None.

    Args:
        entries: Finished checkpoints.
        best: Digests that stay because they are, or may be, the best, or the one that was recorded last.
        is_scarce: Whether checkpoints that a home has not acknowledged may be deleted too.
    """
    stays = best | find_newest(entries)
    spare = [entry for entry in sorted(entries, key=by_attempt) if entry["digest"] not in stays]
    acknowledged = [entry for entry in spare if entry["acknowledged"]]
    if acknowledged:
        return acknowledged[0]
    oldest = find_oldest(entries)
    middle = [entry for entry in spare if entry["digest"] not in oldest]
    if not is_scarce or not middle:
        return None
    # Delete the one that leaves the smallest gap in steps, so that the remaining ones are spread over the run.
    spread = sorted(entries, key=by_step)
    places = {entry["digest"]: index for index, entry in enumerate(spread)}

    def gap(entry: Entry) -> int:
        index = places[entry["digest"]]  # neither the first nor the last: those stay
        return int(spread[index + 1]["step"] - spread[index - 1]["step"])

    return min(middle, key=gap)


def find_best(entries: List[Entry]) -> FrozenSet[str]:
    """Find the checkpoint with the lowest evaluation loss, and the one that the job last called its best.

    They differ if a former attempt measured the best, or if the best one's manifest has no loss. A checkpoint that calls
    another the best stays with it, unless one that stays anyway does so too. Where it is not certain which word is the
    last one, each that may be counts.

    Args:
        entries: Finished checkpoints, oldest first.

    Returns:
        Their digests.
    """
    losses = {}
    for entry in entries:
        loss = entry["metrics"].get("eval_loss")
        if isinstance(loss, (int, float)) and math.isfinite(loss):
            losses[entry["digest"]] = float(loss)
    steps = {entry["step"] for entry in entries}
    callers = [entry for entry in entries if isinstance(entry["metrics"].get("best_step"), int)]
    called = {max(callers, key=order)["metrics"]["best_step"] for order in ORDERS if callers} & steps
    best = {entry["digest"] for entry in entries if entry["step"] in called}
    if losses:
        best.add(min(losses, key=lambda digest: losses[digest]))
    stays = best | find_newest(entries)
    for step in sorted(called):
        # Without a checkpoint that says so, nobody would know which one it is.
        named = [entry["digest"] for entry in callers if entry["metrics"]["best_step"] == step]
        if not stays & set(named):
            best.add(named[-1])
    return frozenset(best)
