"""Speeds: against published measurements without any run, and against recorded runs, near and far."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from armada.launch.estimates.memory import TrainingShape
from armada.launch.estimates.parameters import count_parameters
from armada.launch.estimates.shape import ModelShape, read_shape
from armada.launch.estimates.speed import (
    FEW,
    SAME,
    Measured,
    Speed,
    Workload,
    estimate_speed,
    flops_per_token,
    reported_flops_per_token,
)

COUNTED: dict[str, Any] = json.loads((Path(__file__).parent / "counted_models.json").read_text())
LLAMA = read_shape(COUNTED["llama-3.1-8b"]["config"])
FULL = TrainingShape(method="full", micro_batch=4, length=2048)
LORA = dataclasses.replace(FULL, method="lora")
WANTED = Workload(model='"llama"', shape=LLAMA, training=LORA, gpu="a100", host="box", devices=8, data=frozenset({"d"}))
RUN = Measured("r-1", WANTED, points=100, step_s=10.0, tokens_per_s=10_000.0, samples_per_s=6.4)


def estimate(wanted: Workload, *runs: Measured, peak_flops: float | None = 312e12) -> Speed:
    found = estimate_speed(wanted, runs, peak_flops=peak_flops, length=1000.0)
    assert found is not None
    assert found.tokens_per_s.is_sane
    return found


def other(run: Measured = RUN, *, run_id: str = "r-2", **changes: Any) -> Measured:
    """A recorded run with another workload; `training` changes parts of the training."""
    training = dataclasses.replace(run.workload.training, **changes.pop("training", {}))
    return dataclasses.replace(
        run, run_id=run_id, workload=dataclasses.replace(run.workload, training=training, **changes)
    )


def mpt(hidden: int, layers: int, heads: int) -> ModelShape:
    return ModelShape(
        kind="gpt_neox", layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_size=hidden // heads,
        intermediate=4 * hidden, dense_intermediate=4 * hidden, vocabulary=50_368, tied=True,
    )  # fmt: skip


# llm-foundry, scripts/train/benchmarking/README.md, table "H100 80GB BF16": parameters, tokens a second on all GPUs.
@pytest.mark.parametrize(
    ("shape", "parameters", "gpus", "length", "recomputes", "tokens_per_s"),
    [
        (mpt(1536, 24, 12), 760_470_528, 8, 2048, False, 505_177),
        (mpt(2048, 24, 16), 1_315_950_592, 8, 2048, False, 363_645),
        (mpt(2048, 24, 16), 1_445_974_016, 8, 65_536, True, 44_050),
        (mpt(2560, 32, 20), 2_651_837_440, 64, 2048, False, 1_441_663),
        (mpt(4096, 32, 32), 6_658_859_008, 8, 2048, False, 85_144),
        (mpt(4096, 32, 32), 6_784_688_128, 8, 32_768, True, 26_550),
        (mpt(5120, 40, 40), 12_853_954_560, 8, 2048, False, 38_336),
        (mpt(7168, 48, 56), 29_989_894_144, 8, 4096, True, 14_419),
    ],
)
def test_published_speeds_are_within_the_range_that_is_given_without_any_run(
    shape: ModelShape, parameters: int, gpus: int, length: int, recomputes: bool, tokens_per_s: float
) -> None:
    assert count_parameters(shape) == pytest.approx(parameters, rel=0.1)  # theirs learn positions
    training = TrainingShape(method="full", micro_batch=1, length=length, activation_checkpointing=recomputes)
    wanted = dataclasses.replace(WANTED, shape=shape, training=training, devices=gpus)
    found = estimate_speed(wanted, (), peak_flops=989e12, length=float(length))
    assert found is not None
    assert found.tokens_per_s.low < tokens_per_s < found.tokens_per_s.high
    assert found.origin == "peak"


def test_operations_are_six_for_a_trained_weight_and_four_for_a_frozen_one() -> None:
    multiplied = count_parameters(LLAMA) - LLAMA.vocabulary * LLAMA.hidden  # embeddings are looked up
    assert flops_per_token(LLAMA, FULL, 0.0) == 6 * multiplied
    lora = flops_per_token(LLAMA, LORA, 0.0)
    assert lora == 4 * multiplied + 6 * 41_943_040
    assert lora == reported_flops_per_token(LLAMA, LORA)
    recomputing = dataclasses.replace(FULL, activation_checkpointing=True)
    assert flops_per_token(LLAMA, recomputing, 100.0) == pytest.approx(4 / 3 * flops_per_token(LLAMA, FULL, 100.0))
    attention = flops_per_token(LLAMA, FULL, 4096.0) - flops_per_token(LLAMA, FULL, 0.0)
    assert attention == 12 * LLAMA.layers * LLAMA.attention * 4096


def test_experts_that_a_token_does_not_pass_are_not_counted() -> None:
    mixtral = ModelShape(
        kind="mixtral", layers=32, hidden=4096, heads=32, kv_heads=8, head_size=128, intermediate=14_336,
        dense_intermediate=14_336, vocabulary=32_000, tied=False, experts=8, experts_per_token=2, expert_layers=32,
    )  # fmt: skip
    assert flops_per_token(mixtral, FULL, 0.0) / 6 == pytest.approx(12.9e9, rel=0.03)  # Mistral's own figure
    assert count_parameters(mixtral) == pytest.approx(46.7e9, rel=0.01)


def test_the_same_training_is_taken_as_it_was() -> None:
    found = estimate(WANTED, RUN)
    assert found.origin == "run"
    assert found.run_id == "r-1"
    assert found.tokens_per_s.middle == 10_000
    assert found.tokens_per_s.high == pytest.approx(10_000 * SAME)
    assert found.samples_per_s is not None
    assert found.samples_per_s.middle == 6.4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"devices": 4}, "4 instead of 8 GPUs"),
        ({"training": {"micro_batch": 2}}, "micro batch 2 instead of 4"),
        ({"training": {"length": 1024}}, "max_length 1024 instead of 2048"),
        ({"training": {"activation_checkpointing": True}}, "with activation checkpointing"),
        ({"training": {"precision": "fp16"}}, "fp16 instead of bf16"),
        ({"training": {"rank": 64}}, "another adapter"),
        ({"packing": True}, "with packing"),
        ({"attention": "eager"}, "attention eager instead of auto"),
        ({"data": frozenset({"e"})}, "other data"),
        ({"host": "desk"}, "on desk"),
    ],
)
def test_each_difference_is_said_and_widens_the_range(changes: dict[str, Any], said: str) -> None:
    found = estimate(WANTED, other(**changes))
    assert said in found.said
    assert found.tokens_per_s.high / found.tokens_per_s.middle > SAME
    assert estimate(WANTED, other(**changes), RUN).run_id == "r-1", "the nearest run counts"


def test_differences_are_converted_by_operations() -> None:
    assert estimate(WANTED, other(devices=4)).tokens_per_s.middle == pytest.approx(20_000)
    recomputed = estimate(WANTED, other(training={"activation_checkpointing": True}))
    assert 12_000 < recomputed.tokens_per_s.middle < 20_000


@pytest.mark.parametrize(
    "changes",
    [{"model": '"gpt"'}, {"gpu": "t4"}, {"training": {"method": "full"}}, {"training": {"precision": "fp32"}}],
)
def test_another_model_gpu_method_or_width_says_nothing(changes: dict[str, Any]) -> None:
    assert estimate(WANTED, other(**changes)).origin == "peak"


def test_another_model_on_the_same_gpu_says_which_share_of_its_peak_is_reached() -> None:
    measured = dataclasses.replace(other(model='"gpt"'), mfu=0.3)
    found = estimate(WANTED, measured)
    assert (found.origin, found.run_id) == ("mfu", "r-2")
    assert found.tokens_per_s.middle == pytest.approx(0.3 * 312e12 * 8 / reported_flops_per_token(LLAMA, LORA))
    assert "30%" in found.said


def test_a_cpu_is_only_compared_with_itself() -> None:
    here = dataclasses.replace(WANTED, gpu="cpu")
    assert estimate_speed(here, [other(gpu="cpu", host="desk")], peak_flops=None, length=9.0) is None
    assert estimate(here, other(gpu="cpu")).run_id == "r-2"


def test_few_or_noisy_points_widen_the_range() -> None:
    few = estimate(WANTED, dataclasses.replace(RUN, points=2)).tokens_per_s
    assert few.high == pytest.approx(few.middle * FEW)
    noisy = estimate(WANTED, dataclasses.replace(RUN, points=16, deviation=1.0)).tokens_per_s
    assert noisy.high == pytest.approx(noisy.middle * 1.5 * SAME)


@pytest.mark.parametrize(
    "absurd",
    [
        {"tokens_per_s": math.nan}, {"tokens_per_s": math.inf}, {"tokens_per_s": -1.0}, {"tokens_per_s": 1e300},
        {"step_s": 0.0}, {"points": 0}, {"mfu": 7.0}, {"samples_per_s": math.nan}, {"deviation": math.inf},
        {"tokens_per_s": 5e-324}, {"samples_per_s": 5e-324}, {"mfu": 5e-324}, {"step_s": 1e300},
    ],
)  # fmt: skip
def test_absurd_figures_of_a_job_are_not_used(absurd: dict[str, Any]) -> None:
    assert estimate(WANTED, dataclasses.replace(RUN, **absurd)).origin == "peak"


@pytest.mark.parametrize(
    "absurd", [{"devices": 10**400}, {"training": {"rank": 10**400}}, {"training": {"length": 10**400}}, {"devices": 0}]
)
def test_absurd_plans_that_a_recovery_has_read_are_not_used(absurd: dict[str, Any]) -> None:
    assert estimate(WANTED, other(**absurd)).origin == "peak"


def test_without_a_shape_or_a_peak_nothing_is_said_but_a_run_is_enough() -> None:
    unknown = dataclasses.replace(WANTED, shape=None)
    assert estimate_speed(unknown, (), peak_flops=312e12, length=9.0) is None
    assert estimate_speed(WANTED, (), peak_flops=None, length=9.0) is None
    assert estimate(unknown, RUN, peak_flops=None).tokens_per_s.middle == 10_000
