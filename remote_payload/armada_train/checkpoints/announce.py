"""Announce a finished checkpoint: hard links that the trainer's rotation cannot delete.

The supervisor finds `.new-<step>`, hashes its files and gives it its final name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from armada_train.checkpoints import whole
from armada_train.records import find_object
from armada_train.runfolder import RunFolder, remove, replace_json


def announce(run: RunFolder, checkpoint: Path, announcement: Mapping[str, object], base_model: Path | None) -> bool:
    """Put a checkpoint into the outbox as `.new-<step>`.

    Args:
        run: The run that owns the outbox.
        checkpoint: The folder that the trainer wrote.
        announcement: Content of `.announce.json`; its `step` names the folders.
        base_model: A base model created by this run, copied beside the adapter because it exists nowhere else.

    Returns:
        False if this step was announced before; then nothing happens.
    """
    step = announcement["step"]
    final = run.outbox / f".new-{step}"
    if whole.is_marked(checkpoint):
        return False
    if final.is_dir() and not final.is_symlink():
        waits_as = find_object(final / ".announce.json").get("kind")
        whole.mark(checkpoint, is_final=waits_as == "final")  # an attempt was killed in between
        return False
    remove(final)
    part = run.outbox / f".part-{step}"
    remove(part)  # of an attempt that was killed while linking
    _link_tree(checkpoint, part)
    if base_model is not None:
        _link_tree(base_model, part / "base_model")
    # A power loss truncates files that were not yet on disk; the sizes let the supervisor detect that.
    size_bytes = sum(path.stat().st_size for path in part.rglob("*") if path.is_file() and not path.is_symlink())
    replace_json(part / ".announce.json", {**announcement, "size_bytes": size_bytes})
    part.rename(final)
    whole.mark(checkpoint, is_final=announcement.get("kind") == "final")
    return True


def forget(checkpoint: Path) -> None:
    """Remove a checkpoint that is about to be written again.

    Its files are hard links to those in the outbox: overwriting them would change them under the manifest. It was not
    complete, or training would have resumed from it, so its successor is announced again.
    """
    remove(checkpoint)
    whole.unmark(checkpoint)


def _link_tree(source: Path, destination: Path) -> None:
    destination.mkdir(parents=True)
    for entry in sorted(source.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            _link_tree(entry, destination / entry.name)
        elif entry.is_file():
            _link_file(entry, destination / entry.name)


def _link_file(source: Path, destination: Path) -> None:
    try:
        os.link(source, destination)
    except OSError:  # some file systems have no hard links (FAT, some FUSE and object stores)
        shutil.copy2(source, destination)
