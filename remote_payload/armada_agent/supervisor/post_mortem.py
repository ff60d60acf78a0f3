"""Gather evidence about a failed job: its own records, output, kernel and disk. `verdicts/cause.py` decides the cause."""

import os
import re
import time
from typing import Any, Dict, List, Optional

from armada_agent.foundation import files
from armada_agent.host import kernel
from armada_agent.paths import RunPaths, list_folder
from armada_agent.records.place import await_seen
from armada_agent.verdicts.cause import Cause, Facts, Said, find_cause

_REASON = re.compile(r"[a-z0-9_]{1,64}|signal_[A-Z0-9+]{1,20}")
_RANKS_FILE = re.compile(r"failure-(\d{1,6})\.json")
_SAVE = re.compile(r"checkpoint-\d{1,12}")
_LONGEST_MESSAGE = 4000
_LIMIT = 1024 * 1024
_TEXT_LIMIT = 256 * 1024  # enough for the tracebacks of eight ranks and a launcher
_MOST_RANKS = 64
_ROOM_BYTES = 64 * 1024


def before_start(paths: RunPaths) -> Dict[str, Any]:
    """Return the state at the start of an attempt, for run.json: the log's size and the kernel's counters."""
    try:
        size = os.stat(paths.output).st_size
    except OSError:
        size = 0
    return {"log_offset": size, "oom_kills": kernel.count_oom_kills(), "clock_s": time.monotonic()}


def examine(paths: RunPaths, attempt: int, status: int) -> Cause:
    """Find out why an attempt's job failed.

    Args:
        paths: The run's files.
        attempt: The number of the attempt.
        status: The job's return code, negative for a signal.
    """
    began = _read(paths.attempt(attempt, "run.json"))
    clock_s = began.get("clock_s")
    since_s = float(clock_s) if isinstance(clock_s, (int, float)) else None
    facts = Facts(
        status=status,
        first=_said(_read(paths.attempt(attempt, "failure.json"))),
        others=_complaints(paths, attempt),
        text=_printed(paths, began.get("log_offset")),
        oom_kills=kernel.find_oom_kills(began.get("oom_kills"), since_s),
        is_disk_full=_is_full(paths.folder),
    )
    return find_cause(facts)


def unfinished_saves(paths: RunPaths) -> List[str]:
    """List the checkpoints that armada's training began to save but did not announce."""
    folder = os.path.join(paths.folder, "checkpoints")
    names = await_seen(paths, lambda: list_folder(folder))
    return [name for name in names if _SAVE.fullmatch(name) and ".announced-" + name not in names]


def _said(content: Dict[str, Any]) -> Optional[Said]:
    reason, message, rank, lines = (content.get(name) for name in ("reason", "message", "rank", "lines"))
    if not isinstance(reason, str) or not _REASON.fullmatch(reason):
        return None
    return Said(
        rank if isinstance(rank, int) and not isinstance(rank, bool) else None,
        reason,
        message[:_LONGEST_MESSAGE] if isinstance(message, str) else "",
        [line for line in lines if isinstance(line, str)][-200:] if isinstance(lines, list) else [],
    )


def _complaints(paths: RunPaths, attempt: int) -> List[Said]:
    folder = paths.attempt(attempt)
    names = [name for name in await_seen(paths, lambda: list_folder(folder)) if _RANKS_FILE.fullmatch(name)][
        :_MOST_RANKS
    ]
    said = (_said(_read(os.path.join(folder, name))) for name in names)
    return [each for each in said if each is not None]


def _printed(paths: RunPaths, offset: Any) -> str:
    """Return the end of this attempt's output."""
    begins = offset if isinstance(offset, int) and offset >= 0 else 0
    try:
        with files.open_regular(paths.output) as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(begins if begins <= size else 0, size - _TEXT_LIMIT))
            return stream.read(_TEXT_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def _is_full(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _ROOM_BYTES or (found.f_files > 0 and found.f_favail == 0)


def _read(path: str) -> Dict[str, Any]:
    try:
        return files.read_json(path, limit=_LIMIT) or {}
    except files.UnreadableError:
        return {}  # a job wrote it, so it may be anything
