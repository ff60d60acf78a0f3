"""Say whether the disk of the store has room for a write, and why the store takes none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from armada.units import amount

if TYPE_CHECKING:
    from pathlib import Path

ENOUGH_BYTES = 64 * 1024
"""With less free than this the store takes no write: SQLite's index of the -wal alone has 32 KiB."""


def free_bytes(folder: Path) -> int | None:
    """Return what this user may still write to a folder's disk; None if the disk does not say."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    if not disk.f_blocks:  # some network and pseudo file systems count nothing
        return None
    return disk.f_frsize * (disk.f_bavail if os.geteuid() else disk.f_bfree)


def say_full(store: Path) -> str | None:
    """Say that the disk of the store is full; None if it has room, or does not say."""
    free = free_bytes(store.parent)
    if free is None or free >= ENOUGH_BYTES:
        return None
    return f"the disk of {store.parent} is full ({amount(free)} free)"


def advice(store: Path) -> str:
    """What to do about a store that takes no write."""
    if say_full(store) is not None:
        return (
            "the disk is full: free space on it (armada sync ls shows what checkpoints take). ps, show, logs and why show "
            "the last known state, and armada stop RUN still stops a run"
        )
    free = free_bytes(store.parent)
    room = f"its disk has {amount(free)} free: " if free is not None else ""
    return f"{room}check whether a quota is used up, or the file or its folder is read-only or belongs to another user"
