"""Lightning's loggers count steps from 0 and its checkpoints those that are done: armada shows both as checkpoints count them.

Recorded from Lightning 2.6.6: the metrics.csv of 60 steps with a validation each 20, and the beginning of a checkpoint.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from armada_agent.metrics import wandb_files
from armada_agent.outbox.checkpoint_step import find_step, named_step

from tests.agent.test_agent_event_files import NAME, scalar
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice

TABLE = (RECORDINGS / "lightning-metrics.csv").read_text()
CHECKPOINT = (RECORDINGS / "lightning-40.ckpt").read_bytes()
FOLDER = "lightning_logs/version_0"


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def write(run: WatchedRun, name: str, content: bytes | str, folder: str = FOLDER) -> Path:
    path = run.work / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_its_table_is_read_without_being_named_and_evaluations_have_the_steps_of_checkpoints(run: WatchedRun) -> None:
    write(run, "hparams.yaml", "learning_rate: 0.02\n")
    write(run, "metrics.csv", TABLE)
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == list(range(1, 61))
    assert [step for step, _ in run.curve("eval_loss")] == [20, 40, 60]
    assert run.watch.step == 60
    assert run.findings() == []


def test_a_table_that_gets_another_column_first_and_is_rewritten_keeps_each_value_under_its_name(
    run: WatchedRun,
) -> None:
    """Its columns are sorted, so a new one moves the others."""
    write(run, "hparams.yaml", "{}\n")
    table = write(run, "metrics.csv", "epoch,step,train_loss\n0,0,0.9\n0,1,0.8\n")
    run.look(final=True)
    rewritten = "epoch,lr-Adam,step,train_loss,val_loss\n0,,0,0.9,\n0,,1,0.8,\n0,0.5,2,,\n0,,2,0.7,\n0,,2,,0.6\n"
    table.write_text(rewritten)
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.9), (2, 0.8), (3, 0.7)]
    assert (run.curve("lr-Adam"), run.curve("eval_loss")) == ([(3, 0.5)], [(3, 0.6)])


def test_a_resumed_training_goes_on_in_the_next_folder_with_one_curve(run: WatchedRun) -> None:
    for version, rows in ((0, "0,0,0.9\n0,1,0.8\n0,2,0.75\n"), (1, "0,2,0.7\n0,3,0.6\n")):
        write(run, "hparams.yaml", "{}\n", f"lightning_logs/version_{version}")
        write(run, "metrics.csv", "epoch,step,train_loss\n" + rows, f"lightning_logs/version_{version}")
        run.look(final=True)
        run.begin()
    assert run.curve("loss") == [(1, 0.9), (2, 0.8), (3, 0.75), (3, 0.7), (4, 0.6)]


def test_the_loss_of_its_test_is_no_evaluation_that_chooses_a_checkpoint(run: WatchedRun) -> None:
    write(run, "hparams.yaml", "{}\n")
    write(run, "metrics.csv", "epoch,step,test_loss,train_loss,val_loss\n1,59,,0.5,\n1,59,,,0.4\n2,60,0.9,,\n")
    run.look(final=True)
    assert run.curve("eval_loss") == [(60, 0.4)]
    assert run.curve("test/loss") == [(60, 0.9)]


def test_the_steps_of_fabrics_logger_are_the_users_own(run: WatchedRun) -> None:
    write(run, "metrics.csv", "step,loss\n10,0.5\n")
    run.look(final=True)
    assert run.curve("loss") == [(10, 0.5)]


def test_its_event_files_have_the_steps_of_checkpoints_too(run: WatchedRun) -> None:
    write(run, "hparams.yaml", "{}\n")
    write(run, NAME, scalar(9, "train_loss", 0.5) + scalar(9, "val_loss", 0.25) + scalar(10, "test_loss", 0.75))
    write(run, "hparams.yaml", "{}\n", "runs")  # as many programs call their settings
    write(run, NAME, scalar(9, "Loss/other", 2.0), "runs")
    run.look(final=True)
    assert (run.curve("loss"), run.curve("eval_loss")) == ([(10, 0.5)], [(10, 0.25)])
    assert run.curve("test/loss") == [(10, 0.75)]
    assert run.curve("Loss/other") == [(9, 2.0)]


def test_what_its_wandb_logger_tells_has_the_steps_of_checkpoints_too(
    run: WatchedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[wandb_files.Row] = [
        (0, {"train_loss": 0.5, "epoch": 0.0, "trainer/global_step": 9.0}),
        (1, {"val_loss": 0.25, "epoch": 0.0, "trainer/global_step": 9.0}),
        (2, {"test_loss": 0.75, "epoch": 1.0, "trainer/global_step": 10.0}),
        (3, {"train/loss": 0.125, "train/global_step": 20.0}),  # of transformers' Trainer
    ]
    monkeypatch.setattr(wandb_files.WandbFile, "_read", lambda _: [rows.pop(0)] if rows else [])
    write(run, "run-1.wandb", "", "wandb/run-1")
    for _ in range(4):
        run.look(final=True)
    assert (run.curve("loss"), run.curve("eval_loss")) == ([(10, 0.5), (20, 0.125)], [(10, 0.25)])
    assert run.curve("test/loss") == [(10, 0.75)]


def test_rows_that_are_read_together_tell_no_speed(run: WatchedRun) -> None:
    write(run, "hparams.yaml", "{}\n")
    table = write(run, "metrics.csv", "epoch,step,train_loss\n0,0,0.9\n0,1,0.8\n")
    run.look(final=True)
    with table.open("a") as stream:
        stream.write("0,2,0.7\n0,3,0.6\n")
    run.look(final=True)
    assert [line["step_time_s"] for line in run.lines() if "step_time_s" in line] == [0.5]  # 2 steps in the 1 s between


@pytest.mark.parametrize("name", ["last.ckpt", "epoch=1-step=40-v1.ckpt", "epoch=01-val_loss=0.25.ckpt"])
def test_its_checkpoints_say_their_step_whatever_they_are_called(run: WatchedRun, name: str) -> None:
    write(run, name, CHECKPOINT, f"{FOLDER}/checkpoints")
    assert find_step(str(run.work), f"{FOLDER}/checkpoints/{name}") == 40


def test_the_folder_of_a_sharded_model_says_its_step_in_its_metadata(run: WatchedRun) -> None:
    write(run, "meta.pt", CHECKPOINT, f"{FOLDER}/checkpoints/last.ckpt")
    assert find_step(str(run.work), f"{FOLDER}/checkpoints/last.ckpt") == 40


@pytest.mark.parametrize(
    ("path", "step"),
    [
        ("out/checkpoint-50", 50),
        ("out/epoch=1-step=40-v1.ckpt", 40),
        ("out/epoch_3_step_200_loss_0.5.pt", 200),
        ("out/model-global_step100-bs16.pt", 100),
        ("out/step-3/rank-0.pt", 0),
        ("out/checkpoint-7/weights.pt", 7),
        ("stepped-2/checkpoint-7", 7),
        ("lightning_logs/version_3/checkpoints/last.ckpt", None),
        ("version_2", 2),
        ("out/last.pt", None),
    ],
)
def test_a_name_says_its_step(path: str, step: int | None) -> None:
    assert named_step(path) == step


def test_large_steps_are_read_as_pickle_writes_them(run: WatchedRun) -> None:
    for step in (255, 256, 65_535, 65_536, (1 << 31) - 1):
        code = b"K" if step < 1 << 8 else b"M" if step < 1 << 16 else b"J"
        code += struct.pack({b"K": "<B", b"M": "<H", b"J": "<i"}[code], step)
        write(run, "last.ckpt", CHECKPOINT.replace(b"K\x28X\x19", code + b"X\x19"))
        assert find_step(str(run.work), f"{FOLDER}/last.ckpt") == step


def test_a_lie_at_the_beginning_of_a_checkpoint_costs_its_step_alone(run: WatchedRun) -> None:
    chance = dice(40)
    lies = [b"", b"PK\x03\x04", CHECKPOINT[:70], CHECKPOINT.replace(b"pytorch-", b"another-"), b"\0" * 5000]
    lies += [
        CHECKPOINT.replace(b"K\x28X\x19", b"J\xff\xff\xff\xffX\x19"),
        CHECKPOINT.replace(b"global_step", b"global_sleep"),
    ]
    lies += [bytes(chance.randrange(256) for _ in range(400)) for _ in range(50)]
    for lie in lies:
        path = write(run, "checkpoint-9", lie, "out")
        assert find_step(str(run.work), "out/checkpoint-9") == 9
        path.unlink()
    assert find_step(str(run.work), "out/gone-8") == 8
    (run.work / "out" / "link-7").symlink_to(RECORDINGS / "lightning-40.ckpt")
    assert find_step(str(run.work), "out/link-7") == 7
