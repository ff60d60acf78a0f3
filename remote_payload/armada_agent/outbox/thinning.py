"""Free space on a nearly full disk, one finished checkpoint at a time, as `verdicts/thinning.py` decides."""

import os
import shutil
from typing import Any, Dict

from armada_agent.foundation import files
from armada_agent.outbox import homes, listing
from armada_agent.paths import RunPaths
from armada_agent.records.journal import Journal
from armada_agent.verdicts.letting_go import lacking
from armada_agent.verdicts.thinning import choose, find_best


def thin(paths: RunPaths, settings: Dict[str, Any], journal: Journal, most: int = 1000) -> None:
    """Delete checkpoints on a nearly full disk: first those that every home of the run holds, then intermediate ones that some home lacks.

    While there is space, nothing is deleted here: an acknowledgement may be out of date. Home can verify its copies,
    and requests deletions itself (`outbox.prune`).

    Args:
        paths: The run's files.
        settings: `keep` and `disk_floor_bytes`.
        journal: Records every deletion.
        most: The largest number of checkpoints to delete.
    """
    for _ in range(most):
        free = os.statvfs(paths.outbox)
        floor = settings.get("disk_floor_bytes", 0)
        is_scarce = isinstance(floor, (int, float)) and free.f_bavail * free.f_frsize < floor
        if not is_scarce:
            return
        entries = listing.list_finished(paths)
        for entry in entries:
            words = homes.read_words(paths, entry["digest"])
            entry["lacking"] = lacking(words)
            entry["acknowledged"] = words.acknowledged and not entry["lacking"]
            entry["metrics"] = _metrics(paths, entry["digest"])
        chosen = choose(entries, find_best(entries) | listing.last_recorded(paths), is_scarce)
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
            + (
                "home said that it has it"
                if chosen["acknowledged"]
                else "%s has not got this checkpoint" % ", ".join(silent)
            ),
        )


def _metrics(paths: RunPaths, digest: str) -> Dict[str, Any]:
    try:
        manifest = files.read_json(paths.checkpoint(digest, listing.MANIFEST), listing.MANIFEST_LIMIT) or {}
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
