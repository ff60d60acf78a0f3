"""Take a snapshot of the user's project: the files that git tracks or would track, with uncommitted changes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from armada.errors import ProvisionFailed
from armada.provision.content import Content, take_stock
from armada.units import amount

LARGE_BYTES = 200_000_000
_SHOWN = 10
NEVER_SENT = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        ".venv",
        "venv",
        "node_modules",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    }
)
"""Folders that are not sent from a project without git."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The project's files to send.

    Attributes:
        revision: The commit; None outside git.
        dirty: Whether some files differ from it.
        skipped: Links and other things that are not sent.
        ignored: Files and folders that git ignores; they are not sent either.
    """

    content: Content
    revision: str | None
    dirty: bool
    skipped: tuple[str, ...]
    ignored: tuple[str, ...] = ()


def take_snapshot(folder: Path, *, without: Sequence[Path] = ()) -> Snapshot:
    """List and hash the project below `folder`.

    Args:
        folder: The project.
        without: Folders of armada's own. They change while they are sent, and contain what no job should see.

    Raises:
        ProvisionFailed: There is nothing to send, or far too much to be code.
    """
    tracked = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if tracked is not None:
        names = [name for name in tracked.split("\0") if name]
        revision = _git(folder, "rev-parse", "HEAD")
        dirty = bool(_git(folder, "status", "--porcelain", "--", "."))
    else:
        names, revision, dirty = _walk(folder), None, False
    own = [each.resolve().relative_to(folder.resolve()) for each in without if _is_below(each, folder)]
    names = [name for name in names if not any(Path(name).is_relative_to(each) for each in own)]
    ignored = _git(folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    there = [name for name in names if os.path.lexists(folder / name)]  # a file may be deleted but still in the index
    regular = [name for name in there if (folder / name).is_file() and not (folder / name).is_symlink()]
    if not regular:
        raise ProvisionFailed(f"{folder} has no files to send", hint="point `code:` at your project, or leave it out")
    _refuse_large(folder, regular)
    return Snapshot(
        take_stock("code", folder, regular),
        revision.strip() if revision else None,
        dirty,
        skipped=tuple(sorted(set(there) - set(regular))),
        ignored=tuple(name.rstrip("/") for name in (ignored or "").split("\0") if name),
    )


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve() != folder.resolve() and path.resolve().is_relative_to(folder.resolve())


def _refuse_large(folder: Path, names: list[str]) -> None:
    """Refuse to send far too much data to be code.

    Raises:
        ProvisionFailed: The error names the ten largest files.
    """
    sizes = {name: (folder / name).stat().st_size for name in names}
    total = sum(sizes.values())
    if total <= LARGE_BYTES:
        return
    largest = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:_SHOWN]
    listed = ", ".join(f"{name} ({amount(sizes[name])})" for name in largest)
    raise ProvisionFailed(
        f"{folder} holds {amount(total)}; code is at most {amount(LARGE_BYTES)}. The largest: {listed}",
        hint="ignore in .gitignore what is not code, and name what the job needs of it under `files:`",
    )


def _git(folder: Path, *arguments: str) -> str | None:
    """Return git's output for a folder, or None if it is no checkout or git is missing."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return os.fsdecode(answer.stdout) if answer.returncode == 0 else None


def _walk(folder: Path) -> list[str]:
    found = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in NEVER_SENT]
        found += [str((Path(parent) / name).relative_to(folder)) for name in files]
    return found
