"""Which finished checkpoints may go. The newest and the best never do."""

import math
import os
import shutil
from typing import Any, Dict, FrozenSet, List, Optional

from armada_agent import checkpoints, files, homes
from armada_agent.journal import Journal
from armada_agent.paths import RunPaths
from armada_agent.verdicts.letting_go import lacking

Entry = Dict[str, Any]


def thin(paths: RunPaths, settings: Dict[str, Any], journal: Journal, most: int = 1000) -> None:
    """On a nearly full disk, delete checkpoints: first those that every home of the run holds, then middle ones that one has not got.

    While there is room nothing goes: an acknowledgement is an old word, and home, which can look, asks for what is to go (`outbox.prune`).

    Args:
        paths: The run's files.
        settings: `keep` and `disk_floor_bytes`.
        journal: Told about every deletion.
        most: How many to delete at most.
    """
    for _ in range(most):
        free = os.statvfs(paths.outbox)
        floor = settings.get("disk_floor_bytes", 0)
        is_scarce = isinstance(floor, (int, float)) and free.f_bavail * free.f_frsize < floor
        if not is_scarce:
            return
        entries = checkpoints.list_finished(paths)
        for entry in entries:
            words = homes.read_words(paths, entry["digest"])
            entry["lacking"] = lacking(words)
            entry["acknowledged"] = words.acknowledged and not entry["lacking"]
        chosen = choose(entries, find_best(paths, entries), is_scarce)
        if chosen is None:
            return
        silent = [homes.name_of(paths, home) for home in chosen["lacking"]] or ["home"]
        _delete(paths, chosen["digest"])
        journal.record(
            "thinned",
            digest=chosen["digest"],
            step=chosen["step"],
            acknowledged=chosen["acknowledged"],
            message="the disk is nearly full; "
            + ("home had it" if chosen["acknowledged"] else "%s has not got this checkpoint" % ", ".join(silent)),
        )


def choose(entries: List[Entry], best: FrozenSet[str], is_scarce: bool) -> Optional[Entry]:
    """Pick the next checkpoint to delete, or None.

    Args:
        entries: Finished checkpoints, oldest first.
        best: Digests that stay because they are, or may be, the best.
        is_scarce: Whether those may go that a home has not acknowledged.
    """
    spare = [entry for entry in entries[:-1] if entry["digest"] not in best]
    acknowledged = [entry for entry in spare if entry["acknowledged"]]
    if acknowledged:
        return acknowledged[0]
    middle = [entry for entry in spare if entry is not entries[0]]
    if not is_scarce or not middle:
        return None
    # The one whose loss leaves the smallest gap in steps, so that what stays is spread over the run.
    steps = {entry["digest"]: index for index, entry in enumerate(entries)}

    def gap(entry: Entry) -> int:
        index = steps[entry["digest"]]
        return int(entries[index + 1]["step"] - entries[index - 1]["step"])

    return min(middle, key=gap)


def find_best(paths: RunPaths, entries: List[Entry]) -> FrozenSet[str]:
    """Find the checkpoint with the least evaluation loss, and the one that the job last called its best.

    They differ where the best was measured by a former attempt, or its own manifest does not carry a loss.
    """
    losses = {}
    called = None  # type: Optional[int]
    for entry in entries:
        metrics = _metrics(paths, entry["digest"])
        loss, step = metrics.get("eval_loss"), metrics.get("best_step")
        if isinstance(loss, (int, float)) and math.isfinite(loss):
            losses[entry["digest"]] = float(loss)
        if isinstance(step, int):
            called = step
    best = {entry["digest"] for entry in entries if called is not None and entry["step"] == called}
    if losses:
        best.add(min(losses, key=lambda digest: losses[digest]))
    return frozenset(best)


def _metrics(paths: RunPaths, digest: str) -> Dict[str, Any]:
    try:
        manifest = files.read_json(paths.checkpoint(digest, checkpoints.MANIFEST), checkpoints.MANIFEST_LIMIT) or {}
    except files.UnreadableError:
        return {}
    metrics = manifest.get("metrics")
    return metrics if isinstance(metrics, dict) else {}


def _delete(paths: RunPaths, digest: str) -> None:
    trash = os.path.join(paths.outbox, ".trash-" + digest)
    shutil.rmtree(trash, ignore_errors=True)  # left by a supervisor that was killed here
    os.rename(paths.checkpoint(digest).rstrip("/"), trash)
    homes.drop_words(paths, digest)
    shutil.rmtree(trash)
