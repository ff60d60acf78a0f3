"""The list of tasks. A new task is a module that plans it, a model of its settings, and a line here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment


@dataclass(frozen=True, slots=True)
class TaskKind:
    """The classes of a task, each as `module:class`; they are loaded when needed.

    Attributes:
        settings: What its experiments say, an `armada.config.tasks.experiment.Experiment`.
        plan: How one is planned, an `armada.launch.plans.task.Task`.
    """

    settings: str
    plan: str


_BUNDLED = "armada.launch.plans.bundled:BundledTask"

TASKS: dict[str, TaskKind] = {
    "sft": TaskKind("armada.config.tasks.sft:Sft", _BUNDLED),
    "pretrain": TaskKind("armada.config.tasks.pretrain:Pretrain", _BUNDLED),
    "dpo": TaskKind("armada.config.tasks.dpo:Dpo", _BUNDLED),
    "reward": TaskKind("armada.config.tasks.reward:Reward", _BUNDLED),
    "kto": TaskKind("armada.config.tasks.kto:Kto", _BUNDLED),
    "grpo": TaskKind("armada.config.tasks.grpo:Grpo", _BUNDLED),
    "distill": TaskKind("armada.config.tasks.distill:Distill", _BUNDLED),
    "script": TaskKind("armada.config.tasks.script:Script", "armada.launch.plans.script:ScriptTask"),
    "command": TaskKind("armada.config.tasks.command:Command", "armada.launch.plans.command:CommandTask"),
}
"""By the word after `task:`, in the order in which they are named to people."""

TRAININGS = tuple(task for task, kind in TASKS.items() if kind.plan == _BUNDLED)
"""The tasks of the bundled trainer."""

MEASURED = tuple(task for task in TRAININGS if task != "grpo")
"""The tasks whose steps `armada bench` measures. What grpo samples gets longer or shorter while it trains."""


def load(place: str) -> Any:
    """Load a class by its `module:class`."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def models() -> dict[str, type[Experiment]]:
    """The settings of every task."""
    return {task: load(kind.settings) for task, kind in TASKS.items()}


def tasks_with(key: str) -> list[str]:
    """List the tasks whose experiments may have a key."""
    fields = {task: model.model_fields.get(key) for task, model in models().items()}
    return [task for task, field in fields.items() if field is not None and not field.exclude]
