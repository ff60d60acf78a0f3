"""A signal on any rank: one complete checkpoint, `preempted`, an exit code of its own, and a resume as if nothing was."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import INTERRUPTED, read_failure, write_failure

from tests.payload.interpreter import Ended, wait_for_end
from tests.payload.payload_run import Gate, PayloadRun, make_training

pytestmark = pytest.mark.payload


def ranks_of(run: PayloadRun) -> dict[int, int]:
    """Find the processes of a run, forked or not: rank → pid."""
    found = {
        int(request["env"].get("RANK", 0)): pid
        for pid, request in run.python.started().items()
        if "armada_train" in request["args"] and str(run.spec_file) in request["args"]
    }
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = dict(item.split(b"=", 1) for item in (folder / "environ").read_bytes().split(b"\0") if item)
        except (OSError, ValueError):
            continue
        if folder.name.isdigit() and b"armada_train" in words and str(run.spec_file).encode() in words:
            found[int(environment.get(b"RANK", b"0"))] = int(folder.name)
    return found


def check_preempted(run: PayloadRun, ended: Ended, name: str) -> int:
    assert ended.code == INTERRUPTED, ended.output
    assert run.failure["reason"] == "preempted"
    step = max(run.losses())
    assert (
        run.failure["message"]
        == f"{name} requested a stop: checkpoint {step} is complete, and training resumes from it"
    )
    assert run.steps_in("checkpoints", "checkpoint-")[-1] == step
    assert (run.path / "outbox" / f".new-{step}" / ".announce.json").exists()
    assert run.lines("summary") == []
    return step


@pytest.mark.takes_long("two trainings: preempted, resumed")
def test_a_signal_to_one_process_saves_and_the_resume_ends_as_if_undisturbed(
    undisturbed: PayloadRun, make_run: Any
) -> None:
    train = {**undisturbed.training["train"], "log_every_steps": 1, "eval_every_steps": 6}
    run = make_run({**undisturbed.training, "train": train, "evaluation": Gate.SETTINGS})
    gate = Gate(run)
    process = run.start(launcher=True)
    gate.wait(process, 6)
    process.send_signal(signal.SIGTERM)  # to what the supervisor started: for one process that is the rank itself
    gate.open()
    step = check_preempted(run, wait_for_end(process), "SIGTERM")
    gate.remove()

    run.attempt = 2
    ended = run.train(launcher=True)
    assert f"resuming from checkpoint-{step}" in ended.output
    assert run.losses()[12] == pytest.approx(undisturbed.losses()[12] * 2 - run.losses()[11])
    for name in ("adapter_model.safetensors", "scheduler.pt"):
        ours, theirs = (folder / "checkpoints" / "checkpoint-12" / name for folder in (run.path, undisturbed.path))
        assert ours.read_bytes() == theirs.read_bytes(), name


# The launcher itself gets the signal in tests/fleet/test_batch.py, too, where a batch system preempts a training.
@pytest.mark.parametrize(
    ("number", "rank"),
    [(signal.SIGUSR1, 1), (signal.SIGTERM, 0), pytest.param(signal.SIGTERM, None, marks=pytest.mark.long)],
)
def test_a_signal_to_any_single_rank_or_the_launcher_saves_once_on_all(
    chat_files: tuple[Path, Path], make_run: Any, number: signal.Signals, rank: int | None
) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    train, checkpoint = {"max_steps": 1_000_000}, {"every_steps": 1_000_000}  # it never ends by itself
    run = make_run(make_training(chat_files[0], batch=batch, train=train, checkpoint=checkpoint))
    process = run.start(launcher=True, fresh=rank is None)
    run.wait_for_step(process, 3)
    if rank is None:
        process.send_signal(number)
    else:
        os.kill(ranks_of(run)[rank], number)
    step = check_preempted(run, wait_for_end(process), number.name)
    assert run.steps_in("outbox", ".new-") == [step]
    checkpoint_folder = run.path / "checkpoints" / f"checkpoint-{step}"
    assert {"rng_state_0.pth", "rng_state_1.pth", "optimizer.pt", "armada.json"} <= {
        f.name for f in checkpoint_folder.iterdir()
    }
    assert ranks_of(run) == {}


# Its last call returns when the signal that the launcher got has been passed on.
LAST_CALL = """
import os, pathlib, signal, threading

