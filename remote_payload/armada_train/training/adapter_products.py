"""Add LoRA's product to its layer's output within the product itself.

PEFT writes the product, a scaled copy of it, and the sum of that and the layer's output: each as large as the output, which in a
feed-forward layer is several times as wide as the hidden states. The scale belongs to the small product before it, and a
matrix product can add to what is there. That rounds once instead of three times. It is for trainings under autocast, and for plain
LoRA of one adapter on a layer that is not quantized; everything else goes PEFT's way.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from peft.tuners.lora.layer import Linear

from armada_train.training.adapter_casts import is_undone


def add_within_products() -> None:
    """Do so in all layers of this process from now on."""
    plain = Linear.forward
    if hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def forward(layer: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        name = None if args or kwargs or x.dim() < 2 else _only_adapter(layer)
        if name is None or not is_undone(layer, x):
            return plain(layer, x, *args, **kwargs)
        # In rows: a product added into a view would have autograd copy the gradient three times.
        rows = x.flatten(0, -2)
        result = layer.base_layer(rows)
        small = layer.lora_A[name](layer.lora_dropout[name](rows)) * layer.scaling[name]
        # Nothing needs the layer's own output any more, not even its gradient.
        result.addmm_(small, layer.lora_B[name].weight.to(result.dtype).t())
        return result.view(*x.shape[:-1], result.shape[-1])

    Linear.forward = forward


def _only_adapter(layer: Any) -> str | None:
    """Return the name of the one adapter of a plain layer, if it is in use and has no bias."""
    names = layer.active_adapters
    if layer.disable_adapters or layer.merged or len(names) != 1 or names[0] not in layer.lora_A:
        return None
    # Of another kind of layer, the output may be a view, or kept for the backward pass.
    is_plain = type(layer.base_layer) is torch.nn.Linear and layer.lora_B[names[0]].bias is None
    return str(names[0]) if is_plain else None
