"""How the host watches a job that tells nothing by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment


def watch_of(experiment: Experiment) -> dict[str, Any]:
    """spec["watch"]: how its checkpoints are found, and the arguments to resume from one."""
    checkpoint, resume = experiment.checkpoint, experiment.resume
    found = {"pattern": checkpoint.pattern, "quiet_s": checkpoint.quiet_s} if checkpoint else None
    return {"checkpoints": found, "resume": list(resume.arguments) if resume else []}
