"""Read a model's shape from its config.json. Its values come from other people, so each is checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_CONFIG = 1_000_000
"""Bytes; the longest config.json of a known model has 60 kB."""

_MOST = 100_000_000
_MOST_LAYERS = 10_000
_TIED = frozenset({"gemma", "gemma2", "gemma3_text", "gpt2"})
_QK_NORMS = frozenset({"qwen3", "qwen3_moe", "gemma3_text"})
_FOUR_NORMS = frozenset({"gemma2", "gemma3_text"})
_PLAIN = frozenset({"gpt2", "gpt_neox"})
_HEAD_SIZES = {"gemma": 256, "gemma2": 256, "gemma3_text": 256, "qwen3": 128}
_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
"""GPT-2's names."""

KNOWN = (
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "gpt_neox",
    "llama",
    "mistral",
    "mixtral",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
)
"""The values of `model_type` that are understood."""


class UnknownShapeError(ValueError):
    """A config.json does not say what is needed; the message says what, as part of a sentence."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder-only transformer.

    Attributes:
        kind: `model_type`.
        head_size: Numbers of one attention head.
        intermediate: Width of the feed-forward layers, of one expert in layers with experts.
        dense_intermediate: Width of the feed-forward layers in layers without experts.
        activation: `hidden_act`; None if it does not say.
        positions: The longest row that the model is made for, with its RoPE scaling; None if it does not say.
        learned_positions: Whether positions beyond that do not exist.
        experts: Experts of a layer; 0 without.
        expert_layers: How many layers have experts.
    """

    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    dense_intermediate: int
    vocabulary: int
    tied: bool
    positions: int | None = None
    learned_positions: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_layers: int = 0
    activation: str | None = None

    @property
    def attention(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        """Width of all key heads together."""
        return self.kv_heads * self.head_size

    @property
    def is_plain(self) -> bool:
        """Two linear layers with biases in the feed-forward part, and norms with biases, as in GPT-2."""
        return self.kind in _PLAIN

    @property
    def has_qk_norms(self) -> bool:
        return self.kind in _QK_NORMS

    @property
    def norms(self) -> int:
        """Norms of one layer, without those of queries and keys."""
        return 4 if self.kind in _FOUR_NORMS else 2


def parse_config(text: str | bytes) -> dict[str, object]:
    """Parse a config.json.

    Raises:
        UnknownShapeError: It is too long, or no JSON object.
    """
    if len(text) > LONGEST_CONFIG:
        raise UnknownShapeError(f"config.json is longer than {LONGEST_CONFIG // 1000} kB")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise UnknownShapeError("config.json is not JSON") from None
    if not isinstance(config, dict):
        raise UnknownShapeError("config.json is not a JSON object")
    return config


def read_shape(config: Mapping[str, object]) -> ModelShape:
    """Return a model's shape.

    Args:
        config: The content of its config.json.

    Raises:
        UnknownShapeError: The type of model is not known, or a size is missing or impossible.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KNOWN:
        raise UnknownShapeError(
            f"models of type {_shown(kind)} are not known to it" if kind else "config.json has no model_type"
        )
    sizes = _Sizes(config)
    hidden, heads = sizes.need("hidden_size"), sizes.need("num_attention_heads")
    head_size = sizes.find("head_dim") or _HEAD_SIZES.get(kind) or hidden // heads
    layers = sizes.need("num_hidden_layers", most=_MOST_LAYERS)
    dense = sizes.find("intermediate_size") or (4 * hidden if kind == "gpt2" else sizes.need("intermediate_size"))
    experts = {"mixtral": "num_local_experts", "qwen3_moe": "num_experts"}.get(kind)
    if head_size < 1:
        raise UnknownShapeError(f"its config.json has {heads} attention heads for a hidden_size of {hidden}")
    return ModelShape(
        kind=kind,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=sizes.find("num_key_value_heads") or heads,
        head_size=head_size,
        intermediate=sizes.need("moe_intermediate_size") if kind == "qwen3_moe" else dense,
        dense_intermediate=dense,
        vocabulary=sizes.need("vocab_size"),
        tied=_flag(config, "tie_word_embeddings", default=kind in _TIED),
        positions=read_positions(config),
        learned_positions=kind == "gpt2",
        attention_bias=_flag(config, "attention_bias", default=kind == "gpt_neox"),
        mlp_bias=_flag(config, "mlp_bias", default=False),
        experts=sizes.need(experts) if experts else 0,
        experts_per_token=sizes.need("num_experts_per_tok") if experts else 0,
        expert_layers=_expert_layers(config, sizes, layers) if experts else 0,
        activation=str(config["hidden_act"])[:40] if "hidden_act" in config else None,
    )


def read_positions(config: Mapping[str, object]) -> int | None:
    """Return the longest row that a model is made for, in tokens; None if its config.json does not say.

    `max_position_embeddings` contains the factor of RoPE scaling for Llama 3 and LongRoPE, and lacks it where a user adds
    `linear`, `dynamic` or `yarn` scaling, as Qwen's model cards recommend.
    """
    sizes = _Sizes(config)
    try:
        given = sizes.find("max_position_embeddings")
        if given is None:
            return None
        scaling = config.get("rope_scaling") or config.get("rope_parameters")
        if not isinstance(scaling, Mapping):
            return given
        kind = scaling.get("rope_type") or scaling.get("type")
        factor = scaling.get("factor")
        if kind not in ("linear", "dynamic", "yarn") or isinstance(factor, bool) or not isinstance(factor, int | float):
            return given
        original = _Sizes(scaling).find("original_max_position_embeddings") or given
    except UnknownShapeError:
        return None
    return max(given, int(original * factor)) if 1 <= factor <= 10_000 else given


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The whole numbers of a config.json."""

    config: Mapping[str, object]

    def find(self, key: str, most: int = _MOST) -> int | None:
        """Return a size, None if it is missing.

        Raises:
            UnknownShapeError: It is no number from 1 to `most`.
        """
        name = key if self.config.get(key) is not None else _NAMES.get(key, key)
        value = self.config.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise UnknownShapeError(f"{name} in its config.json is {_shown(value)}")
        return value

    def need(self, key: str, most: int = _MOST) -> int:
        value = self.find(key, most)
        if value is None:
            raise UnknownShapeError(f"its config.json has no {key}")
        return value


def _expert_layers(config: Mapping[str, object], sizes: _Sizes, layers: int) -> int:
    """Count the layers with experts: every `decoder_sparse_step`th, except those in `mlp_only_layers`."""
    step = sizes.find("decoder_sparse_step") or 1
    listed = config.get("mlp_only_layers")
    dense = {value for value in listed if isinstance(value, int)} if isinstance(listed, list) else set()
    return sum((number + 1) % step == 0 and number not in dense for number in range(layers))


def _flag(config: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = config.get(key)
    return value if isinstance(value, bool) else default


def _shown(value: object) -> str:
    """Return a foreign value for a message: short, and printable."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.6g}" if abs(value) < 1e300 else "a huge number"
    return ascii(value)[:60] if isinstance(value, str) else f"a {type(value).__name__}"
