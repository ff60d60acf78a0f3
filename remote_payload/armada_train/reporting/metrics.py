"""Write metrics.jsonl: one object per line in full precision, by rank 0 of each attempt."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armada_train.records import UnreadableRecord, is_number, is_whole, open_file, parse_object, show
from armada_train.runfolder import clear_place

_MOST_BYTES = 4 << 30
_LONGEST_LINE = 16 << 20
_MOST_TOKENS = 1 << 60


@dataclass(frozen=True, slots=True)
class History:
    """What earlier attempts wrote, up to the step that this one resumes from.

    Attributes:
        unreadable: How many lines were skipped.
        first_unreadable: Where the first of them is, and what is wrong with it.
    """

    loss_first: float | None = None
    loss_last: float | None = None
    eval_loss_before: float | None = None
    train_tokens: int = 0
    unreadable: int = 0
    first_unreadable: str = ""

    @property
    def finding(self) -> str | None:
        """Return a sentence for the user about what was skipped; None if nothing was."""
        if not self.unreadable:
            return None
        lines = "1 line" if self.unreadable == 1 else f"{self.unreadable} lines"
        return f"{lines} of earlier attempts cannot be read and are left out of the summary: {self.first_unreadable}"


class Metrics:
    """Appends lines; remembers what the summary needs.

    Args:
        path: The file; None on ranks that write nothing.
        attempt: Written into every line, so that a reader can prefer the newest line of a step.
    """

    def __init__(self, path: Path | None, attempt: int, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._attempt = attempt
        self._clock = clock
        self.loss_first: float | None = None
        self.loss_last: float | None = None
        self.eval_loss_before: float | None = None
        self.eval_loss_after: float | None = None
        self._losses: dict[str, tuple[int, float]] = {}
        self._best: dict[str, float] = {}

    def begin(self, history: History) -> None:
        """Continue from the history of earlier attempts, beginning on a new line."""
        self.loss_first = history.loss_first
        self.loss_last = history.loss_last
        self.eval_loss_before = history.eval_loss_before
        if self._path:
            clear_place(self._path)
        if self._path and not _ends_with_a_line(self._path):
            with self._path.open("ab") as file:  # an earlier attempt was killed in the middle of a line
                file.write(b"\n")

    def append(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        if kind == "train":
            self._losses["loss"] = (step, values["loss"])
            self.loss_last = values["loss"]
            self.loss_first = values["loss"] if self.loss_first is None else self.loss_first
        elif kind == "eval":
            self._losses["eval_loss"] = (step, values["eval_loss"])
            self.eval_loss_after = values["eval_loss"]
            if step == 0:
                self.eval_loss_before = values["eval_loss"]
        if self._path:
            line = {"kind": kind, "step": step, "time": self._clock(), "attempt": self._attempt, **values}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def losses_at(self, step: int) -> dict[str, float]:
        """Return the losses measured at exactly this step, because a checkpoint must not carry those of another, and the best so far.

        A loss that is NaN or infinite is left out: an announcement is JSON, which has no such number.
        """
        here = {
            name: value
            for name, (measured_at, value) in self._losses.items()
            if measured_at == step and math.isfinite(value)
        }
        return here | self._best

    def remember_best(self, step: int, metric: str, value: float) -> None:
        """Record which checkpoint is the best so far; every later announcement includes it."""
        self._best = {"best_step": step, f"best_{metric}": value}


def read_history(path: Path, step: int) -> History:
    """Read the lines of earlier attempts up to `step`; a line that a kill cut off, or a disk damaged, is counted and skipped."""
    loss_first = loss_last = eval_loss_before = None
    train_tokens = unreadable = 0
    first = ""
    for number, entry in read_lines(path):
        try:
            kind, values = _measured(entry, step)
        except UnreadableRecord as error:
            unreadable += 1
            first = first or (f"{path.name}:{number}: {error}" if number else str(error))
            continue
        if kind == "train":
            loss_last, train_tokens = values["loss"], values["num_tokens"]
            loss_first = loss_last if loss_first is None else loss_first
        elif kind == "eval":
            eval_loss_before = values["eval_loss"]
    return History(loss_first, loss_last, eval_loss_before, train_tokens, unreadable, first)


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | UnreadableRecord]]:
    """Read a file of lines: the number of each with its object, or with what is wrong with it; 0 stands for the file.

    Nothing if there is no file.
    """
    if not os.path.lexists(path):
        return
    try:
        file = open_file(path)
    except UnreadableRecord as error:
        yield 0, error
        return
    with file:
        if os.fstat(file.fileno()).st_size > _MOST_BYTES:
            yield 0, UnreadableRecord(f"{path.name} is larger than {_MOST_BYTES >> 30} GiB")
            return
        number, starts_line = 0, True
        while content := file.readline(_LONGEST_LINE):
            number += starts_line
            if starts_line and content.strip():
                yield number, _parsed(content)
            starts_line = content.endswith(b"\n")


def _parsed(content: bytes) -> dict[str, Any] | UnreadableRecord:
    if len(content) == _LONGEST_LINE:
        return UnreadableRecord(f"it is longer than {_LONGEST_LINE >> 20} MiB")
    try:
        return parse_object(content)
    except UnreadableRecord as error:
        return error


def _measured(entry: dict[str, Any] | UnreadableRecord, step: int) -> tuple[str | None, dict[str, Any]]:
    """Return the kind and the values of a line up to `step` that counts; None and nothing for any other.

    Raises:
        UnreadableRecord: It is no object, or a value of it is of another kind than it should be.
    """
    if isinstance(entry, UnreadableRecord):
        raise entry
    kind, at = entry.get("kind"), entry.get("step")
    if kind not in ("train", "eval"):
        return None, {}
    if not is_whole(at):
        raise UnreadableRecord(f"`step` is {show(at)}, which is no number of a step")
    if at > step or (kind == "eval" and at > 0):
        return None, {}
    for name in ("loss",) if kind == "train" else ("eval_loss",):
        if not is_number(entry.get(name)):
            raise UnreadableRecord(f"`{name}` is {show(entry.get(name))}, which is no number")
    tokens = entry.get("num_tokens")
    if kind == "train" and not (is_number(tokens) and 0 <= tokens < _MOST_TOKENS):
        raise UnreadableRecord(f"`num_tokens` is {show(tokens)}, which is no number of tokens")
    return kind, entry


def _ends_with_a_line(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
