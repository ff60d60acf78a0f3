"""Models whose weights have other names in files than in memory, and checkpoints that lack a weight."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.payload.comparing import read_floats
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, chats, make_training, write_jsonl

pytestmark = pytest.mark.payload

# The hub has a tensor for each expert, transformers one for all of a layer.
MAKE_EXPERTS = """
import sys, torch
from transformers import AutoTokenizer, Qwen3MoeConfig, Qwen3MoeForCausalLM
tokenizer, folder = AutoTokenizer.from_pretrained(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
config = Qwen3MoeConfig(
    vocab_size=320, hidden_size=32, intermediate_size=64, moe_intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=1, head_dim=16, num_experts=4, num_experts_per_tok=2,
    max_position_embeddings=512, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    bos_token_id=None, initializer_range=0.1,
)
Qwen3MoeForCausalLM(config).save_pretrained(folder)
tokenizer.save_pretrained(folder)
"""
# The head is the embedding: it is in memory, and in no file.
MAKE_TIED = """
import sys, torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
tokenizer, folder = AutoTokenizer.from_pretrained(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=512, eos_token_id=tokenizer.eos_token_id,
    pad_token_id=tokenizer.pad_token_id, bos_token_id=None, initializer_range=0.1, tie_word_embeddings=True,
)
Qwen2ForCausalLM(config).save_pretrained(folder)
tokenizer.save_pretrained(folder)
"""
# Leaves one tensor of a checkpoint out, and the file well formed.
DROP = """
import sys
from safetensors.torch import load_file, save_file
tensors = load_file(sys.argv[1])
del tensors[next(name for name in sorted(tensors) if sys.argv[2] in name)]
save_file(tensors, sys.argv[1], metadata={"format": "pt"})
"""


@pytest.fixture(scope="module")
def trained(
    undisturbed: PayloadRun, payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], PayloadRun]:
    """Four steps of all weights of the model that a program makes, with checkpoints at 2 and 4."""

    def train(program: str) -> PayloadRun:
        folder = tmp_path_factory.mktemp("trained")
        made = undisturbed.finish_python("-c", program, str(undisturbed.path / "model"), str(folder / "base"))
        assert made.code == 0, made.output
        training = make_training(
            write_jsonl(folder / "rows.jsonl", chats(32)),
            write_jsonl(folder / "eval.jsonl", chats(4)),
            model={"path": str(folder / "base")},
            train={"max_steps": 4, "eval_every_steps": 2},
            checkpoint={"every_steps": 2, "keep_last": 3},
            lora=None,
        )
        run = PayloadRun(folder / "run", payload_python, training).prepare()
        run.train()
        return run

    return train


@pytest.fixture(scope="module")
def experts(trained: Callable[[str], PayloadRun]) -> PayloadRun:
    return trained(MAKE_EXPERTS)


def without_its_end(run: PayloadRun, folder: Path) -> PayloadRun:
    """Copy a run that was killed after step 2."""
    shutil.copytree(run.path, folder)
    shutil.rmtree(folder / "checkpoints" / "checkpoint-4")
    return PayloadRun(folder, run.python, copy.deepcopy(run.training), attempt=2)


def drop(run: PayloadRun, checkpoint: Path, name: str) -> None:
    """Leave a weight out of a checkpoint that no record of its bytes guards: it was put back from elsewhere."""
    for file in ("adapter_model.safetensors", "model.safetensors"):
        if (checkpoint / file).exists():
            dropped = run.finish_python("-c", DROP, str(checkpoint / file), name)
            assert dropped.code == 0, dropped.output
    checkpoint.with_name(f".announced-{checkpoint.name}").unlink(missing_ok=True)


def resumes_to_the_bit(straight: PayloadRun, folder: Path) -> None:
    run = without_its_end(straight, folder)
    ended = run.train()
    assert "resuming from checkpoint-2" in ended.output
    assert run.losses() == straight.losses()
    assert run.summary["eval_loss_after"] == straight.summary["eval_loss_after"]
    for name in ("model.safetensors", "optimizer.pt"):
        ours, theirs = (r.path / "checkpoints" / "checkpoint-4" / name for r in (run, straight))
        assert ours.read_bytes() == theirs.read_bytes(), name

    finished = PayloadRun(run.path, run.python, run.training, attempt=3)
    finished.train()
    assert finished.summary["eval_loss_after"] == straight.summary["eval_loss_after"]


def test_a_model_with_experts_resumes_to_the_bit(experts: PayloadRun, tmp_path: Path) -> None:
    resumes_to_the_bit(experts, tmp_path / "resumed")


def test_a_model_whose_head_is_its_embedding_resumes_to_the_bit(
    trained: Callable[[str], PayloadRun], tmp_path: Path
) -> None:
    tied = trained(MAKE_TIED)
    saved = read_floats(tied.path / "checkpoints" / "checkpoint-2" / "model.safetensors")
    before = read_floats(tied.path.parent / "base" / "model.safetensors")
    assert "lm_head.weight" not in saved
    assert saved["model.embed_tokens.weight"] != before["model.embed_tokens.weight"]
    resumes_to_the_bit(tied, tmp_path / "resumed")


def test_a_start_from_a_model_with_experts_starts_with_its_experts(experts: PayloadRun, make_run: Any) -> None:
    start = {"path": str(experts.path / "outbox" / ".new-4"), "optimizer": False}
    training = experts.training | {"start_from": start, "train": experts.training["train"] | {"max_steps": 1}}
    run = make_run(training)
    run.train()
    assert run.summary["eval_loss_before"] == experts.summary["eval_loss_after"]


def test_a_checkpoint_that_lacks_a_weight_is_refused(experts: PayloadRun, make_run: Any, tmp_path: Path) -> None:
    run = without_its_end(experts, tmp_path / "resumed")
    drop(run, run.path / "checkpoints" / "checkpoint-2", "layers.1.input_layernorm")
    assert run.finish().code == 2
    assert run.failure["reason"] == "resume_mismatch"
    assert (
        "checkpoint-2: 1 weight(s) of the model are missing in it: model.layers.1.input_layernorm.weight: put its files "
        in run.failure["message"]
    )

    checkpoint = run.path / "checkpoints" / "checkpoint-2"
    started = make_run(experts.training | {"start_from": {"path": str(checkpoint), "optimizer": False}}, "started")
    assert started.finish().code == 2
    assert started.failure["reason"] == "bad_spec"
    assert "1 weight(s) of the model are missing in it" in started.failure["message"]


def test_an_adapter_that_lacks_a_weight_is_refused(undisturbed: PayloadRun, tmp_path: Path) -> None:
    shutil.copytree(undisturbed.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "checkpoint-12")
    run = PayloadRun(tmp_path / "run", undisturbed.python, undisturbed.training, attempt=2)
    drop(run, run.path / "checkpoints" / "checkpoint-8", "lora_A")
    assert run.finish().code == 2
    assert run.failure["reason"] == "resume_mismatch"
    assert "checkpoint-8: 1 weight(s) of the model are missing in it: " in run.failure["message"]
