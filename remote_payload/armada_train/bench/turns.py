"""The turns of a bench's cells: what each short training measured, kept until the bench has its last row.

A machine is faster at one moment than at another. A cell that is measured in one stretch gets the machine of that
stretch. Cells that take turns (1 2 3 1 2 3) get the same mixture, and how much the turns of a cell differ says how much
a second bench would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from armada_train.records import find_object, is_number, is_whole
from armada_train.runfolder import RunFolder, replace_json
from armada_train.specification.values import Measurement

_FOLDER = "bench-turns"
"""Below the run's folder; a file for each cell, so that a bench that is continued has the turns of the attempts before."""

_LISTS = ("steps_s", "products_s")


@dataclass(frozen=True)
class Turn:
    """What one turn of a cell measured.

    Attributes:
        at: When it ended, in seconds since 1970.
        steps_s: Seconds of each measured step.
        tokens: Of all ranks, in the measured steps.
        samples: The same.
        products_s: Seconds of the machine's own product, before the steps, among and after them; empty where it had no room.
        data_wait_s: For data, of one step.
        warmup_s: Of the steps before the measured ones.
        cell_s: With start and end.
        peak_memory_bytes: Of the rank that took most.
        mfu: None without a known peak of the machine.
    """

    at: float
    steps_s: tuple[float, ...]
    tokens: float
    samples: float
    products_s: tuple[float, ...]
    data_wait_s: float
    warmup_s: float
    cell_s: float
    peak_memory_bytes: int
    mfu: float | None

    @property
    def measured_s(self) -> float:
        return max(math.fsum(self.steps_s), 1e-9)

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.measured_s

    @property
    def product_s(self) -> float | None:
        """Mean seconds of the machine's own product; None where it was not timed."""
        return math.fsum(self.products_s) / len(self.products_s) if self.products_s else None


def turn_of(result: Mapping[str, Any], cell_s: float, at: float) -> Turn:
    """Make a turn of the result that a training left."""
    return Turn(
        at=at,
        steps_s=tuple(result["steps_s"]),
        tokens=result["tokens"],
        samples=result["samples"],
        products_s=tuple(result["products_s"]),
        data_wait_s=result["data_wait_s"],
        warmup_s=result["warmup_s"],
        cell_s=cell_s,
        peak_memory_bytes=result["peak_memory_bytes"],
        mfu=result.get("mfu"),
    )


@dataclass(frozen=True)
class Turns:
    """The turns of one cell so far.

    Attributes:
        asked: How many the cell gets.
        done: In the order in which they were measured.
    """

    asked: int = 1
    done: tuple[Turn, ...] = ()

    def and_then(self, turn: Turn, asked: int) -> Turns:
        """Add a turn; the first one has found how many the cell gets."""
        return Turns(self.asked if self.done else asked, (*self.done, turn))

    def next(self, asked: Measurement, now: float) -> Measurement:
        """Return what the next turn measures, of all that was asked of the cell.

        Args:
            asked: Of all turns.
            now: On the machine's monotonic clock.
        """
        if not self.done:
            return replace(asked, started_at=now)
        left = max(1, self.asked - len(self.done))
        seconds = asked.seconds - math.fsum(turn.measured_s for turn in self.done)
        steps = asked.steps - sum(len(turn.steps_s) for turn in self.done)
        return replace(asked, seconds=max(0.0, seconds / left), steps=max(2, math.ceil(steps / left)))


def read_turns(run: RunFolder, number: int) -> Turns:
    """Return the turns that an earlier attempt measured of a cell; none if there is no whole file."""
    content = find_object(_file(run, number))
    asked, done = content.get("asked"), content.get("done")
    if not is_whole(asked, 1) or not isinstance(done, list) or not all(map(_is_turn, done)):
        return Turns()
    turns = (Turn(**{**each, **{name: tuple(each[name]) for name in _LISTS}}) for each in done)
    return Turns(asked, tuple(turns))


def _is_turn(content: Any) -> bool:
    """Tell whether a turn was read as it was written; a cell with a damaged one is measured again."""
    if not isinstance(content, dict) or content.keys() != {each.name for each in fields(Turn)}:
        return False
    numbers = [value for name, value in content.items() if name not in _LISTS and (name, value) != ("mfu", None)]
    for name in _LISTS:
        if not isinstance(content[name], list):
            return False
        numbers += content[name]
    return all(is_number(number) and 0 <= number < math.inf for number in numbers)


def write_turns(run: RunFolder, number: int, turns: Turns) -> None:
    file = _file(run, number)
    file.parent.mkdir(exist_ok=True)
    replace_json(file, {"asked": turns.asked, "done": [asdict(turn) for turn in turns.done]})


def clear_turns(run: RunFolder, number: int) -> None:
    """Forget a cell's turns: it is measured from the beginning."""
    _file(run, number).unlink(missing_ok=True)


def figures_of(done: Sequence[Turn]) -> dict[str, Any]:
    """Return a cell's figures over its turns, but for the times of steps and the spread."""
    measured_s = math.fsum(turn.measured_s for turn in done)
    steps = sum(len(turn.steps_s) for turn in done)
    found = {
        "turns": len(done),
        "measured_s": measured_s,
        "warmup_s": math.fsum(turn.warmup_s for turn in done),
        "cell_s": math.fsum(turn.cell_s for turn in done),
        "tokens_per_s": math.fsum(turn.tokens for turn in done) / measured_s,
        "samples_per_s": math.fsum(turn.samples for turn in done) / measured_s,
        "data_wait_s": math.fsum(turn.data_wait_s * len(turn.steps_s) for turn in done) / steps,
        "peak_memory_bytes": max(turn.peak_memory_bytes for turn in done),
    }
    products = [turn.product_s for turn in done if turn.product_s]
    if products:
        found["products_per_s"] = len(products) / math.fsum(products)
    shares = [(turn.mfu, turn.measured_s) for turn in done if turn.mfu is not None]
    if shares:
        found["mfu"] = math.fsum(mfu * seconds for mfu, seconds in shares) / math.fsum(seconds for _, seconds in shares)
    return found


def _file(run: RunFolder, number: int) -> Path:
    return run.path / _FOLDER / f"{number}.json"
