"""Advise on the next steps for a run, by its state and reason: commands to copy, each with its purpose.

A failure that the same run would repeat leads to a new launch after a change, not to a resume.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHANGE = {
    "oom": "lower the micro batch in the profile (`train.micro_batch_size`), or use a GPU with more memory; then launch it again",
    "nan_loss": "lower `train.learning_rate`, or look for broken rows near that step; then launch it again",
    "missing_module": "add what is missing to the experiment's `environment`, or to the host's `setup:`; then launch it again",
    "missing_file": "a run works in a copy of the code: name other files under `data:`, or by absolute paths; then launch it again",
    "command_not_found": "install it on the host, or give its absolute path; then launch it again",
    "command_not_executable": "make it executable (chmod +x), then launch it again",
    "data_error": "fix the rows that the message names, then launch it again",
    "bad_spec": "change what the message names, then launch it again",
    "resume_mismatch": "change what the message names, or launch it as a new run",
    "world_mismatch": "change what the message names, then launch it again",
    "not_enough_gpus": "ask for fewer GPUs (`resources.gpus`), or launch it on another host",
}
_AGAIN = {
    "host_oom": "give it more memory (`resources.memory` on a cluster), or let fewer processes share the machine; then resume it",
    "disk_full": "free space on the host, then resume it",
    "network": "check that the host reaches the network, then resume it",
    "signal_SIGKILL": "find out who ended it: an administrator, a limit of the site, a person on the machine; then resume it",
    "removed": "find out who removed it from the queue: an administrator, a limit of the site; then resume it",
    "out_of_memory": "ask for more memory (`resources.memory`), then launch it again",
    "time_limit": "raise `resources.time_limit` and launch it again, or resume it",
    "budget": "resume it, which grants the same budget once more, or launch it with a larger `budget`",
    "container_not_started": "start a container of the image on the host yourself to see the whole message, then resume it",
    "env_error": "find out what the host lacks, then resume it",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One suggested action: its purpose, and its command if there is one."""

    words: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that the next steps follow from.

    Attributes:
        experiment: The experiment's file; None if unknown.
        resumes_from: The step of the checkpoint to resume from; None if the run would start from the beginning.
        has_checkpoint: The host has a checkpoint, although the job may not receive its path.
        only_there: Number of checkpoints that exist only on the host.
        stopped: Number of processes that SIGSTOP suspended.
        is_bench: It is a bench, which keeps rows and no checkpoints.
        handed_over_by: The command of its sweep that did not hand it over; None if a host may have the run.
    """

    run_id: str
    host: str
    state: str
    reason: str | None
    experiment: str | None = None
    resumes_from: int | None = None
    has_checkpoint: bool = False
    only_there: int = 0
    stopped: tuple[int, ...] = ()
    is_bench: bool = False
    handed_over_by: str | None = None


def next_steps(now: Situation) -> list[Step]:
    """Return the next steps, most useful first; an empty list if nothing needs to be done."""
    if now.state in ("failed", "cancelled"):
        return [*_after_an_end(now), *_results(now)]
    if now.state == "succeeded":
        return _results(now)
    steps = []
    if now.stopped:
        pids = " ".join(map(str, now.stopped))
        steps.append(Step(f"continue its stopped processes, on {now.host}", f"kill -CONT {pids}"))
    if now.reason == "stalled":
        steps.append(Step("see its last output", f"armada logs {now.run_id} --tail 50"))
    if now.state in ("running", "queued", "submitted"):
        steps.append(Step("follow it", f"armada logs -f {now.run_id}"))
        steps.append(Step("end it", f"armada stop {now.run_id}"))
    if now.reason == "stalled":
        steps.append(Step("then start it again: from a checkpoint, if it can", f"armada resume {now.run_id}"))
    if now.reason == "put_back":
        steps.append(Step("end what may still live of it", f"armada stop {now.run_id}"))
    if now.state == "unknown":
        steps.append(Step("check the host", f"armada doctor {now.host}"))
    return steps


def is_host_budget(host: str, message: str | None) -> bool:
    """Whether a run that ended for `budget` was stopped for its host's budget, by the words that home sent with the stop."""
    return (message or "").startswith(f"{host} has cost ")


def for_host_budget(host: str, steps: Sequence[Step]) -> list[Step]:
    """Return the steps after a stop for the host's budget: until that is raised, nothing begins there."""
    own = _AGAIN["budget"]
    raised = Step(
        f"raise the budget of {host}, which is spent: until then nothing starts or resumes there",
        f"armada hosts set {shlex.quote(host)} --budget MONEY",
    )
    return [raised, *(each for each in steps if each.words != own)]


def _after_an_end(now: Situation) -> list[Step]:
    reason = now.reason or ""
    if now.handed_over_by is not None:
        told = "remove the cause, then hand over the cells that no host has: run the sweep's command again"
        return [Step("check the host", f"armada doctor {now.host}"), Step(told, now.handed_over_by)]
    steps = []
    if now.state == "failed" or reason == "removed":
        if words := _CHANGE.get(reason) or _AGAIN.get(reason):
            steps.append(Step(words))
        if reason == "disk_full" and now.only_there:
            steps.append(
                Step("bring its checkpoints home, so that the host may delete them", f"armada sync now {now.run_id}")
            )
        if reason in ("network", "disk_full", "env_error", "container_not_started"):
            steps.append(Step("check the host", f"armada doctor {now.host}"))
        steps.append(Step("read more of its output", f"armada logs {now.run_id} --tail 200"))
    if reason in _CHANGE and now.experiment is not None:
        steps.append(Step("launch it again", f"armada launch --host {now.host} {shlex.quote(now.experiment)}"))
    why = "its experiment has no `resume`" if now.has_checkpoint else "it has no checkpoint"
    words = f"run it again from its beginning, because {why}"
    if now.is_bench:
        words = "measure the cells that have no row"
    elif now.resumes_from is not None:
        words = f"resume it from step {now.resumes_from}"
    steps.append(Step(words, f"armada resume {now.run_id}"))
    return steps


def _results(now: Situation) -> list[Step]:
    if not now.only_there or (now.state == "failed" and now.reason == "disk_full"):
        return []
    return [Step("bring its checkpoints home", f"armada pull {now.run_id}")]
