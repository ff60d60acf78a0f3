"""Plan `task: command`: any program, as it is, or inside a Python environment."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from armada.config.tasks.command import Command
from armada.launch.plans.job_data import plan_job_data
from armada.launch.plans.task import Parts, Task
from armada.launch.plans.tracking import tracking_imports, tracking_variables
from armada.launch.plans.watch import watch_of
from armada.provision.script_imports import required_modules

if TYPE_CHECKING:
    from armada.launch.plans.task import Place


class CommandTask(Task[Command]):
    """Its words, its data and its project's code."""

    def parts(self, place: Place) -> Parts:
        data = plan_job_data(self.settings, self.snapshot, place.paths)
        existing = self.examine_environment(place)
        container = self.examine_container(place)
        is_built = self.settings.environment is not None and existing is None and container is None
        environment = self.plan_environment(place) if is_built else None
        return Parts(
            argv=list(self.settings.command),
            environment=environment,
            is_active=is_built or existing is not None,
            existing=existing,
            container=container,
            imports=tracking_imports(self.settings) | self._imports()
            if existing is not None or environment is not None
            else {},
            variables=tracking_variables(self.settings, place),
            contents=tuple(data.contents),
            links=tuple(data.links),
            watch=watch_of(self.settings),
        )

    def _imports(self) -> dict[str, str]:
        """Return what the first Python source of the project that the command names imports."""
        if self.snapshot is None:
            return {}
        sources = {name for name in self.snapshot.content.files if name.endswith(".py")}
        named = (PurePosixPath(word).as_posix() for word in self.settings.command)
        script = next((word for word in named if word in sources), None)
        return required_modules(self.snapshot, script) if script is not None else {}
