"""Convert the specification into TRL's and PEFT's arguments. Every setting with a silent default there is set explicitly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from peft import LoraConfig

from armada_train.failure import PayloadFailure
from armada_train.runfolder import RunFolder
from armada_train.specification.values import Schedule, TinyModel, Training

_ONLY_AT_THE_END = 2**31  # the Trainer also evaluates and saves after the last step


def make_arguments(
    training: Training, run: RunFolder, config: Any, own: Mapping[str, Any], *, reports_to_wandb: bool
) -> Any:
    """Build the trainer's configuration; this also joins the process group.

    Args:
        training: What to train.
        run: Where the checkpoints go.
        config: The class of TRL's configuration for this objective.
        own: The arguments of this objective alone.
        reports_to_wandb: Whether the Trainer's W&B callback is on.
    """
    schedule, batch = training.schedule, training.batch
    warmup = schedule.warmup_steps
    return config(
        **own,
        output_dir=str(run.checkpoints),
        seed=schedule.seed,
        data_seed=schedule.seed,
        per_device_train_batch_size=batch.micro,
        per_device_eval_batch_size=schedule.eval_batch_size or 8,
        gradient_accumulation_steps=batch.accumulation,
        max_steps=schedule.max_steps or -1,
        num_train_epochs=schedule.epochs or 1.0,
        learning_rate=schedule.learning_rate,
        lr_scheduler_type=_scheduler(training),
        lr_scheduler_kwargs=schedule_arguments(training.schedule, schedule.max_steps),
        **schedule.optimizer.arguments(),
        warmup_steps=warmup if warmup < 1 else int(warmup),
        weight_decay=schedule.weight_decay,
        max_grad_norm=schedule.max_grad_norm,
        neftune_noise_alpha=schedule.neftune_alpha,
        use_liger_kernel=schedule.kernels == "liger",
        torch_compile=schedule.compile,
        # Both are given because TRL's default is bf16, which overrides the launcher's setting.
        bf16=training.precision == "bf16",
        fp16=training.precision == "fp16",
        use_cpu=training.device == "cpu",
        deepspeed=training.deepspeed,
        # Under FSDP accelerate does it, as launch/accelerate.yaml says, so that each layer is gathered once more and not
        # twice. Its wrappers rename modules: PEFT 0.21 then saves adapters without any weight.
        activation_checkpointing=checkpoints_activations(training)
        and not (training.is_sharded and training.lora is None),
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=training.device == "cuda",
        dataloader_num_workers=training.workers,
        # Spawned workers would need to pickle TRL's closures, which is impossible.
        dataloader_multiprocessing_context="fork" if training.workers else None,
        eval_strategy="steps" if training.eval_data else "no",
        eval_steps=schedule.eval_every_steps or _ONLY_AT_THE_END,
        # With these two, rotation keeps the best checkpoint in addition to the last ones.
        metric_for_best_model=schedule.best_metric.metric if training.eval_data else None,
        greater_is_better=schedule.best_metric.rises if training.eval_data else None,
        save_strategy="no" if training.measurement else "steps",
        save_steps=training.save_every_steps or _ONLY_AT_THE_END,
        save_total_limit=training.keep_last,
        # Logging reads from the GPU, which a measurement does by itself.
        logging_steps=_ONLY_AT_THE_END if training.measurement else schedule.log_every_steps,
        logging_first_step=training.measurement is None,
        logging_nan_inf_filter=False,  # if on, it replaces a NaN loss by the mean of the losses before it
        report_to=["wandb"] if reports_to_wandb else "none",
        disable_tqdm=True,
    )


def _scheduler(training: Training) -> str:
    schedule = training.schedule
    return "cosine_with_min_lr" if schedule.lr_scheduler == "cosine" and schedule.lr_floor else schedule.lr_scheduler


def schedule_arguments(schedule: Schedule, steps: int | None) -> dict[str, float]:
    """Return what the schedule needs beside its name.

    Args:
        schedule: Its settings.
        steps: The steps of the whole training; None if they are not known yet.

    Raises:
        PayloadFailure: `bad_spec`: warm-up and decay are longer than the training.
    """
    found: dict[str, float] = {}
    if schedule.lr_scheduler == "cosine" and schedule.lr_floor:
        found["min_lr_rate"] = schedule.lr_floor
    if schedule.decay_steps is not None:
        found["min_lr_ratio"] = schedule.lr_floor
        if steps is not None:
            warmup, decay = (
                schedule.count_steps(part, steps) for part in (schedule.warmup_steps, schedule.decay_steps)
            )
            if warmup + decay > steps:
                raise PayloadFailure(
                    "bad_spec",
                    f"`training.train.decay_steps`: {decay} steps of decay and {warmup} of warm-up are more than all {steps}",
                )
            found["num_decay_steps"] = decay
    return found


def checkpoints_activations(training: Training) -> bool:
    """Tell whether activations are recomputed: this costs a fifth of the speed, and only GPUs are short of memory."""
    asked = training.schedule.activation_checkpointing
    if asked is not None:
        return asked
    return training.device == "cuda" and not isinstance(training.model, TinyModel)


def make_lora(training: Training) -> Any:
    """Build the LoraConfig, or None for full fine-tuning."""
    lora = training.lora
    if lora is None:
        return None
    targets = lora.target_modules
    return LoraConfig(
        task_type="CAUSAL_LM" if training.objective.generates else "SEQ_CLS",
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        use_dora=lora.dora,
        use_rslora=lora.rslora,
        init_lora_weights=lora.init,
        target_modules=targets if isinstance(targets, str) else list(targets),
        modules_to_save=list(lora.modules_to_save) or None,
    )


def choose_weights_dtype(training: Training) -> Any:
    """Choose the type in which the base model is loaded.

    Trained weights stay in fp32 under autocast, because in 16 bits small updates vanish. Under LoRA the base is frozen,
    and 16 bits halve its memory; PEFT keeps the adapter in fp32, and `trained_weights` what is trained beside it.
    """
    if training.lora is None:
        return torch.float32
    return {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[training.precision]
