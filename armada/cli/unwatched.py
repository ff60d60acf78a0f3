"""Say that no daemon runs, where one is needed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.cli.context import Context

STARTS_S = 10.0
"""For how long after a launch the daemon that it started may not hold its lock yet, in seconds."""


def say_unwatched(context: Context, needed_on: Sequence[str], what: Callable[[int], str]) -> None:
    """Print that nothing watches or fetches without a daemon, and none runs. Say nothing where it is not wanted or could not write.

    Args:
        context: The command's.
        needed_on: The host of each thing that a daemon would care for. Those of hosts that it does not know are left out.
        what: Says what it would do with so many things, such as `watches 2 active runs`.
    """
    from armada.daemon import instance

    if not needed_on or context.is_read_only or os.environ.get("ARMADA_NO_DAEMON", "") not in ("", "0"):
        return
    try:
        if instance.is_held(context.home):
            return
    except OSError:  # a file system without locks, or another user's lock file: nobody can tell
        return
    if count := _count_reachable(context, needed_on):
        print(f"(no daemon {what(count)}: armada daemon start)")


def _count_reachable(context: Context, needed_on: Sequence[str]) -> int:
    configured = context.configured()
    if configured is None:  # a file is wrong
        return len(needed_on)
    if not configured.issuperset(needed_on):
        from armada.daemon.hosts import KnownHosts  # it takes 0.2 s

        configured |= KnownHosts(context.home).read(context.database).keys()  # also of projects elsewhere
    return sum(name in configured for name in needed_on)
