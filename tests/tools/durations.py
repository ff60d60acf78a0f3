"""Rewrite the table of docs/contributing/tests.md from the JSON lines of tests/plugins/durations.py: durations.py [FILE].

The last line of each test counts: a file may hold several runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NotRequired, TypedDict

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/contributing/tests.md"
BEGIN, END = "<!-- durations: begin -->", "<!-- durations: end -->"
_SLOWEST = 5
_LONG_S = 10.0


class Taken(TypedDict):
    """What one test took, in seconds."""

    test: str
    wall_s: float
    cpu_s: float
    worker: str
    when: float
    why: NotRequired[str]


def main(arguments: list[str]) -> int:
    """Write the table between its two markers."""
    source = Path(arguments[0]) if arguments else ROOT / ".durations.jsonl"
    if not source.exists():
        print(f"{source} is not there; `make test` writes it")
        return 1
    lines: list[Taken] = [json.loads(line) for line in source.read_text().splitlines()]
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        print(f"{PAGE} lacks {BEGIN} or {END}")
        return 1
    PAGE.write_text(f"{before}{BEGIN}\n{make_table(lines)}{END}{after}")
    return 0


def make_table(lines: Iterable[Taken]) -> str:
    """Return a row for each folder and, below, the slowest tests of each."""
    last = {line["test"]: line for line in lines}
    by_folder: dict[str, list[Taken]] = defaultdict(list)
    for line in last.values():
        by_folder[_folder(line["test"])].append(line)
    newest = time.strftime("%Y-%m-%d", time.gmtime(max((line["when"] for line in last.values()), default=0.0)))
    said = [f"Written by `make durations`, not by hand, from runs until {newest}.", ""]
    said += ["| folder | tests | wall, s | CPU, s |", "|---|---:|---:|---:|"]
    for folder, tests in sorted(by_folder.items()):
        said.append(f"| {folder} | {len(tests)} | {_sum(tests, 'wall_s')} | {_sum(tests, 'cpu_s')} |")
    everything = list(last.values())
    said += [f"| all | {len(everything)} | {_sum(everything, 'wall_s')} | {_sum(everything, 'cpu_s')} |", ""]
    said += [f"The slowest {_SLOWEST} of each folder:", ""]
    for folder, tests in sorted(by_folder.items()):
        said.append(f"- {folder}")
        for line in sorted(tests, key=lambda line: -line["wall_s"])[:_SLOWEST]:
            name = line["test"].removeprefix(f"{folder}/")
            said.append(f"  - {line['wall_s']:.1f} s, CPU {line['cpu_s']:.1f} s: `{name}`")
    return "\n".join([*said, "", *_say_why(everything), ""])


def _say_why(lines: Iterable[Taken]) -> list[str]:
    """Return the tests above 10 s, each with the reason in its mark `takes_long`; those without a reason come first."""
    longest: dict[str, Taken] = {}
    for line in sorted(lines, key=lambda line: line["wall_s"]):
        if line["wall_s"] > _LONG_S:
            longest[line["test"].partition("[")[0]] = line
    said = [f"Above {_LONG_S:.0f} s, and why:", ""]
    for name, line in sorted(longest.items(), key=lambda item: ("why" in item[1], item[0])):
        said.append(
            f"- {line['wall_s']:.0f} s: `{name.removeprefix('tests/')}`: {line.get('why', '**no reason given**')}"
        )
    return said


def _folder(test: str) -> str:
    """Return the folder of a test: `tests/unit` of `tests/unit/sync/test_plan.py::test_x`."""
    return "/".join(test.partition("::")[0].split("/")[:2])


def _sum(lines: Iterable[Taken], what: str) -> str:
    return f"{sum(line['wall_s'] if what == 'wall_s' else line['cpu_s'] for line in lines):.0f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
