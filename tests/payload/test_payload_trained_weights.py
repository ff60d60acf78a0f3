"""What is trained beside an adapter is trained in fp32, whatever type the base has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.payload.conftest import StartedRun
from tests.payload.payload_run import PayloadRun, make_training, write_jsonl
from tests.payload.test_payload_merge import finish, merge

pytestmark = pytest.mark.payload

COMPARE = """
import json, sys
from safetensors.torch import load_file

before, after = (load_file(f"../checkpoints/checkpoint-{step}/adapter_model.safetensors") for step in sys.argv[1:])
told = {name: [str(after[name].dtype), (after[name] != before[name]).float().mean().item()] for name in after}
print("compared", json.dumps(told))
"""
SAME_HEAD = """
import sys
from safetensors.torch import load_file

saved = load_file("../checkpoints/checkpoint-4/adapter_model.safetensors")
merged = load_file(f"{sys.argv[1]}/model.safetensors")
print(saved["base_model.model.lm_head.weight"].equal(merged["lm_head.weight"]))
"""
SLOW = {"max_steps": 4, "learning_rate": 1e-5, "lr_scheduler": "constant", "eval_every_steps": 2}
SAVED = {"every_steps": 1, "keep_last": 9}


def changed(run: PayloadRun, *steps: int) -> dict[str, list[Any]]:
    """The type of each saved weight, and which share of its numbers changed between two steps."""
    (run.path / "work" / "compare.py").write_text(COMPARE)
    ended = run.finish_python("compare.py", *map(str, steps))
    assert ended.code == 0, ended.output
    (line,) = [line for line in ended.output.splitlines() if line.startswith("compared ")]
    told: dict[str, list[Any]] = json.loads(line.removeprefix("compared "))
    return told


def pairs(folder: Path) -> Callable[[str, int], Path]:
    def write(name: str, count: int) -> Path:
        rows = [
            {"prompt": f"What is {n} plus one?", "chosen": f" It is {n + 1}.", "rejected": " I do not know."}
            for n in range(count)
        ]
        return write_jsonl(folder / f"{name}.jsonl", rows)

    return write


def test_modules_that_are_saved_whole_are_trained_in_full_precision(
    make_run: StartedRun, chat_files: tuple[Path, Path], tmp_path: Path
) -> None:
    """Samples are generated without autocast, between layers of 16 bits. A merge takes the head as it was saved."""
    lora = {"rslora": False, "modules_to_save": ["lm_head", "embed_tokens", "norm"]}
    training = make_training(
        *chat_files,
        train=SLOW,
        checkpoint=SAVED,
        precision="bf16",
        lora=lora,
        evaluation={"samples": 2, "sample_tokens": 4},
    )
    run = make_run(training)
    run.train()
    told = changed(run, 1, 4)
    whole = {name: each for name, each in told.items() if "lora" not in name}
    assert len(whole) == 2 + 5  # each norm
    assert {dtype for dtype, _ in told.values()} == {"torch.float32"}
    assert min(share for name, (_, share) in whole.items() if "embed_tokens" not in name) > 0.9
    assert min(share for name, (_, share) in whole.items() if "embed_tokens" in name) > 0.05  # of tokens that occur
    merged = merge(run, 4, tmp_path / "merged", dtype="float32")
    code, said = finish(merged)
    assert code == 0, said
    ended = run.finish_python("-c", SAME_HEAD, str(merged.path / "outbox" / ".new-4"))
    assert ended.output.strip() == "True", ended.output


def test_the_head_of_a_reward_model_is_trained_in_full_precision(make_run: StartedRun, tmp_path: Path) -> None:
    """And a resume continues with it to the bit."""
    write = pairs(tmp_path)
    run = make_run(
        make_training(
            write("train", 16),
            write("eval", 4),
            train=SLOW,
            checkpoint=SAVED,
            precision="bf16",
            lora={"rslora": False},
            objective={"name": "reward", "center": None},
        )
    )
    run.train()
    (head,) = [each for name, each in changed(run, 1, 4).items() if "score" in name]
    assert head == ["torch.float32", pytest.approx(1.0, abs=0.1)]
    folder = run.path / "checkpoints"
    (folder / "checkpoint-4").rename(run.path / "first")
    shutil.rmtree(folder / "checkpoint-3")
    run.attempt = 2
    assert "resuming from checkpoint-2" in run.train().output
    names = [f"{place}/adapter_model.safetensors" for place in ("first", "checkpoints/checkpoint-4")]
    first, second = ((run.path / name).read_bytes() for name in names)
    assert first == second
