"""Parse positions in a log: a line, a percentage, a byte, a time, a step. None of them needs the whole file in memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.errors import UsageError
from armada.tui.log_file import CHUNK, LogFile

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT_BYTES = 1 << 20
LONGEST = 100
"""Characters of a position. Python refuses to read a number of more than 4,300 digits."""
PROBE_LINES = 200
"""After so many lines without a time, that part of the log counts as having none."""
HOW = "12000 (a line) · 45% · @1048576 (a byte) · step 1200 · 12:10 · 2026-11-20 12:10:41 (as the log writes its times)"

_DAY_S = 86_400
_TIME = re.compile(r"(?:(\d{4})-(\d{2})-(\d{2})[T ])?(\d{1,2}):(\d{2})(?::(\d{2}))?")
_STAMP = re.compile(rb"(?:(\d{4})-(\d{2})-(\d{2})[T ])?\b(\d{1,2}):(\d{2}):(\d{2})")
_STEP_WORD = re.compile(r"step\s*([\d,]+)", re.IGNORECASE)
# `step 1,200/4,000`, `'global_step': 1200`, and the ` 1200/4000 [` of a progress bar.
_STEP = re.compile(
    rb"""\b(?:global_)?step["']?\s?[:= ]\s?(\d[\d,]{0,15}+)|[ |](\d{1,12})/\d{1,12} \[""",
    re.IGNORECASE,
)
_STAMP_WITHIN = 64
"""A line's time is near its beginning; matches further on may be anything."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position. `number` is a line from 1, per cent, a byte, a step, or seconds: of the day, or with a date (`dated`)."""

    kind: Literal["line", "share", "byte", "time", "step"]
    number: float
    dated: bool = False


def parse_place(text: str) -> Place:
    """Parse a typed position.

    Raises:
        UsageError: It is not a position.
    """
    word = text.strip()
    if len(word) > LONGEST:
        raise UsageError(f"{word[:20] + '…'!r} is not a position in a log", hint=HOW)
    if word.replace(",", "").isdecimal():
        return Place("line", int(word.replace(",", "")))
    if (found := _STEP_WORD.fullmatch(word)) is not None:
        return Place("step", int(found[1].replace(",", "") or 0))
    if word.startswith("@") and word[1:].isdecimal():
        return Place("byte", int(word[1:]))
    if word.endswith("%"):
        try:
            share = float(word[:-1])
        except ValueError:
            share = -1.0
        if 0 <= share <= 100:
            return Place("share", share)
    if (found := _TIME.fullmatch(word)) is not None:
        year, month, day, hour, minute, second = found.groups()
        if int(hour) < 24 and int(minute) < 60 and int(second or 0) < 60:
            return Place("time", _seconds(year, month, day, hour, minute, second or 0), year is not None)
    raise UsageError(f"{word!r} is not a position in a log", hint=HOW)


def find_place(log: LogFile, place: Place, given_up: Callable[[], bool]) -> int | None:
    """Return the start of the line at a position; None if there is no such line, or the search was cancelled.

    Args:
        log: The file, read in pieces.
        place: The position.
        given_up: Called now and then; true cancels the search.
    """
    size = log.size
    if not size:
        return None
    if place.kind == "line":
        return _line(log, int(place.number), given_up)
    if place.kind == "step":
        return _step(log, int(place.number), given_up)
    if place.kind == "time":
        return _time(log, place, given_up)
    offset = int(place.number) if place.kind == "byte" else int(size * place.number / 100)
    return log.line_start(min(offset, size - 1))


def _line(log: LogFile, number: int, given_up: Callable[[], bool]) -> int | None:
    left, offset = number - 1, 0
    if left <= 0:
        return 0
    with log.path.open("rb") as file:
        while data := file.read(COUNT_BYTES):
            if given_up():
                return None
            found = data.count(b"\n")
            if found >= left:
                at = -1
                for _ in range(left):
                    at = data.find(b"\n", at + 1)
                return offset + at + 1 if offset + at + 1 < log.size else None
            left, offset = left - found, offset + len(data)
    return None


def _step(log: LogFile, wanted: int, given_up: Callable[[], bool]) -> int | None:
    """Find the first line that reports this step or a later one."""
    start = 0
    while not given_up() and (data := log.read(start, COUNT_BYTES)):
        end = data.rfind(b"\n") + 1
        block = data[:end] if end and len(data) == COUNT_BYTES else data
        for found in _STEP.finditer(block):
            if int((found[1] or found[2]).replace(b",", b"")) >= wanted:
                return log.line_start(start + found.start())
        start += len(block)
    return None


def _time(log: LogFile, place: Place, given_up: Callable[[], bool]) -> int | None:
    """Find the first line at or after a time by bisection. A log's times increase; a log with times but no dates covers less than a day."""
    first = _stamp_after(log, 0)
    if first is None:
        return None
    _, first_s, dated = first
    if place.dated and not dated:
        return None
    wanted = place.number
    if not place.dated and dated:  # a time of day in a log with dates: the last day that contains it
        last = _stamp_before_end(log)
        day = (last if last is not None else first_s) // _DAY_S
        wanted = day * _DAY_S + place.number
        if last is not None and wanted > last:
            wanted -= _DAY_S

    def rank(seconds: float) -> float:
        return seconds if dated else (seconds - first_s) % _DAY_S

    wanted = wanted if dated else rank(wanted)
    low, high, found = 0, log.size, None
    while low < high and not given_up():
        middle = (low + high) // 2
        probe = _stamp_after(log, log.line_start(middle) if middle else 0)
        if probe is None or probe[0] >= high or rank(probe[1]) >= wanted:
            if probe is not None and rank(probe[1]) >= wanted:
                found = probe[0]
            high = middle
        else:
            low = max(middle + 1, probe[0] + 1)
    return found


def _stamp_after(log: LogFile, offset: int) -> tuple[int, float, bool] | None:
    """Return (start, seconds, whether it has a date) of the first line with a time at or after `offset`."""
    with log.path.open("rb") as file:
        for _ in range(PROBE_LINES):
            file.seek(offset)
            line = file.readline(CHUNK)
            if not line:
                return None
            found = _STAMP.search(line[:_STAMP_WITHIN])
            if found is not None:
                return offset, _seconds(*found.groups()), found[1] is not None
            offset += len(line)
    return None


def _stamp_before_end(log: LogFile) -> float | None:
    """Return the last time in the last lines."""
    seconds = None
    for line in log.forward(log.tail(PROBE_LINES), PROBE_LINES):
        found = _STAMP.search(line.text[:_STAMP_WITHIN].encode())
        if found is not None:
            seconds = _seconds(*found.groups())
    return seconds


def _seconds(*parts: str | bytes | int | None) -> float:
    """Return seconds in a calendar in which all months have 31 days: only the order matters."""
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    return ((year * 12 + month) * 31 + day) * _DAY_S + hour * 3600 + minute * 60 + second
