"""The watch over all sources of a job's metrics: what it keeps between attempts may be damaged, and a full disk loses nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from armada_agent.foundation import files
from armada_agent.metrics.watch import MetricsWatch

from tests import hostile
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    """A run whose job has written to every source."""
    made = WatchedRun(tmp_path, metrics=["*.csv"])
    made.print("{'loss': 1.0, 'step': 1}\n")
    Path(made.paths.reported).write_text('{"step": 1, "values": {"said": 1}}\n')
    (made.work / "a.csv").write_text("step,table\n1,1\n")
    (made.work / "trainer_state.json").write_bytes((RECORDINGS / "trainer_state-10.json").read_bytes())
    (made.work / "events.out.tfevents.1").write_bytes((RECORDINGS / "tensorboard-torch.tfevents").read_bytes())
    for top in (made.work, made.folder):
        (top / "wandb" / "run-1-a").mkdir(parents=True)
        (top / "wandb" / "run-1-a" / "run-a.wandb").write_bytes((RECORDINGS / "offline-0.31.wandb").read_bytes())
    made.look(final=True)
    return made


def test_every_source_is_read(run: WatchedRun) -> None:
    sources = {line["source"] for line in run.lines()}
    assert sources == {"armada_log", "file", "log", "trainer_state", "tensorboard", "wandb"}
    kept = json.loads((run.folder / "curves.json").read_text())
    assert set(kept["sources"]) == {*sources, "wandb_dir"}


def test_whatever_lies_in_the_place_of_what_it_keeps_the_next_attempt_is_watched(run: WatchedRun) -> None:
    chance = dice(80)
    record = run.folder / "curves.json"
    right = record.read_bytes()
    for step in range(hostile.CASES):
        content = hostile.content(chance, right)
        if step % 2:
            bent = json.loads(right)
            for name in bent["sources"]:
                bent["sources"][name] = hostile.value(chance)
            content = json.dumps(bent).encode()
        record.write_bytes(content)
        run.begin()
        run.print(f"{{'own': 0.5, 'loss': 0.5, 'step': {1000 + step}}}\n")
        run.look(final=True)
        assert run.watch.step == 1000 + step
    assert not any("no longer read" in said for said in run.findings())


def test_a_full_disk_delays_points_and_loses_none(run: WatchedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    before = run.lines()
    with monkeypatch.context() as patch:
        patch.setattr(files, "append_lines", full)
        run.print("{'loss': 0.5, 'step': 2000}\n")
        run.look()
        run.print("{'loss': 0.4, 'step': 2001}\n")
        run.look()
    assert run.lines() == before
    run.look()
    assert run.curve("loss")[-2:] == [(2000, 0.5), (2001, 0.4)]


def test_a_mistake_of_ours_ends_the_curves_and_not_the_run(run: WatchedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("armada_agent.metrics.source.LogSource.look", fail)
    run.look()
    run.look(final=True)
    run.watch.finish()
    assert [said for said in run.findings() if "no longer read" in said] == [
        "its metrics are no longer read: ZeroDivisionError: division by zero"
    ]


def test_nothing_is_written_into_a_folder_that_is_another_attempts(run: WatchedRun) -> None:
    before = Path(run.paths.metrics).read_bytes()
    watch = MetricsWatch(run.paths, 1, [], run.said.append, print, lambda: False, lambda: run.now)
    run.print("{'loss': 0.5, 'step': 2000}\n")
    watch.look()
    watch.finish()
    assert Path(run.paths.metrics).read_bytes() == before


def test_its_thread_looks_by_itself_and_ends(run: WatchedRun) -> None:
    run.watch.start()
    run.print("{'loss': 0.5, 'step': 2000}\n")
    run.watch.finish()
    assert run.curve("loss")[-1] == (2000, 0.5)


def test_a_large_file_is_read_over_several_looks(run: WatchedRun) -> None:
    rows = 60_000
    with (run.work / "b.csv").open("w") as stream:
        stream.write("step,many\n" + "".join(f"{step},{step / 7}\n" for step in range(rows)))
    run.look(final=True)
    text = Path(run.paths.metrics).read_text()
    assert text.count('"many": ') == rows
    assert len(text) < rows * 200
