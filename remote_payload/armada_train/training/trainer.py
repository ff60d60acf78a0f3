"""What every trainer of TRL gets here: rows are counted, NaN stops, evaluation weighs rows, checkpoints are announced."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from datasets import Dataset
from torch.utils.data import SequentialSampler
from transformers import PrinterCallback
from transformers.integrations import is_deepspeed_zero3_enabled

from armada_train.checkpoints import announce as outbox
from armada_train.checkpoints.complete import count_to_keep, name_base_model, newest_first, read_shapes, step_of
from armada_train.checkpoints.full_disk import give_up, is_disk_full
from armada_train.checkpoints.manifest import name_of_optimizer, read_manifest, write_manifest
from armada_train.checkpoints.shards import is_sharded, write_listing
from armada_train.data.sampling import LengthSampler
from armada_train.data.stream import StreamDataset
from armada_train.data.workers import InWorker
from armada_train.failure import PayloadFailure
from armada_train.model.right_padding import padded_at_their_ends
from armada_train.model.whole_weights import WeightsDifferError, load_adapter, load_whole
from armada_train.specification.values import StartFrom, Training
from armada_train.training.agreement import Agreement
from armada_train.training.arguments import choose_weights_dtype, schedule_arguments
from armada_train.training.attempt import Attempt, TrainingData
from armada_train.training.background_writer import BackgroundWriter, finish_checkpoint, rotate
from armada_train.training.callbacks import RunCallback, SavingCallback
from armada_train.training.evaluating import Evaluating
from armada_train.training.gauges import flops_per_token, peak_memory_bytes
from armada_train.training.loss_watch import LossWatch, nan_loss
from armada_train.training.measurement import Measured, MeasuringCallback
from armada_train.training.optimizer_state import load_moments
from armada_train.training.shard_errors import CheckpointException, of_its_rank
from armada_train.training.sharding import (
    describe_parts,
    divide_frozen,
    gather_trained,
    give_moments,
    guard_head,
    load_sharded_moments,
    load_shards,
    local,
)
from armada_train.training.throughput import Throughput
from armada_train.training.time_parts import timed
from armada_train.training.time_seams import make_times, pack_times, watch_training
from armada_train.training.trained_weights import widen


class Trainer(Evaluating):
    """Adds to a trainer of TRL what a watched run needs.

    A subclass is one objective: it inherits from this class first, and from TRL's trainer second.

    Args:
        training: The whole specification.
        attempt: Where it runs, and what it resumes from.
        data: The rows.
        base_model: The folder of a model created by this run, which is copied beside its adapters; None for any other.
        rest: Passed to SFTTrainer unchanged.
    """

    config: ClassVar[Any]
    """The class of TRL's configuration."""
    curves: ClassVar[tuple[str, ...]] = ()
    """The objective's own metrics, in TRL's words."""
    pads_ends: ClassVar[bool] = False
    """Whether the rows of its batches have padding at their ends alone."""

    def __init__(
        self, *, training: Training, attempt: Attempt, data: TrainingData, base_model: Path | None, **rest: Any
    ) -> None:
        splits, stream, run = data.splits, data.stream, attempt.run
        self.fitted = [part.fitted for part in splits.parts]
        self.findings = [finding for part in splits.parts for finding in part.findings()]
        self._numbers = {name for part in splits.parts for name in part.encoding.numbers}
        self._train_lengths: Any = splits.train.lengths if splits.train else None
        evaluation = self.take_eval_rows(splits)
        self.train_tokens = attempt.train_tokens
        self.throughput = Throughput()
        self._run = run
        self._armada_metrics = attempt.metrics  # TRL's trainers have a `_metrics` of its own
        self._heartbeat = attempt.heartbeat
        self._preemption = attempt.preemption
        self._agreement = Agreement(run.world_size)
        self._settings = attempt.settings
        self._evaluated_rows = attempt.evaluated
        self._settings_win = attempt.settings_win
        self._schedule = training.schedule
        self._sharded = training.is_sharded
        self._needs_all = training.needs_all_ranks
        self._samples = data.samples
        self._peak_flops = training.peak_flops
        self._beside = rest.get("ref_model") or rest.get("teacher_model")
        self.times = make_times(rest["args"].device)
        self._base_model = base_model
        self._base_name = training.model_name
        self._has_adapter = training.lora is not None
        self._weights_dtype = choose_weights_dtype(training)
        self._moments_from: Path | None = None
        self.writer = BackgroundWriter(run, divided=self._sharded) if training.saves_in_background else None
        self.stopped_early: str | None = None
        self._losses = LossWatch(rest["args"].device)
        ending: SavingCallback | MeasuringCallback
        if (asked := training.measurement) is None:
            ending = SavingCallback(self._preemption, self._agreement, self._losses, training.save_every_minutes)
        else:
            ending = MeasuringCallback(training, asked, run, self._preemption, self._agreement, self._measured)
        callbacks = [
            ending,
            RunCallback(
                self._armada_metrics,
                self._heartbeat,
                self.throughput,
                self.curves,
                [name for name in self.eval_sets if name],
                self.take_scoring(data.scoring),
                is_main=run.is_main,
                logs_evaluations=self._schedule.stop_early is not None,
            ),
        ]
        # TRL inspects the first row; of a stream it gets only that one.
        rows = splits.train.dataset if splits.train else Dataset.from_list([] if stream is None else [stream[0]])
        super().__init__(callbacks=callbacks, train_dataset=rows, eval_dataset=evaluation, **rest)
        keeps_wide = self._sharded or self.is_deepspeed_enabled  # accelerate widens what it divides
        if not keeps_wide and training.lora is not None and training.lora.quantize == "none":
            widen(self.model)
        watch_training(self, self.times, self._agreement)
        self.data_collator = InWorker(self.data_collator)
        if stream is not None:
            self._take_stream(stream)
        self.remove_callback(PrinterCallback)  # it prints dictionaries of rounded texts
        self._keep_last = int(self.args.save_total_limit)
        # With 1, the Trainer would delete all but the best when the training ends, also the one it has just saved.
        self.args.save_total_limit = None
        self._fresh = self._no_counts()
        self._flops_per_token = flops_per_token(self.model)

    @classmethod
    @abstractmethod
    def own_arguments(cls, training: Training) -> dict[str, Any]:
        """Return the arguments of the configuration that only this objective has."""

    @classmethod
    def companions(cls, _training: Training, _load: Callable[[str], Any], _path: str) -> dict[str, Any]:
        """Load what the trainer needs beside the model; `load` loads a model from a path."""
        return {}

    def create_accelerator_and_postprocess(self) -> None:
        """Divide the model beside the trained one before TRL would, as soon as accelerate knows how."""
        super().create_accelerator_and_postprocess()
        if self._sharded and self._beside is not None:
            divide_frozen(self._beside, self.accelerator)

    # --- data ------------------------------------------------------------------------------------------------------

    def _take_stream(self, stream: StreamDataset) -> None:
        """Train on a stream instead of the one row that TRL received."""
        fitted, lengths = stream.survey()
        self.fitted.insert(0, fitted)
        self.findings = [*([sentence] if (sentence := fitted.describe()) else []), *self.findings]
        if self._run.is_main:
            print(lengths, flush=True)
        self.train_dataset = stream

    def _get_train_sampler(self, *rest: Any) -> Any:
        if isinstance(self.train_dataset, StreamDataset):
            return SequentialSampler(
                self.train_dataset
            )  # positions are random already; in order, a resume can skip without cost
        if not self._schedule.group_by_length:
            return super()._get_train_sampler(*rest)
        lengths = self._train_lengths.tolist()
        together = self.args.train_batch_size * self._run.world_size
        return LengthSampler(lengths, together, self._schedule.seed, lambda: int(self.state.epoch or 0))

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset  # it is prepared already

    # --- loss and counts -------------------------------------------------------------------------------------------

    @timed("forward")
    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        with padded_at_their_ends(are=self.pads_ends):
            result = super().compute_loss(model, inputs, *args, **kwargs)
        loss = result[0] if isinstance(result, tuple) else result
        if self.model.training:
            # Summed on the device, and read only for a log entry: reading here would stall a GPU at every step.
            tokens, rows = self.count(inputs)
            self._fresh[0] += tokens
            self._fresh[1] += rows
            self._losses.take(loss)
        return result

    def count(self, inputs: Any) -> tuple[Any, Any]:
        """Count the tokens and rows of a batch, without padding."""
        if "attention_mask" in inputs:
            return inputs["attention_mask"].sum(), inputs["attention_mask"].shape[0]
        # Packed: no padding, and each document begins at position 0.
        return inputs["input_ids"].numel(), (inputs["position_ids"] == 0).sum()

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        if "loss" in logs:
            times = pack_times(self.times, self._run, self.accelerator.device)
            counts = torch.cat([self._fresh, self._losses.count, times])
            tokens, samples, broken, *times_of_ranks = self.accelerator.reduce(counts, "sum").tolist()
            self._fresh = self._no_counts()
            self.train_tokens += tokens
            logs.update(self.throughput.lap(tokens, samples))
            logs.update(self._gauge(logs, times_of_ranks))
            self._metrics["train"]["num_tokens"] = [self.train_tokens]  # TRL's own count restarts with the attempt
            if broken:
                self._losses.settle(self.state.global_step)
                raise nan_loss(self._agreement.highest(self._losses.urgency)[0])
        super().log(logs, start_time)

    def get_batch_samples(self, batches: Any, *args: Any, **kwargs: Any) -> Any:
        return super().get_batch_samples(self.times.watch(batches), *args, **kwargs)

    def _gauge(self, logs: dict[str, Any], times_of_ranks: list[int]) -> dict[str, float]:
        gauges = self.times.describe(times_of_ranks, self.state.global_step)
        gauges["peak_memory_bytes"] = peak_memory_bytes()
        if self._peak_flops:
            flops = self._flops_per_token * logs["tokens_per_s"] / self._run.world_size
            gauges["mfu"] = flops / self._peak_flops
        return gauges

    def _measured(self) -> Measured:
        """Return what a measurement counts: tokens and rows of all ranks since the last log entry, and the rest."""
        tokens, rows = (int(count) for count in self.accelerator.reduce(self._fresh, "sum"))
        return Measured(tokens, rows, self.times.waited_s, self._flops_per_token)

    def _no_counts(self) -> torch.Tensor:
        """Return zero counts of tokens and samples, for this rank since the last log entry."""
        return torch.zeros(2, dtype=torch.int64, device=self.accelerator.device)

    def count_steps(self) -> int:
        """Return how many steps the training has, by its data and settings as they are now."""
        *_, steps = self.set_initial_training_values(self.args, self.get_train_dataloader())
        return int(steps)

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def restore(self, checkpoint: Path, log: list[dict[str, Any]]) -> None:
        """Load the weights of a finished run, which has nothing left to train, and its `log_history`."""
        if self._needs_all:
            self._prepare_for_training(step_of(checkpoint), None, str(checkpoint))
        else:
            self._load_from_checkpoint(str(checkpoint))
        self.state.global_step = step_of(checkpoint)
        self.state.max_steps = self.state.global_step
        self.state.log_history = log

    def start_from(self, start: StartFrom) -> None:
        """Start with another training's weights, and with its optimizer's moments if requested.

        Raises:
            PayloadFailure: `bad_spec`: they do not fit.
        """
        try:
            self._load_weights(start.path)
        except (RuntimeError, ValueError) as error:
            raise PayloadFailure("bad_spec", f"`training.start_from` {start.path} does not fit: {error}") from error
        self._moments_from = start.path / "optimizer.pt" if start.moments else None

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Tell the schedule how many steps it decays, which may be a share of a number that is known only now."""
        self.args.lr_scheduler_kwargs = schedule_arguments(self._schedule, num_training_steps)
        return super().create_scheduler(num_training_steps, optimizer)

    def _prepare_for_training(self, max_steps: int, dataloader: Any, resume_from_checkpoint: str | None) -> Any:
        if self._sharded and resume_from_checkpoint and not is_sharded(Path(resume_from_checkpoint)):
            self._load_to_resume(Path(resume_from_checkpoint))
        prepared = super()._prepare_for_training(max_steps, dataloader, resume_from_checkpoint)
        if self._sharded:
            guard_head(self.model)
            if self._run.is_main:
                ranks = self._run.world_size
                print(describe_parts("model", self.model, ranks), flush=True)
                if self._beside is not None:
                    print(describe_parts("frozen model beside it", self._beside, ranks), flush=True)
        if self._moments_from is not None:
            load_moments(self.optimizer, self._moments_from)
        return prepared

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load both states; settings that were changed with permission override those in the files.

        Otherwise the checkpoint's learning rate would override the experiment's, and a scheduler without its optimizer
        would begin its warm-up again.
        """
        fresh = [{key: group[key] for key in group if key != "params"} for group in self.optimizer.param_groups]
        self._load_states(checkpoint)
        if checkpoint is None or not self._settings_win:
            return
        if name_of_optimizer(read_manifest(Path(checkpoint))) != self._schedule.optimizer.name:
            self.optimizer.state.clear()  # another optimizer's moments mean nothing to this one
        for group, values in zip(self.optimizer.param_groups, fresh, strict=True):
            group.update(values)
        self.lr_scheduler.base_lrs = [values["initial_lr"] for values in fresh]
        self.lr_scheduler.last_epoch = step_of(Path(checkpoint)) - 1
        self.lr_scheduler.step()

    def _load_states(self, checkpoint: str | None) -> None:
        """Load optimizer and scheduler, also from a checkpoint that was divided otherwise."""
        source = None if checkpoint is None else Path(checkpoint)
        if source is None or self._sharded == is_sharded(source):
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        if self._sharded:
            give_moments(self.optimizer, torch.load(source / "optimizer.pt", map_location="cpu", weights_only=True))
        else:
            load_sharded_moments(self.accelerator.unwrap_model(self.model), self.optimizer, source)
        self.lr_scheduler.load_state_dict(torch.load(source / "scheduler.pt", weights_only=True))

    def _load_scaler(self, checkpoint: str | None) -> None:
        if self.accelerator.scaler is not None:  # the checkpoint may be of another precision, which was accepted
            super()._load_scaler(checkpoint)

    def _load_from_checkpoint(self, checkpoint: str, model: Any = None) -> None:
        """Load the weights, also from a checkpoint that was divided otherwise.

        Raises:
            PayloadFailure: `resume_mismatch`: some are missing.
        """
        source = Path(checkpoint)
        if self._sharded and is_sharded(source):
            super()._load_from_checkpoint(checkpoint, model)
        elif not self._sharded:
            self._load_to_resume(source)  # of a sharded model they were loaded before it was divided

    def _load_to_resume(self, source: Path) -> None:
        try:
            self._load_weights(source)
        except WeightsDifferError as error:
            raise PayloadFailure(
                "resume_mismatch",
                f"{error}: put its files back from home, or start another run with `start_from` of the checkpoint before it",
            ) from error

    def _load_weights(self, source: Path) -> None:
        """Load weights into the model before it is divided, or one that never is."""
        if self._has_adapter:
            load_adapter(self.model, source)
        elif is_sharded(source):
            load_shards(self.model, source)
        elif is_deepspeed_zero3_enabled():  # holds parts of its own, which refuse whole weights
            super()._load_from_checkpoint(str(source))
        else:
            load_whole(self.model, source, self._weights_dtype)

    @timed("saving")
    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        trained = (local(weight) for weight in self.model.parameters() if weight.requires_grad)
        is_broken = not all(bool(torch.isfinite(weight).all()) for weight in trained)
        if self._agreement.highest(is_broken)[0]:  # of a sharded model, one rank's part may be broken alone
            raise PayloadFailure(
                "nan_loss",
                f"a weight is not a number after step {self.state.global_step}; checkpoints written before it are kept",
            )
        self._heartbeat.beat("saving", self.state.global_step)
        checkpoint = self._run.checkpoints / f"checkpoint-{self.state.global_step}"
        try:
            self._save_and_announce(checkpoint, model, trial)
        except (Exception, CheckpointException) as caught:
            error = of_its_rank(caught) if isinstance(caught, CheckpointException) else caught
            if isinstance(error, PayloadFailure) or not is_disk_full(error, self._run.checkpoints):
                raise
            others = [found.name for found in newest_first(self._run.checkpoints) if found != checkpoint]
            raise give_up(checkpoint, next(iter(others), None), is_main=self._run.is_main) from error

    def _save_and_announce(self, checkpoint: Path, model: Any, trial: Any) -> None:
        writer = self.writer
        if writer is not None:
            writer.wait()
        if self._run.is_main:
            outbox.forget(checkpoint)
            write_manifest(checkpoint, self._settings, self._evaluated_rows.describe())
        self.accelerator.wait_for_everyone()
        keep = count_to_keep(self._run.checkpoints, self.state.global_step, self._keep_last, self._best_steps())
        self.args.save_total_limit = keep if writer is None else None  # old ones stay until this one is whole
        try:
            with nullcontext() if writer is None else writer.stage(checkpoint):
                super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = None
        whole = gather_trained(self.model) if self._sharded and self._has_adapter else None
        self.accelerator.wait_for_everyone()  # each rank has written its random state, and its shards
        if not self._run.is_main:
            if writer is not None and writer.has_part:
                writer.start(lambda: None)
            return
        if self._sharded:
            self._complete_shards(checkpoint, whole)
            listing = partial(write_listing, checkpoint, self._run.world_size)
            listing() if writer is None else writer.also(listing)
        if self._base_name is not None:
            name_base_model(checkpoint, self._base_name)
        is_final = self.state.global_step >= self.state.max_steps or self.stopped_early is not None
        announcement = self._describe(checkpoint, is_final=is_final)
        finish = partial(finish_checkpoint, self._run, checkpoint, announcement, self._base_model)
        if writer is None:
            finish()
        else:
            writer.start(partial(finish, rotate=partial(rotate, checkpoint, keep, self.state.best_model_checkpoint)))

    def _best_steps(self) -> list[int]:
        """Return the step of the best evaluation, and that of the best checkpoint: the Trainer keeps it, if the former was not saved."""
        best, kept = self.state.best_global_step, Path(self.state.best_model_checkpoint or "").name
        there = [step_of(found) for found in newest_first(self._run.checkpoints) if found.name == kept]
        return [*([best] if best else []), *there]

    def _complete_shards(self, checkpoint: Path, adapter: dict[str, Any] | None) -> None:
        """Put beside the shards what the Trainer leaves out: configuration, tokenizer, the whole adapter."""
        if adapter is None:
            model = self.accelerator.unwrap_model(self.model)
            model.config.architectures = [type(model).__name__.removeprefix("FSDP")]  # which tells its head
            model.config.save_pretrained(checkpoint)
        else:
            self.model.save_pretrained(checkpoint, state_dict=adapter)
            if len(saved := read_shapes(checkpoint)) != len(adapter):
                raise PayloadFailure("exception", f"PEFT saved {len(saved)} of the adapter's {len(adapter)} weights")
        self.processing_class.save_pretrained(checkpoint)

    def announce(self, checkpoint: Path, *, is_final: bool) -> None:
        """Put a complete checkpoint into the outbox, unless it is there."""
        outbox.announce(self._run, checkpoint, self._describe(checkpoint, is_final=is_final), self._base_model)

    def _describe(self, checkpoint: Path, *, is_final: bool) -> dict[str, object]:
        """Return what an announcement says of a checkpoint."""
        step, kind = step_of(checkpoint), "final" if is_final else "periodic"
        return {"step": step, "kind": kind, "time": time.time(), "metrics": self._armada_metrics.losses_at(step)}
