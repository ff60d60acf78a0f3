"""Settings for a host's batch system: the `slurm:` or `htcondor:` part of a host."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from armada.config.documents import shown
from armada.config.settings import FilledText, Settings, problem, shaped
from armada.units import DURATION, duration_s

_WORD = re.compile(r"[A-Za-z0-9_.,:@+=\[\]&|*()!/-]+")
_VARIABLES = re.compile(r"!?[A-Za-z_][A-Za-z0-9_]*\*?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([MGT])i?B?")
_MEBIBYTES = {"M": 1.0, "G": 1024.0, "T": 1024.0**2}
_SBATCH = re.compile(r"#SBATCH +(--[a-z-]+|-[A-Za-z])(?:[ =].*)?")
_SBATCH_OURS = {
    *("--job-name", "-J", "--comment", "--output", "-o", "--error", "-e", "--open-mode", "--signal", "--requeue"),
    *("--no-requeue", "--chdir", "-D", "--nodes", "-N", "--ntasks", "-n", "--array", "-a", "--export", "--wrap"),
}
_SUBMIT_LINE = re.compile(r"(\+?[A-Za-z_][A-Za-z0-9_.]*)\s*=.*")
_SUBMIT_OURS = {
    *("executable", "arguments", "log", "output", "error", "initialdir", "queue", "universe", "batch_name"),
    *("should_transfer_files", "transfer_executable", "job_max_vacate_time", "getenv", "environment", "notification"),
    *(
        "requirements",
        "rank",
        "allowed_execute_duration",
        "max_retries",
        "on_exit_remove",
        "my.armadasubmission",
        "+armadasubmission",
    ),
}


def mebibytes(text: str) -> int:
    """`64G` as MiB, rounded up.

    Raises:
        ValueError: It is no amount.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount such as 64G")
    return -int(-float(match[1]) * _MEBIBYTES[match[2]] // 1)


def _is_a_size(text: str) -> str:
    try:
        if mebibytes(text) < 1:
            raise problem(f"{text} is nothing")
    except ValueError:
        raise problem(f"{text!r} is not an amount", hint="write 500M, 64G or 1T") from None
    return text


def _is_a_duration(text: str) -> str:
    try:
        seconds = duration_s(text)
    except ValueError:
        raise problem(f"{text!r} is not a duration", hint="write 30m, 24h or 4d") from None
    if seconds < 60:
        raise problem(f"{text} is less than a minute")
    return text


def _is_a_period(text: str) -> str:
    try:
        seconds = duration_s(text)
    except ValueError:
        raise problem(f"{text!r} is not a duration", hint="write 15s or 1m") from None
    if not 1 <= seconds <= 3600:
        raise problem(f"{text} is not between 1s and 1h")
    return text


def _is_a_word(text: str) -> str:
    # It ends up in a job file, where a blank or a line's end would begin something else.
    if not _WORD.fullmatch(text):
        raise problem(f"must be one word of letters, digits and _.,:@+=[]&|*()!/-, not {shown(text)}")
    return text


def _is_one_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise problem(f"must be one line, not {shown(text)}")
    return text


def _is_a_variable(text: str) -> str:
    if not _VARIABLES.fullmatch(text):
        raise problem(
            f"must be names of variables, not {shown(text)}",
            hint="`[WANDB_*, HF_HOME]`; True would expose every variable, including secrets, to the whole pool",
        )
    return text


def _is_sbatch_line(text: str) -> str:
    match = _SBATCH.fullmatch(_is_one_line(text))
    if match is None:
        raise problem(f"must be a line such as `#SBATCH --exclusive`, not {shown(text)}")
    if match[1] in _SBATCH_OURS:
        raise problem(f"{match[1]} is decided by armada")
    return text


def _is_submit_line(text: str) -> str:
    match = _SUBMIT_LINE.fullmatch(_is_one_line(text))
    if match is None:
        raise problem(f'must be a line such as `+ProjectName = "mine"`, not {shown(text)}')
    if match[1].lower() in _SUBMIT_OURS:
        raise problem(f"{match[1]} is decided elsewhere", hint="by armada, or by its own key under `htcondor:`")
    return text


Size = Annotated[FilledText, AfterValidator(_is_a_size), shaped(_SIZE, blanks=True)]
Duration = Annotated[FilledText, AfterValidator(_is_a_duration), shaped(DURATION, blanks=True)]
Word = Annotated[FilledText, AfterValidator(_is_a_word), shaped(_WORD)]
Line = Annotated[FilledText, AfterValidator(_is_one_line)]


def cancel_command(kind: str, run_id: str, submission: int) -> str:
    """Return the command that cancels a run's job on its login node, by the job's name in the batch system's queue."""
    name = f"armada.{run_id}.{max(1, submission)}"
    words = {"slurm": f"scancel --name {name}", "htcondor": f"condor_rm -constraint 'JobBatchName == \"{name}\"'"}
    return words.get(kind, kind)


class BatchSettings(Settings):
    """Settings that both batch systems have."""

    time_limit: Duration | None = None
    """For runs whose experiment names none."""
    cpus_per_gpu: Annotated[int, Field(ge=1)] = 4
    """For runs whose experiment does not say `resources.cpus`."""
    max_retries: Annotated[int, Field(ge=0, le=100)] = 0
    """How often a run that failed by itself is put back into the queue."""
    requeue_at_time_limit: bool = True
    """Whether a run that reaches its time limit is put back, to go on from the checkpoint it has just saved, if it can."""
    max_attempts_without_progress: Annotated[int, Field(ge=1, le=100)] = 2
    """How many attempts in a row may reach the time limit without a newer checkpoint; then the run fails."""
    setup: Annotated[tuple[Line, ...], Field(strict=False)] = ()
    """Shell lines before everything else on the worker: `module load cuda/12.4`."""
    poll: Annotated[FilledText, AfterValidator(_is_a_period), shaped(DURATION, blanks=True)] = "15s"
    """How often the batch system may be asked, whoever looks."""

    @property
    def poll_s(self) -> float:
        return duration_s(self.poll)


class SlurmSettings(BatchSettings):
    other_names: ClassVar[dict[str, str]] = {
        "time": "time_limit",
        "walltime": "time_limit",
        "queue": "partition",
        "project": "account",
        "extra": "lines",
        "sbatch": "lines",
        "modules": "setup",
        "cpus_per_task": "cpus_per_gpu",
    }

    partition: Word | None = None
    """`--partition`."""
    account: Word | None = None
    """`--account`."""
    qos: Word | None = None
    """`--qos`."""
    gpus: Literal["gres", "gpus-per-node"] = "gres"
    """How GPUs are asked for: `--gres=gpu:4` or `--gpus-per-node=4`."""
    gpu_type: Word | None = None
    """The type in `--gres=gpu:TYPE:N`."""
    exclude: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    """`--exclude`: nodes that must not be used."""
    constraint: Word | None = None
    """`--constraint`: features that a node must have."""
    lines: Annotated[tuple[Annotated[FilledText, AfterValidator(_is_sbatch_line)], ...], Field(strict=False)] = ()
    """Further `#SBATCH` lines; options that armada decides are refused."""


class HtcondorSettings(BatchSettings):
    other_names: ClassVar[dict[str, str]] = {
        "docker_image": "image",
        "container_image": "image",
        "allowed_execute_duration": "time_limit",
        "extra": "lines",
        "group": "accounting_group",
        "environment": "getenv",
    }

    requirements: Line | None = None
    """The submit command `requirements`."""
    rank: Line | None = None
    """The submit command `rank`."""
    universe: Literal["vanilla", "docker", "container"] = "vanilla"
    """`docker` and `container` need an `image`."""
    image: Word | None = None
    """The Docker or container image that runs are started in."""
    accounting_group: Word | None = None
    """The submit command `accounting_group`."""
    getenv: Annotated[
        tuple[Annotated[FilledText, AfterValidator(_is_a_variable), shaped(_VARIABLES)], ...], Field(strict=False)
    ] = ()
    """Names of variables of the login node that jobs see. Job ads can be read by the whole pool, so never name a secret."""
    lines: Annotated[tuple[Annotated[FilledText, AfterValidator(_is_submit_line)], ...], Field(strict=False)] = ()
    """Further submit lines, such as `+ProjectName = "mine"`; commands that armada decides are refused."""
