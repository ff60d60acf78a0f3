"""`armada compare`: runs side by side, with the settings that differ and the best and last values of their metrics."""

from __future__ import annotations

import math
import shutil
import time
from typing import TYPE_CHECKING, Any

from armada.cli.options import add_named_runs
from armada.cli.printing import print_json
from armada.cli.table import table, width
from armada.errors import UsageError
from armada.foundation.sanitize import sanitize_line
from armada.units import span

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from armada.compare.gather import Comparison
    from armada.compare.summary import RunSummary

_TOO_FEW = "a comparison needs two runs or more"
_LONGEST = 30
"""Of a cell. Longer values lose their middle: paths and ids often differ only at their ends."""


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="Compare runs: metrics, time, cost, and the settings that differ",
        description="Compare runs by what home knows of them: the last and best values of their metrics, steps, time, "
        "cost, and the settings that differ. No host is asked.",
        epilog="example: armada compare RUN RUN --metrics eval_loss,loss",
    )
    add_named_runs(parser)
    add_metrics(parser, default="the losses and scores")
    parser.add_argument("--all", action="store_true", help="Also list the settings that are equal in all of them")
    parser.add_argument("--json", action="store_true", help="Print a JSON object")
    parser.set_defaults(handler=_compare)


def add_metrics(parser: argparse.ArgumentParser, *, default: str) -> None:
    parser.add_argument("--metrics", metavar="NAMES", help=f"Metrics, separated by commas (default: {default})")


def metric_names(options: argparse.Namespace) -> list[str]:
    """Return the words of `--metrics`.

    Raises:
        UsageError: One is empty.
    """
    if options.metrics is None:
        return []
    names = [name.strip() for name in options.metrics.split(",")]
    if not all(names):
        raise UsageError(f"--metrics {options.metrics!r} has an empty name", hint="--metrics loss,eval_loss")
    return names


