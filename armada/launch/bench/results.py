"""What came of a bench: its rows, which came home as metrics, with what follows from them. Asks no host."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import finite
from armada.store import metrics, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from armada.costs.tariff import Tariff
    from armada.store.database import Database
    from armada.store.runs import Run

STATUSES = ("measured", "oom", "failed", "timeout")
"""By the number that the payload writes: home keeps numbers of metrics."""

WAITING = "waiting"
MACHINE_DIFFERS = 0.05
"""A machine whose own speed differs by more from its median is said to have changed: idle ones differ by 1 to 3 %."""
_PREFIX = "bench/"
_LONGEST_FILE = 50 << 20

FIGURES = (
    "steps", "measured_s", "cell_s", "step_time_s", "step_time_median_s", "step_time_p05_s", "step_time_p95_s", "spread",
    "tokens_per_s", "samples_per_s", "data_wait_s", "peak_memory_bytes", "mfu", "gpus", "processes", "micro_batch_size",
    "accumulation", "global_batch_size", "products_per_s", "turns", "turns_asked", "machine_varied",
    "spread_beside",
)  # fmt: skip
"""What the payload measures, in the order in which it is written into tables."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one cell.

    Attributes:
        number: From 1.
        values: What the grid gave it, by dotted keys.
        label: The same in words.
        status: One of `STATUSES`, or `waiting`.
        message: Why it was not measured, or in fewer turns than it should.
        figures: By the names in `FIGURES`; what is not known is missing.
        scaling: Its speed as a share of that of one GPU (or process) times their number; None without such a cell.
        currency: Of the cost.
        cost_per_million_tokens: In the money of the host's price, its share of the box; None without a price.
    """

    number: int
    values: Mapping[str, Any]
    label: str
    status: str = WAITING
    message: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    scaling: float | None = None
    cost_per_million_tokens: float | None = None
    currency: str = "USD"

    def figure(self, name: str) -> float | None:
        return self.figures.get(name)

    @property
    def speed(self) -> float | None:
        """Tokens a second, if it was measured."""
        speed = self.figures.get("tokens_per_s") if self.status == "measured" else None
        return speed if speed is not None and speed > 0 else None

    def as_json(self) -> dict[str, object]:
        return {
            "number": self.number,
            "values": dict(self.values),
            "label": self.label,
            "status": self.status,
            "message": self.message or None,
            **{name: self.figures.get(name) for name in FIGURES},
            "scaling": self.scaling,
            "cost_per_million_tokens": self.cost_per_million_tokens,
            "currency": self.currency,
        }


def read_results(database: Database, run: Run, outputs: Path, tariff: Tariff | None) -> list[Result]:
    """Return the result of every cell of a bench.

    Args:
        database: The store.
        run: The bench.
        outputs: The run's folder at home, where a copy of its metrics may be: only that one has sentences.
        tariff: What the host costs.

    Raises:
        UsageError: The run is no bench.
    """
    cells = list(_cells(runs.spec(database, run.run_id)))
    if run.task != "bench" or not cells:
        raise UsageError(f"{run.run_id} is no bench", hint="armada ps 'task:bench' lists them")
    curves = {name: dict(metrics.curve(database, run.run_id, _PREFIX + name)) for name in (*FIGURES, "status_code")}
    messages = _messages(outputs / "metrics.jsonl")
    found = []
    for number, label, values in cells:
        code = finite(curves["status_code"].get(number))
        if code is None or int(code) not in range(len(STATUSES)):
            found.append(Result(number, values, label))
            continue
        known = {name: value for name in FIGURES if (value := finite(curves[name].get(number))) is not None}
        speed = known.get("tokens_per_s")
        cost = None
        rate = (
            tariff.run_rate(int(known.get("gpus", 0)), run.ended_at or run.created_at) if tariff is not None else None
        )
        if rate is not None and speed is not None and speed > 0:
            cost = rate[0] / 3600 / speed * 1e6
        status = STATUSES[int(code)]
        result = Result(number, values, label, status, messages.get(number, ""), known, cost_per_million_tokens=cost)
        found.append(dataclasses.replace(result, currency=rate[1]) if rate is not None else result)
    return _scaled(found)


def merged(parts: Iterable[Sequence[Result]]) -> list[Result]:
    """Return the results of runs that measured cells of one bench, by the numbers of the cells."""
    return _scaled(sorted((each for part in parts for each in part), key=lambda each: each.number))


def best_of(results: Sequence[Result]) -> Result | None:
    """Return the fastest cell; None if none was measured."""
    return max((each for each in results if each.speed is not None), key=lambda each: each.speed or 0, default=None)


def as_fast_as(best: Result, results: Sequence[Result]) -> list[Result]:
    """Return the other cells whose interval of speeds overlaps the fastest one's: they are not called slower.

    What made the machine slower for all cells alike is not in these intervals.
    """
    low, _ = _interval(best)
    return [each for each in results if each is not best and each.speed is not None and _interval(each)[1] >= low]


def can_tell_apart(results: Sequence[Result]) -> bool:
    """Return whether there are two cells whose intervals of speeds do not overlap."""
    known = [_interval(each) for each in results if each.speed is not None]
    return bool(known) and max(low for low, _ in known) > min(high for _, high in known)


def machine_varied(results: Sequence[Result]) -> float:
    """Return by how much the machine's own speed varied during the bench: the fastest over the slowest, less 1."""
    return max((each.figure("machine_varied") or 0.0 for each in results), default=0.0)


