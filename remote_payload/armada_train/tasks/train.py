"""One training, read from top to bottom."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing.errors import record
from trl.chat_template_utils import is_chat_template_stop_token_trained

from armada_train.checkpoints import complete, trainer_state, whole
from armada_train.checkpoints.evaluated import Evaluated, look_at_evaluation
from armada_train.checkpoints.manifest import Settings, describe_settings
from armada_train.checkpoints.resume import Resume, find_resume
from armada_train.data.epochs import doubt_about_epochs
from armada_train.data.hooks import Stream
from armada_train.data.preparation import Splits
from armada_train.data.rows import Files
from armada_train.data.stream import StreamDataset
from armada_train.failure import GENERIC, PayloadFailure
from armada_train.model.attention import ATTEMPTS, Attention, choose_attention
from armada_train.model.fit import check_fit
from armada_train.model.loading import base_model_folder, load_model, model_path
from armada_train.model.right_padding import leave_out_masks
from armada_train.model.sdpa_kernels import use_plans_for_full_rows
from armada_train.records import read_object
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import History, Metrics, read_history
from armada_train.reporting.samples import Samples
from armada_train.runfolder import RunFolder
from armada_train.specification.early_stop import EarlyStop
from armada_train.specification.values import Training, check_gpus, check_world
from armada_train.tasks.prepare import describe, ignored_keys, prepare_model_and_data
from armada_train.training.adapter_casts import leave_out_casts
from armada_train.training.adapter_products import add_within_products
from armada_train.training.agreement import Agreement, leave
from armada_train.training.arguments import choose_weights_dtype, make_arguments, make_lora
from armada_train.training.attempt import Attempt, TrainingData
from armada_train.training.gauges import count_numbers
from armada_train.training.memory import is_out_of_memory, out_of_memory
from armada_train.training.objectives import trainer_of
from armada_train.training.output_head import use_whole_logits
from armada_train.training.packing import check_packing
from armada_train.training.preemption import Preemption
from armada_train.training.rank_order import as_main_first
from armada_train.training.scorer import load_scorer
from armada_train.training.scoring import Scoring
from armada_train.training.shard_errors import CheckpointException, of_its_rank
from armada_train.training.sharding import let_cpus_shard
from armada_train.training.trainer import Trainer
from armada_train.training.vllm_server import await_vllm_server

_LONG_S = 60


@record  # type: ignore[untyped-decorator]  # torch is not installed where types are checked
def train(training: Training, *given: Any, **options: Any) -> None:
    """Train; if memory runs out, report settings that would fit. Takes the arguments of `_train`.

    Raises:
        PayloadFailure: The training failed; the reason is set if it is known.
    """
    try:
        _train(training, *given, **options)
    except CheckpointException as error:
        raise of_its_rank(error) from error
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            smallest = 2 if training.objective.settings.get("loss") == "kto" else 1
            on_gpu = training.device != "cpu"
            raise out_of_memory(training.batch, error, trains_on_gpu=on_gpu, smallest=smallest) from error
        raise


def _train(
    training: Training,
    run: RunFolder,
    heartbeat: Heartbeat,
    preemption: Preemption,
    train_rows: Files | Stream,
    eval_files: Files | None,
    *,
    reports_to_wandb: bool,
) -> None:
    """Train, evaluate before and after, and write all results into the run's folder."""
    started = time.monotonic()
    _check_devices(training, run)
    settings = describe_settings(training)
    resume = _find_resume(training, run, settings)
    tokenizer, template, splits = _prepare(training, run, heartbeat, train_rows, eval_files)
    if run.is_main:
        await_vllm_server(training, lambda: heartbeat.beat("preparing"))
    trainer_class = trainer_of(training.objective)
    own = trainer_class.own_arguments(training)
    arguments = make_arguments(training, run, trainer_class.config, own, reports_to_wandb=reports_to_wandb)
    check_world(training, arguments.world_size)
    let_cpus_shard(training)
    if training.schedule.logits == "whole":
        use_whole_logits()
        _say(run, "the loss is computed of all logits at once (train.logits)")
    if training.lora is not None and training.precision != "fp32":
        leave_out_casts()
        add_within_products()
    arguments.eval_on_start = eval_files is not None and resume.checkpoint is None
    evaluated, changes = look_at_evaluation(
        training, resume.checkpoint, complete.step_of(resume.checkpoint) if resume.checkpoint else 0
    )
    history, metrics = _open_metrics(run, resume.checkpoint)
    attention = _choose_attention(training, run)
    load = partial(_load_model, training, run, attention)
    model = load(model_path(training, run))
    doubts = check_fit(training, model, tokenizer, splits.parts)
    stream = _make_stream(training, train_rows, tokenizer, template, arguments.max_steps)
    trainer = trainer_class(
        training=training,
        attempt=Attempt(run, heartbeat, preemption, metrics, settings, resume.changed, history.train_tokens, evaluated),
        data=TrainingData(
            splits, stream, _make_samples(training, run, eval_files), _make_scoring(training, run, eval_files)
        ),
        base_model=base_model_folder(training, run),
        model=model,
        args=arguments,
        processing_class=tokenizer,
        peft_config=make_lora(training),
        **trainer_class.companions(training, load, model_path(training, run)),
    )
    trainable = _begin(trainer, training, run, resume.checkpoint)
    findings = [*changes, *ignored_keys(train_rows, eval_files), *trainer.findings, *doubts]
    findings += _doubts_about_data(training, splits, len(trainer.train_dataset), train_rows)
    findings += check_packing(training, trainer)
    findings += _doubts_about_ends(train_rows.kind, tokenizer, template)
    for finding in findings:
        _say(run, f"finding: {finding}")
    findings += _run_trainer(trainer, training.schedule.stop_early, run, resume, evaluated)
    if preemption.agreed:
        leave(trainer.accelerator)
        raise preemption.failure(trainer.state.global_step)
    _require_all_steps(trainer, training)
    summary = _summarize(trainer, metrics, history, attention)
    summary |= {"trainable_parameters": trainable, "findings": [*resume.findings, *findings, *trainer.eval_findings]}
    if trainer.stopped_early is not None:
        summary["stopped_early"] = trainer.stopped_early
        _say(run, trainer.stopped_early)
    summary["seconds"] = time.monotonic() - started
    metrics.append("summary", trainer.state.global_step, summary)
    heartbeat.beat("ended", trainer.state.global_step)
    leave(trainer.accelerator)


