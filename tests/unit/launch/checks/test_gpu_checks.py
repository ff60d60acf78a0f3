"""What a launch says of the GPUs: of their kind, and of a profile that was derived from them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.config.profile_choice import choose_profile
from armada.config.profiles import load_profile
from armada.config.tasks.command import Command
from armada.config.tasks.sft import Sft
from armada.launch.checks.check import Answer
from armada.launch.checks.gpus import check_bf16, check_kind, check_number
from armada.launch.checks.memory import find_gpu_memory
from armada.launch.checks.subject import Subject
from armada.paths import HomePaths
from tests.host_facts import TOOLS, facts

SFT = Sft.model_construct(name="e", task="sft")
COMMAND = Command.model_construct(name="e", task="command")


@pytest.fixture
def home(tmp_path: Any) -> HomePaths:
    return HomePaths(tmp_path / "config", tmp_path / "state")


def subject(home: HomePaths, *, experiment: Any = SFT, profile: str | None = None, **told: Any) -> Subject:
    there = facts(**told)
    chosen = load_profile(profile, home) if profile else choose_profile(there.hardware.gpus, home).profile
    values: dict[str, Any] = {"travelling_bytes": 0, "fetched_bytes": 0, "checkpoint_bytes": 0}
    return Subject(
        experiment=experiment,
        host=Host.model_validate({"name": "desk", "ssh": "desk", "profile": profile}),
        profile=chosen,
        facts=there,
        gpus=min(len(there.gpus), chosen.gpus.count),
        processes=1,
        precision=chosen.train.precision,
        **values,
    )


def kind(asked: Subject) -> Answer:
    found = check_kind(asked)
    assert found is not None
    return found


def test_a_derived_profile_is_said_to_be_one_with_what_it_decides(home: HomePaths) -> None:
    gpu = {"name": "Quadro RTX 8000", "compute_capability": "7.5", "memory_total_bytes": 48 << 30}
    answer = kind(subject(home, gpus=[gpu]))
    assert answer.outcome == "warn"
    assert "derived:1x-quadro-rtx-8000 is derived from them: fp16, micro batch 1" in answer.message
    assert answer.hint is not None
    assert answer.hint.startswith("armada profiles detect desk --save NAME")


def test_a_profile_that_fits_is_not_warned_about(home: HomePaths) -> None:
    assert kind(subject(home, gpus=[{}] * 3)).outcome == "ok"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"amd_gpus": 8}, "the host has 8 AMD GPUs, which armada does not use"),
        ({"tools": TOOLS | {"nvidia_smi": "/usr/bin/nvidia-smi"}}, "nvidia-smi, which shows no GPU"),
    ],
)
def test_gpus_that_cannot_be_used_are_named_where_a_training_would_use_them(
    home: HomePaths, told: dict[str, Any], words: str
) -> None:
    answer = kind(subject(home, **told))
    assert (answer.outcome, words in answer.message) == ("warn", True)
    assert kind(subject(home, experiment=COMMAND, **told)).outcome == "ok"
    assert kind(subject(home, profile="cpu", **told)).outcome == "ok"  # somebody said that it is to be so
    assert kind(subject(home)).outcome == "ok"


def test_a_process_has_the_memory_of_its_slice(home: HomePaths) -> None:
    divided = subject(home, gpus=[{"slices": ["MIG 2g.20gb", "MIG 1g.10gb"]}] * 2)
    assert divided.gpus == 1
    assert find_gpu_memory(divided)[0] == 10 << 30
    assert "MIG slices (MIG 1g.10gb, MIG 2g.20gb)" in kind(divided).message
    assert find_gpu_memory(subject(home, gpus=[{}]))[0] == 80 << 30


def test_a_run_cannot_take_several_slices(home: HomePaths) -> None:
    divided = subject(home, gpus=[{"slices": ["MIG 1g.10gb"]}] * 2)
    one, two = check_number(divided), check_number(dataclasses.replace(divided, gpus=2))
    assert one is not None
    assert two is not None
    assert (one.outcome, two.outcome) == ("ok", "fail")
    assert "a run can use one slice" in two.message


@pytest.mark.parametrize(
    ("name", "told", "outcome", "words"),
    [
        ("NVIDIA A100-SXM4-80GB", "8.0", "ok", "precision bf16"),
        ("NVIDIA A100-SXM4-80GB", None, "ok", "precision bf16"),  # the profile's own kind
        ("NVIDIA A100-PCIE-40GB", None, "ok", "precision bf16"),
        ("Tesla V100-SXM2-16GB", None, "fail", "Tesla V100-SXM2-16GB has 7.0"),
        ("Quadro RTX 8000", "7.5", "fail", "Quadro RTX 8000 has 7.5"),
        ("Quadro P4000", None, "warn", "it is not known whether Quadro P4000 has bf16"),
        ("Quadro P4000", "nan", "warn", "it is not known whether Quadro P4000 has bf16"),
        ("Quadro P4000", "odd", "warn", "it is not known whether Quadro P4000 has bf16"),
    ],
)
def test_bf16_is_in_order_only_where_the_gpu_is_known_to_have_it(
    home: HomePaths, name: str, told: str | None, outcome: str, words: str
) -> None:
    gpu = {"name": name, "compute_capability": told}
    asked = subject(home, profile="a100-80gb", gpus=[gpu])
    answer = check_bf16(asked)
    assert answer is not None
    assert (answer.outcome, words in answer.message) == (outcome, True)
    without = check_bf16(dataclasses.replace(asked, precision="fp32"))
    assert without is not None
    assert without.outcome == "ok"
