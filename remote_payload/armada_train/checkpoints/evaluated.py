"""Record in each checkpoint which rows its evaluations measured: numbers of other rows cannot be compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armada_train.checkpoints.manifest import compare, describe_evaluation, read_evaluation
from armada_train.records import is_whole
from armada_train.specification.values import Training


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an attempt evaluates.

    Attributes:
        rows: The sources of its rows, as `describe_evaluation` returns them.
        since: The last step whose evaluation measured other rows; 0 if none did.
    """

    rows: Mapping[str, Any]
    since: int = 0

    def comparable(self, log: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the entries of the Trainer's `log_history` that measured the rows of this attempt."""
        return [entry for entry in log if entry["step"] > self.since]

    def describe(self) -> dict[str, Any]:
        """Return what is written into a checkpoint."""
        return {"rows": dict(self.rows), "since": self.since}


def has_evaluation(log: Iterable[Mapping[str, Any]], step: int) -> bool:
    """Tell whether the Trainer's `log_history` has the evaluation of a step. One that a signal cut short is not in it."""
    return any(entry["step"] == step and "eval_loss" in entry for entry in log)


def look_at_evaluation(training: Training, checkpoint: Path | None, step: int) -> tuple[Evaluated, list[str]]:
    """Compare the rows that an attempt evaluates with those of the checkpoint that it resumes from.

    Args:
        training: The specification.
        checkpoint: The checkpoint; None for a fresh start.
        step: Its step.

    Returns:
        What the attempt evaluates, and findings.
    """
    rows = describe_evaluation(training)
    told = None if checkpoint is None else read_evaluation(checkpoint)
    if told is None:  # a fresh start, or a checkpoint of an earlier release
        return Evaluated(rows), []
    before, since = told.get("rows"), told.get("since")
    if not isinstance(before, dict) or not is_whole(since) or since > step:
        return Evaluated(rows), []
    if not (changes := compare(before, rows)):
        return Evaluated(rows, since), []
    said = f"{'; '.join(changes)}: evaluations up to step {step} measured other rows, so the best one and `stop_early` begin anew"
    return Evaluated(rows, step), [said]
