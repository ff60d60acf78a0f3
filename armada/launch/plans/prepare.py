"""Plan `armada prepare`: tokenise a training's data on CPUs, as a separate run."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from armada.config.tasks.bundled import BundledTraining
from armada.errors import PreflightRefused
from armada.launch.plans.bundled import BundledTask

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment
    from armada.launch.plans.task import Order, Parts, Place


class PrepareTask(BundledTask):
    """The training's own spec, of which only the data is read."""

    is_on_cpu = True

    @property
    def kind(self) -> str:
        return "prepare"

    @property
    def title(self) -> str:
        return f"{super().title}: data"

    def parts(self, place: Place) -> Parts:
        parts = super().parts(place)
        python = parts.argv[0]
        argv = [python, "-m", "armada_train", "prepare", str(place.paths.run(place.run_id) / "spec.json")]
        return dataclasses.replace(parts, argv=argv, files={}, batch=None, on_cpu=True)


def prepare_task(experiment: Experiment, order: Order) -> PrepareTask:
    """The preparation of an experiment's data.

    Raises:
        PreflightRefused: Its task has none that could be prepared.
    """
    if not isinstance(experiment, BundledTraining):
        raise PreflightRefused(
            "there is no data to prepare", hint="`armada prepare` is for trainings with the bundled trainer"
        )
    return PrepareTask(experiment, order)
