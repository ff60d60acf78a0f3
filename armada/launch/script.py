"""A user's own script under accelerate: the profile's flags and environment, and nothing of ours inside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.errors import ConfigError
from armada.launch.accelerate import launch_environment, render_accelerate
from armada.launch.training import Training
from armada.launch.user_files import Facts, read_user_files
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from typing import Any

    from armada.config.experiments import Experiment
    from armada.config.profiles import Profile
    from armada.paths import HostPaths
    from armada.provision.code import Snapshot
    from armada.provision.environment import Environment


def plan_script(
    experiment: Experiment,
    profile: Profile,
    paths: HostPaths,
    environment: Environment,
    snapshot: Snapshot,
    *,
    run_id: str,
    gpus: int,
    processes: int,
    facts: dict[str, Any],
) -> Training:
    """Render a script's launch for a host.

    Only our launcher comes before it, because accelerate's own neither passes SIGTERM on nor lets exit codes through; it
    takes itself out of the script's environment.

    Raises:
        ConfigError: The script does not travel with the code.
        PreflightRefused: The profile's accelerate settings say something else than the plan.
    """
    assert experiment.script is not None  # noqa: S101  # the model saw to it
    if experiment.script not in snapshot.content.files:
        raise ConfigError(
            f"`script`: {experiment.script} does not travel: git ignores it, or it is a link",
            path=experiment.origin,
            hint="take it out of .gitignore",
        )
    payload = payload_content()
    device = "cuda" if gpus else "cpu"
    files = read_user_files(Facts(experiment, profile, processes, device, None))
    accelerate = render_accelerate(
        processes=processes,
        device="cuda" if gpus else "cpu",
        precision=profile.train.precision,
        extras=profile.accelerate,
        extras_from=f"profile {profile.name}" + (f" ({profile.origin})" if profile.origin else ""),
        checked=files.accelerate,
    )
    own = experiment.env.get("PYTHONPATH") or profile.env.get("PYTHONPATH")
    ours = str(paths.content("code", payload.sha))
    variables = {
        "PYTHONPATH": f"{ours}:{own}" if own else ours,
        "TOKENIZERS_PARALLELISM": "false",  # forked workers and the tokenizer's own threads deadlock
        **launch_environment(processes=processes, device="cuda" if gpus else "cpu", cpu_count=int(facts["cpu_count"])),
    }
    if device == "cpu":
        variables["ACCELERATE_USE_CPU"] = "true"  # accelerate's launcher of several processes forgets to say so
    return Training(
        batch=None,
        section=None,
        contents=[payload],
        files={"launch/accelerate.yaml": accelerate},
        argv=[
            # -P: a project's own accelerate.py must not stand in for the library of that name in the launcher.
            *(str(paths.environment_python(environment.key)), "-P", "-m", "armada_train.launch"),
            *("--config_file", str(paths.launch(run_id) / "accelerate.yaml")),
            *("--spec", str(paths.run(run_id) / "spec.json")),
            *("--script", experiment.script, "--", *experiment.arguments),
        ],
        variables={
            name: value for name, value in variables.items() if name == "PYTHONPATH" or name not in experiment.env
        },
    )
