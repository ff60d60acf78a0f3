"""Care for the daemon below which a command migrates the store: it ends, if its own armada does not read the store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from armada.cli.progress import say
from armada.errors import ArmadaError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from armada.paths import HomePaths


@contextlib.contextmanager
def caring_for_the_daemon(home: HomePaths) -> Iterator[None]:
    """Open the store inside. If that migrates it below a daemon, start another one as a launch does, or say what to do.

    Later commands find this armada's version in the store and do nothing.
    """
    from armada.daemon import instance
    from armada.store.queries.renewal import KNOWN, version_before_opening

    before = None
    with contextlib.suppress(
        OSError
    ):  # a file system without locks, or somebody else's lock: the command itself needs none
        before = version_before_opening(home.store) if instance.is_held(home) else None
    yield
    if before is not None and 0 < before < KNOWN:
        _replace(home, f"the store was migrated from version {before} to {KNOWN}")


def _replace(home: HomePaths, migrated: str) -> None:
    from armada.cli.daemon import start_for_launch

    try:
        started = start_for_launch(home)
    except ArmadaError as error:
        say(f"{migrated}, and no daemon of this armada started: {error.message}")
        return
    if started:
        say(f"{migrated}; a daemon of this armada takes the place of the one that ran")
    else:
        # One that stays is not stopped, and after an upgrade in its place it starts again as the new program.
        say(
            f"{migrated}. The daemon starts again; if another installation of armada started it, it ends: "
            "armada daemon status"
        )
