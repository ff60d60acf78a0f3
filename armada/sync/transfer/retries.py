"""When a transfer whose link broke is begun again: within the session's patience, counted from when bytes last came."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable, LinkLost, SessionClosed
from armada.foundation.backoff import jitter_roll
from armada.rpc.outage import RECONNECT

if TYPE_CHECKING:
    from collections.abc import Callable


class Retries:
    """The tries of one transfer."""

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
            error: What ended the try before.
            patience_s: How long after the first failure in a row there are more tries; with 0 there is none.
            has_come: Whether that try brought anything.
            failed: Told of the error before the wait, where another try follows.

        Raises:
            BaseException: `error`, where another try is of no use or the patience is over.
        """
        # A host that answered before may be rebooting; one that never did is said at once.
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