def measure(completions, step, **_):
    if step == 3:
        told, before = threading.Event(), signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *given: (told.set(), before(*given)))
        pathlib.Path("waits").touch()
        told.wait()
    return 1.0
"""


def test_a_signal_after_the_last_step_of_two_ranks_leaves_a_success(
    chat_files: tuple[Path, Path], make_run: Any
) -> None:
    training = make_training(
        *chat_files,
        batch={"global": 8, "micro": 4, "accumulation": 1, "processes": 2},
        train={"max_steps": 3, "eval_every_steps": 3},
        evaluation={"function": "last_call:measure", "prompts": 1, "sample_tokens": 1},
    )
    run = make_run(training)
    (run.path / "work" / "last_call.py").write_text(LAST_CALL)
    process = run.start(launcher=True)
    run.wait_for(process, (run.path / "work" / "waits").exists, "the last evaluation")
    process.terminate()
    ended = wait_for_end(process)
    assert ended.code == 0, ended.output
    assert run.steps_in("outbox", ".new-") == [3]
    assert run.summary["best_step"] == 3
    assert not (run.path / "attempts" / "1" / "failure.json").exists()


def test_a_signal_before_the_first_step_ends_at_once_and_is_no_success(make_run: Any) -> None:
    run = make_run(make_training(Path("/unused"), data={"train": [{"hook": "slow:sample"}]}))
    # Should the signal come when everything is imported: without it there is no row, and so no step.
    (run.path / "work" / "slow.py").write_text("import time\n\ndef sample(index, rng):\n    time.sleep(3600)\n")
    process = run.start(fresh=True)  # most of the time before a first step is spent on imports
    run.wait_for(process, (run.path / "heartbeat-0.json").exists, "the first heartbeat")
    process.send_signal(signal.SIGTERM)
    ended = wait_for_end(process)
    assert ended.code == INTERRUPTED, ended.output
    assert run.failure == {"reason": "preempted", "message": "SIGTERM requested a stop: nothing was trained yet"}


INTERRUPTED_MODULE = """
import os, signal

class Attribute:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGTERM)

class Hook:  # Python 3.11 raises a RuntimeError here whatever __set_name__ raised, as numpy's finfo shows
    attribute = Attribute()

def sample(index, rng):
    return {"text": "never reached"}
"""


def test_a_signal_whose_exception_an_import_replaces_is_an_interruption_all_the_same(make_run: Any) -> None:
    run = make_run(make_training(Path("/unused"), data={"train": [{"hook": "puzzles:sample"}]}))
    (run.path / "work" / "puzzles.py").write_text(INTERRUPTED_MODULE)
    ended = run.finish()
    assert ended.code == INTERRUPTED, ended.output
    assert run.failure == {"reason": "preempted", "message": "SIGTERM requested a stop: nothing was trained yet"}


def test_minutes_save_as_well_as_steps(chat_files: tuple[Path, Path], make_run: Any) -> None:
    checkpoint = {"every_steps": None, "every_minutes": 1e-6, "keep_last": 9}
    run = make_run(make_training(chat_files[0], train={"max_steps": 3}, checkpoint=checkpoint))
    run.train()
    assert run.steps_in("outbox", ".new-") == [1, 2, 3]


def test_the_cause_of_an_end_outlives_what_it_does_to_the_other_ranks(tmp_path: Path) -> None:
    write_failure(tmp_path, "preempted", "the launcher's SIGTERM")
    write_failure(tmp_path, "oom", "the cause")
    write_failure(tmp_path, "preempted", "another")
    assert read_failure(tmp_path) == "oom"
    assert json.loads((tmp_path / "failure.json").read_text())["message"] == "the cause"
    assert read_failure(tmp_path / "nowhere") is None
