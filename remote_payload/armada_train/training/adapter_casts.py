"""Leave out casts of LoRA's inputs that autocast undoes at once.

PEFT keeps adapters in fp32, and casts the input of every layer with an adapter to fp32; autocast casts it back for the
product. That reads and writes every activation twice, forward and backward, and keeps a copy of it for the backward
pass in each layer, for the same bits. The decision is made anew at every forward, because some run without autocast:
generation, and everything under DeepSpeed.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

# PEFT's own switch (`cast_input_dtype_enabled`) does not ask for autocast. A later release may have no such method.
_CAST = getattr(BaseTunerLayer, "_cast_input_dtype", None)


def leave_out_casts() -> None:
    """Leave them out in all layers of this process from now on."""
    if _CAST is not None:
        BaseTunerLayer._cast_input_dtype = _cast_unless_undone  # noqa: SLF001  # there is no other seam


def _cast_unless_undone(layer: Any, x: Any, dtype: Any) -> Any:
    return x if x is not None and is_undone(layer, x) else cast("Any", _CAST)(layer, x, dtype)


def is_undone(layer: Any, x: Any) -> bool:
    """Tell whether autocast gives the input the type that it has already, in all that is computed of it.

    Not so with DoRA and other variants: they compute norms of weights in the input's type.
    """
    device = x.device.type
    if not torch.is_autocast_enabled(device) or x.dtype != torch.get_autocast_dtype(device):
        return False
    return getattr(layer, "lora_variant", None) == {}
