"""Render launch/job.sub and launch/job.sh for HTCondor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from armada.config.schedulers import HtcondorSettings

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.launch.engines.request import JobRequest

_MARGIN_S = 30
"""Seconds after the training's grace period in which the supervisor hashes, links and writes."""

_REQUEUE_EXIT_CODE = 85
"""The exit code of the agent's supervisor (`armada_agent/engines/htcondor.py`) if its job is to wait for its next attempt."""


def job_files(request: JobRequest, host: Host) -> dict[str, str]:
    """Render a run's files for a host's HTCondor."""
    return render(request, host.htcondor or HtcondorSettings())


def render(request: JobRequest, settings: HtcondorSettings) -> dict[str, str]:
    """Write the submit file and the script it starts.

    The file system is shared, so nothing is transferred. The file contains no variables of ours: everybody in the pool
    can read submit files and job ads. condor_submit's command line may give the submission's number; the default is the
    first.
    """
    name = f"{request.name}.$(armada_submission)"
    text = "if ! defined armada_submission\n  armada_submission = 1\nendif\n"
    text += _lines(request, settings, str(request.folder), name, name) + "queue\n"
    shell = _shell(request)[0]
    script = f"#!{shell}\narmada_job=$1 armada_submission=${{2:-1}}\n{request.prologue}"
    script += f'exec {request.command} --submission "$armada_submission" --job "$armada_job"\n'
    return {"launch/job.sub": text, "launch/job.sh": script}


def array_files(request: JobRequest, host: Host) -> dict[str, str]:
    """Render the submit file of an array, whose runs request the same. The file names none of them.

    Each job starts its run's own script. condor_submit's command line names the array; it reads the runs from cells.txt
    in its working folder.
    """
    folder, name = f"{request.folder.parent}/$(armada_run)", "armada.$(armada_run).1"
    text = "armada_submission = 1\n"
    text += _lines(request, host.htcondor or HtcondorSettings(), folder, name, "$(armada_array)")
    text += 'My.ArmadaArray = "$(armada_array)"\nqueue armada_run from cells.txt\n'
    return {"job.sub": text}


def _shell(request: JobRequest) -> tuple[str, str]:
    # Only login shells have module commands.
    return ("/bin/bash", "-l ") if request.setup else ("/bin/sh", "")


def _lines(request: JobRequest, settings: HtcondorSettings, folder: str, name: str, batch: str) -> str:
    """Write the lines of a submit file before `queue`.

    Args:
        request: The run's request.
        settings: The host's.
        folder: The run's folder.
        name: The submission's name.
        batch: The name under which condor_q shows it.
    """
    shell, login = _shell(request)
    lines: list[tuple[str, object]] = [
        ("universe", settings.universe),
        *([(f"{settings.universe}_image", settings.image)] if settings.image else []),
        ("executable", shell),
        ("transfer_executable", "False"),
        ("should_transfer_files", "NO"),
        ("arguments", f"\"{login}'{folder}/launch/job.sh' $(ClusterId).$(ProcId) $(armada_submission)\""),
        ("initialdir", folder),
        ("log", f"{folder}/submissions/$(armada_submission)/job.log"),
        ("output", f"{folder}/scheduler.log"),
        ("error", f"{folder}/scheduler.log"),
        ("batch_name", batch),
        ("My.ArmadaSubmission", f'"{name}"'),
        ("request_cpus", request.cpus),
        ("request_memory", f"{request.memory_or_guess_mib}MB"),
        ("request_disk", f"{request.disk_or_guess_mib}MB"),
        # HTCondor's own `max_retries` would add conditions to this one; the supervisor counts attempts itself.
        ("on_exit_remove", f"ExitCode =!= {_REQUEUE_EXIT_CODE}"),
        ("job_max_vacate_time", math.ceil(request.grace_s) + _MARGIN_S),
        ("notification", "never"),
    ]
    if request.gpus:
        lines.append(("request_gpus", request.gpus))
        if request.gpu_memory_mib:
            lines.append(("gpus_minimum_memory", request.gpu_memory_mib))
    if request.time_s:
        lines.append(("allowed_execute_duration", math.ceil(request.time_s)))
    lines += [
        (name, value)
        for name, value in (
            ("requirements", settings.requirements),
            ("rank", settings.rank),
            ("accounting_group", settings.accounting_group),
            ("getenv", ", ".join(settings.getenv)),
        )
        if value
    ]
    text = "".join(f"{name} = {value}\n" for name, value in lines)
    return text + "".join(f"{line}\n" for line in settings.lines)