def _interval(result: Result) -> tuple[float, float]:
    """Return the least and the greatest speed beside the other cells; a spread that is not known is none."""
    beside = result.figure("spread_beside")
    if beside is None:
        beside = result.figure("spread")  # of an older payload
    speed, spread = result.speed or 0.0, max(0.0, beside or 0.0)
    return speed * (1 - spread), speed * (1 + spread)


_WORLD = ("resources.gpus", "resources.processes")


def _scaled(results: list[Result]) -> list[Result]:
    """Compare each cell with the one that has the same values and one GPU or process."""
    if not any((each.figure("processes") or 0) > 1 for each in results):
        return results
    single = {_rest(each): each.speed for each in results if each.figure("processes") == 1 and each.speed}
    scaled = []
    for each in results:
        one, speed, processes = single.get(_rest(each)), each.speed, each.figure("processes")
        if one and speed is not None and processes:
            each = dataclasses.replace(each, scaling=speed / (processes * one))  # noqa: PLW2901 - the same cell
        scaled.append(each)
    return scaled


def _rest(result: Result) -> str:
    rest = {key: value for key, value in result.values.items() if key not in _WORLD}
    return json.dumps(rest, sort_keys=True, default=str)


def _cells(spec: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """The cells of a spec, which a host may have told: what is not right is left out."""
    training = spec.get("training")
    bench = training.get("bench") if isinstance(training, dict) else None
    cells = bench.get("cells") if isinstance(bench, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        if not isinstance(cell, dict):
            continue
        number, values = cell.get("number"), cell.get("values")
        if isinstance(number, int) and not isinstance(number, bool):
            label = sanitize_line(cell.get("label"), 200)
            yield number, label, values if isinstance(values, dict) else {}


def _messages(file: Path) -> dict[int, str]:
    """Read why cells were not measured, from the copy of the metrics that a sync brought."""
    found: dict[int, str] = {}
    try:
        if file.stat().st_size > _LONGEST_FILE:
            return {}
        lines = file.read_bytes().splitlines()
    except OSError:
        return {}
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.get("kind") == "bench" and isinstance(entry.get("step"), int):
            message = entry.get("message")
            found[entry["step"]] = sanitize_line(message, 500) if isinstance(message, str) else ""
    return found


def machine_changes(results: Sequence[Result]) -> list[tuple[Result, float]]:
    """Return the cells that were measured while the machine itself was faster or slower than for most, and by how much.

    A product of matrices, the same for each cell, is timed before and after its steps. Without GPUs its threads depend
    on the number of processes, so only cells with as many are compared.

    Returns:
        Cells and shares: -0.2 is 20 % slower than the median.
    """
    groups: dict[float, list[tuple[Result, float]]] = {}
    for each in results:
        if (speed := each.figure("products_per_s") or 0.0) > 0:
            of = 0.0 if each.figure("gpus") else each.figure("processes") or 1.0
            groups.setdefault(of, []).append((each, speed))
    found = []
    for known in groups.values():
        usual = statistics.median(speed for _, speed in known)
        found += [(each, speed / usual - 1) for each, speed in known if abs(speed / usual - 1) > MACHINE_DIFFERS]
    return found
