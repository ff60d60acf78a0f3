"""The trainer of each task: one of TRL's, with what `training.trainer` adds."""

from __future__ import annotations

import importlib

from armada_train.specification.objectives import Objective
from armada_train.training.trainer import Trainer


def trainer_of(objective: Objective) -> type[Trainer]:
    """Return an objective's trainer; only its own module of TRL is imported."""
    module = importlib.import_module(f"{__name__}.{objective.name}")
    found: type[Trainer] = module.TRAINER
    return found
