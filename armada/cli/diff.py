"""`armada diff`: how two runs differ in settings, code, packages and data."""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

from armada.cli.compare import finite
from armada.cli.printing import has_colours, print_json
from armada.cli.table import table, width
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.foundation.validation import mapping
from armada.units import amount

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from armada.compare.code import FileChange
    from armada.compare.data import DataFile
    from armada.compare.difference import RunDifference
    from armada.store.runs import Run

_COLOURS = {"+": "32", "-": "31", "@": "36"}
_NOT_RECORDED = "not recorded"
_NO_REVISION, _NO_CODE = "no revision", "none"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diff",
        help="Show how two runs differ: settings, code, packages, data",
        description="Show how the second run differs from the first: its settings, the code as it was sent (with "
        "uncommitted changes), the packages of its environment, and its data files. No host is asked.",
    )
    parser.add_argument("first", metavar="RUN", help="Run to compare with: its id, or its first characters")
    parser.add_argument("second", metavar="RUN", help="Run whose changes are shown")
    parser.add_argument("--json", action="store_true", help="Print a JSON object")
    parser.set_defaults(handler=_diff)


def _diff(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.compare.difference import compare_runs
    from armada.store import runs

    context = Context(reads=True)
    pair = context.run(options.first), context.run(options.second)
    found = compare_runs(context.database, context.home, *pair)
    projects = [mapping(runs.spec(context.database, run.run_id).get("project")) for run in pair]
    if options.json:
        print_json(_as_json(found, pair, projects))
        return 0
    paint = _painted if has_colours() else str
    for line in _lines(found, pair, projects, paint):
        print(line)
    return 0


def _lines(
    found: RunDifference, pair: tuple[Run, Run], projects: list[dict[str, Any]], paint: Callable[[str], str]
) -> Iterator[str]:
    """Yield what a person reads, sanitized. `paint` colours a line by its first character."""
    names = [run.run_id for run in pair]
    missing = [run.run_id for run, record in zip(pair, found.records, strict=True) if record is None]
    yield "settings"
    if found.settings:
        yield from _setting_lines(found, names)
    else:
        yield "  no difference"
    unknown = f"{_NOT_RECORDED}: {', '.join(missing)}" if missing else None
    yield ""
    before, after = map(_revision, projects)
    yield "code" if before == after and before in (_NO_REVISION, _NO_CODE) else f"code: {before} → {after}"
    if found.code is None:
        yield f"  {unknown or 'too many files to compare'}"
    else:
        yield from map(paint, _code_lines(found.code))
    yield ""
    yield f"environment{f' ({found.packages_from})' if found.packages_from else ''}"
    yield from map(paint, _environment_lines(found, unknown))
    yield ""
    yield "data"
    if found.data is None:
        yield f"  {unknown}"
    else:
        rows = [(each.name, _file_text(each.before), _file_text(each.after)) for each in found.data]
        yield from _indented(table(("", *names), rows)) if rows else ["  no difference"]


def _setting_lines(found: RunDifference, names: list[str]) -> Iterator[str]:
    """Yield a table of the settings; if it is too wide, three lines for each setting."""
    rows = [(each.key, *(text or "-" for text in each.texts)) for each in found.settings]
    shown = table(("", *names), rows)
    if max(map(width, shown.split("\n"))) + 2 <= shutil.get_terminal_size((120, 24)).columns:
        yield from _indented(shown)
        return
    for key, old, new in rows:
        yield from (f"  {key}", f"    - {old}", f"    + {new}")


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.split("\n"))


def _code_lines(changes: tuple[FileChange, ...]) -> Iterator[str]:
    if not changes:
        yield "  no difference"
    for each in changes:
        path = sanitize_line(each.path, 1000)
        if each.change == "mode":
            now = "executable" if each.after is not None and each.after.executable else "not executable"
            yield f"  {path} is {now} now"
        elif each.lines is None:
            yield f"  {path} {each.change} ({each.why})"
        elif not each.lines:  # an empty file came or went
            yield f"  {path} {each.change} (empty)"
        else:
            # A carriage return would end the line for `sanitize_text`.
            yield from (sanitize_text(line.replace("\r", "␍"), len(line)) for line in each.lines)


def _environment_lines(found: RunDifference, unknown: str | None) -> Iterator[str]:
    if found.packages is None:
        yield f"  {unknown or found.packages_why}"
        return
    pythons = [_python(record) for record in found.records]
    if pythons[0] != pythons[1]:
        yield f"  Python {pythons[0] or '?'} → {pythons[1] or '?'}"
    for each in found.packages:
        if each.before is None:
            yield f"+ {each.name} {each.after}"
        elif each.after is None:
            yield f"- {each.name} {each.before}"
        else:
            yield f"  {each.name} {each.before} → {each.after}"
    if not found.packages and pythons[0] == pythons[1]:
        yield "  no difference"


def _python(record: Any) -> str:
    return sanitize_line(record.environment.python, 60) if record is not None and record.environment is not None else ""


def _revision(project: dict[str, Any]) -> str:
    """Describe the project's revision; a run without code has no project."""
    if not project:
        return _NO_CODE
    revision = project.get("revision")
    named = sanitize_line(revision, 12).rstrip("…") if isinstance(revision, str) else _NO_REVISION
    return f"{named} with uncommitted changes" if project.get("dirty") is True else named


def _file_text(file: DataFile | None) -> str:
    if file is None:
        return "-"
    size = f"{amount(file.size_bytes)} " if file.size_bytes is not None else ""
    return f"{size}{file.identity[:12]}" if size or file.identity else "present"


def _painted(line: str) -> str:
    """Colour a line by its first character."""
    sign = line[:1]
    return f"\x1b[{_COLOURS[sign]}m{line}\x1b[0m" if sign in _COLOURS else line


def _as_json(found: RunDifference, pair: tuple[Run, Run], projects: list[dict[str, Any]]) -> dict[str, object]:
    packages, data = found.packages, found.data
    return {
        "runs": [run.run_id for run in pair],
        "recorded": [record is not None for record in found.records],
        "settings": [{"key": each.key, "values": list(map(finite, each.masked))} for each in found.settings],
        "projects": [
            {"revision": project.get("revision"), "dirty": project.get("dirty")} if project else None
            for project in projects
        ],
        "code": None if found.code is None else [_file_json(each) for each in found.code],
        "packages_from": found.packages_from,
        "packages": None if packages is None else [dataclasses.asdict(each) for each in packages],
        "data": None if data is None else [dataclasses.asdict(each) for each in data],
    }


def _file_json(each: FileChange) -> dict[str, object]:
    return {
        "path": each.path,
        "change": each.change,
        "before": dataclasses.asdict(each.before) if each.before is not None else None,
        "after": dataclasses.asdict(each.after) if each.after is not None else None,
        "diff": "".join(f"{line}\n" for line in each.lines) if each.lines is not None else None,
        "why": each.why,
    }
