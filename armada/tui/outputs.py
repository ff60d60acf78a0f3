"""Run commands that only read, one after the other, and write what they print into a file."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import threading
from typing import TYPE_CHECKING

from armada.tui import acts
from armada.tui.operations import NOT_STARTED, command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import FileIO
    from pathlib import Path

    from armada.paths import HomePaths

KEPT = 20
NARROWEST = 60


class Reading:
    """The running commands of one output pane.

    Args:
        home: The output goes to state/dashboard/output there.
        commands: The arguments after `armada`, for each command.
        width: The columns that the output can use.
    """

    def __init__(self, home: HomePaths, commands: Sequence[Sequence[str]], width: int) -> None:
        self.log: Path = acts.new_log(home, commands[0][0], kind="output", kept=KEPT)
        self.exit_code: int | None = None
        self._commands = [tuple(words) for words in commands]
        # The window shows colours; where the user wants none, NO_COLOR is stronger.
        self._environment = {**os.environ, "COLUMNS": str(max(NARROWEST, width)), "FORCE_COLOR": "1"}
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        threading.Thread(target=self._work, name=f"read {commands[0][0]}", daemon=True).start()

    def _work(self) -> None:
        worst = NOT_STARTED  # unless the file can be written
        with contextlib.suppress(OSError), self.log.open("ab", buffering=0) as output:
            worst = self._run_all(output)
        self.exit_code = worst

    def _run_all(self, output: FileIO) -> int:
        """Run the commands; return the worst of their exit codes."""
        worst = 0
        for words in self._commands:
            if len(self._commands) > 1:
                output.write(f"$ {shlex.join(['armada', *words])}\n".encode())
            try:
                self._process = process = subprocess.Popen(
                    command(*words),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:  # no room for a process, or for so many words
                why = getattr(error, "strerror", None) or error
                output.write(f"armada: not started: {why}\n".encode())
                worst = max(worst, NOT_STARTED)
                continue
            if self._stopped.is_set():
                process.terminate()
            worst = max(worst, abs(process.wait()))
            if self._stopped.is_set():
                break
        return worst

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    def stop(self) -> None:
        """End the running command; it only reads, so nothing is lost."""
        self._stopped.set()
        if (process := self._process) is not None and process.poll() is None:
            process.terminate()
