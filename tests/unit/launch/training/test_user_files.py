from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from armada.config.experiments import load_experiment
from armada.config.profiles import load_profile
from armada.config.tasks.sft import Sft
from armada.errors import ConfigError, PreflightRefused
from armada.launch.training.accelerate import render_accelerate
from armada.launch.training.batch import Batch
from armada.launch.training.config_files import Facts, UserFiles, read_json, read_user_files
from armada.paths import HomePaths

EXPERIMENT = """\
name: e
task: sft
model: Qwen/Qwen2.5-0.5B
data: {train: [{path: t.jsonl}]}
train:
  global_batch_size: 16
  max_steps: 100
  learning_rate: 5e-5
  warmup_steps: 0.1
"""
# What bigscience's metadata experiments had: 5e-5 in one file, 1e-4 in the other.
QUARREL = {"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_max_lr": 1e-4, "total_num_steps": 100000}}}


def facts(folder: Path, *, gpus: int = 2, extra: str = "", task: str | None = None, **files: str) -> Facts:
    (folder / "t.jsonl").write_text('{"text": "x"}\n')
    text = task or EXPERIMENT
    for key, content in files.items():
        name = f"{key}.{'json' if key == 'deepspeed' else 'yaml'}"
        (folder / name).write_text(content)
        text += f"{key}: {name}\n"
    (folder / "e.yaml").write_text(text + extra)
    experiment = load_experiment(folder / "e.yaml")
    profile = load_profile("rtx3090-2x" if gpus else "cpu", HomePaths(folder / "config", folder / "state"))
    count = gpus or 1
    batch = Batch(16, 2, 8 // count, count) if experiment.task == "sft" else None
    accelerate = folder / "accelerate.yaml" if "accelerate" in files else None
    return Facts(
        experiment,
        profile,
        count,
        "cuda" if gpus else "cpu",
        batch,
        accelerate=accelerate,
        deepspeed=folder / "deepspeed.json" if "deepspeed" in files else None,
        train=experiment.train if isinstance(experiment, Sft) else None,
    )


def read(folder: Path, **changes: Any) -> UserFiles:
    return read_user_files(facts(folder, **changes))


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(PreflightRefused) as caught:
        read(folder, **changes)
    assert caught.value.exit_code == 3
    return caught.value.message


def test_a_file_that_repeats_what_the_plan_says_is_taken_whole(tmp_path: Path) -> None:
    accelerate = (
        "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: MULTI_GPU\ndowncast_bf16: 'no'\n"
        "enable_cpu_affinity: true\ngpu_ids: all\nmachine_rank: 0\nmain_training_function: main\nmixed_precision: bf16\n"
        "num_machines: 1\nnum_processes: 2\nrdzv_backend: static\nsame_network: true\nuse_cpu: no\n"
    )
    given = facts(tmp_path, accelerate=accelerate)
    files = read_user_files(given)
    rendered = render_accelerate(
        processes=2, device="cuda", precision="bf16", extras={}, extras_from="p", checked=files.accelerate
    )
    assert "enable_cpu_affinity: true" in rendered
    assert "distributed_type: MULTI_GPU" in rendered
    assert rendered.count("num_processes") == 1


@pytest.mark.parametrize(
    ("line", "theirs", "ours", "where"),
    [
        ("num_processes: 8", "8", "2", "`resources.gpus`"),
        ("mixed_precision: fp16", "'fp16'", "'bf16'", "_gpu.yaml:"),
        ("mixed_precision: no", "'no'", "'bf16'", "`train.precision`"),
        ("num_machines: 2", "2", "1", "one machine"),
        ("distributed_type: MULTI_CPU", "'MULTI_CPU'", "'MULTI_GPU'", "`resources.gpus`"),
        ("distributed_type: NO", "'NO'", "'MULTI_GPU'", "`resources.gpus`"),
        ("main_process_port: 29500", "29500", "0", "free port"),
        ("dynamo_config: {dynamo_backend: INDUCTOR}", "'INDUCTOR'", "'NO'", "`train.compile`"),
        ("deepspeed_config: {gradient_accumulation_steps: 16}", "16", "4", "e.yaml:6 (`train.global_batch_size`)"),
        ("deepspeed_config: {gradient_clipping: 0.5}", "0.5", "1.0", "`train.max_grad_norm`"),
        ("fsdp_config: {fsdp_activation_checkpointing: false}", "false", "true", "`train.activation_checkpointing`"),
    ],
)
def test_an_accelerate_file_that_says_something_else_is_refused_with_both_lines(
    tmp_path: Path, line: str, theirs: str, ours: str, where: str
) -> None:
    said = refused(tmp_path, accelerate=f"debug: false\n{line}\n")
    assert said.startswith(f"{tmp_path / 'accelerate.yaml'}:2: `")
    assert f" is {theirs}, but " in said
    assert said.endswith(f"makes it {ours}")
    assert where in said


@pytest.mark.parametrize(
    ("settings", "places"),
    [
        ({"train_batch_size": 256}, ("`train_batch_size` is 256", "e.yaml:6 (`train.global_batch_size`) makes it 16")),
        ({"train_micro_batch_size_per_gpu": 8}, ("is 8, but", "makes it 2")),
        ({"gradient_accumulation_steps": 16}, ("16 = micro 2 × accumulation 4 × 2 processes", "makes it 4")),
        ({"gradient_clipping": 0.3}, ("`train.max_grad_norm`", "default", "makes it 1.0")),
        ({"fp16": {"enabled": True}}, ("`fp16.enabled` is true", "`train.precision`) makes it false")),
        ({"bf16": {"enabled": False}}, ("`bf16.enabled` is false", "makes it true")),
        ({"optimizer": {"params": {"lr": 1e-4}}}, ("`optimizer.params.lr` is 0.0001", "e.yaml:8", "makes it 5e-05")),
        ({"optimizer": {"type": "Lion"}}, ("`optimizer.type` is 'Lion'", "makes it 'AdamW'")),
        ({"optimizer": {"params": {"betas": [0.9, 0.95]}}}, ("[0.9, 0.95]", "[0.9, 0.999]")),
        (QUARREL, ("`scheduler.params.warmup_max_lr` is 0.0001", "e.yaml:8 (`train.learning_rate`) makes it 5e-05")),
        (QUARREL, ("`scheduler.params.total_num_steps` is 100000", "e.yaml:7 (`train.max_steps`) makes it 100")),
        (QUARREL, ("`scheduler.type` is 'WarmupDecayLR'", "makes it 'WarmupCosineLR'")),
        ({"scheduler": {"params": {"warmup_num_steps": 6000}}}, ("is 6000", "e.yaml:9", "makes it 10")),
    ],
)
def test_a_deepspeed_file_that_says_something_else_is_refused_with_both_places(
    tmp_path: Path, settings: dict[str, Any], places: tuple[str, ...]
) -> None:
    said = refused(tmp_path, deepspeed=json.dumps(settings, indent="\t"))
    assert f"{tmp_path / 'deepspeed.json'}:" in said
    assert all(place in said for place in places)


def test_the_experiments_optimizer_and_floor_are_compared_too(tmp_path: Path) -> None:
    own = EXPERIMENT + "  lr_floor: 0.1\n  optimizer: {name: adamw, betas: [0.9, 0.95]}\n"
    settings = {"optimizer": {"params": {"betas": [0.9, 0.999]}}, "scheduler": {"type": "WarmupCosineLR"}}
    said = refused(tmp_path, task=own, deepspeed=json.dumps(settings))
    assert "[0.9, 0.999], but" in said
    assert "e.yaml:11 (`train.optimizer`) makes it [0.9, 0.95]" in said
    assert "e.yaml:10 (`train.lr_floor`) makes it 'cosine with a floor'" in said
    adafactor = EXPERIMENT + "  optimizer: adafactor\n"
    said = refused(tmp_path, task=adafactor, deepspeed=json.dumps({"optimizer": {"type": "AdamW"}}))
    assert "e.yaml:10 (`train.optimizer`) makes it 'adafactor'" in said


def test_auto_and_equal_values_are_no_quarrel_and_the_rest_is_the_users(tmp_path: Path) -> None:
    settings = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 1,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": False, "loss_scale": 0},
        "optimizer": {"type": "AdamW", "params": {"lr": 5e-5, "betas": [0.9, 0.999], "eps": 1e-8}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 10, "total_num_steps": 100}},
        "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": 5e8},
        "steps_per_print": 2000,
    }
    files = read(tmp_path, deepspeed=json.dumps(settings))
    assert files.deepspeed == settings
    assert files.accelerate == {}


