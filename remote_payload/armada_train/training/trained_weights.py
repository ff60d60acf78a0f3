"""Keep in fp32 what is trained beside an adapter: whole modules, and the head of a model that scores.

PEFT keeps adapters in fp32, but copies these modules in the type of the base. In 16 bits, most updates at usual learning
rates are smaller than the next number: with bf16 and 1e-5, 3 % of a head's weights ever changed.
"""

from __future__ import annotations

from typing import Any

import torch

_NARROW = (torch.bfloat16, torch.float16)


def widen(model: Any) -> None:
    """Convert trained weights of 16 bits to fp32, and have their modules take and return what they did before.

    The layers around them stay in 16 bits, and some forward passes run without autocast: those that sample, for example.
    """
    for module in model.modules():
        narrow = [
            weight for weight in module.parameters(recurse=False) if weight.requires_grad and weight.dtype in _NARROW
        ]
        if not narrow:
            continue
        before = narrow[0].dtype
        for weight in narrow:
            weight.data = weight.data.float()
        module.register_forward_pre_hook(_cast_input)
        module.register_forward_hook(_cast_output_to(before))


def _cast_input(module: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give a module numbers of its own type, unless autocast chooses the type."""
    weight = next(module.parameters(recurse=False))
    if torch.is_autocast_enabled(weight.device.type):
        return given
    return tuple(_cast(each, weight.dtype) for each in given)


def _cast_output_to(dtype: Any) -> Any:
    def cast_output(_module: Any, _given: Any, output: Any) -> Any:
        return _cast(output, dtype)

    return cast_output


def _cast(value: Any, dtype: Any) -> Any:
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
