"""A person at a terminal who answers what a command asks."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.conftest import Armada


def typed(armada: Armada, answer: str, *words: str, timeout_s: float = 100) -> tuple[int, str, str]:
    """Run a command at a terminal, where somebody types an answer: (exit code, output, errors). Several stand on lines of their own."""
    master, slave = pty.openpty()
    try:
        command = [sys.executable, "-m", "armada", *words]
        with subprocess.Popen(
            command,
            cwd=armada.folder,
            env=armada.env,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            os.write(master, f"{answer}\n".encode())
            out, err = process.communicate(timeout=timeout_s)
        return process.returncode, out, err
    finally:
        os.close(master)
        os.close(slave)
