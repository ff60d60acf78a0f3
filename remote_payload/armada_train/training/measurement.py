"""Measure the speed of a training: warm-up, then steps that are timed one by one, then the end. Nothing is saved."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import TrainerCallback

from armada_train.runfolder import RunFolder, replace_json
from armada_train.specification.values import Measurement, Training
from armada_train.training.agreement import Agreement
from armada_train.training.gauges import peak_memory_bytes
from armada_train.training.preemption import Preemption
from armada_train.training.reference import product_s
from armada_train.training.step_times import describe_steps

RESULT = "result.json"
"""In the folder of a cell, where `armada_train.bench` reads it."""

_LOOKS_SHARE = 0.03
"""Of a turn's measured seconds, in which the machine's own product is timed: before the steps, among and after them."""

_GAPS, _GAPS_ALONE = 2, 4
"""Parts of a turn between two such times; a cell's only turn has more."""


@dataclass(frozen=True)
class Measured:
    """What the trainer has counted so far, over all ranks."""

    tokens: int
    samples: int
    waited_s: float
    flops_per_token: int


class MeasuringCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not installed where types are checked
    """Ends the training when enough was measured, and writes result.json into the run's folder.

    Args:
        training: The specification.
        asked: Its measurement.
        run: Where the result goes; every rank counts, rank 0 writes.
        preemption: A signal ends the training.
        agreement: All ranks end after the same step.
        count: Returns the trainer's counts; all ranks must call it at the same time.
        clock: In seconds.
    """

    def __init__(
        self,
        training: Training,
        asked: Measurement,
        run: RunFolder,
        preemption: Preemption,
        agreement: Agreement,
        count: Callable[[], Measured],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._training = training
        self._asked = asked
        self._run = run
        self._preemption = preemption
        self._agreement = agreement
        self._count = count
        self._clock = clock
        self._before: Measured | None = None
        self._began_at = self._mark = self._warmup_s = 0.0
        self._steps_s: list[float] = []
        self._products_s: list[float] = []
        self._turns = 1
        self._seconds, self._steps = asked.seconds, asked.steps
        self._looks_at_s = math.inf

    def on_train_begin(self, _args: Any, _state: Any, _control: Any, **_: Any) -> None:
        self._preemption.begin()
        self._began_at = self._clock()

    def on_step_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        if self._before is None and state.global_step >= self._asked.warmup_steps:
            self._before = self._count()
            _wait_for_gpu()
            self._warmup_s = self._clock() - self._began_at
            self._choose_turns()
            self._look_at_machine()

    def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> None:
        is_enough = wants_look = False
        if self._before is not None:
            _wait_for_gpu()  # a step's time is that of its work, not of handing it to the GPU
            now = self._clock()
            self._steps_s.append(now - self._mark)
            self._mark = now
            measured_s = math.fsum(self._steps_s)
            is_enough = len(self._steps_s) >= self._steps and measured_s >= self._seconds
            wants_look = measured_s >= self._looks_at_s
        agreed = self._agreement.highest(self._preemption.noted, is_enough, wants_look)
        self._preemption.agreed, ends, looks = agreed
        if looks and not ends and not self._preemption.agreed:
            self._look_at_machine()
        if ends and not self._preemption.agreed:
            self._write()
        if ends or self._preemption.agreed:
            control.should_training_stop = True

    def _choose_turns(self) -> None:
        """In a cell's first turn: measure only a part of what was asked, if it is worth further starts."""
        if (since := self._asked.started_at) is not None:
            start_s = self._agreement.highest(round((time.monotonic() - since) * 1e3))[0] / 1e3
            self._turns = self._asked.turns(start_s)
            self._seconds = self._asked.seconds / self._turns
            self._steps = max(2, math.ceil(self._asked.steps / self._turns))

    def _look_at_machine(self) -> None:
        """Time what is the same for every cell; the slowest rank counts, as it does in a step."""
        gaps = _GAPS_ALONE if self._asked.started_at is not None and self._turns == 1 else _GAPS
        taken_s = product_s(self._seconds * _LOOKS_SHARE / (gaps + 1))
        self._products_s.append(self._agreement.highest(round(taken_s * 1e9))[0] / 1e9)
        self._looks_at_s = self._seconds * len(self._products_s) / gaps
        self._mark = self._clock()

    def _write(self) -> None:
        before, after = self._before, self._count()
        memory_bytes = self._agreement.highest(peak_memory_bytes())[0]
        self._look_at_machine()
        if not self._run.is_main or before is None:
            return
        elapsed_s = max(math.fsum(self._steps_s), 1e-9)
        tokens = after.tokens - before.tokens
        result = {
            **describe_steps(self._steps_s),
            "turns": self._turns,
            "steps_s": self._steps_s,
            "products_s": [each for each in self._products_s if each],
            "tokens": tokens,
            "samples": after.samples - before.samples,
            "measured_s": elapsed_s,
            "warmup_s": self._warmup_s,
            "tokens_per_s": tokens / elapsed_s,
            "samples_per_s": (after.samples - before.samples) / elapsed_s,
            "data_wait_s": (after.waited_s - before.waited_s) / len(self._steps_s),
            "peak_memory_bytes": memory_bytes,
        }
        if all(self._products_s):
            result["products_per_s"] = len(self._products_s) / math.fsum(self._products_s)
        if self._training.peak_flops:
            flops = after.flops_per_token * tokens / elapsed_s / self._run.world_size
            result["mfu"] = flops / self._training.peak_flops
        replace_json(self._run.path / RESULT, result)


def _wait_for_gpu() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
