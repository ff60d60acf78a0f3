"""Compute what a run requests from a batch system, and render the script that starts its supervisor on a worker."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.schedulers import mebibytes
from armada.errors import PreflightRefused
from armada.units import duration_s

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Resources
    from armada.paths import HostPaths

_PLAIN = re.compile(r"/[A-Za-z0-9_./+@=-]*")
_MEMORY_MIB = 4096
"""Per process or GPU; HTCondor's default would be 128 MB per job."""
_DISK_MIB = 1024
_SETUP_FAILED = 91
"""An exit code that the supervisor does not use."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One run's request to a cluster.

    Attributes:
        name: The name of its submissions, each followed by its number; unique in the queue.
        folder: The run's folder on the shared file system.
        program: The supervisor and its root, quoted for a shell; the run is appended.
        memory_mib: None for the site's default; the same applies to `disk_mib` and `time_s`.
        grace_s: How long before its end a job is warned, so that it can finish its last checkpoint, in seconds.
        gpu_memory_mib: The least memory that each GPU must have.
    """

    name: str
    folder: PurePosixPath
    program: str
    gpus: int
    cpus: int
    processes: int
    memory_mib: int | None
    disk_mib: int | None
    time_s: float | None
    grace_s: float
    gpu_memory_mib: int | None
    setup: tuple[str, ...]

    @property
    def command(self) -> str:
        """What a worker runs, quoted for a shell; the submission's number and the job's own id are appended."""
        return f"{self.program} --run {shlex.quote(self.folder.name)}"

    @property
    def memory_or_guess_mib(self) -> int:
        return self.memory_mib or _MEMORY_MIB * max(1, self.gpus or self.processes)

    @property
    def disk_or_guess_mib(self) -> int:
        return self.disk_mib or _DISK_MIB

    @property
    def prologue(self) -> str:
        """Return the host's setup lines, each with an error message, since nothing else would explain why a run did not start."""
        return "".join(
            f"{line}\n[ $? -eq 0 ] || {{ echo {shlex.quote(_complaint(number, line))}; exit {_SETUP_FAILED}; }}\n"
            for number, line in enumerate(self.setup, 1)
        )


def job_request(
    host: Host,
    paths: HostPaths,
    profile: Profile | None,
    resources: Resources,
    *,
    run_id: str,
    gpus: int,
    processes: int,
    grace_s: float,
    agent_sha: str,
) -> JobRequest:
    """Combine a run's needs with its host's settings.

    Raises:
        PreflightRefused: The root folder has a name that job files cannot contain, or the host has no batch system.
    """
    root = str(paths.root)
    if not _PLAIN.fullmatch(root):
        raise PreflightRefused(
            f"the root folder cannot be used in job files: {root!r}",
            hint="set the host's `root:` to a path of letters, digits and _./+@=-",
            host=host.name,
        )
    batch = host.batch
    if batch is None:
        raise PreflightRefused("a job file needs a scheduler, and this host has none", host=host.name)
    words = ["python3", "-I", f"{root}/agent/{agent_sha}.pyz", "supervise", "--root", root]
    return JobRequest(
        name=f"armada.{run_id}",
        folder=paths.run(run_id),
        program=shlex.join(words),
        gpus=gpus,
        cpus=resources.cpus or (gpus * batch.cpus_per_gpu if gpus else processes),
        processes=processes,
        memory_mib=mebibytes(resources.memory) if resources.memory else None,
        disk_mib=mebibytes(resources.disk) if resources.disk else None,
        time_s=time_limit_s(host, resources),
        grace_s=grace_s,
        gpu_memory_mib=_least_memory(profile) if gpus else None,
        setup=(*host.setup, *batch.setup),
    )


def time_limit_s(host: Host, resources: Resources) -> float | None:
    """Return a run's time limit in seconds: the experiment's, else the host's, else None."""
    limit = resources.time_limit or (host.batch.time_limit if host.batch is not None else None)
    return duration_s(limit) if limit else None


def _complaint(number: int, line: str) -> str:
    return f"armada: setup line {number} of this host failed on the worker: {line}"


def _least_memory(profile: Profile | None) -> int | None:
    """Return the memory of the profile's GPUs, less what drivers and ECC reserve."""
    if profile is None or profile.gpus.memory_gb is None:
        return None
    return int(profile.gpus.memory_gb * 1000**3 / 1024**2 * 0.95)