def test_all_differences_are_told_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, deepspeed='{\n"train_batch_size": 1,\n"gradient_clipping": 2\n}')
    assert "deepspeed.json:2: `train_batch_size`" in said
    assert "deepspeed.json:3: `gradient_clipping`" in said


def test_the_two_files_are_held_against_each_other(tmp_path: Path) -> None:
    accelerate = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  offload_optimizer_device: cpu\n"
    agreed = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    files = read(tmp_path, accelerate=accelerate, deepspeed=json.dumps(agreed))
    assert (files.accelerate, files.deepspeed) == ({}, agreed)
    other = {"zero_optimization": {"stage": 1}}
    said = refused(tmp_path, accelerate=accelerate, deepspeed=json.dumps(other))
    assert "deepspeed.json:1: `zero_optimization.stage` is 1" in said
    assert "accelerate.yaml:3 (`deepspeed_config.zero_stage`) makes it 2" in said


def test_shards_and_cpus_are_refused(tmp_path: Path) -> None:
    assert "whole models, not shards" in refused(tmp_path, deepspeed='{"zero_optimization": {"stage": 3}}')
    assert "DeepSpeed needs GPUs" in refused(tmp_path, gpus=0, deepspeed="{}")
    assert "FSDP needs GPUs" in refused(tmp_path, gpus=0, accelerate="distributed_type: FSDP\n")


