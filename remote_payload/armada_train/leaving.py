"""The end of a process of the payload, once all it had to write is written."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process as the interpreter would, but without destructors of C++.

    Threads of PyTorch's back ends may still be running then, and a destructor that finds one ends the process with SIGABRT
    (`terminate called without an active exception`, seen with gloo): a training that succeeded would be shown as failed,
    and one that was preempted would not be started again.

    Threads are waited for and what was registered with `atexit` is run, as by the interpreter. An error among these changes
    nothing about how the training ended, and neither does a log that can no longer be written.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing ends its processes
        atexit._run_exitfuncs()  # noqa: SLF001 - the same
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
    finally:
        os._exit(code)
