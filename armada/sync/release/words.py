"""Say whether everything of a host is at home: one sentence, for the command and the dashboard."""

from __future__ import annotations

from armada.verdicts import release


def nothing_lost(host: str, scheduler: str, *, is_local: bool) -> str:
    """Say that nothing would be lost with a host. This machine has home on it, so it is never said to be destroyed.

    Args:
        host: Its name.
        scheduler: `direct`, or its batch system.
        is_local: The host is this machine.
    """
    if is_local:
        return f"{host} is this machine, where home is: nothing waits there to come home"
    return release.may_go(host, scheduler)


def something_lost(host: str, scheduler: str, what: str, *, is_local: bool) -> str:
    """Say that something would be lost with a host.

    Args:
        host: Its name.
        scheduler: `direct`, or its batch system.
        what: What would be lost.
        is_local: The host is this machine.
    """
    if is_local:
        return f"{host} is this machine, where home is; not everything is at home: a wipe would lose {what}"
    return release.must_stay(host, scheduler, what)