def test_fsdp_that_the_word_does_not_say_is_refused_wherever_it_is_asked_for(tmp_path: Path) -> None:
    said = refused(tmp_path, accelerate="distributed_type: FSDP\n")
    assert "accelerate.yaml:1: `distributed_type` is FSDP, but `train.sharding`, which " in said
    assert "leaves at its default, is none" in said
    given = facts(tmp_path)
    profile = given.profile.model_copy(update={"accelerate": {"distributed_type": "FSDP"}})
    with pytest.raises(PreflightRefused, match="`distributed_type` is FSDP, but `train"):
        read_user_files(dataclasses.replace(given, profile=profile))


SHARDED = EXPERIMENT + "  sharding: fsdp\n"


def test_a_file_agrees_with_the_word_or_is_refused_with_both_places(tmp_path: Path) -> None:
    agreed = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: true\n"
    read(tmp_path, task=SHARDED, accelerate=agreed)
    read(tmp_path, task=SHARDED, gpus=0, accelerate="fsdp_config: {fsdp_version: 2}\n")
    said = refused(tmp_path, task=SHARDED, accelerate=agreed.replace("version: 2", "version: 1"))
    assert "accelerate.yaml:3: `fsdp_config.fsdp_version` is 1, but" in said
    assert "e.yaml:10 (`train.sharding`) makes it 2" in said
    said = refused(tmp_path, task=SHARDED, accelerate="distributed_type: MULTI_GPU\n")
    assert "accelerate.yaml:1: `distributed_type` is 'MULTI_GPU', but " in said
    assert "e.yaml:10 (`train.sharding`) is fsdp, which makes it FSDP" in said


def test_parallelism_within_a_row_is_refused_with_its_line_or_its_profile_and_left_to_scripts(tmp_path: Path) -> None:
    mesh = "distributed_type: FSDP\nparallelism_config:\n  parallelism_config_{}_size: {}\n"
    said = refused(tmp_path, task=SHARDED, accelerate=mesh.format("cp", 2))
    assert (
        "accelerate.yaml:3: `parallelism_config_cp_size` is 2, and the bundled trainer has no context parallelism"
        in said
    )
    assert "no tensor parallelism" in refused(tmp_path, task=SHARDED, accelerate=mesh.format("tp", 4))
    assert "no sequence parallelism" in refused(tmp_path, accelerate=mesh.format("sp", 2).partition("\n")[2])
    read(tmp_path, task=SHARDED, accelerate=mesh.format("cp", 1))
    given = facts(tmp_path)
    own = {"parallelism_config": {"parallelism_config_cp_size": 2}}
    profile = given.profile.model_copy(update={"accelerate": own})
    with pytest.raises(PreflightRefused, match=r"yaml \(`accelerate.parallelism_config`\): .* no context parallelism"):
        read_user_files(dataclasses.replace(given, profile=profile))
    (tmp_path / "s.py").write_text("")
    read(tmp_path, task="name: e\ntask: script\nscript: s.py\ncode: .\n", accelerate=mesh.format("cp", 2))


