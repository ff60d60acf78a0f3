"""The errors that the agent sends to home."""

import errno
from typing import Optional

KINDS = (
    *("not_found", "conflict", "bad_request", "environment", "disk_full", "io", "internal", "unsupported"),
    *("scheduler", "outcome_unknown"),  # the batch system refused, or may have done what was asked
)
_FULL = (errno.ENOSPC, errno.EDQUOT)


class AgentError(Exception):
    """A request that failed for a reason home can act on.

    Args:
        kind: One of `KINDS`.
        message: One sentence for a person.
        hint: What to do now.
    """

    def __init__(self, kind: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint


def is_disk_full(error: OSError) -> bool:
    return error.errno in _FULL


def from_os_error(error: OSError) -> AgentError:
    """Say an operating system's error in the agent's words."""
    if is_disk_full(error):
        return AgentError("disk_full", str(error), "free space on the host's root folder, then try again")
    return AgentError("io", str(error))
