"""Parameters are counted exactly, and a hostile config.json costs nothing but a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armada.launch.estimates.parameters import count_adapter, count_parameters
from armada.launch.estimates.shape import LONGEST_CONFIG, UnknownShapeError, parse_config, read_positions, read_shape
from armada.launch.training.bundled_payload import payload_module

COUNTED: dict[str, Any] = json.loads(Path(__file__).with_name("counted_models.json").read_text())
"""`AutoModelForCausalLM.from_config` (transformers 5.23) and `get_peft_model` (PEFT 0.21.2, r 16, all-linear) on torch's meta device."""

LLAMA: dict[str, Any] = COUNTED["llama-3.1-8b"]["config"]


@pytest.mark.parametrize("name", COUNTED)
def test_parameters_are_counted_as_transformers_and_peft_make_them(name: str) -> None:
    counted = COUNTED[name]
    shape = read_shape(counted["config"])
    assert count_parameters(shape) == counted["parameters"]
    assert count_adapter(shape, 16) == counted["adapter"]


def test_an_adapter_of_named_modules_has_only_theirs() -> None:
    shape = read_shape(LLAMA)
    some = count_adapter(shape, 8, ("q_proj", "self_attn.v_proj"))
    assert some == 32 * 8 * ((4096 + 4096) + (4096 + 1024))
    assert count_adapter(shape, 8, ("q_proj", "v_proj"), dora=True) == some + 32 * (4096 + 1024)
    assert count_adapter(shape, 8, ("nothing",)) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": 10**30}, "hidden_size in its config.json is 1e+30"),
        ({"hidden_size": 10**400}, "hidden_size in its config.json is a huge number"),
        ({"hidden_size": -1}, "hidden_size in its config.json is -1"),
        ({"hidden_size": "4096"}, "hidden_size in its config.json is '4096'"),
        ({"hidden_size": True}, "hidden_size in its config.json is a bool"),
        ({"hidden_size": 4096.0}, "hidden_size in its config.json is 4096"),
        ({"hidden_size": None}, "its config.json has no hidden_size"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers in its config.json is 1e+06"),
        ({"num_key_value_heads": [8]}, "num_key_value_heads in its config.json is a list"),
        ({"hidden_size": 8, "num_attention_heads": 32}, "32 attention heads for a hidden_size of 8"),
        ({"model_type": "\x1b[2Jmamba"}, r"models of type '\x1b[2Jmamba' are not known to it"),
        ({"model_type": {}}, "config.json has no model_type"),
        ({"model_type": ["llama"]}, "models of type a list are not known to it"),
    ],
)
def test_a_config_with_impossible_sizes_is_not_believed(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UnknownShapeError) as refused:
        read_shape({**LLAMA, **change})
    assert said in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<html>sign in</html>", "config.json is not JSON"),
        ("[1]", "config.json is not a JSON object"),
        ("[" * 200_000, "config.json is not JSON"),
        (b"\xff\xfe\x00", "config.json is not JSON"),
        (" " * (LONGEST_CONFIG + 1), "config.json is longer than 1000 kB"),
        ('{"hidden_size": ' + "9" * 10_000 + "}", "config.json is not JSON"),
    ],
)
def test_a_config_that_is_none_is_refused_with_a_reason(text: str | bytes, said: str) -> None:
    with pytest.raises(UnknownShapeError, match=said):
        parse_config(text)


@pytest.mark.parametrize(
    ("scaling", "positions"),
    [
        (None, 4096),
        ({"rope_type": "linear", "factor": 2.0}, 8192),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16_384),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}, 4096),
        ({"rope_type": "linear", "factor": "8"}, 4096),
        ({"rope_type": "linear", "factor": -3}, 4096),
        ({"rope_type": "linear", "factor": 1e300}, 4096),
        ({"rope_type": ["linear"], "factor": 2}, 4096),
        ("linear", 4096),
    ],
)
def test_the_longest_row_regards_rope_scaling(scaling: object, positions: int) -> None:
    assert read_positions({"max_position_embeddings": 4096, "rope_scaling": scaling}) == positions
    assert payload_module("model.files").usable_positions(4096, scaling) == positions


def test_positions_that_are_missing_or_absurd_are_unknown() -> None:
    assert read_positions({}) is None
    assert read_positions({"max_position_embeddings": -5}) is None
    assert read_positions({"n_positions": 1024}) == 1024
