"""Curves from W&B's own files: recorded with wandb 0.31, offline, with a record that is longer than a block."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from armada_agent.metrics import wandb_files

from tests import hostile
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice

FOLDER = "wandb/offline-run-20260101_000000-recorded"
FILE = f"{FOLDER}/run-recorded.wandb"
WHOLE = (RECORDINGS / "offline-0.31.wandb").read_bytes()


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def place(top: Path, content: bytes = WHOLE, name: str = FILE) -> Path:
    file = top / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("where", ["work", "work/deep/er", "."])
def test_the_history_is_drawn_wherever_wandb_put_it(run: WatchedRun, where: str) -> None:
    place(run.folder / where)
    run.look(final=True)
    assert run.curve("loss")[:4] == [(10, 1.0), (20, 0.5), (30, pytest.approx(1 / 3)), (40, 0.25)]
    assert run.curve("loss")[4][0] == 50
    assert math.isnan(run.curve("loss")[4][1])
    assert run.curve("eval_loss") == [(50, 0.25)]
    assert run.curve("nested/a") == [(10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0), (50, 5.0)]
    assert run.lines()[0]["time"] > 1.7e9
    assert not any(name.startswith("_") or name == "text" for line in run.lines() for name in line)


def test_a_file_that_comes_in_pieces_of_any_size_tells_the_same_once(tmp_path: Path) -> None:
    chance = dice(78)
    for number in range(10):
        run = WatchedRun(tmp_path / str(number))
        file = place(run.work, b"")
        rest = WHOLE
        while rest:
            size = chance.choice([100, 3000, 20_000])
            with file.open("ab") as stream:
                stream.write(rest[:size])
            rest = rest[size:]
            if chance.random() < 0.3:
                run.look(final=chance.random() < 0.5)
            if chance.random() < 0.1:
                run.watch.finish()
                run.begin()
        run.look(final=True)
        assert [step for step, _ in run.curve("loss")] == [10, 20, 30, 40, 50]
        assert not any("cannot be read" in said for said in run.findings())


def test_steps_that_count_wandbs_calls_join_no_evaluation_with_a_checkpoint(
    run: WatchedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[wandb_files.Row] = [(step, {"eval/loss": 0.5}) for step in (0, 1, 2)]
    monkeypatch.setattr(wandb_files.WandbFile, "_read", lambda _: [rows.pop(0)] if rows else [])
    place(run.work)
    for _ in range(3):
        run.look(final=True)
    assert run.curve("counted/eval_loss") == [(0, 0.5), (1, 0.5), (2, 0.5)]
    rows += [(10, {"eval/loss": 0.4}), (11, {"eval/loss": 0.3}), (12, {"eval/loss": 0.2, "train/global_step": 7.0})]
    for _ in range(3):
        run.look(final=True)
    assert run.curve("eval_loss") == [(10, 0.4), (11, 0.3), (7, 0.2)]


def test_damage_costs_what_is_damaged(run: WatchedRun) -> None:
    at = WHOLE.index(b"train/loss", WHOLE.index(b"train/loss") + 1)  # of the first row; its summary comes before it
    bent = bytearray(WHOLE)
    bent[at] ^= 1
    place(run.work, bytes(bent))
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [20, 30, 40, 50]


@pytest.mark.parametrize("content", [b"", b":W&", b"x" * 100, WHOLE[:7] + b"\0" * 5000, WHOLE[:7] + b"\xff" * 5000])
def test_a_file_that_is_none_harms_no_other(run: WatchedRun, content: bytes) -> None:
    place(run.work, content, "wandb/run-1-a/run-a.wandb")
    place(run.work)
    run.look()
    run.look(final=True)
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [10, 20, 30, 40, 50]
    said = [each for each in run.findings() if "cannot be read" in each]
    assert len(said) == (content[:1] == b"x" or b"\xff" in content)


def test_bytes_thrown_from_dice_harm_nobody(run: WatchedRun) -> None:
    chance = dice(79)
    for number in range(hostile.CASES):
        run.begin()
        bent = bytearray(WHOLE)
        for _ in range(chance.randrange(1, 60)):
            bent[chance.randrange(1000)] = chance.randrange(256)
        place(run.work, bytes(bent), f"wandb/run-{number % 30}-a/run-a.wandb")
        wandb_files.history(bytes(bent)[: chance.randrange(500)])
        run.look(final=True)
    assert not any("no longer read" in said for said in run.findings())


def test_nothing_outside_is_read(tmp_path: Path) -> None:
    run = WatchedRun(tmp_path / "host")
    place(tmp_path / "outside")
    (run.work / "wandb").symlink_to(tmp_path / "outside" / "wandb")
    (run.folder / "wandb").symlink_to(tmp_path / "outside" / "wandb")
    pipe = run.work / "wandb2" / "wandb" / "run-1-a"
    pipe.mkdir(parents=True)
    os.mkfifo(pipe / "run-a.wandb")
    run.look(final=True)
    assert run.lines() == []


def test_a_work_folder_that_became_a_link_is_not_searched(tmp_path: Path) -> None:
    run = WatchedRun(tmp_path / "host", metrics=["a.csv"])
    place(tmp_path / "outside")
    (tmp_path / "outside" / "a.csv").write_text("step,loss\n1,1.0\n")
    run.work.rmdir()
    run.work.symlink_to(tmp_path / "outside")
    run.look(final=True)
    assert run.lines() == []
