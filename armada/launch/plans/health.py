"""Plan `armada bench HOST`: measure the machine itself, in the environment of its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.config.tasks.command import Command
from armada.launch.plans.payload import payload_variables
from armada.launch.plans.task import Parts, Task
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from armada.launch.plans.task import Order, Place

_MODULE = ("-m", "armada_train.bench.health")
NAME = "health"


class HealthTask(Task[Command]):
    """All GPUs of the host, in one process.

    Args:
        order: Where.
    """

    needs = "payload"

    def __init__(self, order: Order) -> None:
        words = {"name": order.name or NAME, "task": "command", "command": _MODULE, "code": None}
        super().__init__(Command.model_validate({**words, "resources": {"gpus": "all"}}), order)

    @property
    def kind(self) -> str:
        return "bench"

    @property
    def takes_gpus(self) -> bool:
        return True

    def recorded(self) -> dict[str, object]:
        return {"health": {}}

    def parts(self, place: Place) -> Parts:
        environment = self.plan_environment(place)
        payload = payload_content()
        spec = place.paths.run(place.run_id) / "spec.json"
        return Parts(
            argv=[str(place.paths.environment_python(environment.key)), *_MODULE, "--spec", str(spec)],
            variables=payload_variables(place.paths, payload),
            environment=environment,
            contents=(payload,),
            watch=None,
        )
