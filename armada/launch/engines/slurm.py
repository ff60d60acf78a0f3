"""Render launch/job.sbatch for Slurm."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from armada.config.schedulers import SlurmSettings

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.launch.engines.request import JobRequest

_EARLY_S = 60
"""Slurm may send a signal this many seconds earlier than requested."""


def job_files(request: JobRequest, host: Host) -> dict[str, str]:
    """Render a run's files for a host's Slurm."""
    return render(request, host.slurm or SlurmSettings())


def render(request: JobRequest, settings: SlurmSettings) -> dict[str, str]:
    """Write the job script.

    The signal is sent only to the batch shell (`B:`), which has become the supervisor by then. All output is appended
    to one log, because a requeued job runs the script again. Its argument is the submission's number; the default is
    the first.
    """
    own: list[tuple[str, object]] = [
        ("job-name", f"{request.name}.1"),
        ("comment", f"{request.name}.1"),
        ("chdir", request.folder),
        ("output", f"{request.folder}/scheduler.log"),
    ]
    words = f'exec {request.command} --submission "$armada_submission" --job "$SLURM_JOB_ID"\n'
    return {"launch/job.sbatch": _script(own, request, settings, "armada_submission=${1:-1}\n", words)}


def array_files(request: JobRequest, host: Host) -> dict[str, str]:
    """Render the job script of an array, whose runs request the same. The script names none of them.

    sbatch's command line names the array and its folder, where line `n + 1` of cells.txt is the run of job `n`.
    """
    before = (
        'armada_run=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" cells.txt)\n'
        f'[ -n "$armada_run" ] && cd "{request.folder.parent}/$armada_run" || '
        "{ echo 'armada: the run of this job is not there'; exit 91; }\n"
    )
    words = f'exec {request.program} --run "$armada_run" --submission 1'
    words += ' --job "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"\n'
    return {"job.sbatch": _script([], request, host.slurm or SlurmSettings(), before, words)}


def _script(
    own: list[tuple[str, object]], request: JobRequest, settings: SlurmSettings, before: str, words: str
) -> str:
    options: list[tuple[str, object]] = [
        *own,
        ("open-mode", "append"),
        ("nodes", 1),
        ("ntasks", 1),
        ("cpus-per-task", request.cpus),
        ("signal", f"B:USR1@{_warning_s(request)}"),
    ]
    if request.gpus:
        kind = f"{settings.gpu_type}:" if settings.gpu_type else ""
        amount = f"{kind}{request.gpus}"
        options.append(("gres", f"gpu:{amount}") if settings.gpus == "gres" else ("gpus-per-node", amount))
    if request.memory_mib:
        options.append(("mem", f"{request.memory_mib}M"))
    if request.time_s:
        options.append(("time", math.ceil(request.time_s / 60)))
    options += [
        (name, value)
        for name, value in (
            ("partition", settings.partition),
            ("account", settings.account),
            ("qos", settings.qos),
            ("constraint", settings.constraint),
            ("exclude", ",".join(settings.exclude)),
        )
        if value
    ]
    head = "".join(f"#SBATCH --{name}={shlex.quote(str(value))}\n" for name, value in options)
    head += "#SBATCH --requeue\n" + "".join(f"{line}\n" for line in settings.lines)
    # Only login shells have module commands.
    shell = "#!/bin/bash -l\n" if request.setup else "#!/bin/bash\n"
    return f"{shell}{head}{before}{request.prologue}{words}"


def _warning_s(request: JobRequest) -> int:
    """Return how long before its end a job is warned, in seconds. A job with less time would be warned before it starts."""
    wanted = math.ceil(request.grace_s) + _EARLY_S
    return wanted if request.time_s is None else min(wanted, math.ceil(request.time_s / 60) * 60 // 2)
