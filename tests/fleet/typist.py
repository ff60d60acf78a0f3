"""A person at a terminal: the command line in a pseudo-terminal of its own, where ssh asks for passphrases and codes."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import select
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Self

from tests.conftest import Armada


class Typist:
    """Runs `armada WORDS`; what it prints is read until something expected appears."""

    def __init__(self, armada: Armada, *words: str) -> None:
        self._terminal, end = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "armada", *words],
            cwd=armada.folder,
            env=armada.env,
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # between fork and exec it takes no lock
        )
        os.close(end)
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end in the middle of a character

    def waits_for(self, text: str, timeout_s: float = 180.0) -> None:
        """Read on until `text` has come; what came before it is forgotten."""
        deadline = time.monotonic() + timeout_s
        while text not in self.seen:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"waited in vain for {text!r}; there is: {self.seen}"
            try:
                self.seen += self._decoder.decode(os.read(self._terminal, 4096))
            except OSError:  # the other end has closed
                raise AssertionError(f"it ended without {text!r}: {self.seen}") from None
        self.seen = self.seen.partition(text)[2]

    def types(self, line: str) -> None:
        os.write(self._terminal, f"{line}\n".encode())

    def presses(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def interrupts(self) -> int:
        """Press Ctrl-C until it has ended, as a person does: ssh does not hear one in the moment before it reads."""
        while True:
            os.write(self._terminal, b"\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(5)

    def status(self) -> int:
        return self._process.wait(180)

    @staticmethod
    def run(*command: str) -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