def _prepare(
    training: Training, run: RunFolder, heartbeat: Heartbeat, train_rows: Files | Stream, eval_files: Files | None
) -> tuple[Any, str | None, Splits]:
    """Return the tokenizer, the chat template if it is not the tokenizer's own, and the rows; print a description of the rows."""
    heartbeat.beat("preparing")
    prepared: tuple[Any, str | None, Splits] = as_main_first(
        run, heartbeat, lambda: prepare_model_and_data(training, run, heartbeat, train_rows, eval_files)
    )
    for line in describe(prepared[2]):
        _say(run, line)
    heartbeat.beat("loading")
    return prepared


def _open_metrics(run: RunFolder, checkpoint: Path | None) -> tuple[History, Metrics]:
    """Return what earlier attempts measured up to the checkpoint, and the metrics file that this one continues."""
    history = read_history(run.metrics, complete.step_of(checkpoint)) if checkpoint else History()
    metrics = Metrics(run.metrics if run.is_main else None, run.attempt)
    metrics.begin(history)
    if history.finding:
        _say(run, history.finding)
    return history, metrics


def _load_model(training: Training, run: RunFolder, attention: Attention, path: str) -> Any:
    torch.manual_seed(training.schedule.seed)  # an adapter's initial weights are drawn before the Trainer sets its seed
    dtype = choose_weights_dtype(training)
    return load_model(training, path, dtype, attention.name, run.local_rank)


def _make_stream(
    training: Training, rows: Files | Stream, tokenizer: Any, template: str | None, steps: int
) -> StreamDataset | None:
    """Return the rows that a hook creates during training; None for rows of files."""
    if not isinstance(rows, Stream):
        return None
    return StreamDataset(rows, tokenizer, template, training.schedule, steps * training.batch.overall)


