from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armada.config.experiments import load_experiment
from armada.config.profiles import ACCELERATE_KEYS
from armada.config.tasks.bundled import BundledTraining
from armada.errors import ConfigError, PreflightRefused
from armada.launch.training.accelerate import render_accelerate
from armada.launch.training.sharding import divided_parts, fsdp_settings, shard_size, uses_fsdp
from tests.unit.launch.training.test_accelerate import FROM, read


def render(sharding: Any = "fsdp", processes: int = 4, device: Any = "cuda", **extras: Any) -> dict[str, Any]:
    sharded = fsdp_settings(sharding, processes, activation_checkpointing=True)
    return read(
        render_accelerate(
            processes=processes, device=device, precision="bf16", extras=extras, extras_from=FROM, sharded=sharded
        )
    )


def test_fsdp_wraps_the_models_layers_and_saves_shards_of_version_2() -> None:
    rendered = render()
    assert set(rendered) <= ACCELERATE_KEYS
    assert rendered["distributed_type"] == "FSDP"
    assert rendered["fsdp_config"] == {
        "fsdp_version": 2,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_reshard_after_forward": True,
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_activation_checkpointing": True,
    }
    assert render(device="cpu")["distributed_type"] == "FSDP"


def test_two_replicas_are_divided_among_half_of_the_processes_each() -> None:
    mesh = render("fsdp-hybrid", 8)["parallelism_config"]
    assert mesh == {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 4}
    for processes in (2, 3, 5):
        with pytest.raises(PreflightRefused, match=f"half of the processes, and there are {processes}"):
            shard_size("fsdp-hybrid", processes)


def test_a_single_process_divides_nothing() -> None:
    assert not uses_fsdp("fsdp", 1)
    assert not uses_fsdp("none", 8)
    assert divided_parts("none") == frozenset()
    assert divided_parts("zero2") == {"gradients", "optimizer"}


def test_a_profile_may_add_to_the_word_and_not_contradict_it() -> None:
    assert render(fsdp_config={"fsdp_offload_params": True})["fsdp_config"]["fsdp_offload_params"] is True
    with pytest.raises(PreflightRefused, match=r"accelerate.fsdp_config.fsdp_version to 1, but `train.sharding`"):
        render(fsdp_config={"fsdp_version": 1})


EXPERIMENT = """\
name: e
task: {task}
model: Qwen/Qwen2.5-0.5B
data: {{train: [{{path: t.jsonl}}]}}
train:
  global_batch_size: 16
  max_steps: 100
  sharding: {word}
{more}"""


@pytest.mark.parametrize(
    ("task", "word", "more", "line", "said"),
    [
        ("grpo", "fsdp", "grpo: {rewards: [a.b:c]}\n", 8, "fsdp does not go with `task: grpo`, which samples from"),
        ("dpo", "zero3", "", 8, "zero3 does not go with `task: dpo`, which fsdp and fsdp-hybrid alone divide"),
        ("dpo", "fsdp", "dpo: {precompute_reference: true}\n", 9, "which divides the reference, too"),
        ("distill", "fsdp", "distill: {teacher: a/b, lmbda: 0.5}\n", 9, "samples answers from a whole student"),
        ("distill", "zero2", "distill: {teacher: a/b}\n", 8, "DeepSpeed would not divide the teacher"),
        ("sft", "zero3", "lora: {quantize: nf4}\n", 8, "zero3 does not go with `lora.quantize`"),
        ("sft", "fsdp", "lora: {quantize: nf4}\n", 8, "fsdp does not go with `lora.quantize`"),
        ("sft", "fsdp", "lora: {modules_to_save: [lm_head]}\n", 9, "would not add up their gradients"),
        ("sft", "fsdp", "start_from: {run: sft-abc, optimizer: moments}\n", 9, "divides the moments otherwise"),
        ("sft", "fsdp", "deepspeed: ds.json\n", 8, "fsdp does not go with `deepspeed`"),
        ("sft", "fsdp", "  optimizer: sgd\n", 9, "`train.sharding: fsdp` is tried with adamw alone"),
        ("sft", "zero2", "  optimizer: adamw_8bit\n", 9, "`train.sharding: zero2` is tried with adamw alone"),
        ("sft", "fsdp3", "", 8, "fsdp"),
    ],
)
def test_what_does_not_go_together_is_refused_at_home_with_its_line(
    tmp_path: Path, task: str, word: str, more: str, line: int, said: str
) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "ds.json").write_text("{}")
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(task=task, word=word, more=more))
    with pytest.raises(ConfigError) as refused:
        load_experiment(tmp_path / "e.yaml")
    assert refused.value.line == line
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("task", "word", "more"),
    [
        ("sft", "fsdp", "lora: {r: 8}\n"),
        ("sft", "zero2", "lora: {quantize: nf4}\n"),
        ("pretrain", "fsdp-hybrid", ""),
        ("dpo", "zero2", ""),
        ("dpo", "fsdp", ""),
        ("kto", "fsdp-hybrid", "lora: {}\n"),
        ("reward", "fsdp", ""),
        ("distill", "fsdp", "distill: {teacher: a/b}\n"),
    ],
)
def test_what_goes_together_is_taken(tmp_path: Path, task: str, word: str, more: str) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(task=task, word=word, more=more))
    assert load_experiment(tmp_path / "e.yaml").train.sharding == word  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("task", "more", "may"),
    [
        ("sft", "", True),
        ("dpo", "lora: {}\n", True),
        ("dpo", "dpo: {precompute_reference: true}\n", False),
        ("distill", "distill: {teacher: a/b, lmbda: 0.5}\n", False),
        ("sft", "lora: {quantize: nf4}\n", False),
        ("sft", "lora: {modules_to_save: [lm_head]}\n", False),
        ("sft", "  optimizer: sgd\n", False),
        ("sft", "  logits: whole\n", False),
        ("sft", "checkpoint: {in_background: true}\n", True),
        ("sft", "start_from: {run: sft-abc, optimizer: moments}\n", False),
        ("grpo", "grpo: {rewards: [a.b:c]}\n", False),
    ],
)
def test_fsdp_is_proposed_only_where_it_would_be_taken(tmp_path: Path, task: str, more: str, may: bool) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(task=task, word="none", more=more))
    found = load_experiment(tmp_path / "e.yaml")
    assert isinstance(found, BundledTraining)
    assert found.may_shard is may
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(task=task, word="fsdp", more=more))
    if may:
        load_experiment(tmp_path / "e.yaml")
    else:
        with pytest.raises(ConfigError):
            load_experiment(tmp_path / "e.yaml")
