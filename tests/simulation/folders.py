"""What lies in folders, read with few system calls: the invariants read whole disks before and after each act."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CONFIG = b"{}"
"""What stands in every checkpoint beside its model."""


def names(folder: str) -> list[str]:
    """List a folder; one that is missing is empty."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def read(path: str) -> bytes:
    """Read a file; one that cannot be read is empty."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        content = os.read(descriptor, size + 1)
        while more := os.read(descriptor, 1 << 20):
            content += more
        return content
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def model(place: str) -> bytes | None:
    """Return the model of a whole checkpoint; None where there is none."""
    try:
        is_whole = os.stat(f"{place}/config.json").st_size == len(CONFIG)
    except OSError:
        return None
    return read(f"{place}/model.bin") if is_whole else None


def models(places: list[str]) -> set[bytes]:
    """Return the models of those checkpoints that are whole."""
    return {found for place in places if (found := model(place)) is not None}


def complete(places: list[str]) -> set[bytes]:
    """Return the models of those checkpoints that are whole and have their optimizer state."""
    wanted = ((model(place), place) for place in places)
    return {found for found, place in wanted if found is not None and read(f"{place}/optimizer.pt") == optimizer(found)}


def optimizer(model: bytes) -> bytes:
    """Return the optimizer state that belongs to a model."""
    return model + b" and its optimizer"


def copy(place: Path, to: Path) -> None:
    """Copy a home, while nobody writes there."""
    try:
        shutil.copytree(place, to, symlinks=True)
    except (FileNotFoundError, shutil.Error):  # Python closed the connection of a program that was killed just now
        shutil.rmtree(to)
        shutil.copytree(place, to, symlinks=True)


def listing(folder: str) -> set[str]:
    """List all files below a folder, but for its store."""
    found: set[str] = set()
    todo = [folder]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    elif not entry.name.startswith("armada.db"):
                        found.add(entry.path)
        except FileNotFoundError:
            continue
    return found


AWAY = "away"
"""Where a disk lies, beside the folder that it was mounted at, while it is not mounted."""


def is_away(state: str) -> bool:
    """Whether the disk of a home's runs is not mounted."""
    return os.path.exists(f"{state}/{AWAY}")


def on_disk(state: str) -> str:
    """Return where the folder of a home's runs really is."""
    return f"{state}/{AWAY if is_away(state) else 'runs'}"


def below_mount(state: str) -> set[str]:
    """List what was written where the disk of a home's runs is not mounted."""
    return listing(f"{state}/runs") if is_away(state) else set()


def of_home(place: str, state: str) -> set[str]:
    """List all files of a home by where they are while its disk is mounted; not what lies below the mount point."""
    found, away, runs = listing(place), f"{state}/{AWAY}/", f"{state}/runs/"
    if not is_away(state):
        return found
    return {each.replace(away, runs, 1) for each in found if not f"{each}/".startswith(runs)}


def unmount(folder: Path, *, linked: bool) -> bool:
    """A folder, a mount point or a link to another disk, has that disk no longer; whether it had one before."""
    away = folder.with_name(AWAY)
    if away.exists() or not folder.exists():
        return False
    folder.rename(away)
    if linked:
        folder.symlink_to("nowhere")
    else:
        folder.mkdir()
    return True


def mount(folder: Path) -> None:
    """It has its disk again; what was written beside is gone."""
    away = folder.with_name(AWAY)
    if not away.exists():
        return
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
    away.rename(folder)
