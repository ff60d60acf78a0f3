"""Find how the ranks ended, and which was first, from torchrun: a killed rank reports nothing, and others report its end."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Any

from armada_train.failure import INTERRUPTED
from armada_train.records import find_object, is_whole, show

_LOGGER = "torch.distributed.elastic.multiprocessing.api"
# Not SIGABRT: a watchdog aborts its own process because another rank is gone. The other signals are requests to end.
_FATAL = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


class Signalled(logging.Handler):
    """Records which ranks torchrun ended because another one failed; torchrun reports that only in its log."""

    def __init__(self) -> None:
        super().__init__()
        self.pids: set[int] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Sending process") and isinstance(record.args, tuple) and record.args:
            self.pids.add(int(str(record.args[0])))

    def listen(self) -> None:
        logging.getLogger(_LOGGER).addHandler(self)


class LeftCodes:
    """Remembers the exit codes of this machine's ranks after a signal; torchrun waits for them, and forgets them.

    Attributes:
        codes: One for each rank, negative for a signal, None for a rank that could not be ended; empty as long as
            torchrun has ended none.
    """

    def __init__(self) -> None:
        self.codes: list[int | None] = []

    def listen(self) -> None:
        """Read the codes whenever torchrun has ended its ranks, in the releases of torch that end them in this way."""
        from torch.distributed.elastic.multiprocessing import api

        context: Any = getattr(api, "SubprocessContext", None)
        end = getattr(context, "_close", None)
        if end is None:
            return

        def end_and_read(ranks: Any, *given: Any, **named: Any) -> None:
            try:
                end(ranks, *given, **named)
            finally:  # a second signal ends the wait, after which torchrun calls this again
                handlers = getattr(ranks, "subprocess_handlers", {})
                self.codes = [handler.proc.poll() for handler in handlers.values()]

        context._close = end_and_read  # noqa: SLF001 - torchrun tells nobody

    def common(self) -> int | None:
        """Return 0 if each rank left with that, 85 if some left with 85 and all others with 0, else None."""
        if not self.codes or not set(self.codes) <= {0, INTERRUPTED}:
            return None
        return INTERRUPTED if INTERRUPTED in self.codes else 0


def first_end(error: Any, signalled: set[int]) -> tuple[int, int]:
    """Find the rank that ended first, and its exit code, negative for a signal.

    torchrun takes the earliest time. But a rank that wrote its error has an earlier time than the killed rank that made
    it fail.

    Args:
        error: torchrun's ChildFailedError.
        signalled: The ranks that torchrun ended itself.
    """
    own = {rank: end for rank, end in error.failures.items() if end.pid not in signalled}
    killed = {rank: end for rank, end in own.items() if -end.exitcode in _FATAL}
    candidates = killed or own or error.failures
    rank = min(candidates, key=lambda each: (candidates[each].timestamp, each))
    return rank, candidates[rank].exitcode


def describe_end(run: Path, rank: int, exit_code: int) -> tuple[str, str] | None:
    """Describe what a rank was doing when a signal ended it; None if it ended by itself."""
    if -exit_code not in _FATAL:
        return None
    name = signal.Signals(-exit_code).name
    return f"signal_{name}", f"rank {rank} was ended by {name}{_doing(run / f'heartbeat-{rank}.json')}"


def _doing(file: Path) -> str:
    beat = find_object(file)
    phase, step = beat.get("phase"), beat.get("step")
    return f" while {show(phase)}, after step {step}" if isinstance(phase, str) and is_whole(step) else ""
