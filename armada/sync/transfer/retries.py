"""Retry a transfer whose link broke, within the session's patience, counted from when bytes last arrived."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable, LinkLost, SessionClosed
from armada.foundation.backoff import jitter_roll
from armada.rpc.outage import RECONNECT

if TYPE_CHECKING:
    from collections.abc import Callable


class Retries:
    """The retries of one transfer."""

    def __init__(self) -> None:
        self._trouble_since: float | None = None
        self._tries = 0

    def wait(
        self,
        error: BaseException,
        *,
        patience_s: float,
        has_come: bool,
        failed: Callable[[HostUnreachable], None] = lambda _: None,
    ) -> None:
        """Wait before the next try.

        Args:
            error: The error that ended the last try.
            patience_s: How long to retry after the first failure in a row, in seconds; 0 disables retries.
            has_come: Whether the last try received anything.
            failed: Called with the error before the wait, if another try follows.

        Raises:
            BaseException: `error`, if a retry cannot help or the patience is used up.
        """
        # A host that answered before may be rebooting; if it never did, the error is raised at once.
        is_link = isinstance(error, LinkLost) or self._trouble_since is not None
        if not isinstance(error, HostUnreachable) or not is_link:
            raise error
        if isinstance(error, HostKeyChanged | AuthenticationFailed | SessionClosed):
            raise error
        now = time.monotonic()
        if self._trouble_since is None or has_come:
            self._trouble_since, self._tries = now, 0
        if now - self._trouble_since >= patience_s:
            raise error
        self._tries += 1
        failed(error)
        time.sleep(RECONNECT.pause_s(self._tries, jitter_roll()))
