"""Write heartbeat-<rank>.json with what this rank is doing, so that a hang can be told from slow work."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from armada_train.runfolder import RunFolder, replace_json


class Heartbeat:
    """Written at most once a second, except when the phase changes.

    A separate thread writes the file: replacing a file waits for the disk (23 ms on a busy ext4, 2 % of all steps),
    which training should not. The time in the file is that of the last beat, so a rank that hangs does not look alive.
    """

    def __init__(self, run: RunFolder, clock: Callable[[], float] = time.time) -> None:
        self._run = run
        self._clock = clock
        self._noted_at = 0.0
        self._phase = ""
        self._step = 0
        self._total_steps: int | None = None
        self._latest: dict[str, object] = {}
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None

    def beat(self, phase: str, step: int | None = None, total_steps: int | None = None) -> None:
        """Record what is being done.

        Args:
            phase: loading, preparing, training, evaluating, saving, merging or ended.
            step: Optimizer steps done; by default, the last known number.
            total_steps: Steps of the whole training; by default, the last known number.
        """
        self._step = self._step if step is None else step
        self._total_steps = total_steps or self._total_steps
        now = self._clock()
        is_new_phase = phase != self._phase
        if not is_new_phase and now - self._noted_at < 1:
            return
        self._phase, self._noted_at = phase, now
        self._latest = {
            "rank": self._run.rank,
            "phase": phase,
            "step": self._step,
            "total_steps": self._total_steps,
            "time": now,
            "attempt": self._run.attempt,
        }
        if is_new_phase:
            self._write()
            return
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_writing, daemon=True)
            self._thread.start()

    def _keep_writing(self) -> None:
        while self._due.wait():
            self._due.clear()
            with contextlib.suppress(OSError):  # a full disk: the next second tries again, and the training continues
                self._write()

    def _write(self) -> None:
        with self._lock:  # the last writer writes the latest state: a slow write never overwrites it by an older one
            replace_json(self._run.heartbeat, self._latest)
