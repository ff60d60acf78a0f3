"""Commands that begin at the same instant: each is a process of its own, held at a gate until all are there."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests import fork_server, moments
from tests.conftest import Armada

Done = subprocess.CompletedProcess[str]
TIMES = moments.times(3)
LATEST_S = 0.4
"""The second begins at most so long after the first: a launch on `local` takes about as long."""


def together(
    armada: Armada,
    *commands: Sequence[str],
    lags: Sequence[float] = (),
    envs: Sequence[dict[str, str]] = (),
    timeout_s: float = 240.0,
) -> list[Done]:
    """Run commands that begin together, to their ends.

    Args:
        armada: Whose home.
        commands: The words of each.
        lags: Seconds by which each begins after the one before it; none by default.
        envs: The environment of each, if not all are of this home.
        timeout_s: When to give up; there to end a hopeless test, never to measure.
    """
    server = fork_server.running()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(commands)) as pool:
        here, goes = Path(folder, "here"), [Path(folder, f"go-{number}") for number in range(len(commands))]
        for pipe in (here, *goes):
            os.mkfifo(pipe)
        # Read and write, so that neither end waits for the other to open.
        at_gate = os.open(here, os.O_RDWR)
        opened = [os.open(go, os.O_RDWR) for go in goes]
        try:
            running = [
                pool.submit(server.run, words, cwd=armada.folder, env=env, timeout_s=timeout_s, gate=(here, go))
                for words, go, env in zip(commands, goes, envs or [armada.env] * len(commands), strict=True)
            ]
            arrived = 0
            while arrived < len(commands):
                arrived += len(os.read(at_gate, len(commands)))
            for go, lag_s in zip(opened, [*lags, *[0.0] * len(opened)], strict=False):
                threading.Event().wait(lag_s)
                os.write(go, b".")
            return [each.result() for each in running]
        finally:
            for pipe_end in (at_gate, *opened):
                os.close(pipe_end)


def rounds(chance: Random) -> Iterator[list[float]]:
    """The lags of each repetition: first none, then chance ones."""
    yield [0.0, 0.0]
    for _ in range(TIMES - 1):
        yield [0.0, chance.uniform(0.0, LATEST_S)]


def said(done: Done) -> str:
    """All that a command printed, which is never a traceback."""
    text = done.stdout + done.stderr
    assert "Traceback" not in text, text
    assert "bug in armada" not in text, text
    return text


def codes(all_of_them: Sequence[Done]) -> list[int]:
    """The exit codes in order of size, of commands that printed no traceback."""
    for each in all_of_them:
        said(each)
    return sorted(each.returncode for each in all_of_them)


def by_code(all_of_them: Sequence[Done], code: int) -> Done:
    """The command that ended so."""
    return next(each for each in all_of_them if each.returncode == code)
