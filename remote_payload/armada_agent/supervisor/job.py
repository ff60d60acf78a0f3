"""The job: its environment, its start, and the meaning of its end."""

import os
import subprocess
from typing import Any, Dict, List, Sequence

from armada_agent.foundation import files
from armada_agent.host import gpus as gpu_list
from armada_agent.host import job_variables
from armada_agent.paths import RunPaths
from armada_agent.records.ending import Ending
from armada_agent.supervisor import post_mortem

_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")  # of the login; the job has its own


class StartError(Exception):
    """The job could not be started. The error carries the run's reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def compose_environment(
    paths: RunPaths, spec: Dict[str, Any], attempt: int, gpus: List[Dict[str, Any]], secrets: Dict[str, str]
) -> Dict[str, str]:
    """Build a job's whole environment.

    Args:
        paths: The run's files.
        spec: The run's plan.
        attempt: The number of the attempt.
        gpus: `index` and `uuid` of the job's GPUs.
        secrets: Names and values.
    """
    environment = clean_environment()
    environment.update(spec["job"].get("env", {}))
    environment.update(secrets)
    job_variables.activate(environment, spec)
    environment.update(
        ARMADA_RUN_ID=paths.run_id,
        ARMADA_ATTEMPT=str(attempt),
        ARMADA_RUN_DIR=paths.folder,
        ARMADA_ROOT=paths.root,
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
        CUDA_VISIBLE_DEVICES=",".join(str(gpu["index"]) for gpu in gpus),
        ARMADA_GPUS=",".join(gpu["uuid"] for gpu in gpus),
    )
    return environment


def require_environment(spec: Dict[str, Any]) -> None:
    """Refuse to start a job whose Python environment was deleted: it would silently use the host's own `python`.

    Raises:
        StartError: The environment is not on this machine.
    """
    folder = job_variables.active_environment(spec)
    programs = [os.path.join(folder, "bin", name) for name in ("python", "python3")] if folder is not None else []
    if programs and not any(map(os.path.isfile, programs)):
        raise StartError("env_error", "the Python environment of this run is not here: %s does not exist" % programs[0])


def require_gpus(count: int) -> None:
    """Refuse to start a job on a machine that has fewer GPUs than it needs.

    Raises:
        StartError: It has fewer, or they cannot be listed.
    """
    if not gpu_list.is_installed():
        raise StartError("env_error", "the run needs %s, but this host has no nvidia-smi" % gpu_list.counted(count))
    try:
        present = len(gpu_list.list_gpus())
    except gpu_list.GpuError as error:
        raise StartError("env_error", str(error))
    if present < count:
        raise StartError(
            "not_enough_gpus", "the run needs %s, but this host has %d" % (gpu_list.counted(count), present)
        )


def clean_environment() -> Dict[str, str]:
    """Return this process's environment without the login's Python settings and without the marker of another run."""
    return {
        name: value for name, value in os.environ.items() if name not in _FOREIGN and not name.startswith("ARMADA_")
    }


def read_secrets(paths: RunPaths, declared: Sequence[str] = ()) -> Dict[str, str]:
    """Read the secrets of a run.

    A variable of the same name in this machine's environment does not replace a secret: it may be the key of another
    account.

    Args:
        paths: The run's files.
        declared: The names that the plan requires.

    Raises:
        StartError: The secrets are damaged, or some are missing.
    """
    try:
        secrets = files.read_json(paths.secrets) or {}
    except files.UnreadableError as error:
        raise StartError("env_error", str(error))
    found = {name: value for name, value in secrets.items() if isinstance(value, str)}
    missing = [str(name) for name in declared if name not in found]
    if missing:
        message = "secrets of the run are no longer on its host: %s; `armada resume %s` sends them again"
        raise StartError("secrets_missing", message % (", ".join(missing), paths.run_id))
    return found


def start(paths: RunPaths, argv: List[str], environment: Dict[str, str]) -> "subprocess.Popen[bytes]":
    """Start a job in a session of its own, with its output appended to output.log.

    Raises:
        StartError: The program, or its working folder, does not exist.
        OSError: output.log cannot be written.
    """
    if not os.path.isdir(paths.work):
        raise StartError("env_error", "the working folder is gone: %s" % paths.work)
    with open(paths.output, "ab") as output:
        try:
            return subprocess.Popen(
                [_encode(word) for word in argv],
                cwd=paths.work,
                env={_encode(name): _encode(value) for name, value in environment.items()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (FileNotFoundError, NotADirectoryError):
            raise StartError("command_not_found", "%s is not on this host" % argv[0])
        except PermissionError:
            raise StartError("command_not_executable", "%s is not executable" % argv[0])
        except OSError as error:
            raise StartError("env_error", "%s could not be started: %s" % (argv[0], error))


def is_done(spec: Dict[str, Any], status: int) -> bool:
    """Return whether a job that got SIGTERM has done all that it had to do.

    A training of armada's own that leaves something to do does not return 0. A script may return 0 because it was stopped.
    """
    return status == 0 and bool(spec.get("training"))


def judge(paths: RunPaths, attempt: int, status: int) -> Ending:
    """Return how a job ended and, if it failed, why."""
    if status == 0:
        return Ending("succeeded").with_status(status)
    cause = post_mortem.examine(paths, attempt, status)
    ending = Ending("failed", cause.reason, cause.message or None).with_status(status)
    ending.cause = cause
    return ending


def _encode(text: str) -> bytes:
    """Encode as UTF-8 in any locale: Python 3.6 under LANG=C would accept only ASCII."""
    return text.encode("utf-8", "surrogateescape")
