"""`armada show --time`: a table of where a step's time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.cli.table import table
from armada.monitor.step_times import explain_steps
from armada.store.queries.step_times import PARTS
from armada.units import counted

if TYPE_CHECKING:
    from armada.monitor.step_times import TimeSplit
    from armada.store.database import Database
    from armada.store.queries.step_times import StepTimes
    from armada.store.runs import Run

_BAR = 24
_MEANS = {
    "data": "waiting for the data loader",
    "forward": "the forward pass and the loss",
    "backward": "the backward pass",
    "communication": "exchanging with the other processes, and waiting for them",
    "optimizer": "clipping, optimizer and schedule",
    "saving": "checkpoints",
    "evaluation": "evaluations and sample answers",
    "other": "everything else",
}


def say_step_times(database: Database, run: Run, last: int) -> None:
    """Print the table, or why there is none."""
    split = explain_steps(database, run, last)
    if split.last is None or split.whole is None:
        print(f"  not measured: {split.why}")
        return
    print(f"  seconds a step{f', a mean over {split.processes} processes' if split.processes > 1 else ''}")
    header = ("", _title(split.last), "", "whole run", "", "", "")
    rows = [_row(part, split.last, split.whole) for part in PARTS]
    rows.append(("a step", _seconds(_a_step(split.last)), "", _seconds(_a_step(split.whole)), "", "", ""))
    print("".join(f"  {line}\n" for line in table(header, rows).splitlines()), end="")
    if split.last.slowest_rank is not None and split.last.waits_s is not None:
        waits = _seconds(split.last.waits_s / split.last.steps)
        print(f"  slowest    rank {split.last.slowest_rank}: the others wait {waits} s a step for it")
    if split.advice is not None:
        print(f"  advice     {split.advice}")


def step_times_fields(database: Database, run: Run, last: int) -> dict[str, object]:
    """Return the same as JSON."""
    split = explain_steps(database, run, last)
    return {
        "why_not": split.why,
        "processes": split.processes,
        "last": _fields(split.last, split),
        "whole": _fields(split.whole, split),
    }


def _fields(times: StepTimes | None, split: TimeSplit) -> dict[str, object] | None:
    if times is None:
        return None
    return {
        "first_step": times.first_step,
        "last_step": times.last_step,
        "steps": times.steps,
        "step_s": _a_step(times),
        "parts": [
            {"part": part, "seconds": seconds / times.steps, "share": _share(times, part)}
            for part, seconds in times.parts_s.items()
        ],
        "slowest_rank": times.slowest_rank if split.processes > 1 else None,
        "waits_s": times.waits_s / times.steps if times.waits_s is not None else None,
    }


def _title(times: StepTimes) -> str:
    return f"last {counted(times.steps, 'step')}"


def _row(part: str, last: StepTimes, whole: StepTimes) -> tuple[str, ...]:
    if part not in whole.parts_s:
        return (part, "-", "", "-", "", "", _MEANS[part])
    share = _share(last, part)
    return (
        part,
        _seconds(last.parts_s.get(part, 0.0) / last.steps),
        f"{share:4.0%}",
        _seconds(whole.parts_s[part] / whole.steps),
        f"{_share(whole, part):4.0%}",
        "#" * round(share * _BAR),
        _MEANS[part],
    )


def _share(times: StepTimes, part: str) -> float:
    return times.parts_s.get(part, 0.0) / times.total_s if times.total_s > 0 else 0.0


def _a_step(times: StepTimes) -> float:
    return times.total_s / times.steps


def _seconds(value: float) -> str:
    return "0" if value <= 0 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
