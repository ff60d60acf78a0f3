"""Count a model's parameters and those of an adapter, as transformers and PEFT make them.

The counts equal those of `AutoModelForCausalLM.from_config` of transformers 5.23 and `get_peft_model` of PEFT 0.21.2
(tests/unit/launch/estimates/counted_models.json).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from armada.launch.estimates.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Linear:
    """A kind of linear layer: its module's name, its widths, and how many the model has."""

    name: str
    inputs: int
    outputs: int
    count: int

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs * self.count


def list_linears(shape: ModelShape) -> tuple[Linear, ...]:
    """List a model's linear layers, without the output head and experts."""
    layers, h, a, k = shape.layers, shape.hidden, shape.attention, shape.keys
    dense, f = layers - shape.expert_layers, shape.dense_intermediate
    if shape.kind == "gpt2":
        attention = [Linear("c_attn", h, 3 * h, layers), Linear("c_proj", h, h, layers)]
        return (*attention, Linear("c_fc", h, f, layers), Linear("c_proj", f, h, layers))
    if shape.kind == "gpt_neox":
        attention = [Linear("query_key_value", h, 3 * h, layers), Linear("dense", h, h, layers)]
        return (*attention, Linear("dense_h_to_4h", h, f, layers), Linear("dense_4h_to_h", f, h, layers))
    if shape.kind == "phi3":
        attention = [Linear("qkv_proj", h, a + 2 * k, layers), Linear("o_proj", a, h, layers)]
        return (*attention, Linear("gate_up_proj", h, 2 * f, layers), Linear("down_proj", f, h, layers))
    attention = [
        Linear("q_proj", h, a, layers),
        Linear("k_proj", h, k, layers),
        Linear("v_proj", h, k, layers),
        Linear("o_proj", a, h, layers),
    ]
    if not dense:
        return tuple(attention)
    return (
        *attention,
        Linear("gate_proj", h, f, dense),
        Linear("up_proj", h, f, dense),
        Linear("down_proj", f, h, dense),
    )


def count_parameters(shape: ModelShape) -> int:
    """Return the number of all parameters."""
    embeddings = shape.vocabulary * shape.hidden * (1 if shape.tied else 2)
    positions = (shape.positions or 0) * shape.hidden if shape.learned_positions else 0
    linear = sum(layer.weights for layer in list_linears(shape))
    return embeddings + positions + linear + count_experts(shape) + _count_small(shape)


def count_experts(shape: ModelShape) -> int:
    """Return the number of the experts' weights and those of their routers."""
    each = shape.experts * 3 * shape.hidden * shape.intermediate + shape.experts * shape.hidden
    return shape.expert_layers * each


def count_adapter(
    shape: ModelShape, rank: int, targets: Literal["all-linear"] | Iterable[str] = "all-linear", *, dora: bool = False
) -> int:
    """Return the number of a LoRA adapter's parameters.

    Args:
        shape: The base.
        rank: LoRA's r.
        targets: The names of modules as in PEFT's `target_modules`; the last part of a name counts.
        dora: Whether each module has a magnitude per output.
    """
    names = None if targets == "all-linear" else {name.rpartition(".")[2] for name in targets}
    chosen = [layer for layer in list_linears(shape) if names is None or layer.name in names]
    adapter = sum((rank * (each.inputs + each.outputs) + dora * each.outputs) * each.count for each in chosen)
    if not shape.experts or not (names is None or names & {"experts", "gate_up_proj", "gate_proj", "down_proj"}):
        return adapter
    # transformers fuses the gate and up projections of experts, and PEFT gives the pair twice the rank.
    h, f = shape.hidden, shape.intermediate
    expert = 2 * rank * (h + 2 * f) + rank * (f + h)
    return adapter + shape.expert_layers * (shape.experts * expert + rank * (h + shape.experts))


def _count_small(shape: ModelShape) -> int:
    """Count norms and biases."""
    h, a, k = shape.hidden, shape.attention, shape.keys
    dense, f = shape.layers - shape.expert_layers, shape.dense_intermediate
    norm = 2 * h if shape.is_plain else h
    each = shape.norms * norm + (2 * shape.head_size if shape.has_qk_norms else 0)
    if shape.kind == "gpt2" or (shape.kind == "gpt_neox" and shape.attention_bias):
        each += 3 * h + h
    elif shape.kind == "qwen2":
        each += a + 2 * k
    elif shape.attention_bias:
        each += a + 2 * k + h
    mlp = f + h if shape.is_plain else 2 * f + h if shape.mlp_bias else 0
    return shape.layers * each + dense * mlp + norm
