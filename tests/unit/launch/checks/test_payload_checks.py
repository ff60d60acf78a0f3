from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.config.experiments import load_experiment
from armada.launch.checks.payload import ask_payload, check_payload
from armada.launch.training.bundled_payload import payload_module
from armada.provision.environment import Environment
from tests.payload.payload_run import make_training


def environment(requirements: str = "torch==2.13.0\npeft==0.21.2\n") -> Environment:
    return Environment("cpu-0", "3.12", requirements, None, ready=True)


def check(changes: dict[str, Any], requirements: str | None = None) -> tuple[str, str]:
    section = make_training(Path("/nowhere"), **changes)
    made = environment() if requirements is None else environment(requirements)
    found = ask_payload(section, made, kind="messages")
    return found.outcome, found.message


def test_settings_that_the_payload_takes_pass() -> None:
    assert check({}) == ("ok", "the payload takes these settings")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": {"kernels": "liger"}}, "`train.kernels` need GPUs: leave it at none on a CPU"),
        ({"precision": "fp16"}, "`precision` fp16 has no loss scaling on a CPU"),
        (
            {"lora": {"target_modules": ["q_porj"]}},
            "`lora.target_modules`: the tiny model has no module named q_porj",
        ),
        ({"tracking": {"wandb": "offline"}}, "the profile's environment lacks wandb"),
    ],
)
def test_what_the_payload_would_refuse_fails_with_its_sentence(changes: dict[str, Any], said: str) -> None:
    outcome, message = check(changes)
    assert outcome == "fail"
    assert message.startswith(said)


def test_the_line_of_the_key_stands_before_it(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "x"}\n')
    (tmp_path / "e.yaml").write_text(
        "name: e\ntask: sft\nmodel: {tiny: {}}\ndata: {train: [{path: t.jsonl}]}\ntrain: {global_batch_size: 8, epochs: 1}\n"
        "lora:\n  target_modules: [q_porj]\n"
    )
    experiment = load_experiment(tmp_path / "e.yaml")
    asked = make_training(Path("/nowhere"), lora={"target_modules": ["q_porj"]})
    section = SimpleNamespace(as_json=lambda: asked)
    trained = SimpleNamespace(
        section=section, environment=environment(), model=None, kind="messages", tools=(False, False)
    )
    found = check_payload(SimpleNamespace(trained=trained, experiment=experiment))  # type: ignore[arg-type]
    assert found is not None
    assert f"{tmp_path / 'e.yaml'}:7: `lora.target_modules`: the tiny model has no module named q_porj" in found.message


@pytest.mark.parametrize("requirements", ["-r more.txt\n", "./peft.whl\n", "peft @ https://example.org/peft.whl\n"])
def test_lists_that_may_bring_anything_are_believed(requirements: str) -> None:
    assert check({}, requirements)[0] == "ok"


def test_a_model_at_home_is_looked_at_where_it_lies(tmp_path: Path) -> None:
    section = make_training(Path("/nowhere"), model={"path": "/root/of/a/host/models/1f"})
    assert ask_payload(section, environment()).outcome == "ok"
    (tmp_path / "config.json").write_text("{}")
    found = ask_payload(section, environment(), model=tmp_path)
    assert (found.outcome, found.message.partition(":")[0]) == (
        "fail",
        f"the model's folder {tmp_path} has no weights",
    )


def test_a_module_that_needs_torch_is_not_loaded_at_home() -> None:
    with pytest.raises(ValueError, match=r"model\.loading is not known to run at home"):
        payload_module("model.loading")


def test_the_checks_are_those_of_the_bundled_payload_and_bring_no_library() -> None:
    program = (
        "import sys; from armada.launch.training.bundled_payload import _WITHOUT_TORCH, payload_module\n"
        "files = {payload_module(name).__file__ for name in sorted(_WITHOUT_TORCH)}\n"
        "print(*sorted(files), *sorted({'torch', 'numpy', 'datasets', 'pyarrow'} & sys.modules.keys()), sep='\\n')"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    folder = Path(__file__).parents[4] / "remote_payload" / "armada_train"
    assert all(Path(line).is_relative_to(folder) for line in said if line)