def _begin(trainer: Trainer, training: Training, run: RunFolder, checkpoint: Path | None) -> int:
    """Load another run's weights if requested, and print what is trained; return the number of parameters."""
    if training.start_from and checkpoint is None:
        trainer.start_from(training.start_from)
        what = "weights and the optimizer's moments" if training.start_from.moments else "weights"
        _say(run, f"starting with the {what} of {training.start_from.path}; the schedule is this run's own")
    trainable: int = sum(count_numbers(weight) for weight in trainer.model.parameters() if weight.requires_grad)
    _say(run, f"{trainable:,} trainable parameters, {len(trainer.train_dataset):,} training rows")
    return trainable


def _summarize(trainer: Trainer, metrics: Metrics, history: History, attention: Attention) -> dict[str, Any]:
    """Summarize the training's results."""
    tokens = trainer.train_tokens
    return {
        "loss_first": metrics.loss_first,
        "loss_last": metrics.loss_last,
        "eval_loss_before": metrics.eval_loss_before,
        "eval_loss_after": metrics.eval_loss_after,
        "best_step": trainer.state.best_global_step,
        "train_tokens": tokens,
        "tokens_per_s": (tokens - history.train_tokens) / max(trainer.throughput.total_s, 1e-9),
        "dropped_samples": sum(fitted.dropped for fitted in trainer.fitted),
        "truncated_samples": sum(fitted.truncated for fitted in trainer.fitted),
        "split_samples": sum(fitted.split for fitted in trainer.fitted),
        "attention": attention.name,
        "attention_why": attention.why,
        # What came after the last line of a step: its saving and its evaluation.
        **{f"time/{part}": seconds for part, seconds in trainer.times.lap().items() if seconds},
    }


def _choose_attention(training: Training, run: RunFolder) -> Attention:
    capability = torch.cuda.get_device_capability(run.local_rank) if training.device == "cuda" else None
    attention = choose_attention(
        training, capability, ATTEMPTS, lambda mine: Agreement(run.world_size).highest(mine)[0]
    )
    _say(run, f"attention: {attention.name} ({attention.why})")
    if attention.name == "sdpa":
        use_plans_for_full_rows(training)
        leave_out_masks()
    return attention


def _doubts_about_data(training: Training, splits: Splits, rows: int, train_rows: Files | Stream) -> list[str]:
    """Warn about data that costs time or that is trained on less than it seems."""
    doubts = []
    if splits.made and splits.seconds > _LONG_S and training.device == "cuda":
        doubts.append(f"GPUs waited {splits.seconds:.0f} s for data to be tokenised: run `armada prepare` in advance")
    doubt = None if isinstance(train_rows, Stream) else doubt_about_epochs(rows, training.batch, training.schedule)
    return doubts + ([doubt] if doubt else [])


def _doubts_about_ends(kind: str, tokenizer: Any, chat_template: str | None) -> list[str]:
    """Warn if the model may never learn to stop; its loss would look normal."""
    doubts = []
    if kind == "messages" and not is_chat_template_stop_token_trained(tokenizer, chat_template=chat_template):
        doubts.append(
            "the chat template excludes the end of the assistant's turn from the loss, so the model may not learn to stop"
        )
    if tokenizer.pad_token_id is not None and tokenizer.pad_token_id == tokenizer.eos_token_id:
        doubts.append(f"padding and end are both {tokenizer.eos_token!r}: tools that mask padding also mask the end")
    return doubts


def _make_samples(training: Training, run: RunFolder, eval_files: Files | None) -> Samples | None:
    asked = training.evaluation
    if eval_files is None or not asked.samples:
        return None
    path, together = run.samples if run.is_main else None, training.needs_all_ranks
    return Samples(path, run.attempt, eval_files, asked.samples, asked.sample_tokens, together=together)


