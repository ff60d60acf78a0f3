"""Write metrics.jsonl: one object per line in full precision, by rank 0 of each attempt."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class History:
    """What earlier attempts wrote, up to the step that this one resumes from."""

    loss_first: float | None = None
    loss_last: float | None = None
    eval_loss_before: float | None = None
    train_tokens: int = 0


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
        """Return the losses measured at exactly this step, because a checkpoint must not carry those of another, and the best so far."""
        here = {name: value for name, (measured_at, value) in self._losses.items() if measured_at == step}
        return here | self._best

    def remember_best(self, step: int, metric: str, value: float) -> None:
        """Record which checkpoint is the best so far; every later announcement includes it."""
        self._best = {"best_step": step, f"best_{metric}": value}


def read_history(path: Path, step: int) -> History:
    """Read the lines of earlier attempts up to `step`; lines that are not objects were cut off by a kill."""
    loss_first = loss_last = eval_loss_before = None
    train_tokens = 0
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("step", step + 1) > step:
            continue
        if entry.get("kind") == "train":
            loss_last = entry["loss"]
            loss_first = loss_last if loss_first is None else loss_first
            train_tokens = entry["num_tokens"]
        elif entry.get("kind") == "eval" and entry["step"] == 0:
            eval_loss_before = entry["eval_loss"]
    return History(loss_first, loss_last, eval_loss_before, train_tokens)


def _ends_with_a_line(path: Path) -> bool:
    if not path.exists() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"
