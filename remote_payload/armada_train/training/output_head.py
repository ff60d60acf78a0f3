"""Compute the loss with all logits at once where `training.train.logits` says so; TRL otherwise computes them in tiles.

TRL 1.16 has tiles alone. Its backward pass computes each tile again, which on CPUs costs more time than the whole loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional
from trl.trainer import utils as trl_utils

from armada_train.failure import PayloadFailure

_ROWS = 64
_NAME = "_ChunkedLogProbFunction"
_KNOWN = frozenset({"log_probs", "entropy", "mean_logits", "is_top1"})
"""What TRL's trainers of supervised tasks ask for; tiles compute anything else."""


def use_whole_logits() -> None:
    """Let TRL's fused output head keep all logits from the forward to the backward pass.

    Raises:
        PayloadFailure: `env_error`: this TRL computes its loss in another way.
    """
    tiles = getattr(trl_utils, _NAME, None)
    if tiles is None:
        raise PayloadFailure(
            "env_error", "`training.train.logits` whole does not go with this TRL, which has another loss: use tiles"
        )
    if not isinstance(tiles, WholeLogits):
        setattr(trl_utils, _NAME, WholeLogits(tiles))


class WholeLogits:
    """Stands in for TRL's function in tiles, with the same arguments and results.

    Without gradients, as in evaluation and for a reference, nothing is computed twice: tiles are as fast there, and need
    less memory.
    """

    def __init__(self, tiles: Any) -> None:
        self._tiles = tiles

    def apply(
        self,
        hidden: Any,
        weight: Any,
        bias: Any,
        targets: Any,
        temperature: float,
        chunk_size: int,
        softcap: float | None = None,
        logit_scale: float = 1.0,
        outputs: Sequence[str] = (),
    ) -> tuple[Any, ...]:
        """Return the log-probability of each target; entropy, None, the mean logit, and whether the target is likeliest.

        Args:
            hidden: Hidden states, of shape (tokens, width).
            weight: The output head, of shape (words, width).
            bias: Of shape (words,), or None.
            targets: Of shape (tokens,).
            temperature: Divides the logits.
            chunk_size: Of a tile, in words.
            softcap: The model's own limit on logits; None without.
            logit_scale: Multiplies the logits.
            outputs: The names of the optional results that are wanted.
        """
        if not torch.is_grad_enabled() or not _KNOWN.issuperset(outputs):
            given = (hidden, weight, bias, targets, temperature, chunk_size, softcap, logit_scale, tuple(outputs))
            found: tuple[Any, ...] = self._tiles.apply(*given)
            return found
        logits = functional.linear(hidden, weight, bias).float()
        if logit_scale != 1.0:
            logits = logits * logit_scale
        if softcap is not None:
            logits = softcap * torch.tanh(logits / softcap)
        if temperature != 1.0:
            logits = logits / temperature
        log_probs = functional.log_softmax(logits, dim=-1)
        taken = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            entropy = _entropy(log_probs) if "entropy" in outputs else None
            mean = logits.mean(-1) if "mean_logits" in outputs else None
            is_top1 = log_probs.argmax(-1) == targets if "is_top1" in outputs else None
        return taken, entropy, None, mean, is_top1


def _entropy(log_probs: Any) -> Any:
    """Return the entropy of each token's distribution, without a second copy of all of them."""
    return torch.cat([-(part.exp() * part).sum(-1) for part in log_probs.split(_ROWS)])