def _compare(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.several import choose_runs
    from armada.compare.gather import gather

    names = metric_names(options)
    if options.where is None and len(options.runs) < 2:
        raise UsageError(_TOO_FEW, hint="armada show RUN shows one")
    context = Context(reads=True)
    chosen = choose_runs(context, options, some=True)
    if len(chosen) < 2:
        raise UsageError(
            f"{_TOO_FEW}, and the filter matches {chosen[0].run_id} alone", hint=f"armada show {chosen[0].run_id}"
        )
    found = gather(
        context.database,
        context.home,
        context.hosts(),
        chosen,
        names=names,
        everything=options.all,
        now=time.time(),
    )
    if options.json:
        print_json(as_json(found))
        return 0
    columns = max(40, shutil.get_terminal_size((100, 24)).columns)
    print(laid_out(found, columns))
    if not found.settings:
        print("\nno setting differs")
    return 0


def laid_out(found: Comparison, columns: int) -> str:
    """Return the comparison as text: runs as rows, as columns, or as rows of several tables, whichever fits the width first."""
    names = [_short(summary.run.run_id) for summary in found.runs]
    facts = [(name, [_short(value) for value in values]) for name, values in facts_of(found)]
    rows = [[name, *(values[place] for _, values in facts)] for place, name in enumerate(names)]
    header = ["RUN", *(name for name, _ in facts)]
    if _room(header, rows) <= columns:
        return table(header, rows)
    turned = [[name, *values] for name, values in facts]
    if _room(["", *names], turned) <= columns:
        return table(["", *names], turned)
    return "\n\n".join(_blocks(header, rows, columns))


def facts_of(found: Comparison, names: Sequence[str] | None = None) -> list[tuple[str, list[str]]]:
    """Return the facts of a comparison by name, one value for each run. A fact that no run has is left out.

    Args:
        found: The comparison.
        names: The metrics among them; by default all of the comparison.
    """
    summaries = found.runs
    facts: list[tuple[str, list[str]]] = [("state", [summary.run.state for summary in summaries])]
    for name in found.metrics if names is None else names:
        facts.append((name, [_last(summary, name) for summary in summaries]))
        facts.append((f"best {name}", [_best(summary, name) for summary in summaries]))
    facts += [
        ("steps", [_steps(summary) for summary in summaries]),
        ("tokens", [f"{summary.tokens:,}" if summary.tokens is not None else "" for summary in summaries]),
        ("time", [span(summary.seconds) if summary.seconds is not None else "" for summary in summaries]),
        ("cost", [summary.costs.text() if summary.costs is not None else "" for summary in summaries]),
        ("GPUs", [summary.gpus or "" for summary in summaries]),
    ]
    facts += [(setting.key, setting.texts) for setting in found.settings if setting.key != "(gpus)"]
    return [(sanitize_line(name, 60), values) for name, values in facts if any(values)]


def _blocks(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Yield tables that fit the width, each with the runs' names; a column that is too wide alone has its own."""
    start = 1
    while start < len(header):
        end = start + 1
        while end < len(header) and _room(*_part(header, rows, start, end + 1)) <= columns:
            end += 1
        yield table(*_part(header, rows, start, end))
        start = end


def _part(
    header: Sequence[str], rows: Sequence[Sequence[str]], start: int, end: int
) -> tuple[list[str], list[list[str]]]:
    return [header[0], *header[start:end]], [[row[0], *row[start:end]] for row in rows]


def _room(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    cells = [header, *rows]
    return sum(max(width(row[column]) for row in cells) + 2 for column in range(len(header))) - 2


def _short(text: str) -> str:
    line = sanitize_line(text, 5000)
    if len(line) <= _LONGEST:
        return line
    half = (_LONGEST - 1) // 2
    return f"{line[:half]}…{line[-(_LONGEST - 1 - half) :]}"


def figure(value: float | None) -> str:
    """Format a value of a metric: four digits, `NaN`, `inf`."""
    return "NaN" if value is None else f"{value:.4g}"


def _last(summary: RunSummary, name: str) -> str:
    metric = summary.metrics.get(name)
    return figure(metric.found.last[1]) if metric is not None else ""


def _best(summary: RunSummary, name: str) -> str:
    metric = summary.metrics.get(name)
    best = metric.best if metric is not None else None
    return f"{figure(best[1])} at {best[0]}" if best is not None else ""


def _steps(summary: RunSummary) -> str:
    run = summary.run
    if run.step is None:
        return ""
    return f"{run.step} of {run.total_steps}" if run.total_steps and run.total_steps != run.step else str(run.step)


def as_json(found: Comparison) -> dict[str, object]:
    """Return the object that `--json` prints."""
    return {
        "runs": [_run_json(summary) for summary in found.runs],
        "metrics": list(found.metrics),
        "settings": [{"key": setting.key, "values": list(map(finite, setting.masked))} for setting in found.settings],
    }


def _run_json(summary: RunSummary) -> dict[str, object]:
    run = summary.run
    return {
        "run_id": run.run_id,
        "name": run.name,
        "host": run.host,
        "task": run.task,
        "state": run.state,
        "step": run.step,
        "total_steps": run.total_steps,
        "tokens": summary.tokens,
        "seconds": summary.seconds,
        "cost": summary.cost,
        "costs": summary.costs.as_json() if summary.costs is not None else None,
        "gpus": summary.gpus,
        "metrics": {
            name: {"goal": metric.goal, "last": _point(metric.found.last), "best": _point(metric.best)}
            for name, metric in summary.metrics.items()
        },
    }


def _point(point: tuple[int, float | None] | None) -> dict[str, object] | None:
    """JSON has neither NaN nor infinities: their value is null, and `not_finite` names them."""
    if point is None:
        return None
    step, value = point
    if value is not None and math.isfinite(value):
        return {"step": step, "value": value, "not_finite": None}
    return {"step": step, "value": None, "not_finite": figure(value)}


def finite(value: Any) -> Any:
    """Return a setting's value as JSON can hold it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
