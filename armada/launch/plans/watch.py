"""How the host watches a job that tells nothing by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.config.tasks.own_job import OwnJob
from armada.protocol.spec import CheckpointPattern, WatchSpec

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment


def watch_of(experiment: Experiment) -> WatchSpec:
    """spec["watch"]: how its checkpoints are found, and the arguments to resume from one."""
    checkpoint, resume = experiment.checkpoint, experiment.resume
    found = None
    if checkpoint is not None and checkpoint.pattern is not None:
        found = CheckpointPattern(pattern=checkpoint.pattern, quiet_s=checkpoint.quiet_s)
    watch = WatchSpec(checkpoints=found, resume=resume.arguments if resume else ())
    tables = experiment.metrics if isinstance(experiment, OwnJob) else ()
    return watch.model_copy(update={"metrics": tables}) if tables else watch
