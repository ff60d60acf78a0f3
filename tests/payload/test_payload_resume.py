from __future__ import annotations

import copy
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.payload.interpreter import Interpreter, wait_for_end
from tests.payload.payload_run import Gate, PayloadRun, chats, make_training, write_jsonl
from tests.payload.test_payload_preemption import ranks_of

pytestmark = pytest.mark.payload


def test_a_run_killed_with_signal_9_ends_as_if_undisturbed(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any
) -> None:
    train = {**undisturbed.training["train"], "eval_every_steps": 8}
    run = make_run({**undisturbed.training, "train": train, "evaluation": Gate.SETTINGS})
    gate = Gate(run)
    process = run.start()
    gate.wait(process, 8)  # of which the checkpoint is written after the evaluation
    process.kill()
    wait_for_end(process)
    gate.remove()
    assert run.steps_in("outbox", ".new-") == [4]
    shutil.copytree(run.path / "checkpoints" / "checkpoint-4", run.path / "checkpoints" / "checkpoint-9")
    (run.path / "metrics.jsonl").open("a").write('{"kind": "train", "st')

    run.attempt = 2
    ended = run.train()
    assert "checkpoint-9 is skipped: trainer_state.json is missing or unfinished" in ended.output
    assert "resuming from checkpoint-4" in ended.output
    expected, summary = undisturbed.summary, _last_summary(run)
    for name in ("loss_first", "loss_last", "eval_loss_before", "eval_loss_after", "train_tokens"):
        assert summary[name] == expected[name], name
    adapters = [r.path / "checkpoints" / "checkpoint-12" / "adapter_model.safetensors" for r in (run, undisturbed)]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()
    assert run.steps_in("checkpoints", "checkpoint-") == [8, 12]
    assert run.steps_in("checkpoints", "skipped-by-attempt-2-checkpoint-") == []
    assert run.steps_in("outbox", ".new-") == [4, 8, 12]


def test_a_run_that_is_started_again_after_its_end_trains_no_further(undisturbed: PayloadRun, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.path, tmp_path / "run")
    run = PayloadRun(tmp_path / "run", undisturbed.python, undisturbed.training, attempt=2)
    run.train()
    assert [line["step"] for line in run.lines("train") if line["attempt"] == 2] == []
    assert run.summary["eval_loss_after"] == pytest.approx(undisturbed.summary["eval_loss_after"], rel=1e-6)
    assert run.summary["loss_last"] == undisturbed.summary["loss_last"]
    assert run.heartbeat(0)["phase"] == "ended"


@pytest.fixture
def at_8(undisturbed: PayloadRun, tmp_path: Path) -> PayloadRun:
    """A run that has its checkpoint 8 left, four steps before its end."""
    shutil.copytree(undisturbed.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-12")
    return PayloadRun(tmp_path / "run", undisturbed.python, copy.deepcopy(undisturbed.training), attempt=2)


def test_a_resume_under_other_settings_names_each_and_goes_on_only_when_told(at_8: PayloadRun) -> None:
    run = at_8
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
        "`armada resume run --accept-changes`",
        "resume.accept_changes: true",
    ):
        assert change in run.failure["message"]
    assert "batch.global" not in run.failure["message"]

    run.training["resume"] = {"accept_changes": True}
    run.attempt = 3
    run.write_spec()
    ended = run.train()
    assert "finding: checkpoint-8: `train.learning_rate` was 0.005 and is 0.05; accepted" in ended.output
    # The Trainer alone would go on with what scheduler.pt and optimizer.pt hold.
    assert [line["learning_rate"] for line in run.lines("train") if line["attempt"] == 3] == [0.05, 0.05]


def test_a_resume_accepts_changes_for_the_submission_that_was_told_so(at_8: PayloadRun) -> None:
    at_8.training["train"] |= {"learning_rate": 0.05, "lr_scheduler": "constant"}
    at_8.write_spec()
    at_8.environment["ARMADA_ACCEPT_CHANGES"] = "yes"  # no submission
    assert at_8.finish().code == 2
    at_8.environment["ARMADA_ACCEPT_CHANGES"] = "3"
    at_8.attempt = 3
    ended = at_8.train()
    assert "finding: checkpoint-8: `train.learning_rate` was 0.005 and is 0.05; accepted" in ended.output
    assert [line["learning_rate"] for line in at_8.lines("train") if line["attempt"] == 3] == [0.05, 0.05]


def test_an_optimizer_that_is_missing_is_said_and_needs_permission(at_8: PayloadRun) -> None:
    (at_8.path / "checkpoints" / "checkpoint-8" / "optimizer.pt").unlink()
    ended = at_8.finish()
    assert ended.code == 2, ended.output
    assert at_8.failure["reason"] == "resume_mismatch"
    assert "checkpoint-8: optimizer.pt is missing or damaged, so that state starts fresh" in at_8.failure["message"]

    at_8.training["resume"] = {"accept_changes": True}
    at_8.attempt = 3
    at_8.write_spec()
    at_8.train()
    rates = {line["step"]: line["learning_rate"] for line in at_8.lines("train") if line["attempt"] == 3}
    before = {line["step"]: line["learning_rate"] for line in at_8.lines("train") if line["attempt"] == 1}
    assert rates == pytest.approx({step: before[step] for step in (10, 12)})


def test_another_number_of_ranks_is_a_change_and_leaves_random_states_behind(at_8: PayloadRun) -> None:
    run = at_8
    run.training["batch"] = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    run.training["resume"] = {"accept_changes": True}
    run = PayloadRun(run.path, run.python, run.training, attempt=2)
    run.write_spec()
    run.write_accelerate()
    ended = run.train(launcher=True)
    assert "finding: checkpoint-8: `batch.processes` was 1 and is 2; accepted" in ended.output
    assert (
        "checkpoint-8 has no rng_state_0.pth, rng_state_1.pth: these ranks start new random sequences" in ended.output
    )
    assert run.steps_in("checkpoints", "checkpoint-") == [8, 12]


