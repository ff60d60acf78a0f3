"""Paths as a person writes them: `~` is their own folder, `~kim` another user's."""

from __future__ import annotations

from pathlib import Path

from armada.errors import UsageError


def expanded(path: Path | str) -> Path:
    """Return a path whose `~` is replaced.

    Raises:
        UsageError: There is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0].removeprefix("~")
        what = f"there is no user {user}" if user else "your folder is not known"
        raise UsageError(f"{path}: {what}", hint=f"./{path} means a file in this folder") from None


def expanded_or_same(path: Path | str) -> Path:
    """Return a path whose `~` is replaced; one of a user that there is not stays as it is, and names nothing."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
