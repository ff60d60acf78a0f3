"""Say that no daemon runs, where one is needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from armada.cli.context import Context

STARTS_S = 10.0
"""For how long after a launch the daemon that it started may not hold its lock yet, in seconds."""


def say_unwatched(context: Context, what: str) -> None:
    """Print that nothing watches or fetches without a daemon, and none runs. Say nothing where it is not wanted or could not write.

    Args:
        context: The command's.
        what: What the daemon would do, such as `watches 2 active runs`; empty if there is nothing to do.
    """
    from armada.daemon import instance

    if not what or context.is_read_only or os.environ.get("ARMADA_NO_DAEMON", "") not in ("", "0"):
        return
    if not instance.is_held(context.home):
        print(f"(no daemon {what}: armada daemon start)")
