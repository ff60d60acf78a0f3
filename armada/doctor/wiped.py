"""Hosts on which this home deleted everything of armada's, as the store has them."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from armada.errors import ArmadaError

if TYPE_CHECKING:
    from armada.paths import HomePaths


def wiped_hosts(home: HomePaths) -> dict[str, str]:
    """Return the hosts that this home wiped or is wiping, each with a sentence that says it.

    The agent would be put back there by any connection that does more than look. None are known if the store cannot be
    read.
    """
    from armada.store import hosts
    from armada.store.database import Database
    from armada.store.running_operations import being_wiped

    if not home.store.exists():
        return {}
    try:
        with Database(home.store, patience_s=5.0) as database:
            known, now = hosts.every(database), being_wiped(database)
    except (ArmadaError, sqlite3.DatabaseError):
        return {}  # the report about home says it
    found = {
        each.name: f"this home deleted everything there on {_day(each.released_at)}"
        for each in known
        if each.released_at is not None
    }
    return found | dict.fromkeys(now, "armada hosts release --wipe deletes everything there at this moment")


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
