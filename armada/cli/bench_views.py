"""Show the rows of a bench: table, bars, JSON, CSV, a chart, and the fastest cell's settings in a profile."""

from __future__ import annotations

import importlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.printing import error_fields, print_json
from armada.errors import Conflict, UsageError
from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from armada.cli.context import Context
    from armada.costs.tariff import Tariff
    from armada.launch.bench.results import Result
    from armada.paths import HomePaths
    from armada.store.runs import Run

_CHARTS = (".svg", ".png")
_VARIED = 0.05
"""An idle machine's own speed varies by less; more is said."""


def check_outputs(options: argparse.Namespace, home: HomePaths) -> None:
    """Refuse what could not be written, before anything is measured.

    Raises:
        UsageError: A file's folder is not there, its name says no format, or what draws it is missing.
        Conflict: The profile cannot be changed, or there is a file of that name.
    """
    from armada.compare.new_file import check_new_file
    from armada.launch.bench.apply import check_profile

    if options.csv == "-" and options.json:
        raise UsageError("--csv - and --json both print to stdout", hint="--csv FILE")
    if options.csv not in (None, "-"):
        check_new_file(options.csv, "--csv", home, force=options.force)
    if options.chart is not None:
        suffix = Path(options.chart).suffix.lower()
        if suffix not in _CHARTS:
            raise UsageError(f"--chart {options.chart} must end in .svg or .png", hint=f"--chart {options.chart}.svg")
        if suffix == ".png":
            _png(None)
        check_new_file(options.chart, "--chart", home, force=options.force)
    if options.apply is not None:
        check_profile(options.apply, home)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a bench, of one run or of the runs of an array.

    Attributes:
        name: The run's id, or the array's.
        title: What it is called, and where it is.
        state: As the run's.
        is_over: Whether no more rows come.
        again: The command that measures the cells without a row.
        profile: With which it was planned.
    """

    name: str
    title: str
    state: str
    is_over: bool
    again: str
    profile: str | None
    results: Sequence[Result]

    @property
    def waiting(self) -> int:
        """How many cells have no row."""
        return sum(each.status == "waiting" for each in self.results)


def show_results(context: Context, run: Run, options: argparse.Namespace) -> int:
    """Print and write the rows of a bench. Return the exit code."""
    from armada.store import runs

    profile = runs.spec(context.database, run.run_id).get("profile")
    rows = Rows(
        run.run_id,
        f"{run.name} on {run.host}",
        run.state,
        run.ended,
        f"armada resume {run.run_id}",
        profile if isinstance(profile, str) else None,
        rows_of(context, run),
    )
    return show_rows(context, rows, options)


def rows_of(context: Context, run: Run) -> list[Result]:
    """Read the rows of one run.

    Raises:
        UsageError: The run is no bench.
    """
    from armada.launch.bench.results import read_results
    from armada.sync.outputs.listing import FOLDER

    return read_results(context.database, run, context.home.run(run.run_id) / FOLDER, _tariff(context, run))


def show_rows(context: Context, rows: Rows, options: argparse.Namespace) -> int:
    """Print and write rows. Return the exit code."""
    from armada.launch.bench.chart import svg, write_csv
    from armada.launch.bench.results import as_fast_as, best_of

    results = rows.results
    best = best_of(results)
    applied = _apply(context, rows, best, options.apply) if options.apply is not None else None
    refused = _refusal(rows, options.apply) if options.apply is not None and applied is None else None
    if options.json:
        shown = [each.as_json() for each in results]
        equal = [each.number for each in as_fast_as(best, results)] if best is not None else []
        fastest = {"best": best.number if best is not None else None, "as_fast": equal}
        told = {"run_id": rows.name, "state": rows.state, "cells": shown, **fastest, "applied": applied}
        print_json(told if refused is None else {**told, "error": error_fields(refused)})
    elif options.csv != "-":
        _print(rows, best)
    if options.csv == "-":
        write_csv(results, sys.stdout)
    elif options.csv is not None:
        text = io.StringIO()
        write_csv(results, text)
        _write(context, options.csv, "--csv", text.getvalue().encode(), force=options.force)
    if options.chart is not None:
        drawn = svg(results, rows.title)
        image = _png(drawn) if options.chart.lower().endswith(".png") else drawn.encode()
        _write(context, options.chart, "--chart", image, force=options.force)
    if refused is not None:
        raise refused
    if applied is not None and not options.json and options.csv != "-":
        words = ", ".join(f"{key} {value}" for key, value in applied["settings"].items())  # type: ignore[attr-defined]
        print(f"\n{applied['file']}: {words}, of cell {applied['cell']}{_why(applied, best)}")
    return 0


def _tariff(context: Context, run: Run) -> Tariff | None:
    """What the host costs, else what it cost at the launch."""
    from armada.records.launch_record import read_record
    from armada.store.queries.tariffs import read_tariffs

    tariff = read_tariffs(context.database, context.hosts()).get(run.host)
    if tariff is not None:
        return tariff
    record = read_record(context.home, run.run_id)
    return record.tariff if record is not None else None


def _apply(context: Context, rows: Rows, best: Result | None, name: str) -> dict[str, object] | None:
    """Write the best cell's settings into a profile; None if the bench has not found out which are best."""
    from armada.launch.bench.apply import apply_best, choose

    if best is None:
        raise UsageError(f"no cell of {rows.name} was measured, so there is nothing to apply")
    if (rows.waiting and not rows.is_over) or (chosen := choose(best, rows.results)) is None:
        return None
    path, settings = apply_best(chosen, name, rows.profile, context.home)
    return {"profile": name, "file": str(path), "cell": chosen.number, "settings": settings}


