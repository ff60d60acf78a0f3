"""Ask for a plan in a process that a newer question ends."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

from armada.tui.operations import Answer, command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PLAN_S = 120.0


class Asking:
    """One question at a time: a new one ends the process of the one before, whose answer nobody gets.

    Args:
        tell: Called in another thread with the words of a question and its answer.
    """

    def __init__(self, tell: Callable[[tuple[str, ...], Answer], None]) -> None:
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, words: Sequence[str]) -> None:
        """Start an armada command that only reads."""
        self.stop()
        try:
            process = subprocess.Popen(
                command(*words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # too long for the system, or with a NUL in it
            self._tell(tuple(words), Answer(1, "", f"the command cannot be started: {error}"))
            return
        self._process = process
        threading.Thread(target=self._wait, args=(process, tuple(words)), name="plan", daemon=True).start()

    def stop(self) -> None:
        """End the process, if it runs."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.terminate()

    def _wait(self, process: subprocess.Popen[bytes], words: tuple[str, ...]) -> None:
        try:
            out, err = process.communicate(timeout=PLAN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            out, err = b"", f"no plan within {PLAN_S:.0f} s".encode()
        if process is self._process:
            self._tell(
                words, Answer(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
            )
