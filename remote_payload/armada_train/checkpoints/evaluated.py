"""Record in each checkpoint what its evaluations measured: numbers of other rows, or another function, cannot be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armada_train.checkpoints import trainer_state
from armada_train.checkpoints.manifest import compare, describe_evaluation, describe_function, read_evaluation
from armada_train.records import find_object, is_whole
from armada_train.specification.early_stop import known_metrics
from armada_train.specification.values import Training


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an attempt evaluates.

    Attributes:
        rows: The sources of its rows, as `describe_evaluation` returns them.
        since: The last step whose evaluation measured other rows; 0 if none did.
        function: The user's function, as `describe_function` returns it; without one now, that of earlier attempts.
        function_since: The last step that another function measured; 0 if none did.
        own: The metrics that no function measures.
    """

    rows: Mapping[str, Any]
    since: int = 0
    function: Mapping[str, Any] = field(default_factory=dict)
    function_since: int = 0
    own: frozenset[str] = frozenset()

    def comparable(self, log: Iterable[Mapping[str, Any]], metric: str) -> list[Mapping[str, Any]]:
        """Return the entries of the Trainer's `log_history` that measured a metric as this attempt does."""
        since = self.since if metric in self.own else max(self.since, self.function_since)
        return [entry for entry in log if entry["step"] > since]

    def describe(self) -> dict[str, Any]:
        """Return what is written into a checkpoint."""
        told = {"rows": dict(self.rows), "since": self.since}
        return told | (
            {"function": dict(self.function), "function_since": self.function_since} if self.function else {}
        )


def has_evaluation(log: Iterable[Mapping[str, Any]], step: int) -> bool:
    """Tell whether the Trainer's `log_history` has the evaluation of a step. One that a signal cut short is not in it."""
    return any(entry["step"] == step and "eval_loss" in entry for entry in log)


def look_at_evaluation(training: Training, checkpoint: Path | None, step: int) -> tuple[Evaluated, list[str]]:
    """Compare what an attempt evaluates with what the checkpoint says that it resumes from.

    Args:
        training: The specification.
        checkpoint: A complete checkpoint; None for a fresh start.
        step: Its step.

    Returns:
        What the attempt evaluates, and findings.
    """
    rows, function = describe_evaluation(training), describe_function(training)
    own = frozenset(known_metrics(training.objective.name, {source.set for source in training.eval_data}))
    told = None if checkpoint is None else read_evaluation(checkpoint)
    if checkpoint is None or told is None:  # a fresh start, or a checkpoint of an earlier release
        return Evaluated(rows, function=function, own=own), []
    last = _last_evaluated(checkpoint)
    since, changes = _compare(told.get("rows"), rows, last, _known_step(told.get("since"), step))
    findings = [
        f"{change}: evaluations up to step {last} measured other rows, so the best one and `stop_early` begin anew"
        for change in changes
    ]
    before = told.get("function")
    function = function or (before if isinstance(before, dict) else {})
    function_since, changes = _compare(before, function, last, _known_step(told.get("function_since"), step))
    findings += [
        f"{change}: evaluations up to step {last} were measured in another way, so the best one and `stop_early` begin "
        "anew where they go by its numbers"
        for change in changes
    ]
    return Evaluated(rows, since, function, function_since, own), findings


def _last_evaluated(checkpoint: Path) -> int:
    log = find_object(checkpoint / trainer_state.NAME).get("log_history", [])
    return max((entry["step"] for entry in log if "eval_loss" in entry), default=0)


def _known_step(since: Any, step: int) -> int | None:
    return since if is_whole(since) and since <= step else None


def _compare(before: object, now: Mapping[str, Any], last: int, since: int | None) -> tuple[int, list[str]]:
    """Return the last step whose evaluation cannot be compared, and what changed, in one sentence or none.

    Args:
        before: What a checkpoint's evaluations measured. It is unknown, or damaged, if it is no object.
        now: What this attempt measures.
        last: The last step that was evaluated.
        since: The last one that could not be compared with `before`; None if that is damaged.
    """
    if not isinstance(before, dict) or since is None:
        return 0, []
    changes = compare(before, now)
    return (last, ["; ".join(changes)]) if changes else (since, [])
