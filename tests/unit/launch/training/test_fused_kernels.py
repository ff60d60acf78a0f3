"""Liger's kernels are taken where they are known to compute the same, and the reason is said where they are not."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from armada.launch.estimates.memory import TrainingShape, estimate_memory
from armada.launch.estimates.shape import ModelShape, read_shape
from armada.launch.training.fused_kernels import choose_kernels
from benchmarks.gpu.shapes import SHAPES
from tests.unit.launch.estimates.test_shapes import COUNTED

QWEN = read_shape(COUNTED["qwen2.5-0.5b"]["config"])
LISTS = "torch==2.13.0\nliger-kernel==0.8.5\n"


def choose(
    *, shape: ModelShape | None = QWEN, gpus: int = 1, precision: str = "bf16", lists: str | None = LISTS, **said: Any
) -> Any:
    train = SimpleNamespace(
        kernels=said.get("kernels", "auto"), sharding=said.get("sharding", "none"), compile=said.get("compile", False)
    )
    lora = SimpleNamespace(quantize=said.get("quantize", "none"))
    settings: Any = SimpleNamespace(
        train=train, lora=lora, task=said.get("task", "sft"), deepspeed=said.get("deepspeed")
    )
    environment: Any = None if lists is None else SimpleNamespace(requirements=lists)
    return choose_kernels(settings, environment, shape, gpus=gpus, precision=precision)


def test_an_ordinary_training_on_a_gpu_takes_them() -> None:
    assert choose() == choose(task="pretrain")
    assert (choose().word, choose().why) == ("liger", "which are faster and need less memory")


@pytest.mark.parametrize("changes", [{"gpus": 0}, {"precision": "fp32"}, {"precision": "fp16"}, {"task": "dpo"}])
def test_where_there_is_no_choice_nothing_is_said(changes: dict[str, Any]) -> None:
    assert (choose(**changes).word, choose(**changes).why) == ("none", "")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sharding": "fsdp"}, "not measured with `train.sharding: fsdp`"),
        ({"deepspeed": "zero.json"}, "not measured with DeepSpeed"),
        ({"compile": True}, "not measured with `train.compile`"),
        ({"quantize": "nf4"}, "not measured with a base in 4 bits"),
        ({"lists": None}, "may have no liger-kernel"),
        ({"lists": "torch==2.13.0\n"}, "may have no liger-kernel"),
        ({"shape": None}, "the model's type is not known"),
        ({"shape": dataclasses.replace(QWEN, kind="gemma")}, "for llama, mistral, qwen2, qwen3 with SiLU"),
        ({"shape": dataclasses.replace(QWEN, activation="gelu")}, "with SiLU"),
    ],
)
def test_elsewhere_transformers_own_stay_and_the_reason_is_said(changes: dict[str, Any], why: str) -> None:
    assert choose(**changes).word == "none"
    assert why in choose(**changes).why


@pytest.mark.parametrize("word", ["none", "liger", "hub"])
def test_the_experiments_word_is_taken_without_a_reason(word: str) -> None:
    found = choose(kernels=word, lists=None, shape=None)
    assert (found.word, found.why) == (word, "")


def test_the_activation_is_read_as_a_word_whatever_it_is() -> None:
    config = {**COUNTED["qwen2.5-0.5b"]["config"], "hidden_act": ["gelu"] * 100}
    assert choose(shape=read_shape(config)).word == "none"


@pytest.mark.parametrize(
    ("shape", "method", "micro", "saved"),
    [("7b", "lora", 2, 64_996_508_160 - 53_052_080_640), ("1.5b", "full", 4, 77_629_091_840 - 63_666_253_824)],
)
def test_the_estimate_is_as_much_lower_as_the_peak_on_an_h200(shape: str, method: Any, micro: int, saved: int) -> None:
    plain = TrainingShape(method=method, micro_batch=micro, length=4096)
    sizes = read_shape(SHAPES[shape])
    told = [estimate_memory(sizes, dataclasses.replace(plain, fuses=fuses)).total_bytes for fuses in (False, True)]
    assert told[0] - told[1] == pytest.approx(saved, rel=0.02)
