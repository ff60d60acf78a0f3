"""Plan `task: script`: the user's own script under accelerate, with the profile's flags and environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from armada.config.tasks.script import Script
from armada.errors import ConfigError
from armada.launch.plans.job_data import plan_job_data
from armada.launch.plans.task import Parts, Task
from armada.launch.plans.tracking import tracking_imports, tracking_variables
from armada.launch.plans.watch import watch_of
from armada.launch.training.accelerate import launch_environment, render_accelerate
from armada.launch.training.config_files import Facts, read_user_files
from armada.provision.payload import payload_content
from armada.provision.script_imports import required_modules

if TYPE_CHECKING:
    from armada.config.profiles import Profile
    from armada.launch.plans.task import Place
    from armada.paths import HostPaths
    from armada.provision.environment import Environment
    from armada.provision.existing import ExistingEnvironment


_RUN = "runpy.run_module('armada_train.launch', run_name='__main__', alter_sys=True)"
OLDER_LAUNCH = ("-B", "-c", f"import sys; del sys.path[0]; import runpy; {_RUN}")
"""What `-B -P -m` does, for a Python before 3.11."""


class ScriptTask(Task[Script]):
    """The script with its project, started by accelerate.

    Only our launcher comes before it, because accelerate's own neither passes SIGTERM on nor lets exit codes through; it
    takes itself out of the script's environment.
    """

    needs = "launcher"

    def parts(self, place: Place) -> Parts:
        settings, profile, paths = self.settings, place.need_profile(), place.paths
        self._refuse_what_stays()
        data = plan_job_data(settings, self.snapshot, paths)
        existing = self.examine_environment(place, "torch", "accelerate")
        container = self.examine_container(place, "torch", "accelerate")
        environment = self.plan_environment(place) if existing is None and container is None else None
        payload = payload_content()
        return Parts(
            argv=[
                *(_launcher(paths, environment, existing) if container is None else ["python3", *OLDER_LAUNCH]),
                *("--config_file", str(paths.launch(place.run_id) / "accelerate.yaml")),
                *("--spec", str(paths.run(place.run_id) / "spec.json")),
                *("--script", settings.script, "--", *settings.arguments),
            ],
            variables=self._variables(place, profile, str(paths.content("code", payload.sha))),
            environment=environment,
            is_active=existing is not None,
            existing=existing,
            container=container,
            imports=tracking_imports(settings) | self._imports(),
            contents=(*data.contents, payload),
            links=tuple(data.links),
            files={"launch/accelerate.yaml": self._accelerate(place, profile)},
            watch=watch_of(settings),
            precision=profile.train.precision,
        )

    def _imports(self) -> dict[str, str]:
        return required_modules(self.snapshot, self.settings.script) if self.snapshot is not None else {}

    def _refuse_what_stays(self) -> None:
        """Refuse a script that does not travel with its code."""
        if self.snapshot is None or self.settings.script not in self.snapshot.content.files:
            raise ConfigError(
                f"`script`: {self.settings.script} is not sent: git ignores it, or it is a link",
                path=self.settings.origin,
                hint="remove it from .gitignore",
            )

    def _accelerate(self, place: Place, profile: Profile) -> str:
        settings, device = self.settings, "cuda" if place.gpus else "cpu"
        facts = Facts(settings, profile, place.processes, device, None, accelerate=settings.accelerate)
        return render_accelerate(
            processes=place.processes,
            device="cuda" if place.gpus else "cpu",
            precision=profile.train.precision,
            extras=profile.accelerate,
            extras_from=f"profile {profile.name}" + (f" ({profile.origin})" if profile.origin else ""),
            checked=read_user_files(facts).accelerate,
        )

    def _variables(self, place: Place, profile: Profile, ours: str) -> dict[str, str]:
        """What accelerate needs; but for the way to our launcher, what the experiment says counts."""
        own = self.settings.env.get("PYTHONPATH") or profile.env.get("PYTHONPATH")
        device: Literal["cuda", "cpu"] = "cuda" if place.gpus else "cpu"
        found = {
            "PYTHONPATH": f"{ours}:{own}" if own else ours,
            **tracking_variables(self.settings, place),
            "TOKENIZERS_PARALLELISM": "false",  # forked workers and the tokenizer's own threads deadlock
            **launch_environment(processes=place.processes, device=device, cpu_count=place.cores),
        }
        if device == "cpu":
            found["ACCELERATE_USE_CPU"] = "true"  # accelerate's launcher of several processes forgets to say so
        said = self.settings.env
        return {name: value for name, value in found.items() if name == "PYTHONPATH" or name not in said}


def _launcher(paths: HostPaths, environment: Environment | None, existing: ExistingEnvironment | None) -> list[str]:
    """Start our launcher; a project's own accelerate.py must not stand in for the library of that name in it.

    It is imported without writing bytecode (-B): a file beside its sources would make them a content of another hash.
    """
    if existing is not None and not existing.is_safe_path:
        return [existing.program, *OLDER_LAUNCH]
    python = str(paths.environment_python(environment.key)) if environment is not None else ""
    return [existing.program if existing is not None else python, "-B", "-P", "-m", "armada_train.launch"]
