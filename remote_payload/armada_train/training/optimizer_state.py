"""Load another training's optimizer moments, without its schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from armada_train.failure import PayloadFailure


def load_moments(optimizer: Any, file: Path) -> None:
    """Take each weight's moments over.

    Adam's own count of steps comes with them: it says how far they are from their start at zero. With a count of zero the
    first update would be a third of its size, and the next ones off for a thousand steps. Learning rate, weight decay and
    all else of the groups stay as this training has them.

    Args:
        optimizer: Of this training, without any state yet.
        file: The other's optimizer.pt.

    Raises:
        PayloadFailure: `bad_spec`: they are moments of other weights.
    """
    saved = torch.load(file, map_location="cpu", weights_only=True)
    own = optimizer.state_dict()
    sizes = [[len(group["params"]) for group in state["param_groups"]] for state in (saved, own)]
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if sizes[0] != sizes[1]:
        raise _misfit(file, f"it has moments for {sum(sizes[0])} weights, but this training trains {len(weights)}")
    for number, weight in enumerate(weights):
        moments = [value for value in saved["state"].get(number, {}).values() if torch.is_tensor(value) and value.dim()]
        wrong = next((moment for moment in moments if moment.shape != weight.shape), None)
        if wrong is not None:
            raise _misfit(file, f"weight {number} is {tuple(weight.shape)}, its moments are {tuple(wrong.shape)}")
    optimizer.load_state_dict({**own, "state": saved["state"]})


def _misfit(file: Path, why: str) -> PayloadFailure:
    return PayloadFailure("bad_spec", f"`training.start_from.optimizer`: {file} does not fit: {why}")
