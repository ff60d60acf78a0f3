"""Remember that a checkpoint was whole, and with which bytes: `.announced-checkpoint-<step>` beside it.

So a resume can tell damaged checkpoints from those that never became whole: without any that was whole, a training
starts from the beginning; where all that were whole are damaged, that would silently lose what they held.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from armada_train.checkpoints.shards import fingerprint
from armada_train.records import find_object
from armada_train.runfolder import remove, replace_json

_PREFIX = ".announced-"
_USED = ".restarted-by-submission-"
_FORMAT = 1
_LOADED = frozenset({".safetensors", ".bin", ".pt", ".pth"})
"""Files that a resume loads. Shards (.distcp) are listed in shards.json."""


def mark_path(checkpoint: Path) -> Path:
    return checkpoint.parent / f"{_PREFIX}{checkpoint.name}"


def is_marked(checkpoint: Path) -> bool:
    return mark_path(checkpoint).is_file()


def mark(checkpoint: Path, *, is_final: bool = False) -> None:
    """Record that a checkpoint is whole, with size and fingerprint of the files that a resume loads, and whether it is the last."""
    files = {
        str(path.relative_to(checkpoint)): {"size": path.stat().st_size, "sample": fingerprint(path)}
        for path in sorted(checkpoint.rglob("*"))
        if path.suffix in _LOADED and path.is_file()
    }
    replace_json(mark_path(checkpoint), {"format": _FORMAT, "final": is_final, "files": files})


def is_final(checkpoint: Path) -> bool:
    """Tell whether a checkpoint was announced as its training's last one; earlier releases did not record that."""
    return find_object(mark_path(checkpoint)).get("final") is True


def unmark(checkpoint: Path) -> None:
    remove(mark_path(checkpoint))


def changed_files(checkpoint: Path) -> list[str]:
    """Name the files whose bytes are not those that were recorded; a missing one is not named.

    Empty if nothing is recorded: by an earlier release, or because a power loss truncated the record.
    """
    listed = recorded_files(checkpoint)
    return [name for name, entry in listed.items() if _is_inside(name) and _differs(checkpoint / name, entry)]


def recorded_files(checkpoint: Path) -> dict[str, Any]:
    """Return what was recorded of a checkpoint's files, by their names; empty if nothing is."""
    content = find_object(mark_path(checkpoint))
    files = content.get("files") if content.get("format") == _FORMAT else None
    return files if isinstance(files, dict) else {}


def newest_marked(folder: Path) -> int | None:
    """Return the step of the newest checkpoint that was whole once, also of one that was deleted; None without any."""
    steps = [path.name.rpartition("-")[2] for path in folder.glob(f"{_PREFIX}checkpoint-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=None)


def may_restart(folder: Path, permit: str | None) -> bool:
    """Tell whether the user permitted this submission to start from the beginning, and it has not done so yet.

    A permit counts once: a scheduler may start a submission many times, and what it saves later may be damaged again.
    """
    return permit is not None and not (folder / f"{_USED}{permit}").exists()


def restart(folder: Path, permit: str | None) -> None:
    """Forget all checkpoints that were whole, then use the permit. Other ranks that look meanwhile decide the same."""
    for path in folder.glob(f"{_PREFIX}checkpoint-*"):
        remove(path)
    if permit is not None:
        (folder / f"{_USED}{permit}").touch()


def _is_inside(name: str) -> bool:
    return name.isprintable() and not name.startswith("/") and not {"", ".", ".."} & set(name.split("/"))


def _differs(path: Path, entry: Any) -> bool:
    if not os.path.isfile(path):  # noqa: PTH113  # Path.is_file raises where a name is too long
        return False
    try:
        size = path.stat().st_size
        return not isinstance(entry, dict) or size != entry.get("size") or fingerprint(path) != entry.get("sample")
    except FileNotFoundError:
        return False
    except OSError:
        return True
