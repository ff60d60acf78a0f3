from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.model_names import mistyped_folder, models_beside


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("model", "models/llama-tuned", "models/v2", "Qwen/Qwen2.5-1.5B", "data/model"):
        (tmp_path / name).mkdir(parents=True)
        if not name.startswith("data"):
            (tmp_path / name / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("modle", "model"),
        ("models/lama-tuned", "models/llama-tuned"),
        ("modles/llama-tuned", "models/llama-tuned"),
        ("models/other", None),
        ("Qwen/Qwen2.5-0.5B", None),  # another size
        ("models/v3", None),
        ("data/modle", None),  # no model lies there
        ("gpt2", None),
        ("meta-llama/Llama-3.2-1B", None),
    ],
)
def test_a_mistyped_folder_is_known_by_a_model_of_a_near_name(base: Path, name: str, meant: str | None) -> None:
    assert mistyped_folder(name, base) == meant


def test_models_that_lie_beside_a_hub_id_are_listed(base: Path) -> None:
    assert models_beside("Qwen/Qwen2.5-0.5B", base) == ["Qwen/Qwen2.5-1.5B"]
    assert models_beside("models/v3", base) == ["models/llama-tuned", "models/v2"]
    assert models_beside("gpt2", base) == []
    assert models_beside("data/model", base) == []
