"""Errors that the agent reports to home."""

import errno
from typing import Optional

KINDS = (
    *("not_found", "conflict", "bad_request", "environment", "disk_full", "io", "internal", "unsupported"),
    *("scheduler", "outcome_unknown"),  # the batch system refused; it may have done what was asked
)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class AgentError(Exception):
    """A request that failed for a reason that home can act on.

    Args:
        kind: One of `KINDS`.
        message: One sentence for the user.
        hint: What the user can do about it.
    """

    def __init__(self, kind: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


def is_disk_full(error: OSError) -> bool:
    return error.errno in _FULL


def from_os_error(error: OSError) -> AgentError:
    """Convert an error of the operating system to an `AgentError`."""
    if is_disk_full(error):
        return AgentError("disk_full", str(error), "free space on the host's root folder, then try again")
    return AgentError("io", str(error))
