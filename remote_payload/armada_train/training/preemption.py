"""Handle signals that preempt a training: any rank records them, all ranks stop at the end of a step."""

from __future__ import annotations

import signal
from types import FrameType

from armada_train.failure import PREEMPTED, PayloadFailure

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)  # Slurm's --signal and many sites send SIGUSR1 before the end


class Preemption:
    """The signals that this rank received, and what all ranks have agreed on."""

    def __init__(self) -> None:
        self.noted = 0
        """Number of the signal that reached this rank."""
        self.agreed = 0
        """Number of the signal that all ranks know of; all of them act on it together."""
        self._has_work = False

    def listen(self) -> None:
        """Install handlers for the signals; by default, SIGTERM ends the process at any point."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def begin(self) -> None:
        """Record that from here on there is work worth saving."""
        self._has_work = True

    @property
    def is_early(self) -> bool:
        """Whether a signal arrived before there was work worth saving: it then caused any exception."""
        return bool(self.noted) and not self._has_work

    def failure(self, step: int) -> PayloadFailure:
        """Return the failure that ends a preempted run."""
        name = signal.Signals(self.agreed or self.noted).name
        saved = f"checkpoint {step} is complete, and training resumes from it" if step else "nothing was trained yet"
        return PayloadFailure(PREEMPTED, f"{name} requested a stop: {saved}")

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.noted = number
        if not self._has_work:
            raise self.failure(0)
