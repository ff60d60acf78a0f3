"""All logits at once where they fit into a host's memory, tiles elsewhere, and the reason for either."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from armada.launch.estimates.memory import Sharded, TrainingShape, estimate_memory, staged_bytes
from armada.launch.estimates.shape import ModelShape, read_shape
from armada.launch.training.output_head import choose_logits
from tests.unit.launch.estimates.test_shapes import COUNTED

QWEN = read_shape(COUNTED["qwen2.5-0.5b"]["config"])
WORDS = QWEN.vocabulary


def choose(*, shape: ModelShape | None = QWEN, gpus: int = 0, memory: float | None = 64e9, **changes: Any) -> Any:
    train = SimpleNamespace(
        logits=changes.get("logits", "auto"), sharding=changes.get("sharding", "none"), max_length=128
    )
    settings: Any = SimpleNamespace(train=train, whole_logits=changes.get("whole_logits", True), sequences=1)
    there = None if memory is None else int(memory)
    processes = changes.get("processes", 1)
    return choose_logits(settings, shape, micro_batch=4, processes=processes, gpus=gpus, memory_bytes=there)


def test_a_host_with_room_computes_all_logits_at_once_and_says_why() -> None:
    found = choose()
    assert found.word == "whole"
    assert f"all logits of 512 tokens × {WORDS:,} words need 1.2 GB, at most 10% of the memory" in found.why


def test_logits_that_need_more_than_a_tenth_of_the_memory_are_computed_in_tiles() -> None:
    needed = 16 * 512 * WORDS
    assert choose(memory=10 * needed).word == "whole"
    assert choose(memory=10 * needed - 11).word == "tiles"
    assert "more than 10% of the memory" in choose(memory=10 * needed - 11).why
    assert choose(memory=10 * needed, processes=2).word == "tiles"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"gpus": 1}, "cost a GPU little time"),
        ({"sharding": "fsdp"}, "`train.sharding: fsdp` divides the output head"),
        ({"shape": None}, "the model's vocabulary is not known"),
        ({"memory": None}, "the memory of the host is not known"),
        ({"whole_logits": False}, ""),
    ],
)
def test_tiles_are_chosen_where_the_rest_is_slower_impossible_or_unknown(changes: dict[str, Any], why: str) -> None:
    found = choose(**changes)
    assert found.word == "tiles"
    assert why in found.why
    assert bool(why) == bool(found.why)


def test_the_experiments_word_is_taken_without_a_reason() -> None:
    assert (choose(logits="tiles").word, choose(logits="tiles").why) == ("tiles", "")
    assert (choose(logits="whole", memory=1).word, choose(logits="whole", memory=1).why) == ("whole", "")


def test_the_estimate_counts_the_copy_of_a_checkpoint_that_is_written_in_the_background() -> None:
    plain = TrainingShape(method="full", micro_batch=4, length=2048, precision="fp32", device="cpu")
    staged = dataclasses.replace(plain, stages_checkpoints=True)
    estimates = [estimate_memory(QWEN, each) for each in (plain, staged)]
    assert estimates[1].total_bytes - estimates[0].total_bytes == 12 * estimates[0].parameters
    assert staged_bytes(QWEN, staged) == 12 * estimates[0].parameters
    assert staged_bytes(QWEN, plain) == 0
    every: frozenset[Sharded] = frozenset({"weights", "gradients", "optimizer"})
    divided = dataclasses.replace(staged, processes=4, sharded=every)
    each = {term.name: term.size_bytes for term in estimate_memory(QWEN, divided).terms}["checkpoint being written"]
    assert each == 3 * estimates[0].parameters
    assert staged_bytes(QWEN, divided) == staged_bytes(QWEN, staged)
    two_replicas = dataclasses.replace(divided, divided_by=2)
    assert staged_bytes(QWEN, two_replicas) == 2 * staged_bytes(QWEN, staged)


def test_the_estimate_of_memory_counts_all_logits() -> None:
    tiles = TrainingShape(method="full", micro_batch=4, length=2048, precision="fp32", device="cpu")
    whole = TrainingShape(method="full", micro_batch=4, length=2048, precision="fp32", device="cpu", whole_logits=True)
    logits = 16 * 8192 * WORDS
    heads = [
        {term.name: term.size_bytes for term in estimate_memory(QWEN, each).terms}["output head"]
        for each in (tiles, whole)
    ]
    assert heads[0] < logits / 2 < logits <= heads[1] < 1.1 * logits
