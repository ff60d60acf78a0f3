"""Keep the end of a program's standard error, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

from armada.foundation.sanitize import sanitize_text

_KEEP_BYTES = 16_384
_SHOW_CHARACTERS = 4_096


class StderrTail:
    """Reads a stream to its end in its own thread, so that the writer never blocks on it.

    Args:
        read: Returns the next bytes, b"" at the end; an OSError counts as the end.
    """

    def __init__(self, read: Callable[[], bytes], name: str) -> None:
        self._read = read
        self._kept = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, name=name, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while data := self._next():
            with self._lock:
                self._kept += data
                del self._kept[:-_KEEP_BYTES]

    def _next(self) -> bytes:
        try:
            return self._read()
        except (OSError, ValueError):  # the descriptor was closed, which is how the stream ends when home hangs up
            return b""

    def text(self, wait_s: float) -> str:
        """Return the sanitized text received so far, after waiting up to `wait_s` seconds for the stream to end."""
        self._thread.join(wait_s)
        with self._lock:
            return sanitize_text(self._kept.decode("utf-8", "replace")[-_SHOW_CHARACTERS:]).strip()
