"""What home's readers do grows with the bytes that a host sends, and not with their square."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.compare.report.samples import read_samples
from armada.foundation.sanitize import OutputText
from armada.launch.bench import results
from armada.monitor.records import read_lines
from armada.protocol.files import read_event
from armada.store import metrics, runs
from armada.store.database import Database
from armada.sync.checkpoints.manifest import parse_manifest
from armada.sync.outputs.listing import read_listing
from tests.answers import listing
from tests.work import assert_linear

LEAST = 40_000
RESET = '{"kind": "reset", "names": ["loss"]}\n'
POINT = '{"kind": "train", "step": %d, "time": 1.0, "loss": 1.5, "lr": 1.0}\n'


def repeated(part: str, size: int) -> str:
    return part * (size // len(part))


LINES: dict[str, Callable[[int], str]] = {
    "points": lambda size: "".join(POINT % number for number in range(size // len(POINT))),
    "points taken back": lambda size: "".join(POINT % number + RESET for number in range(size // (len(POINT + RESET)))),
    "events": lambda size: "".join(f'{{"seq": {number}, "kind": "state"}}\n' for number in range(1, size // 30)),
    "nested": lambda size: repeated("[" * 999 + "\n", size),
    "brackets": lambda size: repeated('{"a": "' + "[]" * 400 + '"}\n', size),
    "half lines": lambda size: repeated('{"a": \n', size),
    "one line": lambda size: '{"a": "' + "x" * size,
    "nested once": lambda size: "[" * size,
    "keys": lambda size: repeated('{"' + "k" * 900 + '": 1, "a": 1, "a": 2}\n', size),
    "names": lambda size: "".join(
        f'{{"kind": "train", "step": 1, "time": 1, "n{number}": 1}}\n' for number in range(size // 50)
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_cost_what_their_bytes_cost(tmp_path: Path, name: str) -> None:
    with Database(tmp_path / "armada.db") as database:

        def work(size: int) -> Callable[[], object]:
            text, run_id = LINES[name](size), f"r-{size}"
            runs.insert(database, run_id=run_id, name="r", host="box", task="command", experiment=None, spec={})

            def read() -> None:
                records = read_lines(text, "metrics").records
                metrics.record_metrics(database, run_id, records, offset=0, next_offset=9)
                metrics.record_events(database, run_id, records, offset=0, next_offset=9)

            return read

        assert_linear(work, LEAST, files=False)


def manifest(paths: list[str]) -> Callable[[], object]:
    files = [{"path": path, "size": 1, "sha256": "a" * 64} for path in paths]
    text = json.dumps({"format": 1, "step": 1, "files": files})
    return lambda: parse_manifest(text, hashlib.sha256(text.encode()).hexdigest())


def outputs(paths: list[str]) -> Callable[[], object]:
    entry = listing({"outputs": [{"path": path, "size_bytes": 1, "mtime": 1.0} for path in paths]})
    return lambda: read_listing(entry)


PATHS: dict[str, Callable[[int], list[str]]] = {
    "names": lambda count: [f"file-{number}" for number in range(count)],
    "folders": lambda count: ["/".join(["a"] * 100) + f"/{number}" for number in range(count)],
    "one in the other": lambda count: [f"{number}/" + "a/" * 40 + "x" for number in range(count)],
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("of", [manifest, outputs])
def test_lists_of_files_cost_what_their_entries_cost(
    of: Callable[[list[str]], Callable[[], object]], name: str
) -> None:
    assert_linear(lambda size: of(PATHS[name](size // 400)), LEAST)


@pytest.mark.parametrize(
    "line", ['{"step": 1, "generated": "x", "prompt": "%d"}\n', "[" * 500 + "\n", "\n", '{"step"\n']
)
def test_samples_and_rows_of_a_bench_cost_what_their_bytes_cost(tmp_path: Path, line: str) -> None:
    def work(size: int) -> Callable[[], object]:
        file = tmp_path / str(size)
        file.write_text(repeated(line, size))
        return lambda: [read_samples(file), results._messages(file)]  # noqa: SLF001

    assert_linear(work, LEAST // 5)


@pytest.mark.parametrize("text", ["a line\n", "\r 50%|", "\x1b[31m", "\x1b[" + "1;" * 30, "x", "\x1b"])
@pytest.mark.parametrize("colours", [False, True])
def test_output_that_is_shown_costs_what_its_bytes_cost(text: str, colours: bool) -> None:
    """As it is followed: in pieces, each a look of its own."""

    def work(size: int) -> Callable[[], object]:
        whole, shown = repeated(text, size), OutputText(colours=colours)
        return lambda: [shown.take(whole[at : at + 500]) for at in range(0, size, 500)]

    assert_linear(work, LEAST)


def test_an_event_costs_what_its_bytes_cost() -> None:
    def work(size: int) -> Callable[[], object]:
        line = json.dumps(
            {"kind": "failure", "seq": 1, "lines": ["x" * 100] * (size // 100), "others": [{"rank": 1}] * (size // 100)}
        )
        return lambda: read_event(line)

    assert_linear(work, LEAST)
