"""Load another training's optimizer moments, without its schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from armada_train.failure import PayloadFailure


def load_moments(optimizer: Any, file: Path) -> None:
    """Copy each weight's moments.

    Adam's step count is copied too: it tells how far the moments are from their start at zero. With a count of zero the
    first update would be a third of its size, and the next thousand steps would be wrong as well. Learning rate, weight
    decay and all other settings of the groups stay as in this training.

    Args:
        optimizer: This training's optimizer, without any state yet.
        file: The other training's optimizer.pt.

    Raises:
        PayloadFailure: `bad_spec`: the moments belong to other weights.
    """
    saved = torch.load(file, map_location="cpu", weights_only=True)
    own = optimizer.state_dict()
    sizes = [[len(group["params"]) for group in state["param_groups"]] for state in (saved, own)]
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if sizes[0] != sizes[1]:
        raise _misfit(file, f"it has moments for {sum(sizes[0])} weights, but this training trains {len(weights)}")
    if not any("exp_avg_sq" in values for values in saved["state"].values()):
        raise _misfit(file, "it has no moments of AdamW: another optimizer wrote it")
    for number, weight in enumerate(weights):
        moments = [value for value in saved["state"].get(number, {}).values() if torch.is_tensor(value) and value.dim()]
        if moments and "exp_avg_sq" not in saved["state"][number]:
            raise _misfit(file, f"weight {number} has no moments of AdamW: another optimizer wrote it")
        wrong = next((moment for moment in moments if moment.shape != weight.shape), None)
        if wrong is not None:
            raise _misfit(file, f"weight {number} is {tuple(weight.shape)}, its moments are {tuple(wrong.shape)}")
    optimizer.load_state_dict({**own, "state": saved["state"]})


def _misfit(file: Path, why: str) -> PayloadFailure:
    return PayloadFailure("bad_spec", f"`training.start_from.optimizer`: {file} does not fit: {why}")
