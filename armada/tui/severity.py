"""Say how severe the lines of a log are, by the words that common loggers write, each at its usual place."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from armada.tui.rank_lines import rank_tag

Severity = Literal["error", "warning", "quiet"]

_LEVELS: dict[str, Severity] = {
    **dict.fromkeys(("critical", "fatal", "error", "severe", "exception", "panic", "emerg", "alert"), "error"),
    **dict.fromkeys(("warning", "warn"), "warning"),
    **dict.fromkeys(("info", "notice", "debug", "trace", "verbose"), "quiet"),
}
_NAMES = "|".join(word.upper() for word in _LEVELS)
_WITHIN = 200
"""A logger writes its level near the beginning of a line."""
_HEADS = 8

# `[ERROR]`, `ERROR:`, `ERROR |`: at the beginning of a line, or after its time and names.
_LEVEL = re.compile(rf"[\[(<|]?\s{{0,4}}({_NAMES})(?=[\s:\]|)>!,-]|$)")
# A time, or something in brackets; also with what divides it from the next.
_HEAD = re.compile(
    r"(?:\[[^\[\]]{0,80}+\]|\([^()]{0,60}+\)|\d{4}-\d\d-\d\d(?:[T ]\d[\d:.,+Z]*+)?|\d\d?:\d\d:\d\d[\d.,]*+"
    r"|\d\d/\d\d/\d\d(?:\d\d)?)[\s|:,-]*+"
)
# `app - ERROR - `, `| ERROR    |`, `root:ERROR:`: between two dividers.
_FIELD = re.compile(rf"(?:[\[|(<:]\s{{0,4}}|\s[-|]\s{{1,4}})({_NAMES})(?=\s{{0,9}}[\]|)>:]|\s+-\s)")
_KEYED = re.compile(
    r"""(?:^|[\s{,"'])(?:level|levelname|severity|lvl)["']?\s?[=:]\s?["']?(\w{1,20})\b""", re.IGNORECASE
)
_SMALL = re.compile(
    r"(?:[\w./@-]{1,100}+(?::\d{1,7}+){0,2}: )?(?:fatal )?(error|fatal|critical|warning)(?: \w{1,20})?: ", re.IGNORECASE
)
_GLOG = re.compile(r"\[?([IWEF])\d{4} \d\d:\d\d:\d\d")
_GLOG_LEVELS: dict[str, Severity] = {"E": "error", "F": "error", "W": "warning", "I": "quiet"}
_PYTHON_WARNING = re.compile(r"(?:[^\s:][^:]{0,250}+:\d{1,7}+: )?([A-Za-z]{0,60}Warning): ")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w{0,60}+\.){0,12}+[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit)(?:: |$)")
_ENDED = re.compile(r"(?:.{0,60}: line \d+: +\d+ )?(?:Segmentation fault|Killed|Aborted|Bus error)(?: |$)")
_NCCL = re.compile(r" NCCL (WARN|ERROR|ABORT|INFO|TRACE)\b")
_TRACEBACK = re.compile(r"[ |+]{0,40}(?:Exception Group )?Traceback \(most recent call last\):")
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")


class Mark(NamedTuple):
    """A part of a line, from and to a character, and how severe it is. Of an error it is the whole line."""

    start: int
    end: int
    severity: Severity


class Severities:
    """Marks the lines of a log in their order: a traceback has several, and those of several ranks may be mixed."""

    def __init__(self) -> None:
        self._open: set[int | None] = set()
        """Ranks whose traceback has begun."""

    def mark(self, line: str) -> Mark | None:
        """Return what is to be coloured in the next line; None for nothing."""
        tag = rank_tag(line)
        rank = tag.rank if tag is not None else None
        start = tag.end if tag is not None and not tag.start else 0
        text = line[start:]
        if _TRACEBACK.match(text) is not None:
            self._open.add(rank)
            return Mark(0, len(line), "error")
        if rank in self._open:
            if text[:1] not in (" ", "\t"):
                self._open.discard(rank)  # the exception itself
            return Mark(0, len(line), "error")
        if text.startswith(_CHAINED):
            return Mark(0, len(line), "error")
        found = _level(text)
        if found is None:
            return None
        if found.severity == "error":
            return Mark(0, len(line), "error")
        return Mark(start + found.start, start + found.end, found.severity)


def _level(text: str) -> Mark | None:
    head = text[:_WITHIN]
    if (found := _GLOG.match(head)) is not None:
        return Mark(found.start(1), found.end(1), _GLOG_LEVELS[found[1]])
    at = len(head) - len(head.lstrip())
    for _ in range(_HEADS):
        if (found := _LEVEL.match(head, at)) is not None:
            return _named(found)
        token = _HEAD.match(head, at)
        if token is None:
            break
        at = token.end()
    for pattern in (_FIELD, _KEYED, _NCCL):
        if (found := pattern.search(head)) is not None and (mark := _named(found)) is not None:
            return mark
    for begun in (0, at):
        if (found := _SMALL.match(head, begun)) is not None:
            return _named(found)
    if (found := _PYTHON_WARNING.match(text[:400])) is not None:
        return Mark(found.start(1), found.end(1), "warning")
    if _EXCEPTION.match(head) is not None or _ENDED.match(head) is not None:
        return Mark(0, len(text), "error")
    return None


def _named(found: re.Match[str]) -> Mark | None:
    severity = _LEVELS.get("error" if found[1] == "ABORT" else found[1].lower())
    return Mark(found.start(1), found.end(1), severity) if severity is not None else None