def test_layers_with_an_adapter_are_recomputed_by_transformers(tmp_path: Path) -> None:
    file = "distributed_type: FSDP\nfsdp_config: {fsdp_activation_checkpointing: true}\n"
    read(tmp_path, task=SHARDED, accelerate=file)
    said = refused(tmp_path, task=SHARDED + "lora: {}\n", accelerate=file)
    assert "accelerate.yaml:2: `fsdp_config.fsdp_activation_checkpointing` is true, but" in said
    assert "(`lora`), whose layers transformers recomputes instead, makes it false" in said


def test_zero_derives_its_file_and_agrees_with_the_users_own(tmp_path: Path) -> None:
    zero = EXPERIMENT + "  sharding: zero2\n"
    derived = read(tmp_path, task=zero).deepspeed
    assert derived is not None
    assert derived["zero_optimization"] == {"stage": 2, "overlap_comm": True, "contiguous_gradients": True}
    assert derived["gradient_clipping"] == derived["train_batch_size"] == "auto"
    third = read(tmp_path, task=zero.replace("zero2", "zero3")).deepspeed
    assert third is not None
    assert third["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"] is True  # type: ignore[index]
    own = {"zero_optimization": {"stage": 2}}
    assert read(tmp_path, task=zero, deepspeed=json.dumps(own)).deepspeed == own
    said = refused(tmp_path, task=zero, deepspeed='{"zero_optimization": {"stage": 1}}')
    assert "deepspeed.json:1: `zero_optimization.stage` is 1, but" in said
    assert "e.yaml:10 (`train.sharding`) makes it 2" in said
    assert "DeepSpeed needs GPUs, and this run has none" in refused(tmp_path, task=zero, gpus=0)
    third_stage = '{"zero_optimization": {"stage": 3}}'
    assert read(tmp_path, task=zero.replace("zero2", "zero3"), deepspeed=third_stage).deepspeed is not None


def test_a_file_of_accelerate_that_says_the_stage_is_not_doubled(tmp_path: Path) -> None:
    zero = EXPERIMENT + "  sharding: zero2\n"
    plugin = "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n"
    files = read(tmp_path, task=zero, accelerate=plugin)
    assert files.deepspeed is None
    assert files.accelerate["deepspeed_config"] == {"zero_stage": 2}
    said = refused(tmp_path, task=zero, accelerate=plugin.replace("2", "1"))
    assert "accelerate.yaml:2: `deepspeed_config.zero_stage` is 1, but" in said


def test_a_script_may_use_fsdp(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("")
    script = "name: e\ntask: script\nscript: s.py\ncode: .\n"
    assert read(tmp_path, task=script, accelerate="distributed_type: FSDP\n").accelerate["distributed_type"] == "FSDP"


def test_a_file_of_this_machine_is_told_where_it_travels_from(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names a file on this machine") as caught:
        read(
            tmp_path,
            accelerate="distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: /home/me/ds.json}\n",
        )
    assert (caught.value.line, (caught.value.hint or "")[:23]) == (2, "name it as `deepspeed:`")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ("[]", "one JSON object"), ('{"a": 1, "a": 2}', "second time"), ("nonsense: 1", "not JSON")],
)
def test_what_is_no_json_object_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_json(tmp_path / "d.json")


def test_an_unknown_key_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a key of accelerate") as caught:
        read(tmp_path, accelerate="debug: false\nnum_procesess: 2\n")
    assert (caught.value.line, caught.value.hint) == (2, "did you mean `num_processes`?")
    with pytest.raises(ConfigError, match="there is no file"):
        facts(tmp_path, extra="deepspeed: none.json\n")


def test_a_script_compares_what_it_has_and_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    script = "name: s\ntask: script\nscript: train.py\ncode: .\n"
    files = read(tmp_path, task=script, accelerate="distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n")
    assert files.accelerate == {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}
    assert "`num_processes` is 4" in refused(tmp_path, task=script, accelerate="num_processes: 4\n")
    with pytest.raises(ConfigError, match="a script sets its own"):
        facts(tmp_path, task=script, deepspeed="{}")


def test_one_process_is_not_said_to_be_processes(tmp_path: Path) -> None:
    said = refused(tmp_path, gpus=1, deepspeed=json.dumps({"gradient_accumulation_steps": 16}))
    assert "16 = micro 2 × accumulation 8 × 1 process," in said
