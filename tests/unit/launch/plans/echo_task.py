"""A task of its own: all that one is, in one module."""

from __future__ import annotations

from typing import Literal

from armada.config.settings import FilledText
from armada.config.tasks.experiment import Experiment
from armada.launch.plans.task import Parts, Place, Task


class Echo(Experiment):
    """Says one thing."""

    takes_gpus = False

    task: Literal["echo"]
    sentence: FilledText
    """What to say."""


class EchoTask(Task[Echo]):
    """As a command."""

    def parts(self, place: Place) -> Parts:
        return Parts(argv=["echo", self.settings.sentence], variables={"SAID_BY": place.run_id})
