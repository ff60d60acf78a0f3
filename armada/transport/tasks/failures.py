"""Turn what ended a task into a message for armada's own process."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from invoke.exceptions import AuthFailure, CommandTimedOut, UnexpectedExit

from armada.errors import ArmadaError, ConfigError
from armada.transport.tasks.connection import SudoRefused

if TYPE_CHECKING:
    from pathlib import Path

SUDO_HINT = (
    "armada hosts provision HOST --ask-sudo-password TASK; or allow it there: visudo, `{user} ALL=(ALL) NOPASSWD: ALL`"
)


def as_event(error: BaseException, file: Path | None = None) -> dict[str, object]:
    """Describe an error: the name of its class in `armada.errors`, and its sentence.

    Args:
        error: That ended the task, or kept it from starting.
        file: The task's file, to name the line.
    """
    if isinstance(error, SudoRefused | AuthFailure):
        refused = "sudo did not take the password" if isinstance(error, AuthFailure) else error.message
        return {"kind": "ProvisionFailed", "message": refused, "hint": SUDO_HINT}
    if isinstance(error, ArmadaError):
        where = {"path": str(error.path), "line": error.line} if isinstance(error, ConfigError) and error.path else {}
        return {"kind": type(error).__name__, "message": error.message, "hint": error.hint, **where}
    return {"kind": "ProvisionFailed", "message": _words(error), "hint": _place(error, file)}


def _words(error: BaseException) -> str:
    if isinstance(error, CommandTimedOut):
        return f"`{_short(error.result.command)}` took longer than {error.timeout} s"
    if isinstance(error, UnexpectedExit):
        return f"`{_short(error.result.command)}` ended with exit code {error.result.exited}"
    if isinstance(error, KeyboardInterrupt):
        return "it was interrupted"
    if isinstance(error, SystemExit):
        return error.code[:2000] if isinstance(error.code, str) else f"it exited with {error.code}"
    said = str(error)[:2000]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _short(command: Any) -> str:
    return str(command) if len(str(command)) <= 200 else f"{str(command)[:199]}…"


def _place(error: BaseException, file: Path | None) -> str | None:
    """Name the line of the task's file at which it ended."""
    if file is None:
        return None
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else None
