"""The dashboard in a real terminal: tmux holds it, keys go in, what stands on the screen comes out."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time

from tests.conftest import Armada
from tests.waiting import WITHIN_S, pauses

WRITER = """
import json, os, time
path = os.path.join(os.environ["ARMADA_RUN_DIR"], "metrics.jsonl")
for step in range(1, 100000):
    with open(path, "a") as file:
        line = {"kind": "train", "step": step, "time": time.time(), "attempt": 1, "loss": 3.0 / step, "tokens_per_s": 100.0}
        file.write(json.dumps(line) + "\\n")
    print("step", step, flush=True)
    time.sleep(0.2)
"""
"""A job that trains nothing and says so every fifth of a second."""


class Terminal:
    """A tmux server of its own."""

    def __init__(self, armada: Armada) -> None:
        self._armada = armada
        self._socket = str(armada.folder / "tmux")

    def tmux(self, *words: str) -> str:
        argv = ["tmux", "-S", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(
            argv, env=self._armada.env, capture_output=True, text=True, check=False, timeout=30
        ).stdout

    def open(self, width: int = 120, height: int = 34, program: str | None = None) -> None:
        program = program or f"{shlex.quote(sys.executable)} -m armada; echo left with $?; exec sleep 600"
        where = ["-c", str(self._armada.folder)]
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), *where, program)

    def keys(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def shows(self, *words: str, within_s: float = WITHIN_S) -> str:
        """Wait until all words are on the screen; what is there then."""
        for pause_s in pauses(lambda: f"{words}; on the screen:\n{self.screen()}", within_s=within_s):
            seen = self.screen()
            if all(word in seen for word in words):
                return seen
            time.sleep(pause_s)
        raise AssertionError  # `pauses` has failed the test
