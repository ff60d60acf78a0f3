"""The list of engines. A new batch system is a module that renders its job file, and a line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import SchedulerAnswer
from armada.launch.engines import htcondor, slurm
from armada.launch.engines.request import JobRequest, job_request
from armada.protocol.scheduler import CheckJob
from armada.protocol.spec import SchedulerSpec
from armada.rpc.agent_archive import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Experiment
    from armada.paths import HostPaths
    from armada.protocol.spec import Spec
    from armada.rpc.session import HostSession

_ANY_RUN = "check"
_LONGEST_WAIT_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A batch system, as home uses it.

    Attributes:
        file: The rendered file that the batch system is asked about before a launch.
        render: Returns the files to submit, by names relative to the run's folder.
        render_array: Returns the files to submit for an array of runs that request the same. They name none of them.
    """

    file: str
    render: Callable[[JobRequest, Host], dict[str, str]]
    render_array: Callable[[JobRequest, Host], dict[str, str]]


ENGINES: dict[str, Engine] = {
    "slurm": Engine("launch/job.sbatch", slurm.job_files, slurm.array_files),
    "htcondor": Engine("launch/job.sub", htcondor.job_files, htcondor.array_files),
}
"""Engines by a host's `scheduler`. For `direct`, the agent starts the supervisor itself and nothing is rendered."""


def scheduler_settings(host: Host) -> SchedulerSpec | None:
    """Return the settings of the host's batch system that the agent needs; None for `direct`."""
    batch = host.batch
    if batch is None or host.scheduler == "direct":
        return None
    settings = SchedulerSpec(
        kind=host.scheduler,
        poll_s=batch.poll_s,
        max_retries=batch.max_retries,
        requeue_at_time_limit=batch.requeue_at_time_limit,
        max_attempts_without_progress=batch.max_attempts_without_progress,
    )
    return settings.model_copy(update={"quota": host.quota}) if host.quota else settings


def job_files(
    host: Host, paths: HostPaths, profile: Profile | None, experiment: Experiment, spec: Spec
) -> dict[str, str]:
    """Render the files to submit to the host's batch system; none for `direct`.

    Raises:
        PreflightRefused: The root folder has a name that job files cannot contain.
    """
    engine = ENGINES.get(host.scheduler)
    if engine is None:
        return {}
    return engine.render(_request(host, paths, profile, experiment, spec), host)


def array_files(
    host: Host, paths: HostPaths, profile: Profile | None, experiment: Experiment, spec: Spec
) -> dict[str, str]:
    """Render the files to submit for an array of which this run is one. Runs with equal files fit into one array.

    Raises:
        PreflightRefused: As `job_files`.
    """
    return ENGINES[host.scheduler].render_array(_request(host, paths, profile, experiment, spec), host)


def _request(host: Host, paths: HostPaths, profile: Profile | None, experiment: Experiment, spec: Spec) -> JobRequest:
    return job_request(
        host,
        paths,
        profile,
        experiment.resources,
        run_id=spec.run_id,
        gpus=spec.gpus,
        processes=spec.processes,
        grace_s=experiment.stop_grace_s,
        agent_sha=build()[1],
    )


def ask_scheduler(session: HostSession, files: dict[str, str], run_id: str) -> SchedulerAnswer:
    """Ask the batch system whether the job could ever run, and what it would wait for.

    The question names no run, so that cells of a sweep which request the same ask the same.
    """
    host = session.host
    engine = ENGINES.get(host.scheduler)
    if engine is None or host.scheduler == "direct":
        return SchedulerAnswer()
    question = files[engine.file].replace(run_id, _ANY_RUN)
    opinion = session.call(CheckJob(scheduler=host.scheduler, file=question), timeout_s=120.0)
    refusal, wait = (sanitize_line(text, 900) if text is not None else None for text in (opinion.refusal, opinion.wait))
    starts_in_s = opinion.starts_in_s
    known = starts_in_s is not None and 0 <= starts_in_s < _LONGEST_WAIT_S
    return SchedulerAnswer(refusal, wait, starts_in_s if known else None)
