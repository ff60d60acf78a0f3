"""Callbacks of the Trainer that write metrics, heartbeats and log lines into the run's folder."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from typing import Any

from transformers import TrainerCallback

from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import Metrics
from armada_train.specification.early_stop import WITHOUT
from armada_train.training.agreement import Agreement
from armada_train.training.loss_watch import LossWatch, nan_loss
from armada_train.training.preemption import Preemption
from armada_train.training.throughput import Throughput
from armada_train.training.time_parts import PARTS, RANK_TIMES

# TRL's and the Trainer's names on the left, ours in metrics.jsonl on the right
_TRAIN_KEYS = {
    "loss": "loss",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "tokens_per_s": "tokens_per_s",
    "samples_per_s": "samples_per_s",
    "step_time_s": "step_time_s",
    "num_tokens": "num_tokens",
    "epoch": "epoch",
    "mean_token_accuracy": "token_accuracy",
    "data_wait_s": "data_wait_s",
    "peak_memory_bytes": "peak_memory_bytes",
    "mfu": "mfu",
    **{name: name for name in (*(f"time/{part}" for part in PARTS), *RANK_TIMES)},
}
_EVAL_KEYS = ("eval_loss", "eval_tokens", "eval_pairs", "eval_rows", "eval_completions", "eval_seconds", WITHOUT)


class RunCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not installed where types are checked
    """Runs on every rank; only rank 0's metrics reach the file.

    `curves` are those of the objective, in TRL's words, `eval_sets` the names of the evaluation sets, and `scored` what the
    user's evaluation function has measured so far.
    With `logs_evaluations` each step before an evaluation is logged, too, because the training may end there.
    """

    def __init__(
        self,
        metrics: Metrics,
        heartbeat: Heartbeat,
        throughput: Throughput,
        curves: Collection[str] = (),
        eval_sets: Collection[str] = (),
        scored: Collection[str] = (),
        *,
        is_main: bool,
        logs_evaluations: bool = False,
    ) -> None:
        self._metrics = metrics
        self._heartbeat = heartbeat
        self._throughput = throughput
        self._train_keys = _TRAIN_KEYS | {name: name for name in curves}
        self._set_losses = {f"eval_{each}_loss": each for each in eval_sets}
        of_sets = (f"eval_{each}_{name}" for each in eval_sets for name in ("loss", *curves))
        self._eval_keys = (*_EVAL_KEYS, *(f"eval_{name}" for name in curves), *of_sets)
        self._scored = scored
        self._is_main = is_main
        self._logs_evaluations = logs_evaluations

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._heartbeat.beat("training", state.global_step, state.max_steps)
        self._throughput.restart()

    def on_substep_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._heartbeat.beat("training", state.global_step)

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        self._throughput.step()
        self._heartbeat.beat("training", state.global_step)
        may_end = control.should_evaluate and self._logs_evaluations
        if control.should_save or control.should_training_stop or may_end:
            control.should_log = True  # a resumed run reads its counts from the line of the step it resumes from

    def on_log(self, _args: Any, state: Any, _control: Any, logs: dict[str, Any], **_: Any) -> None:
        if "loss" in logs:
            values = {ours: logs[theirs] for theirs, ours in self._train_keys.items() if theirs in logs}
            self._metrics.append("train", state.global_step, values)
            if self._is_main:
                print(_describe_step(state, values), flush=True)
        elif "eval_loss" in logs:
            values = {key: logs[key] for key in (*self._eval_keys, *sorted(self._scored)) if key in logs}
            self._metrics.append("eval", state.global_step, values)
            if self._is_main:
                named = self._set_losses | {key: key.removeprefix("eval_") for key in sorted(self._scored)}
                losses = [f"{name} {values[key]:.4f}" for key, name in named.items() if key in values]
                told = f"  ({', '.join(losses)})" if losses else ""
                print(
                    f"step {state.global_step}/{state.max_steps}  eval loss {values['eval_loss']:.4f}{told}", flush=True
                )

    def on_evaluate(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._return_to_training(state)

    def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        self._return_to_training(state)

    def _return_to_training(self, state: Any) -> None:
        self._heartbeat.beat("training", state.global_step)
        self._throughput.restart()


class SavingCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not installed where types are checked
    """Saves at the end of a step after a signal on any rank, or when the minutes are over; stops the training at a NaN loss."""

    def __init__(
        self,
        preemption: Preemption,
        agreement: Agreement,
        losses: LossWatch,
        every_minutes: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._preemption = preemption
        self._agreement = agreement
        self._losses = losses
        self._every_s = math.inf if every_minutes is None else 60 * every_minutes
        self._clock = clock
        self._saved_at = clock()

    def on_train_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._preemption.begin()
        self._saved_at = self._clock()

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        self._losses.end_step(state.global_step)
        if state.global_step >= state.max_steps:
            return  # the training ends here anyway, and the last log entry checks the losses
        # The ranks' clocks differ: a rank that saves while the others train would wait for them for ever.
        is_due = self._clock() - self._saved_at >= self._every_s
        noted, urgency = self._preemption.noted, self._losses.urgency
        self._preemption.agreed, due, urgency = self._agreement.highest(noted, is_due, urgency)
        if urgency:
            raise nan_loss(urgency)
        if due or self._preemption.agreed:
            control.should_save = True
        if self._preemption.agreed:
            control.should_evaluate = False
            control.should_training_stop = True

    def on_save(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._saved_at = self._clock()


def _describe_step(state: Any, values: dict[str, Any]) -> str:
    speed = values.get("tokens_per_s", math.nan)
    reward = values.get("reward")
    return (
        f"step {state.global_step}/{state.max_steps}  loss {values['loss']:.4f}  "
        + ("" if reward is None else f"reward {reward:.4f}  ")
        + f"lr {values['learning_rate']:.2e}  {speed:,.0f} tokens/s"
    )
