"""Choose the attention: hub kernel, flash-attn or SDPA, in this order, and say why not the earlier ones.

All three compute the same; the first two are faster on long and packed rows. The hub's kernel is fetched once and kept
in the Hugging Face cache. Only loading it shows whether it is there and fits torch and the GPU.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from armada_train.specification.values import Training

HUB_KERNEL = "kernels-community/flash-attn2"
OLDEST_CAPABILITY = (8, 0)

Attempt = Callable[[], str | None]
"""Tries one implementation; returns the reason if it cannot be used."""


@dataclass(frozen=True, slots=True)
class Attention:
    """`name` is the name in transformers, `why` a sentence for the user."""

    name: str
    why: str


def rule_out_flash(training: Training, capability: tuple[int, int] | None) -> str | None:
    """Return why no flash attention can be used at all, or None.

    Args:
        training: Has the device and precision.
        capability: Compute capability of this rank's GPU, None without one.
    """
    if training.device == "cpu":
        return "the run is on CPUs"
    if training.precision == "fp32":
        return "flash attention computes in 16 bits, but the precision is fp32"
    if capability is not None and capability < OLDEST_CAPABILITY:
        return f"flash attention needs compute capability 8.0, and this GPU has {capability[0]}.{capability[1]}"
    return None


def choose_attention(
    training: Training,
    capability: tuple[int, int] | None,
    attempts: Sequence[tuple[str, Attempt]],
    agree: Callable[[int], int],
) -> Attention:
    """Choose the first implementation that every rank can use.

    Args:
        training: The specification; any setting but `auto` is used unchanged.
        capability: See `rule_out_flash`.
        attempts: The candidates, best first: the name, and a function that tries it.
        agree: Takes this rank's choice and returns the highest of all ranks: a rank that cannot load a kernel decides
            for all.
    """
    if training.attention != "auto":
        return Attention(training.attention, "requested by the profile")
    obstacle = rule_out_flash(training, capability)
    if obstacle is not None:
        return Attention("sdpa", obstacle)
    reasons: list[str] = []
    mine = 0
    for name, attempt in attempts:
        reason = attempt()
        if reason is None:
            break
        reasons.append(f"{name}: {reason}")
        mine += 1
    chosen = agree(mine)
    if chosen > mine:
        reasons.append(f"{attempts[mine][0]}: another rank has none")
    name = attempts[chosen][0] if chosen < len(attempts) else "sdpa"
    return Attention(name, "; ".join(reasons) or "the first choice")


def try_hub_kernel() -> str | None:
    """Load the hub's flash attention, from the cache or over the network."""
    from transformers.utils.import_utils import KERNELS_MAX_VERSION, KERNELS_MIN_VERSION, is_kernels_available

    if not is_kernels_available():
        return f"the environment has no `kernels` from {KERNELS_MIN_VERSION} to below {KERNELS_MAX_VERSION}"
    from transformers.modeling_flash_attention_utils import lazy_import_flash_attention

    try:
        lazy_import_flash_attention(HUB_KERNEL)
    except Exception as error:  # every error of the hub, its cache or a third-party binary has the same meaning here
        first = str(error).strip().splitlines()
        return f"it cannot be loaded, from the cache or the hub ({first[0][:200] if first else type(error).__name__})"
    return None


def try_flash_attn() -> str | None:
    """Import flash-attn, which fails if it was built for another torch or C library."""
    from transformers.utils import is_flash_attn_2_available

    if not is_flash_attn_2_available():
        return "the environment has no flash-attn"
    try:
        importlib.import_module("flash_attn")
    except Exception as error:  # an ImportError for a symbol, or an OSError from the loader
        return f"it does not load ({type(error).__name__}: {str(error)[:200]})"
    return None


ATTEMPTS: tuple[tuple[str, Attempt], ...] = ((HUB_KERNEL, try_hub_kernel), ("flash_attention_2", try_flash_attn))
