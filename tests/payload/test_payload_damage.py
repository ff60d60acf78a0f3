"""Every checkpoint of a run is damaged: that is refused with its remedy, and starts over only once it is permitted."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Armada
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, chats, write_jsonl
from tests.payload.prepared import output, prepare_environment, run_folder
from tests.waiting import eventually

pytestmark = pytest.mark.payload

WEIGHTS = "adapter_model.safetensors"


def cut(checkpoint: Path) -> None:
    path = checkpoint / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])


def spoil(path: Path) -> None:
    """Change one byte in the middle: no header, no index and no size tells of it."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def spoil_weights(checkpoint: Path) -> None:
    spoil(checkpoint / WEIGHTS)


def blank(checkpoint: Path) -> None:
    """Leave zeros, as a file system may after a power loss."""
    path = checkpoint / "trainer_state.json"
    path.write_bytes(bytes(path.stat().st_size))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, "its weights are missing or truncated"),
    "wrong bytes": (spoil_weights, f"{WEIGHTS} is not the file that was saved"),
    "zeros": (blank, "trainer_state.json is missing or unfinished"),
    "a file missing": (lambda folder: (folder / WEIGHTS).unlink(), "its weights are missing or truncated"),
    "gone": (shutil.rmtree, "none is there any more"),
}


@pytest.fixture
def ended(undisturbed: PayloadRun, tmp_path: Path) -> PayloadRun:
    """A run with the checkpoints 8 and 12, of its own files."""
    shutil.copytree(undisturbed.path, tmp_path / "run")
    return PayloadRun(tmp_path / "run", undisturbed.python, copy.deepcopy(undisturbed.training), attempt=2)


def harm(run: PayloadRun, how: str) -> str:
    damage, said = DAMAGE[how]
    for checkpoint in sorted((run.path / "checkpoints").glob("checkpoint-*")):
        damage(checkpoint)
    return said


def files_in(run: PayloadRun) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (run.path / "checkpoints").rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_run_whose_checkpoints_are_all_damaged_is_refused_and_left_as_it_is(ended: PayloadRun, how: str) -> None:
    said = harm(ended, how)
    before, lines = files_in(ended), ended.lines("train")
    for attempt in (2, 3):  # a scheduler that starts it again without a person changes nothing
        ended.attempt = attempt
        assert ended.finish().code == 2
        assert ended.failure["reason"] == "resume_mismatch"
        message = ended.failure["message"]
        assert said in message
        assert "would lose the training up to step 12" in message
        assert "`start_from: run`" in message
        assert "`armada resume run --restart-if-damaged`" in message
    assert files_in(ended) == before
    assert ended.lines("train") == lines