def _make_scoring(training: Training, run: RunFolder, eval_files: Files | None) -> Scoring | None:
    if eval_files is None or training.evaluation.function is None:
        return None
    return Scoring(training, load_scorer(training.evaluation, run.attempt_folder), eval_files)


def _check_devices(training: Training, run: RunFolder) -> None:
    if training.device == "cpu":
        return
    check_gpus(training, run.local_world_size, torch.cuda.device_count(), torch.__version__)
    if training.precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name(0)
        raise PayloadFailure("env_error", f"{name} has no bf16: the profile's `precision` must be fp16 or fp32")


def _find_resume(training: Training, run: RunFolder, settings: Settings) -> Resume:
    resume = find_resume(training, run, settings)
    for finding in resume.findings:
        _say(run, f"finding: {finding}")
    if run.is_main:
        step = complete.step_of(resume.checkpoint) if resume.checkpoint else 0
        complete.set_aside_newer(run.checkpoints, step, run.attempt)
        if resume.checkpoint:
            complete.set_aside_broken(resume.checkpoint, training.batch.processes)
    if resume.checkpoint:
        _say(run, f"resuming from {resume.checkpoint.name}")
    return resume


def _run_trainer(
    trainer: Trainer, rule: EarlyStop | None, run: RunFolder, resume: Resume, evaluated: Evaluated
) -> list[str]:
    """Train what is left to train, and evaluate; return findings."""
    checkpoint = resume.checkpoint
    if checkpoint is None:
        _train_and_wait(trainer)
        return []
    state = read_object(checkpoint / trainer_state.NAME)
    step, before = state["global_step"], state["max_steps"]
    steps = trainer.count_steps() if resume.changed else before  # fewer rows, for example, are fewer steps
    is_final = step >= steps
    if rule is not None and not is_final:
        trainer.stopped_early = rule.verdict(evaluated.comparable(state["log_history"], rule.metric))
        is_final = trainer.stopped_early is not None
    findings = []
    if run.is_main and is_final and step < before and trainer.stopped_early is None:
        _announce_as_last(trainer, checkpoint)
    elif run.is_main:
        trainer.announce(checkpoint, is_final=is_final)  # the last attempt may have died between saving and announcing
    if not is_final:
        _train_and_wait(trainer, resume_from_checkpoint=str(checkpoint))
        if run.is_main and trainer.stopped_early is not None and trainer.state.global_step == step:
            _announce_as_last(trainer, checkpoint)  # by its evaluation, which was made only now
        return []
    if step < before and trainer.stopped_early is None:
        findings = [
            f"with what changed, the training has {steps:,} steps: {checkpoint.name} is its last, and nothing is trained any more"
        ]
        _say(run, f"finding: {findings[0]}")
    trainer.restore(checkpoint, state["log_history"])  # the Trainer would do one more step
    if trainer.eval_dataset is not None:
        trainer.evaluate_ended()
    return findings


def _announce_as_last(trainer: Trainer, checkpoint: Path) -> None:
    """Announce a checkpoint again that was announced as one of several, and is the last one now; once, not at each resume."""
    if not whole.is_final(checkpoint):
        whole.unmark(checkpoint)
    trainer.announce(checkpoint, is_final=True)


def _require_all_steps(trainer: Trainer, training: Training) -> None:
    """Refuse to call a training done that ended before its last step, for whatever reason: the Trainer then returns as usual.

    Raises:
        PayloadFailure: `exception`.
    """
    step, steps = trainer.state.global_step, trainer.state.max_steps
    if step < steps and trainer.stopped_early is None and training.measurement is None:
        raise PayloadFailure(
            GENERIC, f"the training ended after step {step:,} of {steps:,}: there were no more rows to train on"
        )


def _train_and_wait(trainer: Trainer, **given: Any) -> None:
    """Train, and wait for a checkpoint that is still being written; it is completed even where the training failed."""
    try:
        trainer.train(**given)
    except BaseException:
        if trainer.writer is not None:
            trainer.writer.settle()
        raise
    if trainer.writer is not None:
        trainer.writer.wait()


def _say(run: RunFolder, sentence: str) -> None:
    if run.is_main:
        print(sentence, flush=True)
