"""Write to a program and read from it, with limits on time and size."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import List

LIMIT = 64 * 1024 * 1024  # a hundred times what squeue prints for a large site's queue
_BLOCK = 64 * 1024


class Exchange:
    """The three streams of one program; `with` closes those that are still open.

    Args:
        child: The program, with three pipes.
        stdin: What the program reads from its stdin.

    Attributes:
        is_endless: The program printed more than the limit; the rest is not read.
    """

    def __init__(self, child: "subprocess.Popen[bytes]", stdin: bytes) -> None:
        self.is_endless = False
        self._child = child
        self._unsent = memoryview(stdin)
        self._size = 0
        self._out: List[bytes] = []
        self._err: List[bytes] = []
        self._selector = selectors.DefaultSelector()
        for stream, blocks in ((child.stdout, self._out), (child.stderr, self._err)):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ, blocks)
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            self._selector.register(child.stdin, selectors.EVENT_WRITE)

    def __enter__(self) -> "Exchange":
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    @property
    def out(self) -> bytes:
        return b"".join(self._out)

    @property
    def err(self) -> bytes:
        return b"".join(self._err)

    def carry_on(self, seconds: float) -> bool:
        """Write and read until the program ends or prints too much.

        Args:
            seconds: The time limit.

        Returns:
            False if the time limit passed first.
        """
        deadline = time.monotonic() + seconds
        while self._selector.get_map():
            for key, _ in self._selector.select(max(0.0, deadline - time.monotonic())):
                if key.fileobj is self._child.stdin:
                    self._write()
                else:
                    self._take(key.fd, key.data)
            if self.is_endless:
                return True
            if time.monotonic() >= deadline and self._selector.get_map():
                return False
        try:
            self._child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, with_group: bool) -> None:
        """Kill the program and, with `with_group`, everything in its process group, such as children of a wrapper script."""
        self._child.kill()
        if with_group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)

    def _write(self) -> None:
        stream = self._child.stdin
        if stream is None:
            return
        try:
            if self._unsent:
                self._unsent = self._unsent[os.write(stream.fileno(), self._unsent[:_BLOCK]) :]
        except BrokenPipeError:
            self._unsent = self._unsent[:0]  # the program has closed its stdin
        if not self._unsent:
            self._selector.unregister(stream)
            stream.close()

    def _take(self, descriptor: int, blocks: List[bytes]) -> None:
        block = os.read(descriptor, _BLOCK)
        self._size += len(block)
        if self._size > LIMIT:
            self.is_endless = True
        elif block:
            blocks.append(block)
        else:
            self._selector.unregister(descriptor)