def test_it_starts_over_when_permitted_and_a_permit_counts_once(ended: PayloadRun, undisturbed: PayloadRun) -> None:
    harm(ended, "wrong bytes")
    ended.environment["ARMADA_RESTART_IF_DAMAGED"] = "2"
    done = ended.train()
    assert "every checkpoint is damaged, so training starts from the beginning, as permitted; step 12 is lost" in (
        done.output
    )
    assert ended.steps_in("checkpoints", "checkpoint-") == [8, 12]
    weights = [each.path / "checkpoints" / "checkpoint-12" / WEIGHTS for each in (ended, undisturbed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()

    harm(ended, "wrong bytes")
    ended.attempt = 3  # of the same submission: its scheduler put it back
    assert ended.finish().code == 2
    assert ended.failure["reason"] == "resume_mismatch"


def test_a_permit_loses_no_checkpoint_that_is_whole(ended: PayloadRun) -> None:
    spoil_weights(ended.path / "checkpoints" / "checkpoint-12")
    ended.environment["ARMADA_RESTART_IF_DAMAGED"] = "2"
    done = ended.train()
    assert f"checkpoint-12 is skipped: {WEIGHTS} is not the file that was saved" in done.output
    assert "resuming from checkpoint-8" in done.output


def test_records_that_a_power_cut_left_half_do_not_end_a_resumed_training(
    ended: PayloadRun, undisturbed: PayloadRun
) -> None:
    state = ended.path / "checkpoints" / "checkpoint-12" / "trainer_state.json"
    state.write_text(state.read_text().replace('"max_steps": 12', '"max_steps": null'))
    lines = ended.path / "metrics.jsonl"
    lines.write_bytes(
        b'{"kind": "train", "step": 2}\n' + b"\0" * 4096 + b"\n" + b"[" * 5000 + b"\n" + lines.read_bytes()
    )
    (ended.path / "heartbeat-0.json").write_bytes(b"\0" * 200)
    done = ended.train()
    assert (
        "checkpoint-12 is skipped: trainer_state.json is damaged: `max_steps` is None, not a whole number"
        in done.output
    )
    assert "resuming from checkpoint-8" in done.output
    assert "3 lines of earlier attempts cannot be read and are left out of the summary: metrics.jsonl:1: `loss`" in (
        done.output
    )
    last = json.loads(lines.read_bytes().splitlines()[-1])
    assert [last[name] for name in ("kind", "loss_first", "eval_loss_before", "train_tokens")] == [
        undisturbed.summary[name] for name in ("kind", "loss_first", "eval_loss_before", "train_tokens")
    ]


def test_a_checkpoint_that_is_put_back_from_where_it_was_brought_is_resumed(
    ended: PayloadRun, undisturbed: PayloadRun
) -> None:
    """The outbox has what home has: every file of the checkpoint, and some more."""
    harm(ended, "gone")
    shutil.copytree(ended.path / "outbox" / ".new-8", ended.path / "checkpoints" / "checkpoint-8")
    assert "resuming from checkpoint-8" in ended.train().output
    weights = [each.path / "checkpoints" / "checkpoint-12" / WEIGHTS for each in (ended, undisturbed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.parametrize("value", ["", "yes", "../2"])
def test_a_permit_that_names_no_submission_permits_nothing(ended: PayloadRun, value: str) -> None:
    harm(ended, "cut")
    ended.environment["ARMADA_RESTART_IF_DAMAGED"] = value
    assert ended.finish().code == 2


def test_a_run_that_never_had_a_whole_checkpoint_starts_from_the_beginning(ended: PayloadRun) -> None:
    harm(ended, "zeros")
    for path in (ended.path / "checkpoints").glob(".announced-*"):
        path.unlink()  # as if each was killed while it was written
    done = ended.train()
    assert "no checkpoint is complete, so training starts from the beginning" in done.output
    assert ended.steps_in("checkpoints", "checkpoint-") == [8, 12]


def test_a_checkpoint_whose_record_is_empty_is_used_as_it_is(ended: PayloadRun) -> None:
    """An earlier release recorded no files; a power loss may leave the same."""
    for path in (ended.path / "checkpoints").glob(".announced-*"):
        path.write_bytes(b"")
    shutil.rmtree(ended.path / "checkpoints" / "checkpoint-12")
    assert "resuming from checkpoint-8" in ended.train().output


@pytest.mark.parametrize("name", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_damaged_state_is_never_loaded(ended: PayloadRun, name: str) -> None:
    shutil.rmtree(ended.path / "checkpoints" / "checkpoint-12")
    spoil(ended.path / "checkpoints" / "checkpoint-8" / name)
    assert ended.finish().code == 2
    assert f"checkpoint-8: {name} is missing or damaged, so that state starts fresh" in ended.failure["message"]

    ended.training["resume"] = {"accept_changes": True}
    ended.attempt = 3
    ended.write_spec()
    ended.train()
    assert (ended.path / "checkpoints" / "checkpoint-8" / f"damaged-{name}").is_file()
    assert [line["step"] for line in ended.lines("train") if line["attempt"] == 3] == [10, 12]


EXPERIMENT = """\
task: sft
name: lost
model: {tiny: {hidden_size: 32, layers: 2, heads: 2, kv_heads: 1, intermediate_size: 64, vocab_size: 320}}
data: {train: [{path: train.jsonl}]}
train: {global_batch_size: 4, max_length: 256, max_steps: 1000000}
checkpoint: {every_steps: 4, keep_last: 1}
lora: {}
"""


@pytest.mark.takes_long("trainings import torch, which no server has forked for them")
def test_armada_resume_restarts_and_accepts_only_when_told(
    armada: Armada, payload_python: Interpreter, tmp_path: Path
) -> None:
    prepare_environment(armada, payload_python.path)
    write_jsonl(tmp_path / "train.jsonl", chats(32))
    (tmp_path / "lost.yaml").write_text(EXPERIMENT)
    run_id = armada.json("launch", "--host", "local", str(tmp_path / "lost.yaml"))["run_id"]
    folder = run_folder(armada, run_id)

    def stop_with_a_checkpoint() -> None:
        eventually(lambda: list(folder.glob("checkpoints/.announced-*")), "a checkpoint")
        assert armada.run("stop", run_id).returncode == 0
        armada.await_end(run_id)

    stop_with_a_checkpoint()
    for checkpoint in folder.glob("checkpoints/checkpoint-*"):
        spoil_weights(checkpoint)
    refused = armada.json("resume", run_id, "--follow", rc=6)
    assert (refused["state"], refused["reason"]) == ("failed", "resume_mismatch")
    assert f"`armada resume {run_id} --restart-if-damaged`" in refused["message"]

    armada.json("resume", run_id, "--restart-if-damaged")
    said = "every checkpoint is damaged, so training starts from the beginning, as permitted"
    eventually(lambda: said in output(armada, run_id), "its restart")
    stop_with_a_checkpoint()
    for checkpoint in folder.glob("checkpoints/checkpoint-*"):
        spoil(checkpoint / "optimizer.pt")
    armada.json("resume", run_id, "--accept-changes")
    eventually(lambda: "resuming from checkpoint-" in output(armada, run_id), "its new checkpoint")
    assert "optimizer.pt is missing or damaged, so that state starts fresh; accepted" in output(armada, run_id)
    assert armada.run("stop", run_id).returncode == 0
    armada.await_end(run_id)


def test_other_runs_have_nothing_to_permit(armada: Armada) -> None:
    run_id = armada.json("launch", "--host", "local", armada.command("false"), "--follow", rc=6)["run_id"]
    for permit in ("--restart-if-damaged", "--accept-changes"):
        refused = armada.run("resume", run_id, permit)
        assert refused.returncode == 2
        assert "is no training of the bundled trainer" in refused.stderr
    assert armada.json("ps")[0]["submission"] == 1
