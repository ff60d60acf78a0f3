"""What objectives share that train on completions which their model samples meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from trl.trainer.utils import RepeatSampler

from armada_train.data.workers import InWorker
from armada_train.failure import PayloadFailure
from armada_train.training.judges import PLACES
from armada_train.training.objectives.row_weighted import alone
from armada_train.training.trainer import Trainer

LENGTHS = (
    "completions/mean_length",
    "completions/min_length",
    "completions/max_length",
    "completions/clipped_ratio",
    "completions/mean_terminated_length",
    "completions/min_terminated_length",
    "completions/max_terminated_length",
)
"""TRL's curves of the completions' lengths in tokens; `clipped_ratio` is the share that reached the longest."""


class SampledTrainer(Trainer):
    """A row is a prompt. A step's completions are sampled at once, before its first micro batch.

    For evaluation each prompt is sampled alone, with random numbers of its own. So the result depends neither on the
    batch nor on the number of ranks, and the training's own random numbers go on as if nothing had been evaluated.
    """

    weighs: ClassVar[str] = "completions"
    _generate: Callable[[list[Any]], tuple[Any, ...]]
    _step: int

    def __init__(self, **given: Any) -> None:
        training, splits = given["training"], given["data"].splits
        self._each = training.objective.completions
        self._seed = training.schedule.seed
        prompts = training.batch.overall // self._each
        if len(splits.train.dataset) < prompts:
            raise PayloadFailure(
                "data_error",
                f"a step takes {prompts} prompts (train.global_batch_size {training.batch.overall}"
                + (f" / num_generations {self._each}" if self._each > 1 else "")
                + f"), and data.train has {len(splits.train.dataset)}: lower train.global_batch_size",
            )
        super().__init__(**given)
        parts = [part.dataset for part in splits.parts]
        names = {name: None for rows in parts for text in rows["row"] for name in json.loads(text)["columns"]}
        self.columns = list(names)
        self.data_collator = InWorker(lambda rows: [self._decode(row) for row in rows])

    def _decode(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row as TRL takes it: every row has every column, as in a dataset of the hub."""
        made = json.loads(row["row"])
        columns = {name: made["columns"].get(name) for name in self.columns}
        return {"prompt": made["prompt"], **columns, PLACES: made["at"]}

    def _get_train_sampler(self, *_: Any) -> Any:
        """Draw TRL's own order; a resume in a later epoch draws that epoch's order again, and not the first one's."""
        size = self.args.per_device_train_batch_size * self.accelerator.num_processes
        return _PromptSampler(
            lambda: int(self.state.epoch or 0),
            data_source=self.train_dataset,
            mini_repeat_count=self._each,
            batch_size=size * self.args.gradient_accumulation_steps // self._each,
            repeat_count=self.args.gradient_accumulation_steps,
            seed=self.args.seed,
        )

    def count(self, inputs: Any) -> tuple[Any, Any]:
        return inputs["prompt_mask"].sum() + inputs["completion_mask"].sum(), len(inputs["prompt_ids"])

    def _prepare_inputs(self, inputs: Any) -> Any:
        if not self.model.training:
            return inputs  # the evaluation samples by itself
        self._heartbeat.beat("training", self.state.global_step)
        return super()._prepare_inputs(inputs)

    def _eval_batches(self, rows: range) -> Iterator[Any]:
        """Deal prompts out to the ranks, one at a time; None stands for a rank that has no more.

        With vLLM every rank must ask for a completion then: it gets the first prompt, of which nothing counts.
        """
        data = self.eval_dataset
        for start in range(0, len(rows), self._run.world_size):
            at = start + self._run.rank
            if at < len(rows):
                yield {"index": rows[at], "row": self._decode(data[rows[at]]), "counts": True}
            else:
                spare = {"index": 0, "row": self._decode(data[0]), "counts": False}
                yield spare if getattr(self, "use_vllm", False) else None

    def eval_batch_size(self) -> int:
        return 1

    def sample(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Sample the completions of a prompt for evaluation; return what TRL's `_generate` does."""
        told = self._metrics["eval"]
        with self._own_chance(inputs["index"]), alone(self.accelerator):
            made = self._generate([inputs["row"]["prompt"]] * self._each)
        told.clear()
        return made

    def lengths_of(self, ids: list[list[int]]) -> dict[str, tuple[float, int]]:
        """Return the sums of what the evaluation tells of lengths."""
        longest = self.args.max_completion_length
        clipped = sum(len(each) >= longest and each[-1] not in self.eos_token_ids for each in ids)
        return {
            "completions/mean_length": (float(sum(map(len, ids))), len(ids)),
            "completions/clipped_ratio": (float(clipped), len(ids)),
        }

    @contextmanager
    def _own_chance(self, index: int) -> Iterator[None]:
        """Draw random numbers that depend on the seed and the prompt alone."""
        device = self.accelerator.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(self._seed * 1_000_003 + index)
            yield


class _PromptSampler(RepeatSampler):  # type: ignore[misc]  # trl is not installed where types are checked
    """TRL's sampler draws an epoch's order from a generator that a resumed run begins anew."""

    def __init__(self, epoch: Callable[[], int], **given: Any) -> None:
        super().__init__(**given)
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.generator.manual_seed(self.seed)
        for _ in range(self._epoch()):
            torch.randperm(self.num_samples, generator=self.generator)
        yield from super().__iter__()