def _refusal(rows: Rows, profile: str) -> Conflict:
    if rows.waiting and not rows.is_over:
        missing = f"{rows.waiting} of {len(rows.results)} cells of {rows.name} are still to be measured"
        hint = "give the command again after its end, or stop it"
        return Conflict(f"nothing was written into profile {profile}: {missing}", hint=hint)
    return Conflict(
        f"nothing was written into profile {profile}: no two cells of {rows.name} can be told apart",
        hint="measure longer (--seconds 120), or when the machine has no other work",
    )


def _why(applied: Mapping[str, object], best: Result | None) -> str:
    """Say why the settings are not the fastest cell's."""
    if best is None or applied["cell"] == best.number:
        return ""
    return f", which is as fast as cell {best.number} within the spread and needs less memory"


def _write(context: Context, name: str, option: str, content: bytes, *, force: bool) -> None:
    from armada.compare.new_file import check_new_file, new_file

    with new_file(check_new_file(name, option, context.home, force=force), force=force) as temporary:
        temporary.write_bytes(content)


def _png(drawn: str | None) -> bytes:
    """Draw SVG as PNG; None only looks whether that can be done.

    Raises:
        UsageError: cairosvg is not installed, or does not find cairo.
    """
    try:
        convert = importlib.import_module("cairosvg").svg2png
    except (ImportError, OSError):
        raise UsageError("there is no cairosvg here to draw PNG with", hint="--chart FILE.svg needs nothing") from None
    return b"" if drawn is None else bytes(convert(bytestring=drawn.encode()))


def _print(rows: Rows, best: Result | None) -> None:
    from armada.cli.table import table
    from armada.launch.bench.chart import bars
    from armada.launch.bench.results import machine_changes

    results = rows.results
    print(
        table(
            ("CELL", "", "STEP", "P5-P95", "SAMPLES/S", "TOKENS/S", "±", "MEMORY", "MFU", "SCALING", "COST/MTOK"),
            map(_row, results),
        )
    )
    for each in results:
        if each.message:
            print(f"  cell {each.number}: {sanitize_line(each.message, 300)}")
    if best is not None:
        print()
        for line in bars(results):
            print(sanitize_line(line, 200))
        print()
        for line in _verdict(best, results):
            print(f"so far: {line}" if rows.waiting else line)
    for each, by in machine_changes(results):
        print(
            f"cell {each.number}: the machine itself was {abs(by):.0%} {'faster' if by > 0 else 'slower'} than for the other "
            "cells (other work, heat, another node)"
        )
    if rows.waiting and rows.is_over:
        print(f"{rows.waiting} of {len(results)} cells have no row: {rows.again} measures them")


def _verdict(best: Result, results: Sequence[Result]) -> Iterator[str]:
    """Say which cell is the fastest, if any is."""
    from armada.launch.bench.results import as_fast_as, can_tell_apart, machine_varied

    equal = as_fast_as(best, results)
    label = sanitize_line(best.label, 200)
    varied = machine_varied(results)
    if equal and not can_tell_apart(results):
        words = "no two cells can be told apart: their speeds differ by less than their spreads"
        yield f"{words}. The highest speed was that of cell {best.number} ({label})"
        why = f"this machine's own speed varied by {varied:.0%} meanwhile. " if varied >= _VARIED else ""
        yield f"{why}Measure longer (--seconds 120), or when the machine has no other work"
        return
    if equal:
        cells = ", ".join(f"cell {each.number}" for each in equal)
        yield f"as fast as each other, within their spreads: cell {best.number} ({label}), {cells}"
    else:
        yield f"fastest: cell {best.number} ({label})"
    if varied >= _VARIED:
        yield f"this machine's own speed varied by {varied:.0%} during the bench; the spreads include it"


def _row(result: Result) -> tuple[str, ...]:
    from armada.units import memory_amount

    label = sanitize_line(result.label, 80)
    if result.speed is None:
        return (str(result.number), label, result.status, *[""] * 8)

    def told(name: str, form: str) -> str:
        value = result.figure(name)
        return "-" if value is None else format(value, form)

    memory, mfu, scaling = result.figure("peak_memory_bytes"), result.figure("mfu"), result.scaling
    cost = result.cost_per_million_tokens
    return (
        str(result.number),
        label,
        f"{told('step_time_s', '.3g')} s",
        f"{told('step_time_p05_s', '.3g')}-{told('step_time_p95_s', '.3g')}",
        told("samples_per_s", ",.1f"),
        told("tokens_per_s", ",.0f"),
        _spread(result),
        "-" if memory is None else memory_amount(memory),
        "-" if mfu is None else f"{mfu:.1%}",
        "-" if scaling is None else f"{scaling:.0%}",
        "-" if cost is None else f"${cost:.3f}" if result.currency == "USD" else f"{cost:.3f} {result.currency}",
    )


def _spread(result: Result) -> str:
    spread = result.figure("spread")
    return "-" if spread is None else f"{spread:.1%}" if spread < 1 else "> 100%"
