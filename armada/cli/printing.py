"""Print the value of `--json` on standard output, errors included. `armada.cli.shapes` describes every shape."""

from __future__ import annotations

import errno
import json
import os
import sys
from typing import TYPE_CHECKING

from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line, sanitize_text

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1
"""Of all shapes together. Fields may be added; where one goes or means something else, the number rises."""


def has_colours() -> bool:
    """Whether what a command prints may have colours: on a terminal, or where FORCE_COLOR asks for them (force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")


def with_format(value: object) -> object:
    """An object, or each object of a list, with the number of its format."""
    if isinstance(value, dict):
        return {"format": FORMAT, **value}
    return [with_format(each) for each in value] if isinstance(value, list) else value


def print_json(value: object, *, indent: int | None = 1) -> None:
    """Print a command's result as JSON."""
    print(json.dumps(with_format(value), indent=indent))


def print_line(value: Mapping[str, object]) -> None:
    """Print one object of a stream as one line."""
    print(json.dumps(with_format(value)), flush=True)


def error_fields(error: ArmadaError) -> dict[str, object]:
    """The fields of an error, as every command prints them under `error`."""
    return {
        "kind": type(error).__name__,
        "message": sanitize_text(str(error), 8000),
        "hint": sanitize_line(error.hint, 2000) if error.hint else None,
        "host": error.host,
        "exit_code": error.exit_code,
    }


def print_error(error: ArmadaError) -> None:
    """Print an error as JSON, unless the command already printed its value; then only the exit code reports the error."""
    if not getattr(sys.stdout, "has_printed", False):
        print_json({"error": error_fields(error)})


_HINTS = {
    errno.ENOSPC: "free space on this machine's disk",
    errno.EDQUOT: "free space on this machine's disk: your quota is used up",
    errno.EROFS: "the file system is read-only: name another folder, or mount it for writing",
    errno.EACCES: "check who may read and write it",
    errno.EPERM: "check who may read and write it",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def as_error(error: OSError) -> ArmadaError:
    """Say what this machine's own files refused."""
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return ArmadaError(sanitize_line(what, 2000), hint=_HINTS.get(error.errno or 0))
