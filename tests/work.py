"""Count what a reader does, without a clock: the lines of Python that it runs, and the bytes that it handles or reads."""

from __future__ import annotations

import builtins
import gc
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

ALMOST_LINEAR = 1.15
"""Of twice the bytes, at most this much more than twice the work: what each reader does once is small beside it."""


def count(work: Callable[[], object], *, files: bool = True) -> int:
    """Return how much a piece of work does, in steps.

    Args:
        work: What is counted.
        files: Whether bytes that are read from files are steps. Not for work on a store: SQLite reads pages of its own
            file again when it likes.

    A step is a line of Python that runs, a byte of the text on which a method of `str` or `bytes` works, an item that
    `sum` or `sorted` gets, a byte that the JSON parser gets, or a byte that is read from a file. Slices are not counted,
    nor what a regular expression does.
    """
    steps = 0

    def each_line(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return each_line

    def each_call(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal steps
        if event == "c_call":
            owner = getattr(argument, "__self__", None)
            steps += len(owner) if isinstance(owner, str | bytes | bytearray) else 1
        elif event == "call" and frame.f_code is json.JSONDecoder.decode.__code__:
            steps += len(frame.f_locals["s"])

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(items: Iterable[Any], /, *rest: Any, **named: Any) -> Any:
            nonlocal steps
            taken = list(items)
            steps += len(taken)
            return function(taken, *rest, **named)

        return wrapped

    tracing, profiling = sys.gettrace(), sys.getprofile()
    collects = gc.isenabled()
    gc.disable()  # what the tests before left behind is not this one's work
    before = _bytes_read() if files else 0
    with pytest.MonkeyPatch.context() as patch:
        for function in (sum, sorted):
            patch.setattr(builtins, function.__name__, counting(function))
        sys.setprofile(each_call)
        sys.settrace(each_line)
        try:
            work()
        finally:
            sys.settrace(tracing)
            sys.setprofile(profiling)
            if collects:
                gc.enable()
    return steps + (_bytes_read() - before if files else 0)


def _bytes_read() -> int:
    """What this thread has read from files so far, as the kernel counts it; 0 where it does not say.

    Another thread of pytest's workers reads which test comes next, at any time.
    """
    try:
        found = re.search(r"^rchar: (\d+)", Path("/proc/thread-self/io").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found.group(1)) if found else 0


def assert_linear(work: Callable[[int], Callable[[], object]], least: int, *, files: bool = True) -> list[int]:
    """Check that twice and four times the bytes cost about twice and four times the work.

    Args:
        work: Makes the work for so many bytes; only what it returns is counted.
        least: The number of bytes to begin with.
        files: See `count`.

    Returns:
        The steps for one, two and four times as many bytes.
    """
    steps = [count(work(least * factor), files=files) for factor in (1, 2, 4)]
    print(f"{least} bytes and more: {steps} steps")
    assert steps[0] > least / 200, "nothing was read"
    for less, more in itertools.pairwise(steps):
        assert more <= 2 * ALMOST_LINEAR * less, f"{steps} steps for 1, 2 and 4 times {least} bytes"
    return steps
