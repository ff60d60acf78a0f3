"""Remember what the dashboard started: the command, its end, and the commands that undo it, in a file beside its output."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from armada.foundation.atomic_write import write_atomically
from armada.foundation.process_identity import Process, current, lives
from armada.tui.inverse import is_blind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.paths import HomePaths

KEPT = 100
LATEST = 1e11
"""A Unix time in the year 5138: a record with a later one is damaged."""
_LARGEST_BYTES = 1_000_000
_LEFT_OUT = "…"
"""In a word that an older dashboard did not record whole."""
_NAME = r"(\d+\.\d{3})-([A-Za-z_-]{1,40})(?:-\d+)?"

Words = tuple[str, ...]


class Act(NamedTuple):
    """A command that the dashboard started.

    Attributes:
        name: The name of its files, without the ending.
        log: The file with its output.
        title: Its name for the user.
        words: The arguments after `armada`; empty if an older dashboard started it, which did not record them.
        started_at: Unix time.
        ended_at: Unix time; None if it runs, or if the dashboard was closed before it ended.
        exit_code: None as `ended_at`.
        process: Its process.
        undo: The commands that undo it.
        is_undone: Whether they were started.
        undoes: The name of the act that it undoes.
        is_whole: Whether `words` are those that were started: what may be a secret is not recorded.
    """

    name: str
    log: Path
    title: str
    words: Words
    started_at: float
    ended_at: float | None = None
    exit_code: int | None = None
    process: Process | None = None
    undo: tuple[Words, ...] = ()
    is_undone: bool = False
    undoes: str | None = None
    is_whole: bool = True

    @property
    def command_line(self) -> str:
        """The command as typed in a shell; empty if it is unknown."""
        return shlex.join(["armada", *self.words]) if self.words else ""

    @property
    def runs(self) -> bool:
        return self.ended_at is None and self.process is not None and lives(self.process)

    @property
    def can_undo(self) -> bool:
        return self._may_be_undone and self.exit_code == 0

    @property
    def can_undo_later(self) -> bool:
        """Whether it still runs, and can be undone once it has ended well."""
        return self._may_be_undone and self.runs

    @property
    def is_blind(self) -> bool:
        """Whether it changed labels, or still does, and what it changed is not recorded."""
        return not self.undo and (self.exit_code == 0 or self.runs) and is_blind(self.words)

    @property
    def _may_be_undone(self) -> bool:
        return bool(self.undo) and not self.is_undone


def interrupt(act: Act) -> bool:
    """Interrupt an act as Ctrl-C does in a shell; return whether it still ran."""
    if act.process is None or not act.runs:
        return False
    with contextlib.suppress(ProcessLookupError):  # it ended just now
        os.killpg(act.process.pid, signal.SIGINT)  # it leads its session, and with that a group of processes
        return True
    return False


def new_log(home: HomePaths, word: str, *, kind: str = "operations", kept: int = KEPT) -> Path:
    """Create the file for the output of a command, and delete the oldest ones of commands that have ended.

    Args:
        home: The file is in state/dashboard/<kind> there.
        word: The command's name.
        kind: `operations` for what the user started, so that nothing else pushes it out of the history.
        kept: How many files stay, besides older ones of commands that still run.
    """
    folder = home.state / "dashboard" / kind
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    logs = sorted(folder.glob("*.log"))
    for old in logs[: -kept + 1]:
        if (act := read(old)) is not None and act.runs:
            continue
        old.unlink(missing_ok=True)
        old.with_suffix(".json").unlink(missing_ok=True)
    last = re.fullmatch(_NAME, logs[-1].stem) if logs else None
    # Names are in the order of the acts, also after the clock was set back: the record has the time.
    moment = max(time.time(), float(last[1]) + 0.001 if last is not None else 0.0)
    stem = f"{moment:.3f}-{re.sub('[^A-Za-z_-]', '_', word)[:40]}"
    for number in range(1000):
        log = folder / (f"{stem}-{number}.log" if number else f"{stem}.log")
        with contextlib.suppress(FileExistsError):  # two commands may start in the same millisecond
            os.close(os.open(log, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return log
    raise FileExistsError(stem)


def folder_of(home: HomePaths) -> Path:
    return home.state / "dashboard" / "operations"


def record(
    log: Path,
    *,
    title: str,
    words: Sequence[str],
    process: Process,
    undo: Sequence[Sequence[str]] = (),
    undoes: str | None = None,
) -> None:
    """Record that a command was started."""
    from armada.foundation.secrets import without_secret_arguments  # its patterns take 4 ms, before the first paint

    recorded = without_secret_arguments(words)
    found = {
        "title": without_secret_arguments([title])[0],
        "words": recorded,
        "is_whole": recorded == list(words),
        "started_at": time.time(),
        "process": [process.pid, process.start_time, process.boot_id],
        "undo": [list(each) for each in undo],
        "undoes": undoes,
    }
    _write(log.with_suffix(".json"), found)


def record_done(home: HomePaths, title: str, words: Sequence[str], undo: Sequence[Sequence[str]]) -> None:
    """Record a command that had the terminal and has ended well; without room for that, it is not in the history."""
    with contextlib.suppress(OSError):
        log = new_log(home, words[0])
        record(log, title=title, words=words, process=current(), undo=undo)
        record_end(log, 0)


def record_end(log: Path, exit_code: int) -> None:
    """Record that a command has ended."""
    _change(log, {"ended_at": time.time(), "exit_code": exit_code})


def record_undone(log: Path, is_undone: bool = True) -> None:
    """Record that what undoes a command was started, or that it failed."""
    _change(log, {"undone": is_undone})


def _change(log: Path, changes: dict[str, object]) -> None:
    file = log.with_suffix(".json")
    if found := _read(file):
        _write(file, found | changes)


def _write(file: Path, content: dict[str, object]) -> None:
    with contextlib.suppress(OSError, ValueError):  # the command itself matters more than its record
        write_atomically(file, json.dumps(content), durable=False)


def _read(file: Path) -> dict[str, object]:
    try:
        with file.open("rb") as stream:
            found = json.loads(stream.read(_LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def newest(home: HomePaths) -> list[Act]:
    """Return what the user started from the dashboard, newest first."""
    logs = sorted(folder_of(home).glob("*.log"), reverse=True)
    return [act for log in logs if (act := read(log)) is not None]


def newest_name(home: HomePaths) -> str:
    """Return the name of what the user started last; "" if nothing was. A later act has a greater name."""
    return max((log.stem for log in folder_of(home).glob("*.log")), default="")


def to_undo(home: HomePaths) -> Act | None:
    """Return the newest act that can be undone now or once it has ended; None if there is none.

    What undid another act is left out. An act that changed labels and cannot be undone is returned: to undo an older one
    in its place would surprise.
    """
    found = (act for act in newest(home) if act.undoes is None)
    return next((act for act in found if act.can_undo or act.can_undo_later or act.is_blind), None)


def exit_code(log: Path) -> int | None:
    """Return how an act ended; None while it runs, 0 if that is unknown."""
    act = read(log)
    if act is None or act.exit_code is not None:
        return act.exit_code if act is not None else 0
    return None if act.runs else 0


def read(log: Path) -> Act | None:
    """Return the act whose output is in this file; None if the file is not an act's."""
    name = re.fullmatch(_NAME, log.stem)
    if name is None:
        return None
    told = _read(log.with_suffix(".json"))
    words = _words(told.get("words"))
    undo = told.get("undo")
    title, undoes = told.get("title"), told.get("undoes")
    code, ended, started = told.get("exit_code"), told.get("ended_at"), told.get("started_at")
    return Act(
        name=log.stem,
        log=log,
        title=title if isinstance(title, str) else name[2],
        words=words,
        started_at=_moment(started) or _moment(float(name[1])) or 0.0,
        ended_at=_moment(ended),
        exit_code=code if isinstance(code, int) else None,
        process=_process(told.get("process")),
        undo=tuple(found for each in undo if (found := _words(each))) if isinstance(undo, list) else (),
        is_undone=told.get("undone") is True,
        undoes=undoes if isinstance(undoes, str) else None,
        is_whole=is_whole if isinstance(is_whole := told.get("is_whole"), bool) else _LEFT_OUT not in "".join(words),
    )


def _words(found: object) -> Words:
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _moment(found: object) -> float | None:
    """Return a Unix time; None if it cannot be one."""
    return float(found) if isinstance(found, int | float) and 0 <= found < LATEST else None


def _process(found: object) -> Process | None:
    if not (isinstance(found, list) and len(found) == 3 and isinstance(found[0], int) and found[0] > 0):
        return None
    start, boot = (each if isinstance(each, str) else None for each in found[1:])
    return Process(found[0], start, boot)
