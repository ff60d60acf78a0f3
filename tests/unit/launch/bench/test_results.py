"""Rows of a bench, which come from a host: they may be missing, absurd or hostile."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from armada.cli.bench_views import _row, _verdict
from armada.config.profiles import load_profile
from armada.costs.tariff import Tariff
from armada.errors import ConfigError, Conflict, UsageError
from armada.launch.bench.apply import apply_best, choose
from armada.launch.bench.chart import bars, svg, write_csv
from armada.launch.bench.results import Result, as_fast_as, best_of, can_tell_apart, machine_changes, read_results
from armada.paths import HomePaths
from armada.store import metrics, runs
from armada.store.database import Database

CELLS = [
    {"number": 1, "label": "gpus=1", "values": {"resources.gpus": 1, "train.attention": "sdpa"}},
    {"number": 2, "label": "gpus=2", "values": {"resources.gpus": 2, "train.attention": "sdpa"}},
    {"number": 3, "label": "=cmd()\x1b[31m<b>", "values": {"name": "=cmd()", "x": "\x1b]0;title\x07"}},
]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "armada.db")
    yield database
    database.close()


def add(database: Database, cells: Any = CELLS, task: str = "bench") -> runs.Run:
    spec = {"training": {"bench": {"cells": cells}}, "profile": "cpu"}
    runs.insert(database, run_id="b-1", name="b", host="h", task=task, experiment=None, spec=spec)
    return runs.find(database, "b-1")


def tell(database: Database, *lines: dict[str, object]) -> None:
    told = [{"kind": "bench", "time": 1.0, "attempt": 1, **line} for line in lines]
    assert metrics.record_metrics(database, "b-1", told, offset=0, next_offset=9)


def row(step: int, **more: object) -> dict[str, object]:
    return {"step": step, "status_code": 0, "tokens_per_s": 100.0, "processes": step, "micro_batch_size": 4, **more}


def test_rows_become_results_with_scaling_and_cost(database: Database, tmp_path: Path) -> None:
    run = add(database)
    tell(database, row(1), row(2, tokens_per_s=150.0), {"step": 3, "status_code": 1})
    (tmp_path / "metrics.jsonl").write_text('{"kind": "bench", "step": 3, "message": "no \\u001b[31mroom"}\n[[[\n"x"\n')
    one, two, three = read_results(database, run, tmp_path, Tariff.of(3.6))
    assert (one.scaling, two.scaling) == (1.0, 0.75)
    assert one.cost_per_million_tokens == pytest.approx(3.6 / 3600 / 100 * 1e6)
    assert (three.status, three.speed) == ("oom", None)
    assert "room" in three.message
    assert "\x1b" not in three.message + three.label
    assert best_of([one, two, three]) == two


def test_cells_of_one_process_have_nothing_to_scale(database: Database, tmp_path: Path) -> None:
    run = add(database)
    tell(database, row(1))
    assert [each.scaling for each in read_results(database, run, tmp_path, None)] == [None, None, None]


def test_absurd_rows_are_not_results(database: Database, tmp_path: Path) -> None:
    run = add(database)
    nan = float("nan")
    tell(database, row(1, status_code=77), row(2, tokens_per_s=nan, processes=0), {"step": 99, "status_code": 0})
    one, two, three = read_results(database, run, tmp_path, None)
    assert Result(1, {}, "a", "measured", figures={"tokens_per_s": -1.0}).speed is None
    assert (one.status, two.speed, three.status) == ("waiting", None, "waiting")
    assert best_of([one, two, three]) is None
    assert json.loads(json.dumps(two.as_json(), allow_nan=False))["tokens_per_s"] is None


@pytest.mark.parametrize("cells", [None, [], [3], [{"number": "1"}], {"a": 1}])
def test_a_run_that_is_no_bench_is_refused(database: Database, tmp_path: Path, cells: object) -> None:
    with pytest.raises(UsageError, match="is no bench"):
        read_results(database, add(database, cells), tmp_path, None)


def test_drawings_and_tables_hold_no_markup_and_no_formula(database: Database, tmp_path: Path) -> None:
    run = add(database)
    tell(database, row(1, spread=0.1), row(3, spread=1e300))
    results = read_results(database, run, tmp_path, None)
    drawn = svg(results, "<script>&")
    assert "<script>" not in drawn
    ET.fromstring(drawn)
    assert svg([], "nothing").endswith("</svg>\n")
    table = io.StringIO()
    write_csv(results, table)
    assert ",'=cmd()," in table.getvalue()
    assert "\x1b" not in table.getvalue()
    assert len(bars(results)) == 3


def best(**values: object) -> Result:
    return Result(1, values, "a label", "measured", figures={"micro_batch_size": 16.0, "tokens_per_s": 1.0})


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(tmp_path / "config", tmp_path / "state")


def test_the_fastest_cell_makes_a_profile_that_extends_the_one_of_the_bench(home: HomePaths) -> None:
    path, _ = apply_best(best(**{"train.attention": "eager"}), "mine", "cpu", home)
    profile = load_profile("mine", home)
    assert (profile.train.micro_batch_size, profile.train.attention) == (16, "eager")
    path.write_text("# of mine\n" + path.read_text() + "  activation_checkpointing: true # keep\n")
    apply_best(best(**{"train.attention": "sdpa"}), "mine", None, home)
    assert load_profile("mine", home).train.attention == "sdpa"
    assert "# of mine" in path.read_text()
    assert "activation_checkpointing: true # keep" in path.read_text()


def test_a_profile_that_cannot_be_written_stays_as_it_is(home: HomePaths) -> None:
    with pytest.raises(Conflict, match="bundled"):
        apply_best(best(), "cpu", "cpu", home)
    with pytest.raises(UsageError, match="cannot be the name"):
        apply_best(best(), "../mine", "cpu", home)
    with pytest.raises(UsageError, match="no file to extend"):
        apply_best(best(), "mine", "derived:8x", home)
    with pytest.raises(ConfigError, match="attention"):
        apply_best(best(**{"train.attention": "magic"}), "mine", "cpu", home)
    assert not (home.profiles / "mine.yaml").exists()


def test_cells_within_the_spread_are_as_fast(database: Database, tmp_path: Path) -> None:
    run = add(database)
    speeds = {1: (100.0, 0.02), 2: (97.0, 0.02), 3: (90.0, 0.02)}
    tell(database, *(row(step, tokens_per_s=speed, spread=spread) for step, (speed, spread) in speeds.items()))
    results = read_results(database, run, tmp_path, None)
    best = best_of(results)
    assert best is not None
    assert [each.number for each in as_fast_as(best, results)] == [2]
    assert [each.number for each in as_fast_as(results[2], [results[2]])] == []


def test_what_all_cells_had_alike_does_not_hide_which_is_faster() -> None:
    """A machine that is slower at another time is slower for all of them."""
    cells = [measured(1, 100, 0.5, spread_beside=0.05), measured(2, 120, 0.5, spread_beside=0.05)]
    assert as_fast_as(cells[1], cells) == []
    assert can_tell_apart(cells)
    older = [measured(1, 100, 0.5), measured(2, 120, 0.5)]
    assert as_fast_as(older[1], older) == older[:1]


def measured(number: int, speed: float, spread: float, memory: int = 1, **more: float) -> Result:
    figures = {"tokens_per_s": speed, "spread": spread, "peak_memory_bytes": memory, "micro_batch_size": number, **more}
    return Result(number, {}, f"micro_batch_size={number}", "measured", figures=figures)


def test_of_cells_that_are_as_fast_the_one_with_least_memory_is_applied() -> None:
    slow, fast, fastest = measured(1, 50, 0.02), measured(2, 98, 0.02, memory=5), measured(3, 100, 0.02, memory=9)
    assert choose(fastest, [slow, fast, fastest]) == fast
    assert choose(fastest, [slow, fastest]) == fastest


def test_in_a_profile_that_is_there_only_the_lines_of_the_settings_change(tmp_path: Path) -> None:
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.profiles.mkdir(parents=True)
    file = home.profiles / "mine.yaml"
    note = "a text that is longer than what ruamel.yaml writes in one line, and that therefore would be folded " * 2
    text = f"""# ours