def make_ranked(folder: Path, *, grouped: bool = False) -> dict[str, Any]:
    """Two ranks for 8 steps, of which three are an epoch; its last step takes three of the rows a second time."""
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    train, checkpoint = {"max_steps": 8, "group_by_length": grouped, "eval_every_steps": 6}, {"every_steps": 4}
    rows = write_jsonl(folder / "rows.jsonl", chats(21))
    evaluation = write_jsonl(folder / "eval.jsonl", chats(2))
    training = make_training(rows, evaluation, batch=batch, train=train, checkpoint=checkpoint)
    return training | {"evaluation": Gate.SETTINGS}


@pytest.fixture(scope="module")
def two_ranks(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> PayloadRun:
    folder = tmp_path_factory.mktemp("two")
    run = PayloadRun(folder / "run", payload_python, make_ranked(folder)).prepare()
    run.train(launcher=True)
    said = "21 rows are not a multiple of the 8 that 2 ranks take at once: in the last step of each epoch 3 rows come a second time"
    assert any(finding.startswith(said) for finding in run.summary["findings"])
    return run


def check_equal(run: PayloadRun, straight: PayloadRun) -> None:
    """Compare the ends of two trainings to the last bit: weights, optimizer, schedule."""
    for name in ("adapter_model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state_1.pth"):
        ours, theirs = (r.path / "checkpoints" / "checkpoint-8" / name for r in (run, straight))
        assert ours.read_bytes() == theirs.read_bytes(), name


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.takes_long("two trainings of two ranks")
def test_two_ranks_resumed_within_a_later_epoch_end_as_those_that_ran_straight_through_to_the_bit(
    two_ranks: PayloadRun, make_run: Any, tmp_path: Path, grouped: bool
) -> None:
    straight = two_ranks
    if grouped:
        straight = make_run(make_ranked(tmp_path, grouped=True), "straight")
        straight.train(launcher=True)
    shutil.copytree(straight.path, tmp_path / "resumed")
    run = PayloadRun(tmp_path / "resumed", straight.python, straight.training, attempt=2)
    shutil.rmtree(run.path / "checkpoints" / "checkpoint-8")
    run.write_accelerate()
    ended = run.train(launcher=True)
    assert "resuming from checkpoint-4" in ended.output
    losses = [{line["step"]: line["loss"] for line in run.lines("train") if line["attempt"] == n} for n in (1, 2)]
    assert losses[1] == {step: loss for step, loss in losses[0].items() if step > 4}
    check_equal(run, straight)


@pytest.mark.takes_long("three trainings of two ranks")
def test_two_ranks_agree_that_every_checkpoint_is_damaged_and_on_the_restart(
    two_ranks: PayloadRun, tmp_path: Path
) -> None:
    shutil.copytree(two_ranks.path, tmp_path / "run")
    run = PayloadRun(tmp_path / "run", two_ranks.python, two_ranks.training, attempt=2)
    run.write_accelerate()
    for checkpoint in (run.path / "checkpoints").glob("checkpoint-*"):
        (checkpoint / "adapter_model.safetensors").unlink()
    assert run.finish(launcher=True).code != 0
    written = sorted((run.path / "attempts" / "2").glob("failure*.json"))
    # The launcher ends the other rank when one has left: by then that one has written its own failure, or none, or that
    # it was told to end.
    assert len(written) >= 2
    assert (run.path / "attempts" / "2" / "failure.json") in written
    reasons = {failure: json.loads(failure.read_text())["reason"] for failure in written}
    told = [failure for failure, reason in reasons.items() if reason != "preempted" or failure.name == "failure.json"]
    assert len(told) >= 2
    for failure in told:
        said = json.loads(failure.read_text())
        assert said["reason"] == "resume_mismatch"
        assert "all checkpoints are damaged" in said["message"]
    run.attempt, run.environment["ARMADA_RESTART_IF_DAMAGED"] = 3, "2"
    run.train(launcher=True)
    check_equal(run, two_ranks)


@pytest.mark.takes_long("the launcher itself, and two ranks that import torch anew; then the resume")
def test_a_run_of_which_one_rank_was_killed_with_signal_9_ends_as_if_undisturbed(
    two_ranks: PayloadRun, make_run: Any
) -> None:
    """The killed attempt is accelerate's own launch in new processes; what it is compared with was forked."""
    run = make_run(two_ranks.training, "killed")
    gate = Gate(run)
    process = run.start(launcher=True, fresh=True)
    gate.wait(process, 6)
    os.kill(ranks_of(run)[1], signal.SIGKILL)
    gate.open()
    ended = wait_for_end(process)
    gate.remove()
    assert ended.code == 1, ended.output
    assert (run.failure["reason"], run.failure["rank"]) == ("signal_SIGKILL", 1)
    assert run.failure["message"].startswith("rank 1 was ended by SIGKILL while ")
    survivor = json.loads((run.path / "attempts/1/failure-0.json").read_text())
    assert survivor["reason"] == "exception"
    assert ranks_of(run) == {}
    assert run.losses() == {step: loss for step, loss in two_ranks.losses().items() if step <= 6}

    run.attempt = 2
    ended = run.train(launcher=True)
    assert "resuming from checkpoint-4" in ended.output
    assert run.losses() == two_ranks.losses()
    check_equal(run, two_ranks)


def _last_summary(run: PayloadRun) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((run.path / "metrics.jsonl").read_text().splitlines()[-1])
    assert summary["kind"] == "summary"
    return summary
