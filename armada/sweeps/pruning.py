"""Stop cells that do badly at given steps: asynchronous successive halving (ASHA), as Optuna's SuccessiveHalvingPruner.

A cell is judged once at each of the steps, among all cells that have come so far. What was decided is kept with the
sweep's settings, so that a later look, or another process, decides the same.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from armada.config.sweep import PruneRule
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import finite, whole
from armada.store import metrics, runs, sweeps
from armada.sweeps.counts import newest_runs
from armada.sweeps.rules import settings_of
from armada.sweeps.stopping import PRUNED, Because

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.store.sweeps import SweepRecord

log = logging.getLogger(__name__)

_KEY = "prune"
"""In a sweep's settings. It is not in `sweep`, because former releases refuse a key there that they do not know."""

_SHARES = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 10: "tenth"}


@dataclass(frozen=True, slots=True)
class Pruned:
    """A cell that was pruned.

    Attributes:
        submission: Of its run. A later one goes on: somebody resumed it.
        step: Where it was compared.
        value: What it had there; None if that was no number.
        why: A sentence.
    """

    submission: int
    step: int
    value: float | None
    why: str

    def as_json(self) -> dict[str, Any]:
        """What the settings keep."""
        return {"submission": self.submission, "step": self.step, "value": self.value, "why": self.why}


@dataclass(frozen=True, slots=True)
class Pruning:
    """How far the pruning of a sweep is.

    Attributes:
        rule: Its steps, and how many cells continue.
        passed: At how many of the steps each run was judged and continued.
        pruned: The runs that did not.
    """

    rule: PruneRule
    passed: Mapping[str, int]
    pruned: Mapping[str, Pruned]


@dataclass(frozen=True, slots=True)
class Judged:
    """What is decided of a cell: how many of the steps it has passed, and why it ends, if it does."""

    passed: int
    step: int = 0
    value: float | None = None
    why: str | None = None


def settings_for_pruning(rule: PruneRule | None) -> dict[str, object]:
    """What the settings of a new sweep keep of its rule."""
    return {_KEY: rule.model_dump(mode="json")} if rule is not None else {}


def words_of(rule: PruneRule, best: str) -> str:
    """`by the lowest eval_loss at steps 500, 1000: the best third continues`.

    Args:
        rule: Which steps, and how many cells continue.
        best: From `goal_words`.
    """
    steps = ", ".join(map(str, rule.at[:8])) + (", …" if len(rule.at) > 8 else "")
    share = _SHARES.get(rule.reduction, f"1/{rule.reduction}")
    at = "step" if len(rule.at) == 1 else "steps"
    return f"by {best} at {at} {steps}: the best {share} continues"


def pruning_of(record: SweepRecord) -> Pruning | None:
    """The pruning of a sweep; None if it has none, or a newer armada wrote what this one cannot read."""
    told = record.settings.get(_KEY)
    if not isinstance(told, dict):
        return None
    try:
        rule = PruneRule.model_validate({key: told[key] for key in PruneRule.model_fields if key in told}, strict=False)
    except ValidationError:
        return None
    passed, pruned = told.get("passed"), told.get("pruned")
    return Pruning(
        rule,
        {run_id: count for run_id, count in _items(passed) if whole(count) is not None},
        {run_id: each for run_id, words in _items(pruned) if (each := _read(words)) is not None},
    )


def _items(told: object) -> list[tuple[str, Any]]:
    return list(told.items()) if isinstance(told, dict) else []


def _read(words: object) -> Pruned | None:
    if not isinstance(words, dict):
        return None
    submission, step = whole(words.get("submission")), whole(words.get("step"))
    if submission is None or step is None:
        return None
    return Pruned(submission, step, finite(words.get("value")), str(words.get("why") or PRUNED))


def point_at(curve: Sequence[tuple[int, float | None]], step: int) -> tuple[int, float | None] | None:
    """The first point of a curve at a step or after it; None if the cell is not there yet."""
    return next((point for point in curve if point[0] >= step), None)