extends: cpu
env:
    NCCL_DEBUG: "WARN"   # loud
    NOTE: "{note}"
train:
    micro_batch_size: 2  # measured
"""
    file.write_text(text)
    file.chmod(0o644)
    apply_best(best(**{"train.attention": "sdpa"}), "mine", None, home)
    written = file.read_text()
    assert written == text.replace("size: 2 ", "size: 16 ") + '    attention: "sdpa"\n'
    assert file.stat().st_mode & 0o777 == 0o644


def test_cells_that_cannot_be_told_apart_apply_nothing() -> None:
    """Of one cell, or of cells with the same settings, there is nothing to tell."""
    one, two = measured(1, 90, 0.1), measured(2, 100, 0.1)
    assert not can_tell_apart([one, two])
    assert choose(two, [one, two]) is None
    assert choose(two, [two]) == two
    same = dataclasses.replace(two, number=3)
    assert choose(two, [two, same]) == two
    assert can_tell_apart([measured(1, 80, 0.05), measured(2, 100, 0.05)])
    assert not can_tell_apart([])


def test_how_much_the_machine_varied_is_said_in_words() -> None:
    one, two = measured(1, 90, 0.1, machine_varied=0.18), measured(2, 100, 0.1)
    first, second = _verdict(two, [one, two])
    assert first.startswith("no two cells can be told apart")
    assert second.startswith("this machine's own speed varied by 18% meanwhile. Measure longer")
    assert list(_verdict(two, [two])) == ["fastest: cell 2 (micro_batch_size=2)"]
    slow = measured(3, 10, 0.1)
    told = list(_verdict(two, [one, two, slow]))
    assert told[0] == "as fast as each other, within their spreads: cell 2 (micro_batch_size=2), cell 1"
    assert "varied by 18%" in told[1]
    assert _row(measured(4, 10, 2.4))[6] == "> 100%"


def test_a_table_says_in_which_currency_its_costs_are_and_nothing_where_there_is_none() -> None:
    paid = Result(1, {"a": 1}, "a=1", "measured", cost_per_million_tokens=2.5, currency="EUR")
    stream = io.StringIO()
    write_csv([paid, Result(2, {"a": 2}, "a=2", "oom")], stream)
    first, second = csv.DictReader(io.StringIO(stream.getvalue()))
    assert (first["cost_per_million_tokens"], first["currency"]) == ("2.5", "EUR")
    assert (second["cost_per_million_tokens"], second["currency"]) == ("", "")


def test_a_machine_that_changed_between_cells_is_noticed(database: Database, tmp_path: Path) -> None:
    cells = [{"number": number, "label": f"c{number}", "values": {}} for number in range(1, 9)]
    run = add(database, cells)
    # Two processes share the machine's threads, and GPUs are other machines: neither is compared with the first four.
    others = (row(5, processes=2, products_per_s=50.0), row(6, processes=1, gpus=1, products_per_s=9e3), row(8))
    speeds = {1: 100.0, 2: 102.0, 3: 79.0, 4: 98.0, 7: -1.0}
    tell(database, *(row(step, processes=1, products_per_s=speed) for step, speed in speeds.items()), *others)
    ((slow, by),) = machine_changes(read_results(database, run, tmp_path, None))
    assert (slow.number, round(by, 2)) == (3, -0.2)
