"""`--set` replaces values of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.experiments import SFT, load, load_sft, refused


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("train.seed=7", "train.seed", 7),
        ("train.learning_rate=1e-3", "train.learning_rate", 1e-3),
        ("name=off", "name", "off"),
        ("name='a # b'", "name", "a # b"),
        ("tracking.wandb=off", "tracking.wandb", "off"),
        ("lora.r=8", "lora.r", 8),
        ("lora={r: 8}", "lora.r", 8),
        ("model={tiny: {}}", "model.tiny.layers", 4),
        ("train.micro_batch_size=auto", "train.micro_batch_size", "auto"),
        ("env.A=1", "env", {"A": "1"}),
        ("data.train.0.weight=2", "data.train", None),
        ("resources.gpus=", "resources.gpus", None),
    ],
)
def test_an_override_replaces_one_value(project: Path, override: str, path: str, value: Any) -> None:
    found: Any = load(project, SFT, override)
    for part in path.split("."):
        found = getattr(found, part)
    if path == "data.train":
        assert found[0].weight == 2
    else:
        assert found == value


def test_the_last_override_wins(project: Path) -> None:
    experiment = load_sft(project, SFT, "train={global_batch_size: 8, max_steps: 1}", "train.seed=1", "train.seed=2")
    assert (experiment.train.global_batch_size, experiment.train.seed) == (8, 2)


@pytest.mark.parametrize(
    ("override", "words", "hint"),
    [
        ("trian.seed=5", "unknown key `trian`", "did you mean `train`?"),
        ("train.sed=5", "unknown key `train.sed`", "did you mean `train.seed`?"),
        ("lora={r: 4, alfa: 3}", "unknown key `lora.alfa`", "did you mean `lora.alpha`?"),
        ("train.seed=x", "must be a whole number, not 'x'", None),
        ("train.seed", "is written `key=value`", None),
        ("=5", "is written `key=value`", None),
        ("train..seed=5", "is written `key=value`", None),
        ("name=a # b", "read as YAML", None),
        ("name=a: b", "read as YAML", None),
        ("name='x", "not YAML", None),
        ("model.tiny.heads=2", "single value", None),
        ("data.train.1.weight=2", "not an index", None),
        ("data.train.x.weight=2", "not an index", None),
        ("data.train.0.path=zz", "there is no file", None),
        ('name="\\0"', "NUL", None),
        ("train=", "is missing", None),
        ("train=!unset", "is missing", None),
        ("retrys=!unset", "`retrys` is not in the file", None),
        ("train.sed=!unset", "`train.sed` is not in the file", None),
        ("name.a=!unset", "`name.a` is not in the file", None),
        ("data.train.0=!unset", "`data.train.0` is not in the file", None),
        ("data.train.7.path=!unset", "not an index", None),
        ("name=!unsett", "the tag !unsett is not accepted", None),
    ],
)
def test_a_wrong_override_is_named(project: Path, override: str, words: str, hint: str | None) -> None:
    error = refused(project, SFT, override)
    assert words in str(error)
    assert words == "is missing" or str(error).startswith(f"--set {override}: ")
    assert hint is None or error.hint == hint


@pytest.mark.parametrize(
    "override",
    [
        "env.TOKEN=canary-9912",
        "env={A: b, API_KEY: canary-9912}",
        "env.TOKEN=…",
        "env.DB_PASSWORD=canary",
        "env={A: b, DB_PASSWORD: canary}",
    ],
)
def test_a_secret_is_refused_and_not_repeated(project: Path, override: str) -> None:
    error = refused(project, SFT, override)
    assert "may be a secret" in str(error)
    assert "--set 'secrets=[" in str(error.hint)
    assert "canary" not in f"{error} {error.hint}"
