"""An experiment's file is read; what it leaves out has a value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armada.config.tasks.command import Command
from armada.config.training import TinyChoice
from tests.unit.config.experiments import COMMAND, SCRIPT, SFT, load, load_sft, refused


def test_a_mistyped_model_folder_is_not_taken_for_a_hub_id(project: Path) -> None:
    (project / "models" / "llama").mkdir(parents=True)
    (project / "models" / "llama" / "config.json").write_text("{}")
    wrong = refused(project, SFT.replace("Qwen/Qwen2.5-0.5B-Instruct", "models/lama"))
    assert "there is no folder 'models/lama', and there is 'models/llama'" in wrong.message
    assert wrong.line == 3
    right = load_sft(project, SFT.replace("Qwen/Qwen2.5-0.5B-Instruct", "models/llama"))
    assert right.local_model == project / "models" / "llama"


def test_the_experiment_of_the_documentation_is_read(project: Path) -> None:
    text = """\
name: qwen-lora
task: sft                                  # or: task: command
model: Qwen/Qwen2.5-0.5B-Instruct
code: .
data: {train: [{path: data/train.jsonl, weight: 1.0}], eval: [{path: data/eval.jsonl}]}
train: {global_batch_size: 16, micro_batch_size: auto, max_steps: 200, max_length: 2048, learning_rate: 5.0e-5, warmup_steps: 0.02, seed: 5}
lora: {r: 32, alpha: 64, dora: false, rslora: true}
checkpoint: {every_steps: 50, keep_last: 3}
resources: {gpus: all}
tracking: {wandb: auto}
secrets: [WANDB_API_KEY, HF_TOKEN]
"""
    experiment = load_sft(project, text)
    assert experiment.code == project
    assert experiment.data.train[0].path == project / "data" / "train.jsonl"
    assert experiment.train.learning_rate == 5e-5
    assert experiment.train.warmup_steps == 0.02
    assert experiment.lora
    assert (experiment.lora.r, experiment.lora.alpha, experiment.lora.init) == (32, 64.0, True)
    assert experiment.checkpoint.every_steps == 50
    assert experiment.resources.gpus == "all"
    assert experiment.secrets == ("WANDB_API_KEY", "HF_TOKEN")
    assert experiment.origin == project / "e.yaml"


def test_what_is_left_out_has_a_value(project: Path) -> None:
    experiment = load_sft(project, SFT)
    assert experiment.train.micro_batch_size == "auto"
    assert experiment.lora is None
    assert experiment.checkpoint.keep_last == 3
    assert experiment.tracking.wandb == "auto"
    assert experiment.stop_grace_s == 60


def test_checkpoints_come_by_steps_unless_minutes_are_given(project: Path) -> None:
    intervals = []
    for text in ("", "checkpoint: {every_minutes: 5}\n", "checkpoint: {every_minutes: 5, every_steps: 7}\n"):
        checkpoint = load(project, SFT + text).checkpoint
        assert checkpoint
        intervals.append((checkpoint.every_steps, checkpoint.every_minutes))
    assert intervals == [(100, None), (None, 5.0), (7, 5.0)]


@pytest.mark.parametrize(("override", "words"), [
    ("train.packing=true", "`train.packing` needs all rows in advance"),
    ("train.long_samples=split", "`train.long_samples` split needs all rows"),
    ("train={global_batch_size: 8, epochs: 1.0}", "needs max_steps: a hook's rows have no end"),
])  # fmt: skip
def test_a_hook_goes_only_with_what_an_endless_stream_allows(project: Path, override: str, words: str) -> None:
    text = SFT.replace("{path: data/train.jsonl, weight: 1.0}", "{hook: puzzles:sample}") + "code: .\n"
    data = load(project, text).data
    assert data
    assert data.has_hook
    assert data.paths == [project / "data" / "eval.jsonl"]
    assert words in refused(project, text, override).message


def test_a_command_has_nothing_of_training(project: Path) -> None:
    experiment = load(project, COMMAND)
    assert isinstance(experiment, Command)
    assert experiment.command == ("sh", "-c", "echo hi")
    assert experiment.checkpoint is None
    assert not {"model", "train", "lora"} & set(experiment.model_dump())
    assert experiment.tracking is None


@pytest.mark.parametrize("text", [SFT, COMMAND, SFT.replace("Qwen/Qwen2.5-0.5B-Instruct", "{tiny: {}}") + "lora: {}\n"])
def test_an_experiment_survives_json(project: Path, text: str) -> None:
    experiment = load(project, text)
    again = type(experiment).model_validate_json(json.dumps(experiment.model_dump(mode="json")))
    assert again.model_dump() == experiment.model_dump()


def test_a_tiny_model_has_sizes(project: Path) -> None:
    model = load_sft(project, SFT.replace("Qwen/Qwen2.5-0.5B-Instruct", "{tiny: {layers: 2}}")).model
    assert isinstance(model, TinyChoice)
    assert (model.tiny.layers, model.tiny.hidden_size, model.tiny.vocab_size) == (2, 128, 560)


def test_a_model_folder_is_found_beside_the_experiment(project: Path) -> None:
    folder = project / "mo del's $(touch x)"
    folder.mkdir()
    experiment = load_sft(project, SFT.replace("Qwen/Qwen2.5-0.5B-Instruct", json.dumps(folder.name)))
    assert experiment.local_model == folder
    assert load_sft(project, SFT).local_model is None


@pytest.mark.parametrize("name", ["off", "yes", "no", "on"])
def test_words_of_yaml_1_1_are_text(project: Path, name: str) -> None:
    experiment = load_sft(project, SFT.replace("qwen-lora", name) + "tracking: {wandb: off}\n")
    assert experiment.name == name
    assert experiment.tracking.wandb == "off"


def test_a_script_and_what_stands_in_for_on_save_is_read(project: Path) -> None:
    (project / "train.py").touch()
    text = (
        SCRIPT
        + 'arguments: [--lr, "1"]\ncheckpoint: {pattern: out/c-*, quiet_s: 5}\nresume: [--resume, "{checkpoint}"]\n'
    )
    experiment = load(project, text)
    assert experiment.checkpoint is not None
    assert experiment.resume is not None
    assert (experiment.checkpoint.pattern, experiment.checkpoint.every_steps) == ("out/c-*", None)
    assert experiment.resume.arguments == ("--resume", "{checkpoint}")
    assert type(experiment).model_validate_json(experiment.model_dump_json()).resume == experiment.resume
