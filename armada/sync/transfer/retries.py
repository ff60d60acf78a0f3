"""When a transfer whose link broke is begun again: within the session's patience, counted from when bytes last came."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from armada.errors import AuthenticationFailed, HostKeyChanged, HostUnreachable, LinkLost

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0


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
        if isinstance(error, HostKeyChanged | AuthenticationFailed):
            raise error
        now = time.monotonic()
        if self._trouble_since is None or has_come:
            self._trouble_since, self._tries = now, 0
        if now - self._trouble_since >= patience_s:
            raise error
        self._tries += 1
        failed(error)
        longest_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**self._tries)
        time.sleep(longest_s * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, not a secret
