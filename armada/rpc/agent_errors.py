"""Convert an agent's errors to errors for the user."""

from __future__ import annotations

import re

from armada.errors import ArmadaError, Conflict, NotFound, OutcomeUnknown, ProvisionFailed, SchedulerRefused
from armada.foundation.sanitize import sanitize_line, sanitize_text

_METHOD_NOT_FOUND = -32601
_ERROR_KINDS: dict[str, type[ArmadaError]] = {
    "not_found": NotFound,
    "conflict": Conflict,
    "environment": ProvisionFailed,
    "disk_full": ProvisionFailed,
    "scheduler": SchedulerRefused,
    "outcome_unknown": OutcomeUnknown,
}


def call_error(error: object, method: str, *, host: str) -> ArmadaError:
    """Convert the agent's error answer to the error for the user."""
    fields = error if isinstance(error, dict) else {}
    if fields.get("code") == _METHOD_NOT_FOUND:
        return ArmadaError(f"the agent does not know {method}", hint="update armada", host=host)
    said = sanitize_text(str(fields.get("message", f"{method} failed")), limit=4096)
    data = fields.get("data")
    kind, hint = (data.get("kind"), data.get("hint")) if isinstance(data, dict) else (None, None)
    error_class = _ERROR_KINDS.get(str(kind), ArmadaError)
    return error_class(said, hint=sanitize_line(hint) if isinstance(hint, str) else None, host=host)


_STARTUP_ENDS = re.compile(r"\(exit status (\d+)\)")
_STDIN_TAKEN = re.compile(r'invalid literal for int\(\)|File "<string>".*(SyntaxError|IndentationError)', re.DOTALL)


def start_error(noise: str, diagnosis: str, *, host: str) -> ProvisionFailed:
    """Return the error for an agent that ended before its hello.

    Args:
        noise: The output on the channel until then.
        diagnosis: The transport's description of the end, such as `(exit status 3)`.
        host: The host's name.
    """
    said = f"{noise}\n{diagnosis}".strip()
    if re.search(r"error while loading shared libraries|symbol lookup error", said):
        return ProvisionFailed(
            f"python3 does not start on this host: {said}",
            hint="fix LD_LIBRARY_PATH in a start-up file there; `armada doctor` shows it",
            host=host,
        )
    if re.search(r"python3.*(not found|unknown command|no such file)|\(exit status 127\)", said, re.IGNORECASE):
        return ProvisionFailed(
            "no python3 on this host",
            hint=f"armada hosts provision {host} python gets one; or install Python 3.6 or newer there, so that `python3` "
            "works in a non-interactive shell",
            host=host,
        )
    if _STDIN_TAKEN.search(said):
        return ProvisionFailed(
            "a start-up file there reads standard input and consumed what armada sent",
            hint="in ~/.bashrc there, put `[ -t 0 ] || return` before the line that reads (`read`, a program that asks)",
            host=host,
        )
    if (status := _STARTUP_ENDS.search(diagnosis)) and "Traceback" not in said:
        words = sanitize_line(noise, 300)
        return ProvisionFailed(
            f"the login shell there ended with exit status {status[1]} before python3 could start"
            + (f": {words}" if words else ""),
            hint="a start-up file there, such as ~/.bashrc, may call `exit`, or start another program with `exec`",
            host=host,
        )
    return ProvisionFailed(f"the agent could not start: {said}", host=host)
