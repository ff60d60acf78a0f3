"""Where rows come from: files of four forms, and hooks that make them while training."""

from __future__ import annotations

import gzip
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import INTERRUPTED

from tests.payload.interpreter import Interpreter, wait_for_end
from tests.payload.payload_run import PayloadRun, chats, make_training, read_jsonl, write_jsonl

pytestmark = pytest.mark.payload

HOOK = '''
import json, os, time
from pathlib import Path
import torch.utils.data


def gated(index, rng):
    """Give what `sample` gives; a test that made `gate` holds the training at its 60th row, in step 8."""
    while index == 60 and Path("gate").exists() and Path("../metrics.jsonl").exists():
        Path("reached").touch()
        time.sleep(0.01)
    return sample(index, rng)


def sample(index, rng):
    worker = torch.utils.data.get_worker_info()
    number = int(rng.integers(1000))
    if worker is not None:
        line = json.dumps([index, int(os.environ["RANK"]), worker.id, number]) + "\\n"
        log = os.open("taken.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, line.encode())
        os.close(log)
    return {"prompt": f"{number} plus one is ", "completion": f"{number + 1}"}


def broken(index, rng):
    if index == 9:
        raise ValueError("no puzzle has so many colours")
    return {"text": "fine"}


def long(index, rng):
    return {"text": "word " * (300 if index % 2 and rng.random() < 0.9 else 3)}
'''


def make_hook_run(make_run: Any, function: str, name: str = "run", **changes: Any) -> PayloadRun:
    run: PayloadRun = make_run(
        make_training(Path("/unused"), data={"train": [{"hook": f"puzzles:{function}"}]}, **changes), name
    )
    (run.path / "work" / "puzzles.py").write_text(HOOK)
    return run


@pytest.mark.takes_long("six processes with torch")
def test_two_ranks_with_two_workers_each_take_every_position_exactly_once(make_run: Any) -> None:
    batch = {"global": 8, "micro": 2, "accumulation": 2, "processes": 2}
    run = make_hook_run(make_run, "sample", train={"max_steps": 6}, batch=batch)
    run.training["data"]["workers"] = 2
    run.write_spec()
    run.train(launcher=True)
    taken: Any = read_jsonl(run.path / "work" / "taken.jsonl")
    assert sorted(index for index, *_ in taken) == list(range(48))
    assert Counter((rank, worker) for _, rank, worker, _ in taken) == {(r, w): 12 for r in (0, 1) for w in (0, 1)}
    assert len({number for *_, number in taken}) > 40  # and each row is another
    assert run.summary["findings"] == []


def test_a_resumed_stream_ends_as_the_one_that_ran_straight_through(make_run: Any) -> None:
    options: dict[str, Any] = {"train": {"max_steps": 10}, "checkpoint": {"every_steps": 4}}
    straight = make_hook_run(make_run, "gated", "straight", **options)
    straight.train()
    run = make_hook_run(make_run, "gated", "killed", **options)
    gate = run.path / "work" / "gate"
    gate.touch()
    process = run.start()
    run.wait_for(process, (run.path / "work" / "reached").exists, "the 60th row")
    process.kill()
    wait_for_end(process)
    gate.unlink()
    assert run.steps_in("outbox", ".new-") == [4]
    run.attempt = 2
    ended = run.train()
    assert "resuming from checkpoint-4" in ended.output
    assert {line["step"] for line in run.lines("train") if line["attempt"] == 2} == set(range(5, 11))
    assert run.losses() == straight.losses()
    ours, theirs = (r.path / "checkpoints/checkpoint-10/adapter_model.safetensors" for r in (run, straight))
    assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize(("function", "workers", "message"), [
    ("broken", 0, "hook puzzles:broken at index 9: ValueError: no puzzle has so many colours"),
    ("long", 0, "more than train.drop_limit, 10%, would be dropped: "),
    ("absent", 0, "puzzles.py has no function absent"),
])  # fmt: skip
def test_a_hook_that_cannot_be_used_is_a_data_error(make_run: Any, function: str, workers: int, message: str) -> None:
    run = make_hook_run(make_run, function)
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "data_error"
    assert message in run.failure["message"]


def test_a_hook_that_fails_in_a_worker_keeps_its_reason(make_run: Any) -> None:
    run = make_hook_run(make_run, "broken", train={"max_steps": 10})
    run.training["data"]["workers"] = 1
    run.write_spec()
    condition = "index == 70 and torch.utils.data.get_worker_info()"  # not when the tokenizer learns from the first 200
    (run.path / "work" / "puzzles.py").write_text(HOOK.replace("index == 9", condition))
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["message"] == "hook puzzles:broken at index 70: ValueError: no puzzle has so many colours"


@pytest.mark.parametrize("form", ["gzip", "parquet", "folder"])
def test_rows_are_the_same_in_every_form(
    form: str, chat_files: tuple[Path, Path], payload_python: Interpreter, tmp_path: Path
) -> None:
    program = """
import sys
from pathlib import Path
from datasets import load_dataset
from collections import Counter
from armada_train.data.rows import read_source
from armada_train.specification.values import Source
source, form, target = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
rows = load_dataset("json", data_files=str(source), split="train", cache_dir=str(target.parent / "cache"))
if form == "parquet":
    rows.to_parquet(target)
elif form == "folder":
    rows.save_to_disk(target)
ours, theirs = read_source(Source(target), Counter()), read_source(Source(source), Counter())
assert ours == theirs
print(len(ours[1]))
"""
    target = tmp_path / "rows"
    if form == "gzip":
        target.write_bytes(gzip.compress(chat_files[0].read_bytes()))
    ended = payload_python.finish("-c", program, str(chat_files[0]), form, str(target))
    assert ended.code == 0, ended.output
    assert ended.output.split()[-1] == "64"


