"""Find the task that plans an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.config.tasks.registry import TASKS, load
from armada.launch.plans.task import Task

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment
    from armada.launch.plans.task import Order


def task_of(experiment: Experiment, order: Order) -> Task[Any]:
    """The task that an experiment names.

    Raises:
        TypeError: What is registered under its name is no task.
    """
    task = load(TASKS[experiment.task].plan)(experiment, order)
    if not isinstance(task, Task):
        message = f"{TASKS[experiment.task].plan} is no Task"
        raise TypeError(message)
    return task
