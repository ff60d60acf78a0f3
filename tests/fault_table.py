"""Writes the table in docs/explanation/reliability.md from what the tests marked `fault` did.

A test says with `@pytest.mark.fault(fault, end_state)` what it breaks and how that must end. How often it broke it, and what
it saw, it may add with `record_property("times", …)` and `record_property("seen", …)`.
"""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import dataclass
from pathlib import Path

import pytest

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"


COLUMNS = ("fault", "times", "what was seen", "in seconds, all of them", "end state")


@dataclass
class Row:
    fault: str
    end_state: str
    times: int = 0
    seen: tuple[str, ...] = ()
    seconds: float = 0.0
    passed: bool = True


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-table", type=Path, help="write the table of faults here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := item.get_closest_marker("fault"):  # travels with the report, out of an xdist worker too
            item.user_properties += [("fault", mark.args[0]), ("end_state", mark.args[1])]


class FaultTable:
    """Collects one row for each fault, whatever number of parametrised cases it has."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = {str(name): str(value) for name, value in report.user_properties}
        if "fault" not in said or report.skipped or (report.when != "call" and not report.failed):
            return
        row = self._rows.setdefault(said["fault"], Row(said["fault"], said["end_state"]))
        row.times += int(said.get("times", 1))
        row.seen += (said["seen"],) if said.get("seen") else ()
        row.seconds += report.duration
        row.passed = row.passed and report.passed

    def pytest_sessionfinish(self) -> None:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        lines = [f"Last run {today}, {platform.system()} {platform.machine()}, Python {platform.python_version()}.", ""]
        lines += ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
        former = _rows_of(self._path)
        for row in sorted(self._rows.values(), key=lambda row: row.fault):
            if row.passed and row.times < former.get(row.fault, (0, ""))[0]:
                lines.append(former[row.fault][1])
            elif row.passed:
                seen = "; ".join(dict.fromkeys(row.seen)) or "as asserted"
                cells = (row.fault, row.times, seen, f"{row.seconds:.0f}", row.end_state)
                lines.append("| " + " | ".join(map(str, cells)) + " |")
        failed = [row.fault for row in self._rows.values() if not row.passed]
        if failed:
            lines += ["", f"Failed in this run, and so not in the table: {'; '.join(sorted(failed))}."]
        text = self._path.read_text() if self._path.exists() else ""
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        self._path.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


def _rows_of(path: Path) -> dict[str, tuple[int, str]]:
    """How often each fault was made in former runs, and its line."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(COLUMNS) and cells[1].isdecimal():
            found[cells[0]] = (int(cells[1]), line)
    return found


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--fault-table")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FaultTable(path))