def test_streamed_rows_are_tokenised_as_trl_tokenises_a_dataset(
    undisturbed: PayloadRun, payload_python: Interpreter, tmp_path: Path
) -> None:
    program = """
import sys
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer
from armada_train.data.tokens import choose_template, tokenise
path = sys.argv[1]
for row in (
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}] * 2},
    {"prompt": "2 plus 3 is ", "completion": "5"},
    {"text": "It is so."},
):
    tokenizer = AutoTokenizer.from_pretrained(path)
    arguments = SFTConfig(output_dir=sys.argv[2], use_cpu=True, bf16=False, report_to="none",
                          assistant_only_loss="messages" in row)
    trainer = SFTTrainer(AutoModelForCausalLM.from_pretrained(path), arguments, train_dataset=Dataset.from_list([row]),
                         processing_class=tokenizer)
    theirs = trainer.train_dataset[0]
    assert tokenise(row, tokenizer, trainer.chat_template) == {key: theirs[key] for key in ("input_ids", "labels")}, row
    assert choose_template(tokenizer, "messages" if "messages" in row else "") == trainer.chat_template
print("alike")
"""
    ended = payload_python.finish("-c", program, str(undisturbed.path / "model"), str(tmp_path / "scratch"))
    assert ended.code == 0, ended.output
    assert ended.output.endswith("alike\n")


def test_a_hook_mixes_with_files_by_weight(tmp_path: Path, make_run: Any) -> None:
    rows = [{"prompt": "file: ", "completion": "yes"}] * 3
    run = make_hook_run(make_run, "sample", train={"max_steps": 2})
    run.training["data"]["train"].append({"path": str(write_jsonl(tmp_path / "r.jsonl", rows)), "weight": 3.0})
    run.write_spec()
    run.train()


@pytest.mark.parametrize("streams", [True, False])
def test_a_signal_that_reaches_workers_too_leaves_them_at_work_until_the_checkpoint(
    make_run: Any, tmp_path: Path, streams: bool
) -> None:
    batch = {"global": 8, "micro": 2, "accumulation": 2, "processes": 2}
    run = make_hook_run(
        make_run, "sample", train={"max_steps": 1_000_000}, batch=batch, checkpoint={"every_steps": 1_000_000}
    )
    if not streams:
        run.training["data"]["train"] = [{"path": str(write_jsonl(tmp_path / "rows.jsonl", chats(512)))}]
    run.training["data"]["workers"] = 2
    run.write_spec()
    process = run.start(launcher=True)
    run.wait_for_step(process, 3)
    process.send_signal(signal.SIGTERM)  # which torchrun sends on to each rank's whole group
    ended = wait_for_end(process)
    assert ended.code == INTERRUPTED, ended.output
    assert run.failure["reason"] == "preempted"
    assert run.steps_in("outbox", ".new-") == [max(run.losses())]


def test_rows_of_another_kind_than_the_hook_are_refused(tmp_path: Path, make_run: Any) -> None:
    run = make_hook_run(make_run, "sample")
    run.training["data"]["train"].append({"path": str(write_jsonl(tmp_path / "r.jsonl", chats(2)))})
    run.write_spec()
    assert run.finish().code == 2
    assert "is prompt_completion, but earlier rows are messages" in run.failure["message"]


def test_tools_and_their_calls_pass_through_the_chat_template_or_are_refused(
    undisturbed: PayloadRun, payload_python: Interpreter
) -> None:
    program = """
import sys
from collections import Counter
from pathlib import Path
import trl
from transformers import AutoTokenizer
from armada_train.data.shapes import normalise
from armada_train.data.tokens import choose_template, tokenise
from armada_train.failure import PayloadFailure
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
turns = [
    {"from": "human", "value": "Rain in Bonn?"},
    {"from": "function_call", "value": '{"name": "rain", "arguments": {"city": "Bonn"}}'},
    {"from": "observation", "value": "yes"},
    {"from": "gpt", "value": "Yes."},
]
row = {"conversations": turns, "tools": '[{"name": "rain", "description": "Tell of rain.", "parameters": {}}]'}
kind, row = normalise(row, "here", Counter())
try:
    tokenise(row, tokenizer, choose_template(tokenizer, kind))
except PayloadFailure as failure:
    print("REFUSED", failure.message)
tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
made = tokenise(row, tokenizer, choose_template(tokenizer, kind))
print("ALL", repr(tokenizer.decode(made["input_ids"])))
print("TRAINED", repr(tokenizer.decode([label for label in made["labels"] if label != -100])))
"""
    ended = payload_python.finish("-c", program, str(undisturbed.path / "model"))
    assert ended.code == 0, ended.output
    said = {line.split()[0]: line for line in ended.output.splitlines() if line.split()}
    assert "`tools` and `tool_calls`, which the model's chat template would leave out" in said["REFUSED"]
    assert "Tell of rain." in said["ALL"]
    assert '"arguments": {"city": "Bonn"}' in said["TRAINED"]
    assert "Tell of rain." not in said["TRAINED"]
    assert "Rain in" not in said["TRAINED"]
