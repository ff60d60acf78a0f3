"""Curves from the CSV and JSONL files that an experiment names."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from armada_agent.metrics import find

from tests import hostile
from tests.agent.conversation import Host, check
from tests.agent.watched_run import WatchedRun
from tests.chance import dice

LIGHTNING = "epoch,lr-AdamW,step,train_loss,val_loss\n0,,9,1.5,\n0,0.001,9,,\n0,,9,,1.25\n1,,19,0.5,\n1,,19,,nan\n"
"""Empty cells as it writes them."""


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path, metrics=["logs/**/metrics.csv", "curve.jsonl", "*.tsv"])


def write(run: WatchedRun, name: str, text: str, mode: str = "a") -> Path:
    path = run.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as stream:
        stream.write(text)
    return path


def test_lightnings_table_is_read_with_its_empty_cells(run: WatchedRun) -> None:
    write(run, "logs/version_0/metrics.csv", LIGHTNING)
    run.look(final=True)
    assert run.curve("loss") == [(9, 1.5), (19, 0.5)]
    first, second = run.curve("eval_loss")
    assert first == (9, 1.25)
    assert second[0] == 19
    assert math.isnan(second[1])
    assert run.curve("lr-AdamW") == [(9, 0.001)]
    assert run.watch.step == 19
    check(json.loads((run.folder / "curves.json").read_text()), "files", "curves.json")


def test_rows_arrive_as_they_are_written_and_half_ones_wait(run: WatchedRun) -> None:
    write(run, "logs/metrics.csv", "step,loss\n1,0.9\n2,0.")
    run.look()
    write(run, "logs/metrics.csv", "8\n3,0.7\n")
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.9), (2, 0.8), (3, 0.7)]


def test_a_table_that_is_written_anew_tells_only_what_is_new(run: WatchedRun) -> None:
    """As Lightning does when a new column comes, and pandas each time."""
    path = write(run, "curve.tsv", "step\tloss\n1\t0.9\n2\t0.8\n")
    run.look()
    path.write_text("step\tloss\tval_loss\n1\t0.9\t\n2\t0.8\t\n3\t0.7\t0.6\n")
    run.look()
    other = path.with_name("other")
    other.write_text("step\tloss\tval_loss\n1\t0.9\t\n2\t0.8\t\n3\t0.7\t0.6\n4\t0.65\t\n")
    other.replace(path)
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.65)]
    assert run.curve("eval_loss") == [(3, 0.6)]


def test_a_table_that_begins_again_after_a_resume_replaces_the_steps_it_redoes(run: WatchedRun) -> None:
    write(run, "curve.tsv", "step\tloss\n1\t0.9\n2\t0.8\n3\t0.7\n")
    run.look(final=True)
    run.begin()
    write(run, "curve.tsv", "step\tloss\n2\t0.85\n", mode="w")
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.9), (2, 0.8), (3, 0.7), (2, 0.85)]


def test_lines_of_json_may_be_nested_once_and_have_a_time(run: WatchedRun) -> None:
    write(run, "curve.jsonl", '{"global_step": 5, "train": {"loss": 0.5}, "eval": {"loss": 0.4}, "timestamp": 77.5}\n')
    run.look()
    assert run.curve("loss") == [(5, 0.5)]
    assert run.curve("eval_loss") == [(5, 0.4)]
    assert {line["time"] for line in run.lines()} == {77.5}


def test_what_came_with_the_code_is_not_of_this_run_and_what_is_added_to_it_is(tmp_path: Path) -> None:
    work = tmp_path / "runs" / "script-1" / "work"
    work.mkdir(parents=True)
    (work / "metrics.csv").write_text("step,loss\n1,9.0\n")
    run = WatchedRun(tmp_path, metrics=["metrics.csv"])
    write(run, "metrics.csv", "2,0.5\n")
    run.look(final=True)
    assert run.curve("loss") == [(2, 0.5)]


def test_the_next_attempt_reads_what_is_new_and_what_the_last_one_had_no_time_for(run: WatchedRun) -> None:
    write(run, "curve.jsonl", '{"step": 1, "loss": 1.0}\n')
    run.look(final=True)
    write(run, "curve.jsonl", '{"step": 2, "loss": 0.9}\n')
    write(run, "logs/metrics.csv", "step,loss\n3,0.8\n")
    run.begin()
    run.look(final=True)
    assert sorted(run.curve("loss")) == [(1, 1.0), (2, 0.9), (3, 0.8)]


def test_rows_without_a_step_are_counted_and_join_no_evaluation_with_a_checkpoint(run: WatchedRun) -> None:
    write(run, "curve.tsv", "loss\tval_loss\n0.5\t0.4\n0.3\t0.2\n")
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5), (2, 0.3)]
    assert run.curve("eval_loss") == []
    assert "names no steps" in run.findings()[0]


def test_nothing_outside_of_the_work_folder_is_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.csv").write_text("step,loss\n1,1.0\n")
    run = WatchedRun(tmp_path / "host", metrics=["**/*.csv", "folder/a.csv", "../../../../outside/a.csv", "pipe.csv"])
    (run.work / "folder").symlink_to(outside)
    (run.work / "a.csv").symlink_to(outside / "a.csv")
    os.mkfifo(run.work / "pipe.csv")
    run.look()
    run.look(final=True)
    assert run.lines() == []


def test_whatever_a_table_holds_the_rest_is_read_and_what_is_no_row_is_counted(run: WatchedRun) -> None:
    chance = dice(74)
    with (run.work / "a.tsv").open("wb") as stream:
        stream.write(
            b"step\tother\n1\t0.5\n" + b'"' * 5000 + b"\n\0\0\n\xff\xfe\n1\t2\t3\t4\n" + b"9" * 70_000 + b"\n2\t0.4\n"
        )
    run.look()  # only so many names are drawn
    with (run.work / "curve.jsonl").open("wb", buffering=0) as stream:
        for number in range(hostile.CASES):
            stream.write(hostile.line(chance).encode("utf-8", "surrogatepass") + b"\n")
            stream.write(b'{"step": %d, "own": 0.5}\n' % (number + 100))
            if number % 100 == 0:
                run.look(final=True)
    run.look(final=True)
    run.watch.finish()
    assert [step for step, _ in run.curve("own")] == [*range(100, 100 + hostile.CASES)]
    assert run.curve("other") == [(1, 0.5), (2, 0.4)]
    assert any("records could not be read" in said for said in run.findings())


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "b/a.csv", False),
        ("**/a.csv", "a.csv", True),
        ("**/a.csv", "b/c/a.csv", True),
        ("b/**/a.csv", "b/a.csv", True),
        ("b/*/a.csv", "b/a.csv", False),
        ("b/**", "b/c/d", True),
        ("**/b/**/*.csv", "x/b/y/z.csv", True),
        ("**/**/**/**/x", "a/b/c/d/e/f/y", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert find.matches(path.split("/"), pattern.split("/")) is fits


def test_a_folder_that_is_too_large_to_search_is_said(run: WatchedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "_MOST_LOOKED_AT", 3)
    for number in range(8):
        write(run, f"folder-{number}/file", "")
    run.look(final=True)
    assert "too many files" in run.findings()[0]


def test_a_script_on_a_host_has_the_curves_of_its_table(some_host: Host) -> None:
    watch = {"checkpoints": None, "resume": [], "metrics": ["out/*.csv"]}
    some_host.launch("script-1", "sh", "-c", "mkdir out; printf 'step,loss\\n4,0.5\\n' > out/a.csv", watch=watch)
    some_host.await_end("script-1")
    (line,) = map(json.loads, some_host.look("script-1")["metrics"]["text"].splitlines())
    assert (line["step"], line["loss"], line["source"]) == (4, 0.5, "file")