def judge(
    rule: PruneRule,
    metric: str,
    goal: str,
    curves: Mapping[str, Sequence[tuple[int, float | None]]],
    run_id: str,
    passed: int = 0,
) -> Judged:
    """Decide whether a cell continues: it does while it is among the best `1/reduction` of those that came so far.

    The first that comes continues. What is no number is worse than any number; where no cell has a number, nothing is
    decided.

    Args:
        rule: The steps.
        metric: Its name, for the sentence.
        goal: `min` or `max`.
        curves: The metric of all cells by run, ordered by step.
        run_id: The cell's run.
        passed: At how many of the steps it was judged before.
    """
    for index in range(passed, len(rule.at)):
        step = rule.at[index]
        own = point_at(curves[run_id], step)
        there = [point[1] for curve in curves.values() if (point := point_at(curve, step)) is not None]
        costs = sorted(cost for value in there if (cost := _cost(value, goal)) < math.inf)
        if own is None or not costs:
            return Judged(index)
        last = max(0, len(there) // rule.reduction - 1)
        limit = costs[min(last, len(costs) - 1)]
        if _cost(own[1], goal) > limit:
            best = _best(rule, len(there), (limit if goal == "min" else -limit) + 0.0, goal)
            words = f"pruned at step {step}: {sanitize_line(metric, 60)} {_said(own, step)}, {best}"
            return Judged(index, step, own[1], words)
    return Judged(len(rule.at))


def _cost(value: float | None, goal: str) -> float:
    """A value as something that is to be small."""
    if value is None or not math.isfinite(value):
        return math.inf
    return value if goal == "min" else -value


def _said(point: tuple[int, float | None], step: int) -> str:
    value = "is NaN" if point[1] is None else f"{point[1]:.6g}"
    return value if point[0] == step else f"{value} (step {point[0]})"


def _best(rule: PruneRule, count: int, limit: float, goal: str) -> str:
    if count < 2 * rule.reduction:
        return f"the best of {count} cells has {limit:.6g}"
    side = "below" if goal == "min" else "above"
    return f"best {_SHARES.get(rule.reduction, f'1/{rule.reduction}')} of {count} cells is {side} {limit:.6g}"


def prune(database: Database, record: SweepRecord, host: str) -> dict[str, Because]:
    """Judge the running cells of a host, and say which cells of it are to be stopped, those of former looks included.

    Args:
        database: The store.
        record: The sweep.
        host: The cells of other hosts are compared with, and judged where their host is asked.

    Returns:
        Why, by run; runs that have ended or were resumed since are left out.
    """
    pruning, settings = pruning_of(record), settings_of(record)
    if pruning is None or settings.metric is None:
        return {}
    found = newest_runs(runs.of_sweep(database, record.name))
    here = [run for run in found if run.host == host and not run.ended]
    due = [run for run in here if run.state == "running" and _is_open(pruning, run)]
    if due:
        curves = {run.run_id: metrics.curve(database, run.run_id, settings.metric) for run in found}
        judged = {
            run: judge(
                pruning.rule,
                settings.metric,
                settings.decided_goal,
                curves,
                run.run_id,
                pruning.passed.get(run.run_id, 0),
            )
            for run in due
        }
        pruning = _keep(database, record.name, pruning, judged)
    left = {}
    for run in here:
        entry = pruning.pruned.get(run.run_id)
        if entry is not None and entry.submission == run.submission:
            left[run.run_id] = Because(PRUNED, entry.why)
    return left


def _is_open(pruning: Pruning, run: Run) -> bool:
    """Whether there is anything left to judge: a pruned cell that somebody resumed goes on to its end."""
    return run.run_id not in pruning.pruned and pruning.passed.get(run.run_id, 0) < len(pruning.rule.at)


def _keep(database: Database, name: str, seen: Pruning, judged: Mapping[Run, Judged]) -> Pruning:
    """Record what was decided, and return how far the pruning is. What another process decided meanwhile stays."""
    changes = {run: each for run, each in judged.items() if each.why or each.passed != seen.passed.get(run.run_id, 0)}
    if not changes:
        return seen
    with database.transaction():
        record = sweeps.find(database, name)
        now = pruning_of(record)
        told = record.settings.get(_KEY)
        if now is None or not isinstance(told, dict):
            return seen
        passed, pruned = dict(now.passed), dict(now.pruned)
        for run, each in changes.items():
            if run.run_id in pruned or passed.get(run.run_id, 0) != seen.passed.get(run.run_id, 0):
                continue
            passed[run.run_id] = each.passed
            if each.why is not None:
                value = each.value if each.value is not None and math.isfinite(each.value) else None
                pruned[run.run_id] = Pruned(run.submission, each.step, value, each.why)
                log.info("%s is %s", run.run_id, each.why)
        kept = {**told, "passed": passed, "pruned": {run_id: each.as_json() for run_id, each in pruned.items()}}
        sweeps.change_settings(database, name, {**record.settings, _KEY: kept})
        return Pruning(now.rule, passed, pruned)


def without_metric(database: Database, record: SweepRecord) -> str | None:
    """Say that cells have reached the first step without the metric, and none has it; None if that is not so."""
    pruning, metric = pruning_of(record), settings_of(record).metric
    if pruning is None or metric is None:
        return None
    first = pruning.rule.at[0]
    found = newest_runs(runs.of_sweep(database, record.name))
    past = [run for run in found if run.step is not None and run.step >= first]
    if not past or any(metrics.curve(database, run.run_id, metric) for run in found):
        return None
    names = sorted({name for run in past for name in metrics.names(database, run.run_id)})
    there = ", ".join(sanitize_line(each, 60) for each in names[:12]) or "none"
    return f"no cell is pruned: no cell has recorded {sanitize_line(metric, 60)} by step {first}; metrics there are: {there}"
