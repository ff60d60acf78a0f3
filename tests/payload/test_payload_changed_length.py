"""A resume whose data became fewer or more, with permission: the training ends where its data end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.payload.conftest import StartedRun
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl

pytestmark = pytest.mark.payload

ENDS = """
import os


def quality(completions, step):
    if step == int(os.environ.get("DIES_AT", "-1")):
        os._exit(9)
    return 1.0
"""


@pytest.fixture
def run(make_run: StartedRun, tmp_path: Path, chat_files: tuple[Path, Path]) -> PayloadRun:
    """Two epochs of 8 steps, each with 8 rows; steps 5, 10, 15 and 16 are saved."""
    train = {"max_steps": None, "epochs": 2, "eval_every_steps": 12}
    asked = {"function": "measure:quality", "prompts": 1, "sample_tokens": 1}
    saved = {"every_steps": 5, "keep_last": 2}
    rows = write_jsonl(tmp_path / "rows.jsonl", chats(64))
    made = make_run(make_training(rows, chat_files[1], train=train, checkpoint=saved, evaluation=asked))
    (made.path / "work" / "measure.py").write_text(ENDS)
    return made


def resume(run: PayloadRun, rows: int) -> str:
    write_jsonl(Path(run.training["data"]["train"][0]["path"]), chats(rows))
    run.training["resume"] = {"accept_changes": True}
    run.write_spec()
    run.attempt = 2
    run.environment = {}
    return run.train().output


def announced(run: PayloadRun) -> dict[int, Any]:
    found = [json.loads(path.read_text()) for path in run.path.glob("outbox/.new-*/.announce.json")]
    return {each["step"]: each["kind"] for each in found}


def test_a_checkpoint_beyond_the_end_of_fewer_rows_is_the_last_one(run: PayloadRun) -> None:
    run.environment = {"DIES_AT": "12"}
    assert run.finish().code == 9
    for folder in (run.path / "outbox").iterdir():
        folder.rename(run.path / folder.name)  # they were hashed
    said = resume(run, 24)
    last = "with what changed, the training has 6 steps: checkpoint-10 is its last, and nothing is trained any more"
    assert last in run.summary["findings"]
    assert f"finding: {last}" in said
    assert announced(run) == {10: "final"}
    assert [line["step"] for line in run.lines("eval")] == [0, 10]
    assert run.summary["eval_loss_after"] is not None


def test_a_training_whose_rows_became_more_continues_to_their_end(run: PayloadRun) -> None:
    run.train()
    resume(run, 72)
    assert [line["step"] for line in run.lines("train")][-2:] == [17, 18]
    assert announced(run)[18] == "final"


STOPS = """
import runpy, sys
from armada_train.training.callbacks import SavingCallback

once = SavingCallback.on_step_end


def on_step_end(self, arguments, state, control, **rest):
    once(self, arguments, state, control, **rest)
    control.should_training_stop = state.global_step == 2


SavingCallback.on_step_end = on_step_end
sys.argv[0] = "armada_train"
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


def test_a_training_that_ends_before_its_last_step_has_not_succeeded(
    make_run: StartedRun, chat_files: tuple[Path, Path], tmp_path: Path
) -> None:
    run = make_run(make_training(chat_files[0], train={"max_steps": 4}))
    (tmp_path / "stops.py").write_text(STOPS)
    ended = run.finish_python(str(tmp_path / "stops.py"), "--spec", str(run.spec_file))
    assert ended.code == 1, ended.output
    assert run.failure["message"].startswith("the training ended after step 2 of 4")
    assert not run.lines("summary")
