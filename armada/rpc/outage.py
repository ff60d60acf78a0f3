"""Messages to the user while a link is down, for all commands that wait for a host.

Sessions and fetches report here when a link fails, while it is retried, and when it works again. The command line
registers a listener. Without a listener nothing is reported, as in the daemon, which has its own messages.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from armada.foundation.backoff import Backoff
from armada.foundation.sanitize import sanitize_line
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECONNECT = Backoff(0.2, 5.0, jitter=(0.5, 1.0))
"""The pauses between attempts to reconnect to a host."""

SAY_AFTER_S = 20.0
"""Report a host that has not answered for this many seconds, although it may still answer."""
_SAY_AGAIN_S = 15.0
_SAY_WAITING_AFTER_S = 3.0

_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> None:
    """Register a listener for all links of this process. It may be called from any thread."""
    if listener not in _listeners:
        _listeners.append(listener)


class Outage:
    """The outage of one link, from its first failure until the host answers again.

    Args:
        host: The host's name.
        monotonic: A clock in seconds.
    """

    def __init__(self, host: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._host = host
        self._monotonic = monotonic
        self._since: float | None = None
        self._said_at = 0.0
        self._lock = threading.Lock()

    def failed(self, why: object, patience_s: float | None) -> None:
        """Report that the link failed and is retried. Repeated failures are reported only from time to time.

        Args:
            why: The error of the last attempt.
            patience_s: For how many seconds the link is retried; None: without limit.
        """
        with self._lock:
            now = self._monotonic()
            first = self._since is None
            self._since = now if self._since is None else self._since
            if not first and now - self._said_at < _SAY_AGAIN_S:
                return
            self._said_at = now
            lasted = now - self._since
        until = "until it answers"
        if patience_s is not None:
            end = time.time() + patience_s - lasted
            until = f"until {time.strftime('%H:%M:%S', time.localtime(end))}"
        what = f"no answer from {self._host}" + ("" if first else f" for {span(lasted)}")
        _say(f"{what} ({sanitize_line(getattr(why, 'message', why), 300)}); trying again {until}")

    def slow(self, seconds: float, hint: str | None) -> None:
        """Report that a host's first answer is late but may still come. The hint gives a possible reason."""
        _say(f"no answer from {self._host} for {span(seconds)}; still waiting" + (f" ({hint})" if hint else ""))
        with self._lock:
            self._since = self._monotonic() - seconds if self._since is None else self._since

    def over(self) -> None:
        """Report that the host answers again, if its outage was reported."""
        with self._lock:
            if self._since is None:
                return
            lasted, self._since = self._monotonic() - self._since, None
        _say(f"{self._host} answers again after {span(lasted)}")


@contextlib.contextmanager
def waiting_for(what: str, is_so: Callable[[], bool]) -> Iterator[None]:
    """Report what a host itself waits for, such as the controller of its batch system, after some seconds.

    Args:
        what: What the host waits for.
        is_so: Called before the report: whether the host itself answers.
    """
    timer = threading.Timer(_SAY_WAITING_AFTER_S, lambda: _say(f"waiting for {what}") if is_so() else None)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(sentence: str) -> None:
    for listener in _listeners:
        listener(sentence)
