"""The evaluation of every trainer here: each row counts once, whatever the batches and the number of ranks."""

from __future__ import annotations

import functools
import math
import time
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from transformers import Trainer as BaseTrainer

from armada_train.checkpoints.evaluated import Evaluated, has_evaluation
from armada_train.data.preparation import Splits
from armada_train.failure import GENERIC, PayloadFailure
from armada_train.specification.early_stop import WITHOUT
from armada_train.specification.section import bad_spec
from armada_train.training.agreement import Agreement
from armada_train.training.memory import named_in_evaluation
from armada_train.training.scoring import Scoring
from armada_train.training.time_parts import timed

Weighted = tuple[float, int, dict[str, float]]
"""A mean loss, what it is the mean over, and the means of the objective's curves."""


class Evaluating(BaseTrainer):  # type: ignore[misc]  # transformers is not installed where types are checked
    """Evaluates each set of rows, and all together."""

    control: Any
    data_collator: Any
    stopped_early: str | None
    _agreement: Agreement
    _evaluated_rows: Evaluated
    _best_is_counted = False
    _has_noted = False
    _scoring: Scoring | None = None

    @functools.cached_property
    def eval_findings(self) -> list[str]:
        """What went wrong in evaluations whose numbers are missing, or are no numbers."""
        return []

    weighs: ClassVar[str] = "tokens"
    """What the evaluation's loss is the mean over."""
    eval_curves: ClassVar[tuple[str, ...]] = ()
    """The objective's own metrics that are evaluated, too, in TRL's words: means over rows."""

    def take_eval_rows(self, splits: Splits) -> Any:
        """Take the rows of all evaluation sets; return them as one dataset, or None if there are none."""
        rows, self._eval_lengths, self.eval_sets = splits.join_evaluation()
        return rows

    @abstractmethod
    def evaluate_batch(self, model: Any, inputs: Any) -> tuple[Any, Any, Mapping[str, tuple[Any, Any]]]:
        """Return the sum of the losses of a batch, its weight, and the same two of each curve.

        It asks nothing of other ranks: some may have fewer batches.
        """

    @timed("evaluation")
    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Evaluate all rows, log it, and run the callbacks; stop early if the run is preempted."""
        started = time.monotonic()
        self._evaluated: dict[str, Weighted] = {}
        with self._naming_memory(self.eval_batch_size()):
            loss, weight, curves = self.evaluate_weighted()
        with self._naming_memory():
            scores = {} if self._scoring is None or self._preemption.agreed else self._score(self._scoring)
        if self._preemption.agreed:
            if self.state.global_step == 0:
                raise self._preemption.failure(0)
            self.control.should_save = self.control.should_training_stop = True
            return {"eval_loss": math.inf}  # not a result, and so never the best
        metrics = {"eval_loss": loss, f"eval_{self.weighs}": weight, "eval_seconds": time.monotonic() - started}
        metrics |= {f"eval_{name}": value for name, value in curves.items()}
        for name, (part, share, means) in self._evaluated.items():
            if share:  # all rows of a set may be too long
                metrics |= {f"eval_{name}_{curve}": value for curve, value in {"loss": part, **means}.items()}
        self._take_scores(metrics, scores)
        self._note_if_no_number(loss)
        self._count_without_improvement(metrics)
        self.log(dict(metrics))
        if self._samples is not None:
            with self._naming_memory():
                self._samples.write(
                    self.accelerator.unwrap_model(self.model), self.processing_class, self.state.global_step
                )
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self._end_if_no_better()
        return metrics

    def _naming_memory(self, rows: int | None = None) -> AbstractContextManager[None]:
        """Name what is evaluated with this many rows at once, or answered, if memory runs out meanwhile."""
        return named_in_evaluation(self.state.global_step, rows, trains_on_gpu=self.args.device.type != "cpu")

    def take_scoring(self, scoring: Scoring | None) -> Collection[str]:
        """Take what measures the model's answers; return the names of what it measured, which grow."""
        self._scoring = scoring
        self.scored: set[str] = set()
        return self.scored

    def _score(self, scoring: Scoring) -> dict[str, float]:
        """Let the user's function measure the model's answers.

        A failure of it before the first step ends the run, where nothing is lost. A later one costs this evaluation's
        numbers alone: it is said, and in the summary.
        """
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        try:
            answers = scoring.answer(model, self.processing_class, self._scoring_turns())
            if self._preemption.agreed:
                return {}
            self._heartbeat.beat("evaluating", self.state.global_step)
            scores, trouble = scoring.judge(answers, self._run, self._agreement, self.state.global_step)
        finally:
            model.train(was_training)
        if trouble is None:
            return scores
        if self.state.global_step == 0:
            raise PayloadFailure(GENERIC, trouble)
        self._note(f"step {self.state.global_step}: {trouble}")
        return {}

    def _note(self, finding: str) -> None:
        self.eval_findings.append(finding)
        if self._run.is_main:
            print(f"finding: {finding}", flush=True)

    def _scoring_turns(self) -> Iterator[None]:
        """Yield before each prompt, until a preemption is agreed on."""
        while True:
            self._heartbeat.beat("evaluating", self.state.global_step)
            (self._preemption.agreed,) = self._agreement.highest(self._preemption.noted)
            if self._preemption.agreed:
                return
            yield

    def _take_scores(self, metrics: dict[str, float], scores: dict[str, float]) -> None:
        """Add the function's metrics to the others, and refuse to wait for one that it does not measure.

        Raises:
            PayloadFailure: `bad_spec`: a name is taken, or what tells the best is not among them.
        """
        function = "" if self._scoring is None else self._scoring.name
        taken = next((name for name in scores if name in metrics or name == WITHOUT), None)
        if taken is not None:
            raise bad_spec(f"evaluation function {function} measures {taken}, which the evaluation has already")
        metrics |= scores
        self.scored.update(scores)
        rule = self._schedule.stop_early
        asked = [self._schedule.best_metric.metric, *([rule.metric] if rule is not None else [])]
        missing = next((metric for metric in asked if metric not in metrics), None)
        if missing is not None and scores:
            raise bad_spec(
                f"evaluation function {function} does not measure {missing}, by which evaluations are compared; "
                f"it measures {', '.join(sorted(scores))}"
            )

    def _note_if_no_number(self, loss: float) -> None:
        """Note the first evaluation whose loss is NaN or infinite. The training continues: its own losses may be right."""
        if math.isfinite(loss) or self._has_noted:
            return
        self._has_noted = True
        broken = [name for name, (part, share, _) in self._evaluated.items() if share and not math.isfinite(part)]
        where = f" in the rows of {', '.join(broken)}" if broken else ""
        self._note(
            f"step {self.state.global_step}: the evaluation's loss is {loss}{where}: such an evaluation is never the best, "
            "and the step's checkpoint comes home without it. Later ones are not named here"
        )

    def _count_without_improvement(self, metrics: dict[str, float]) -> None:
        """Add how many evaluations in a row did not improve what `stop_early` watches, this one included."""
        rule, step = self._schedule.stop_early, self.state.global_step
        if rule is not None and step and rule.metric in metrics:
            log = [*self._comparable_log(rule.metric), {**metrics, "step": step}]
            metrics[WITHOUT] = rule.without_improvement(log)

    def _end_if_no_better(self) -> None:
        """End the training after this step, with a checkpoint, if its rule says so."""
        rule = self._schedule.stop_early
        if rule is None or self.state.global_step >= self.state.max_steps:
            return
        self.stopped_early = rule.verdict(self._comparable_log(rule.metric))
        if self.stopped_early is not None:
            self.control.should_save = self.control.should_training_stop = True

    def _run_epoch(self, **given: Any) -> None:
        """Evaluate before the first step of a resumed training, if a signal cut that evaluation short; it may end here."""
        if self._lacks_evaluation():
            self._determine_best_metric(self._evaluate(given["trial"], None), given["trial"])
        if not self.control.should_training_stop:
            super()._run_epoch(**given)

    def _lacks_evaluation(self) -> bool:
        """Tell whether the step that was trained last is to be evaluated and was not: all ranks read it in one log."""
        step = self.state.global_step
        is_due = step > 0 and self.eval_dataset is not None and step % self.args.eval_steps == 0
        return is_due and not has_evaluation(self.state.log_history, step)

    def evaluate_ended(self) -> None:
        """Evaluate a training that has nothing left to train; it counts as the evaluation of its last step does."""
        self._determine_best_metric(self.evaluate(), None)

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        best = self._schedule.best_metric
        if not self._best_is_counted:
            self._count_best()
        # One that was cut short, or whose function failed, has no such number.
        is_best = math.isfinite(metrics.get(best.metric, math.nan))
        is_best = is_best and bool(super()._determine_best_metric(metrics, trial))
        if self.state.best_metric is not None and math.isfinite(self.state.best_metric):
            told = self.state.best_global_step or 0, best.metric, float(self.state.best_metric)
            self._armada_metrics.remember_best(*told)
        return is_best

    def _count_best(self) -> None:
        """Take the best so far from the log: a resumed checkpoint may have been compared by another metric."""
        self._best_is_counted = True
        best = self._schedule.best_metric
        found = best.find(self._comparable_log(best.metric), self.state.global_step)
        self.state.best_metric, self.state.best_global_step = found or (None, None)

    def _comparable_log(self, metric: str) -> list[Mapping[str, Any]]:
        return self._evaluated_rows.comparable(self.state.log_history, metric)

    def evaluate_weighted(self) -> Weighted:
        """Compute the mean loss of all rows, over tokens or over pairs, and that of each set that has a name.

        The Trainer averages the means of batches, so its result changes with batch size and order (transformers
        #39241). This one is the sum over the whole set divided by its number. No batch has rows of two sets.

        Returns:
            The loss, what it is the mean over, and the means of the objective's curves.
        """
        model = self.accelerator.unwrap_model(self.model)
        model.eval()
        names = ("", *self.eval_curves)
        total = torch.zeros(len(self.eval_sets), len(names), 2, dtype=torch.float64, device=self.accelerator.device)
        with torch.no_grad(), self.accelerator.autocast():
            for number, rows in enumerate(self.eval_sets.values()):
                for inputs, counts in self.eval_inputs(rows):
                    loss, weight, curves = self.evaluate_batch(model, inputs)
                    if not counts:
                        continue
                    for at, name in enumerate(names):
                        part, share = curves.get(name, (0.0, 0.0)) if name else (loss, weight)
                        total[number, at, 0] += part
                        total[number, at, 1] += share
        total = self.accelerator.reduce(total, "sum")
        self._evaluated = {
            name: _means(names, sums) for name, sums in zip(self.eval_sets, total.tolist(), strict=True) if name
        }
        return _means(names, total.sum(0).tolist())

    def eval_inputs(self, rows: range | None = None) -> Iterator[tuple[Any, bool]]:
        """Yield the inputs of this rank's batches, until a preemption is agreed on; tell the heartbeat of each batch.

        Args:
            rows: Those of a set; all by default.

        Yields:
            The inputs, and whether they count: a rank whose rows have run out takes part with a row that does not.
        """
        for batch in self._eval_batches(range(len(self.eval_dataset)) if rows is None else rows):
            self._heartbeat.beat("evaluating", self.state.global_step)
            (self._preemption.agreed,) = self._agreement.highest(self._preemption.noted)
            if self._preemption.agreed:
                return
            if batch is not None:
                yield self._prepare_inputs(batch), True
            elif self._needs_all:  # the other ranks need this one's part of each layer
                yield self._prepare_inputs(self._spare_batch()), False

    def _eval_batches(self, rows: range) -> Iterator[Any]:
        """Deal rows out to the ranks, each row once: a distributed sampler would repeat some to fill the last batch.

        Every rank gets the same number of batches, so that all can agree before each; None stands for a batch without
        rows.
        """
        data = self.eval_dataset.select_columns(self._eval_columns())
        lengths = self._eval_lengths.tolist()
        by_length = sorted(rows, key=lengths.__getitem__, reverse=True)
        mine = by_length[self._run.rank :: self._run.world_size]
        size = self.eval_batch_size()
        most = -(-len(by_length) // self._run.world_size)
        for start in range(0, most, size):
            chosen = [self.eval_row(data, index) for index in mine[start : start + size]]
            yield self.data_collator(chosen) if chosen else None

    def _spare_batch(self) -> Any:
        """Return a batch of one row."""
        return self.data_collator([self.eval_row(self.eval_dataset.select_columns(self._eval_columns()), 0)])

    def eval_row(self, rows: Any, index: int) -> Any:
        """Return a row as the collator takes it."""
        return rows[index]

    def eval_batch_size(self) -> int:
        """Return how many rows are evaluated together."""
        return int(self.args.per_device_eval_batch_size)

    def _eval_columns(self) -> list[str]:
        """Return the columns that the collator takes: not the numbers that are stored beside them."""
        return [name for name in self.eval_dataset.column_names if name not in self._numbers]


def _means(names: tuple[str, ...], sums: list[list[float]]) -> Weighted:
    by_name = dict(zip(names, sums, strict=True))
    (loss, weight), means = by_name.pop(""), {name: part / share for name, (part, share) in by_name.items() if share}
    return loss / max(weight, 1), int(weight), means
