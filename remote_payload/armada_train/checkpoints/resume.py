"""Choose where a training resumes: at the last complete checkpoint, if its settings equal this attempt's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from armada_train.checkpoints import complete, whole
from armada_train.checkpoints.choice import choose
from armada_train.checkpoints.manifest import Settings, compare, read_manifest
from armada_train.failure import PayloadFailure
from armada_train.records import show
from armada_train.runfolder import RunFolder
from armada_train.specification.values import ZERO, Training

_MOST_NAMED = 16
_ADVICE = (
    "go back to the old value, start a new run, or accept it with `armada resume {run_id} --accept-changes` (in the "
    "experiment of a new run: `resume.accept_changes: true`)"
)
_LOST = (
    "all checkpoints are damaged ({what}), and starting from the beginning would lose the training up to step {newest}: "
    "put one back from home into {folder}, or continue from its weights in a new run with `start_from: {run_id}`, or "
    "give it up with `armada resume {run_id} --restart-if-damaged`"
)


@dataclass(frozen=True, slots=True)
class Resume:
    """The checkpoint to resume from (None: start from the beginning), and messages for the user about it."""

    checkpoint: Path | None
    findings: tuple[str, ...]
    changed: bool = False
    """Whether settings changed or states are missing, with permission: then this attempt's values take precedence."""


def find_resume(training: Training, run: RunFolder, settings: Settings) -> Resume:
    """Find the checkpoint and compare it with this attempt.

    Raises:
        PayloadFailure: `resume_mismatch`, naming each changed setting and each missing state, or what is damaged of each
            checkpoint where none is left.
    """
    choice = choose(complete.find_all(run.checkpoints, training.batch.processes))
    checkpoint, findings, differences = choice.checkpoint, choice.skipped, _lost_states(choice.missing)
    if checkpoint is None:
        return Resume(None, (*findings, *_begin_again(run, findings)))
    before = read_manifest(checkpoint)
    if before is None:
        findings.append(f"{checkpoint.name} has no list of its settings, so it is unknown whether they changed")
    else:
        differences += compare(before, settings)
    _refuse_other_states(checkpoint, training, before or {})
    if differences and not (training.accept_changes or run.accepts_changes):
        advice = _ADVICE.format(run_id=run.path.name)
        raise PayloadFailure("resume_mismatch", f"{checkpoint.name}: {'; '.join(differences)}: {advice}")
    findings += [f"{checkpoint.name}: {difference}; accepted" for difference in differences]
    findings += _lost_random_states(checkpoint, training.batch.processes)
    return Resume(checkpoint, tuple(findings), changed=bool(differences))


def _begin_again(run: RunFolder, skipped: list[str]) -> list[str]:
    """Say that training starts from the beginning, which must be permitted if a checkpoint was whole once.

    Raises:
        PayloadFailure: `resume_mismatch`.
    """
    newest = whole.newest_marked(run.checkpoints)
    if newest is None:
        return ["no checkpoint is complete, so training starts from the beginning"] if skipped else []
    if not whole.may_restart(run.checkpoints, run.restart_permit):
        what = "; ".join(skipped) or "none is there any more"
        words = _LOST.format(what=what, newest=newest, folder=run.checkpoints, run_id=run.path.name)
        raise PayloadFailure("resume_mismatch", words)
    if run.is_main:
        whole.restart(run.checkpoints, run.restart_permit)
    return [f"every checkpoint is damaged, so training starts from the beginning, as permitted; step {newest} is lost"]


def _refuse_other_states(checkpoint: Path, training: Training, before: Settings) -> None:
    """Refuse to convert DeepSpeed's states, which fit only its own stage and as many processes (DeepSpeed 0.19).

    Raises:
        PayloadFailure: `resume_mismatch`.
    """
    key, processes = "train.sharding", before.get("batch.processes", training.batch.processes)
    is_deepspeeds = (checkpoint / "latest").is_file()
    word = training.schedule.sharding if training.schedule.sharding in ZERO else None
    is_alike = processes == training.batch.processes and before.get(key, word) == word
    if is_deepspeeds == (training.deepspeed is not None) and (is_alike or not is_deepspeeds):
        return
    by = (
        f"DeepSpeed ({show(before.get(key, 'by a file'))}, {show(processes)} processes)"
        if is_deepspeeds
        else "a training without DeepSpeed"
    )
    raise PayloadFailure(
        "resume_mismatch",
        f"{checkpoint.name} was saved by {by}, whose optimizer cannot be converted: go back to that, or start a new run "
        "with `start_from`",
    )


def _lost_states(missing: Sequence[str]) -> list[str]:
    """Name what a checkpoint lacks that was complete once, but was copied without its optimizer or random states."""
    lost = [f"{name} is missing or damaged, so that state starts fresh" for name in missing[:_MOST_NAMED]]
    more = len(missing) - len(lost)
    return [*lost, f"{more} more states start fresh"] if more else lost


def _lost_random_states(checkpoint: Path, processes: int) -> list[str]:
    """Name the random states that are missing because the number of ranks changed."""
    names = complete.random_states(processes)
    lost = [name for name in names if not (checkpoint / name).exists()]
    more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    named = f"{', '.join(lost[:_MOST_NAMED])}{more}"
    return [f"{checkpoint.name} has no {named}: these ranks start new random sequences"] if lost else []
