"""Run an experiment's shell lines (`setup:`) before its job, and return the resulting environment."""

import os
from typing import Any, Callable, Dict, List, Mapping, Optional

from armada_agent.foundation import parameters
from armada_agent.host import job_variables, login_shell

_PATIENCE_S = 600.0
_OURS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def lines_of(spec: Mapping[str, Any]) -> List[str]:
    """Return the shell lines of a run's plan."""
    job = spec.get("job")
    lines = job.get("setup") if isinstance(job, dict) else None
    return [line for line in lines if parameters.is_text(line)] if isinstance(lines, list) else []


def apply(
    spec: Mapping[str, Any],
    environment: Dict[str, str],
    folder: str,
    secrets: Mapping[str, str],
    tick: Optional[Callable[[], None]] = None,
) -> Dict[str, str]:
    """Run the lines in a login shell, and return the job's environment after them.

    The lines do not see the secrets: the output of a failing line is sent home.

    Args:
        spec: The run's plan.
        environment: The job's environment.
        folder: The job's working folder.
        secrets: Names and values.
        tick: Called while the lines run. If it raises an error, the lines are killed.

    Raises:
        AgentError: `environment`, with the line that failed and its output.
    """
    lines = lines_of(spec)
    if not lines:
        return environment
    before = {name: value for name, value in environment.items() if name not in secrets}
    there = folder if os.path.isdir(folder) else None
    after = login_shell.evaluate(lines, before, "this experiment", there, _PATIENCE_S, tick)
    after["PATH"] = job_variables.join_paths(after.get("PATH", ""), environment.get("PATH", ""))
    after.update(secrets)
    ours = {name: value for name, value in environment.items() if name.startswith("ARMADA_") or name in _OURS}
    after = {name: value for name, value in after.items() if not name.startswith("ARMADA_")}
    after.update(ours)
    job_variables.activate(after, spec)
    return after
