"""The results as Markdown, for docs/reference/gpu.md: `python -m benchmarks.gpu.table [FILE …]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import results_file
from benchmarks.gpu.catalogue import CHECKS, NOT_RUN
from benchmarks.gpu.runner import figure

NOTHING = (
    "Nothing was measured on a GPU yet. Whoever has one runs [`make gpu`](../how-to/gpu.md) and commits the file that it\n"
    "writes."
)
_GB = 1e9
_LONGEST = 300


def render(files: Sequence[Path]) -> list[str]:
    """Return the paragraphs of the page: for each GPU a heading, what it was measured with, and a table."""
    parts: list[str] = []
    for file in files:
        content = results_file.read(file)
        checks = {name: entry for name, entry in content["checks"].items() if entry.get("status") != NOT_RUN}
        if checks:
            gpu = content.get("gpu")
            parts += [f"## {plain(gpu or file.stem)}", *_render(content["checks"])]
    return parts or [NOTHING]


def _render(checks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    known = [check.name for check in CHECKS]
    ordered = sorted(checks, key=lambda name: (known.index(name) if name in known else len(known), name))
    what = {check.name: check.what for check in CHECKS}
    rows = []
    for name in ordered:
        entry = checks[name]
        rows.append((f"**{plain(name)}**", what.get(name, ""), _say(entry), _measured(entry)))
        rows += [("", plain(case.get("name")), _say(case), _figures(case.get("figures"))) for case in _cases(entry)]
    return [*_environments(checks), _table(("Check", "What", "Result", "Figures"), rows)]


def _environments(checks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say with which driver, packages and code it was measured; several, where checks were measured at different times."""
    found: dict[str, list[str]] = {}
    for name, entry in checks.items():
        packages = entry.get("packages")
        listed = (
            [f"{plain(key)} {plain(value)}" for key, value in packages.items()] if isinstance(packages, dict) else []
        )
        said = f"driver {plain(entry.get('driver') or 'unknown')}, Python {plain(entry.get('python') or '?')}, {', '.join(listed)}"
        found.setdefault(said, []).append(name)
    if len(found) == 1:
        return [f"Measured with {next(iter(found))}."]
    return [
        f"Measured with {said}: {', '.join(plain(name) for name in sorted(names))}." for said, names in found.items()
    ]


def _cases(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    cases = entry.get("cases")
    return [case for case in cases if isinstance(case, dict)] if isinstance(cases, list) else []


def _say(entry: Mapping[str, Any]) -> str:
    message = plain(entry.get("message") or "")
    return f"{plain(entry.get('status'))}{': ' if message else ''}{message}"


def _measured(entry: Mapping[str, Any]) -> str:
    seconds = entry.get("seconds")
    took = f"{seconds:.0f} s, " if isinstance(seconds, int | float) else ""
    return f"{took}{plain(entry.get('date') or '')}, {plain(entry.get('commit') or '')}"


def _figures(figures: object) -> str:
    if not isinstance(figures, dict):
        return ""
    return ", ".join(
        f"{_named(name)} {_shown(name, value)}" for name, value in sorted(figures.items()) if value is not None
    )


def _named(name: str) -> str:
    return plain(name.removesuffix("_bytes").replace("_per_s", "/s").removesuffix("_s").replace("_", " "))


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return plain(value)
    if name.endswith("_bytes"):
        return f"{value / _GB:.3g} GB"
    if name in ("mfu", "aim_mfu", "of_peak", "spread") or name.endswith(("differs", "differ")):
        return f"{value:.2%}"
    return f"{figure(value)} s" if name.endswith("_s") and not name.endswith("_per_s") else figure(value)


def plain(value: object) -> str:
    """Make any text of a results file harmless in a table: one line, without markup."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))[:_LONGEST]
    for letter in "\\`*_[]<>|":
        text = text.replace(letter, f"\\{letter}")
    return text


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def files(folder: Path = results_file.FOLDER) -> list[Path]:
    """Return the committed results, one file for each kind of GPU."""
    return sorted(folder.glob("*.json"))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.table", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="results (default: all in benchmarks/gpu/results)")
    try:
        print("\n\n".join(render(parser.parse_args(words).files or files())))
    except results_file.ResultsError as error:
        print(f"table: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
