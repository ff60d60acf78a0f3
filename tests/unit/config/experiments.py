"""Experiments that the tests write, and how they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.experiments import load_experiment
from armada.config.tasks.experiment import Experiment
from armada.config.tasks.sft import Sft
from armada.errors import ConfigError

SFT = """\
name: qwen-lora
task: sft
model: Qwen/Qwen2.5-0.5B-Instruct
data: {train: [{path: data/train.jsonl, weight: 1.0}], eval: [{path: data/eval.jsonl}]}
train: {global_batch_size: 16, max_steps: 200}
"""
COMMAND = "name: c\ntask: command\ncommand: [sh, -c, 'echo hi']\n"
SCRIPT = "name: s\ntask: script\nscript: train.py\ncode: .\n"


def load(project: Path, text: str, *overrides: str) -> Experiment:
    file = project / "e.yaml"
    file.write_text(text)
    return load_experiment(file, overrides)


def load_sft(project: Path, text: str, *overrides: str) -> Sft:
    found = load(project, text, *overrides)
    assert isinstance(found, Sft)
    return found


def refused(project: Path, text: str, *overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(project, text, *overrides)
    return caught.value
