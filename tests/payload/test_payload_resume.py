from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.payload.payload_run import PayloadRun, make_training, wait_until
from tests.payload.test_payload_preemption import ranks_of

pytestmark = pytest.mark.payload


def test_a_run_killed_with_signal_9_ends_as_if_undisturbed(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    run = make_run(undisturbed.training)
    process = run.start()
    wait_until(lambda: (run.path / "outbox" / ".new-20").exists() or process.poll() is not None, "checkpoint 20")
    assert process.poll() is None, process.communicate()[0]
    process.kill()
    process.communicate()
    whole = run.steps_in("outbox", ".new-")[-1]
    shutil.copytree(run.path / "checkpoints" / f"checkpoint-{whole}", run.path / "checkpoints" / "checkpoint-55")
    (run.path / "metrics.jsonl").open("a").write('{"kind": "train", "st')

    run.attempt = 2
    ended = run.finish()
    assert ended.code == 0, ended.output
    assert "checkpoint-55 is skipped: trainer_state.json is missing or unfinished" in ended.output
    assert f"resuming from checkpoint-{whole}" in ended.output
    expected, summary = undisturbed.summary, _last_summary(run)
    for name in ("loss_first", "loss_last", "eval_loss_before", "eval_loss_after", "train_tokens"):
        assert summary[name] == expected[name], name
    assert _adapter(run) == _adapter(undisturbed)
    assert run.steps_in("checkpoints", "checkpoint-") == [50, 60]
    assert run.steps_in("checkpoints", "skipped-by-attempt-2-checkpoint-") == [55]
    assert run.steps_in("outbox", ".new-") == [10, 20, 30, 40, 50, 60]


def test_a_run_that_is_started_again_after_its_end_trains_no_further(undisturbed: PayloadRun, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.path, tmp_path / "run")
    run = PayloadRun(tmp_path / "run", undisturbed.python, undisturbed.training, attempt=2)
    ended = run.finish()
    assert ended.code == 0, ended.output
    assert [line["step"] for line in run.lines("train") if line["attempt"] == 2] == []
    assert run.summary["eval_loss_after"] == pytest.approx(undisturbed.summary["eval_loss_after"], rel=1e-6)
    assert run.summary["loss_last"] == undisturbed.summary["loss_last"]
    assert run.heartbeat(0)["phase"] == "ended"


@pytest.fixture
def at_50(undisturbed: PayloadRun, tmp_path: Path) -> PayloadRun:
    """A run that has its checkpoint 50 left, ten steps before its end."""
    shutil.copytree(undisturbed.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-60")
    return PayloadRun(tmp_path / "run", undisturbed.python, copy.deepcopy(undisturbed.training), attempt=2)


def test_a_resume_under_other_settings_names_each_and_goes_on_only_when_told(at_50: PayloadRun) -> None:
    run = at_50
    run.training["train"] |= {"learning_rate": 0.05, "lr_scheduler": "constant", "max_length": 64, "seed": 6}
    run.training["batch"] = {"global": 8, "micro": 2, "accumulation": 4, "processes": 1}
    run.training["data"]["train"][0]["weight"] = 2.0
    run.write_spec()
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "resume_mismatch"
    for change in (
        "`train.learning_rate` was 0.005 and is 0.05",
        '`train.lr_scheduler` was "cosine" and is "constant"',
        "`train.max_length` was 256 and is 64",
        "`train.seed` was 5 and is 6",
        "`batch.micro` was 4 and is 2",
        "`batch.accumulation` was 2 and is 4",
        "`data.train` was ",
        "× 1 and is ",
        "resume.accept_changes: true",
    ):
        assert change in run.failure["message"]
    assert "batch.global" not in run.failure["message"]

    run.training["resume"] = {"accept_changes": True}
    run.attempt = 3
    run.write_spec()
    ended = run.finish()
    assert ended.code == 0, ended.output
    assert "finding: checkpoint-50: `train.learning_rate` was 0.005 and is 0.05; accepted" in ended.output
    # The Trainer alone would go on with what scheduler.pt and optimizer.pt hold.
    assert [line["learning_rate"] for line in run.lines("train") if line["attempt"] == 3] == [0.05, 0.05]


def test_an_optimizer_that_is_missing_is_said_and_needs_permission(at_50: PayloadRun) -> None:
    (at_50.path / "checkpoints" / "checkpoint-50" / "optimizer.pt").unlink()
    ended = at_50.finish()
    assert ended.code == 2, ended.output
    assert at_50.failure["reason"] == "resume_mismatch"
    assert "checkpoint-50: optimizer.pt is missing or cut short, so that state starts anew" in at_50.failure["message"]

    at_50.training["resume"] = {"accept_changes": True}
    at_50.attempt = 3
    at_50.write_spec()
    ended = at_50.finish()
    assert ended.code == 0, ended.output
    rates = {line["step"]: line["learning_rate"] for line in at_50.lines("train") if line["attempt"] == 3}
    before = {line["step"]: line["learning_rate"] for line in at_50.lines("train") if line["attempt"] == 1}
    assert rates == pytest.approx({step: before[step] for step in (55, 60)})


def test_another_number_of_ranks_is_a_change_and_leaves_random_states_behind(at_50: PayloadRun) -> None:
    run = at_50
    run.training["batch"] = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    run.training["resume"] = {"accept_changes": True}
    run = PayloadRun(run.path, run.python, run.training, attempt=2)
    run.write_spec()
    run.write_accelerate()
    ended = run.finish(launcher=True)
    assert ended.code == 0, ended.output
    assert "finding: checkpoint-50: `batch.processes` was 1 and is 2; accepted" in ended.output
    assert "checkpoint-50 has no rng_state_0.pth, rng_state_1.pth: these ranks draw anew" in ended.output
    assert run.steps_in("checkpoints", "checkpoint-") == [50, 60]


def make_ranked(chat_files: tuple[Path, Path], *, grouped: bool = False) -> dict[str, Any]:
    """Two ranks for 20 steps, of which eight are an epoch."""
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    return make_training(chat_files[0], batch=batch, train={"max_steps": 20, "group_by_length": grouped})


@pytest.fixture(scope="module")
def two_ranks(
    payload_python: str, chat_files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> PayloadRun:
    run = PayloadRun(tmp_path_factory.mktemp("two") / "run", payload_python, make_ranked(chat_files)).prepare()
    ended = run.finish(launcher=True)
    assert ended.code == 0, ended.output
    return run


def check_equal(run: PayloadRun, straight: PayloadRun) -> None:
    """Compare the ends of two trainings to the last bit: weights, optimizer, schedule."""
    for name in ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_1.pth"):
        ours, theirs = (r.path / "checkpoints" / "checkpoint-20" / name for r in (run, straight))
        assert ours.read_bytes() == theirs.read_bytes(), name


@pytest.mark.parametrize("grouped", [False, True])
def test_two_ranks_resumed_within_a_later_epoch_end_as_those_that_ran_straight_through_to_the_bit(
    two_ranks: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path, grouped: bool
) -> None:
    straight = two_ranks
    if grouped:
        straight = make_run(make_ranked(chat_files, grouped=True), "straight")
        ended = straight.finish(launcher=True)
        assert ended.code == 0, ended.output
    shutil.copytree(straight.path, tmp_path / "resumed")
    run = PayloadRun(tmp_path / "resumed", straight.python, straight.training, attempt=2)
    shutil.rmtree(run.path / "checkpoints" / "checkpoint-20")
    run.write_accelerate()
    ended = run.finish(launcher=True)
    assert ended.code == 0, ended.output
    assert "resuming from checkpoint-10" in ended.output
    losses = [{line["step"]: line["loss"] for line in run.lines("train") if line["attempt"] == n} for n in (1, 2)]
    assert losses[1] == {step: loss for step, loss in losses[0].items() if step > 10}
    check_equal(run, straight)


def test_a_run_of_which_one_rank_was_killed_with_signal_9_ends_as_if_undisturbed(
    two_ranks: PayloadRun, make_run: Any
) -> None:
    run = make_run(two_ranks.training, "killed")
    process = run.start(launcher=True)
    wait_until(lambda: (run.path / "outbox" / ".new-10").exists() or process.poll() is not None, "checkpoint 10")
    assert process.poll() is None, process.communicate()[0]
    os.kill(ranks_of(run)[1], signal.SIGKILL)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 1, output
    assert ranks_of(run) == {}
    assert max(run.losses()) < 20

    run.attempt = 2
    ended = run.finish(launcher=True)
    assert ended.code == 0, ended.output
    assert "resuming from checkpoint-10" in ended.output
    assert run.losses() == two_ranks.losses()
    check_equal(run, two_ranks)


def _adapter(run: PayloadRun) -> bytes:
    return (run.path / "checkpoints" / "checkpoint-60" / "adapter_model.safetensors").read_bytes()


def _last_summary(run: PayloadRun) -> dict[str, Any]:
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    summary: dict[str, Any] = json.loads(lines[-1])
    assert summary["kind"] == "summary"
    return summary
