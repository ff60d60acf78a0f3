"""Parse and check `training` of spec.json with the standard library alone.

Importing torch and TRL takes four seconds on every rank; an invalid value must not cost that.
"""

from __future__ import annotations

import re
from pathlib import Path

from armada_train.records import UnreadableRecord, read_object
from armada_train.specification.distillation import check_distillation
from armada_train.specification.dividing import SHARDINGS, check_background, check_sharding
from armada_train.specification.early_stop import Best, known_metrics, parse_best, parse_early_stop
from armada_train.specification.forms import AS_IT_IS, parse_form, refuse_other_format
from armada_train.specification.generation import check_generation
from armada_train.specification.objectives import parse_objective
from armada_train.specification.optimizers import parse_optimizer
from armada_train.specification.section import Section, bad_spec
from armada_train.specification.values import (
    CHANGES_BASE,
    Batch,
    Evaluation,
    Hub,
    Lora,
    Measurement,
    Schedule,
    Source,
    StartFrom,
    TinyModel,
    Tracking,
    Training,
)

PRECISIONS = ("bf16", "fp16", "fp32")
LOGITS = ("tiles", "whole")
KERNELS = ("none", "liger", "hub")
LONG_SAMPLES = ("drop", "truncate", "split")
QUANTIZATIONS = ("none", "nf4", "fp4")
_HOOK = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
SET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
"""An evaluation set's name is part of the names of its metrics."""
SCHEDULERS = (
    "linear",
    "cosine",
    "constant",
    "constant_with_warmup",
    "polynomial",
    "inverse_sqrt",
    "warmup_stable_decay",
)
WITH_FLOOR = ("cosine", "warmup_stable_decay")
_DECAY = 0.1
# pissa_niter_N and loftq are missing on purpose: PEFT saves them so that base + adapter differs from the trained model
# (evaluation loss 5.993 in memory, 6.034 after loading; PEFT #2184).
LORA_INITS = (True, False, "gaussian", "olora", "pissa")


def read_specification(path: Path) -> Training:
    """Read and check spec.json.

    Raises:
        PayloadFailure: `bad_spec`, naming the key.
    """
    try:
        content = read_object(path)
    except UnreadableRecord as error:
        raise bad_spec(str(error)) from error
    if content.get("format") != 1:
        raise bad_spec(f"{path} must be an object with `format` 1")
    return parse_training(Section(content.get("training"), "training"))


def parse_training(section: Section) -> Training:
    checkpoint = section.section("checkpoint")
    prepared = section.optional_text("prepared")
    train_data, eval_data, workers = _parse_data(section.section("data"))
    model, model_name = _parse_model(section.section("model"))
    training = Training(
        model=model,
        model_name=model_name,
        train_data=train_data,
        eval_data=eval_data,
        workers=workers,
        batch=_parse_batch(section.section("batch")),
        schedule=_parse_schedule(section.section("train")),
        lora=_parse_lora(section.optional_section("lora")),
        precision=section.choice("precision", PRECISIONS),
        attention=section.choice("attention", ("auto", "sdpa", "eager", "flash_attention_2"), "auto"),
        device=section.choice("device", ("cpu", "cuda")),
        save_every_steps=checkpoint.optional_integer("every_steps", minimum=1),
        save_every_minutes=checkpoint.optional_number("every_minutes", above=True),
        saves_in_background=checkpoint.flag("in_background", default=False),
        keep_last=checkpoint.integer("keep_last", minimum=1),
        accept_changes=_parse_resume(section.optional_section("resume")),
        evaluation=_parse_evaluation(section.optional_section("evaluation")),
        peak_flops=section.optional_number("peak_flops", above=True),
        tracking=_parse_tracking(section.section("tracking")),
        objective=parse_objective(section.optional_section("objective")),
        start_from=_parse_start(section.optional_section("start_from")),
        prepared=Path(prepared) if prepared else None,
        deepspeed=section.optional_text("deepspeed"),
        measurement=_parse_measurement(section.optional_section("measurement")),
    )
    checkpoint.close()
    section.close()
    if training.save_every_steps is None and training.save_every_minutes is None:
        raise bad_spec(f"`{checkpoint.where}` must hold `every_steps` or `every_minutes`, or both")
    if training.is_stream:
        _check_stream(training)
    _check_objective(training)
    check_generation(training)
    check_distillation(training)
    check_sharding(training)
    check_background(training)
    _check_compared_metrics(training)
    if training.schedule.kernels != "none" and training.device == "cpu":
        raise bad_spec("`training.train.kernels` need GPUs: leave it at none on a CPU")
    if training.schedule.optimizer.needs_gpus and training.device == "cpu":
        name = training.schedule.optimizer.name
        raise bad_spec(f"`training.train.optimizer` {name} needs a GPU: bitsandbytes computes it for CUDA; use adamw")
    if training.start_from is not None and training.start_from.moments and training.schedule.optimizer.name != "adamw":
        raise bad_spec(
            f"`training.start_from.optimizer`: the moments are AdamW's, and {training.schedule.optimizer.name} keeps others"
        )
    if training.lora is not None and training.lora.quantize != "none":
        if training.device == "cpu":
            raise bad_spec("`training.lora.quantize` needs a GPU: bitsandbytes packs 4 bits for CUDA")
        if training.precision != "bf16":
            # TRL converts the adapter to bf16 over such a base; fp16's gradient scaler does not support that.
            raise bad_spec(f"`training.lora.quantize` needs the precision bf16, not {training.precision}")
    if training.deepspeed is not None and training.device == "cpu":
        raise bad_spec("`training.deepspeed` needs GPUs")
    for key in ("samples", "function"):
        if getattr(training.evaluation, key) and not training.eval_data:
            raise bad_spec(f"`training.evaluation.{key}` takes its prompts from data.eval, which is empty")
    if training.precision == "fp16" and training.device == "cpu":
        raise bad_spec("`training.precision` fp16 has no loss scaling on a CPU: use fp32 or bf16")
    return training


def _check_stream(training: Training) -> None:
    if training.schedule.max_steps is None:
        raise bad_spec("`training.train.max_steps` must be given: a hook's rows have no end, so there are no epochs")
    for name in ("packing", "group_by_length"):
        if getattr(training.schedule, name):
            raise bad_spec(f"`training.train.{name}` needs all rows in advance; a hook makes them during training")
    if training.schedule.long_samples == "split":
        raise bad_spec("`training.train.long_samples` split needs all rows in advance: a hook can split itself")


def _check_objective(training: Training) -> None:
    """Refuse what the objective does not go with."""
    objective, schedule = training.objective, training.schedule
    for split, sources in (("train", training.train_data), ("eval", training.eval_data)):
        for number, source in enumerate(sources):
            where = f"training.data.{split}[{number}]"
            refuse_other_format(where, source.form, objective.name, objective.kinds)
    if training.is_stream and not objective.makes_rows:
        raise bad_spec(
            f"`training.data.train` cannot have a hook with `task: {objective.name}`: write its rows to a file"
        )
    if schedule.packing and objective.packing is None:
        raise bad_spec(
            f"`training.train.packing` does not go with `task: {objective.name}`: a row is compared as a whole"
        )
    if schedule.long_samples == "split" and not objective.splits:
        raise bad_spec(
            f"`training.train.long_samples` split does not go with `task: {objective.name}`: a row is compared as a whole; "
            "use drop or truncate"
        )
    for key in ("samples", "function"):
        if getattr(training.evaluation, key) and not objective.generates:
            raise bad_spec(f"`training.evaluation.{key}`: a model of `task: {objective.name}` generates no text")
    if objective.settings.get("precompute_reference") and training.start_from:
        raise bad_spec("`training.dpo.precompute_reference` does not go with start_from: the weights come later")
    if objective.settings.get("loss") == "kto" and training.batch.micro < 2:
        raise bad_spec(
            "`training.train.micro_batch_size` must be at least 2 with the loss kto, which compares each prompt with another "
            "row's answer; the loss apo_zero_unpaired needs no other rows"
        )
    if objective.has_reference and training.start_from and training.lora is not None:
        raise bad_spec(
            f"`training.start_from` with `lora` and `task: {objective.name}`: the reference would be the model without that adapter; "
            "merge it first, and use the result as `model`"
        )
    if objective.has_reference and training.lora is not None and training.lora.init in CHANGES_BASE:
        raise bad_spec(
            f"`training.lora.init` {training.lora.init} does not go with `task: {objective.name}`: it subtracts the adapter's first value "
            "from the model, so the reference, which is the model without the adapter, would be another one; use true or gaussian"
        )


def _check_compared_metrics(training: Training) -> None:
    """Refuse a metric that is never computed."""
    rule, best = training.schedule.stop_early, training.schedule.best_metric
    if rule is not None and not training.eval_data:
        raise bad_spec(f"`training.train.stop_early`: {rule.metric} is never computed, because data.eval is empty")
    if rule is not None and training.schedule.eval_every_steps is None:
        raise bad_spec("`training.train.stop_early` needs `training.train.eval_every_steps`, which is not set")
    known = known_metrics(training.objective.name, dict.fromkeys(source.set for source in training.eval_data))
    asked = [("stop_early.metric", rule.metric)] if rule is not None else []
    asked += [("best_metric", best.metric)] if best != Best() else []
    for key, metric in asked:
        if metric not in known and training.evaluation.function is None:  # whose metrics only its first call tells
            raise bad_spec(
                f"`training.train.{key}`: `task: {training.objective.name}` never computes {metric}; "
                f"choose {' or '.join(known[:8])}"
            )


def _parse_model(section: Section) -> tuple[str | TinyModel, str | None]:
    path, tiny = section.optional_text("path"), section.optional_section("tiny")
    name = section.optional_text("name")
    section.close()
    if (path is None) == (tiny is None):
        raise bad_spec(f"`{section.where}` must hold either `path` or `tiny`")
    if tiny is None:
        return str(path), name
    model = TinyModel(
        hidden_size=tiny.integer("hidden_size", 128, minimum=8),
        layers=tiny.integer("layers", 4, minimum=1),
        heads=tiny.integer("heads", 4, minimum=1),
        kv_heads=tiny.integer("kv_heads", 2, minimum=1),
        intermediate_size=tiny.integer("intermediate_size", 352, minimum=8),
        vocab_size=tiny.integer("vocab_size", 560, minimum=300),  # 256 bytes, 3 marks, and some merges
    )
    tiny.close()
    if model.hidden_size % (2 * model.heads) or model.heads % model.kv_heads:
        raise bad_spec(
            f"`{tiny.where}`: hidden_size must divide by 2 × heads, and heads by kv_heads "
            f"(they are {model.hidden_size}, {model.heads}, {model.kv_heads})"
        )
    return model, None


def _parse_data(section: Section) -> tuple[tuple[Source, ...], tuple[Source, ...], int]:
    train = tuple(_parse_source(item) for item in section.sections("train"))
    evaluation = tuple(_parse_source(item) for item in section.sections("eval", []))
    workers = section.integer("workers", 0, minimum=0)
    section.close()
    if not train:
        raise bad_spec(f"`{section.where}.train` names no file")
    if any(source.weight != 1.0 for source in evaluation):
        raise bad_spec(f"`{section.where}.eval` has no weight: evaluation reads every row once")
    if any(source.set for source in train) or len({bool(source.set) for source in evaluation}) > 1:
        raise bad_spec(
            f"`{section.where}`: each source of `eval` names its `set`, or none does, and no source of `train`"
        )
    if any(source.hook for source in evaluation):
        raise bad_spec(f"`{section.where}.eval` cannot have a hook: evaluation compares the same rows each time")
    return train, evaluation, workers


def _parse_source(section: Section) -> Source:
    path, hook = section.optional_text("path"), section.optional_text("hook")
    hub = section.optional_section("hub")
    weight = section.number("weight", 1.0, above=True)
    form = parse_form(section)
    name = section.optional_text("set") or ""
    section.close()
    if name and not SET_NAME.fullmatch(name):
        raise section.wrong("set", "letters, digits and `_`, at most 40, beginning with a letter", name)
    if sum(origin is not None for origin in (path, hook, hub)) != 1:
        raise bad_spec(f"`{section.where}` must hold one of `path`, `hub` and `hook`")
    if hook is not None and not _HOOK.fullmatch(hook):
        raise section.wrong("hook", "`module:function`", hook)
    if hook is not None and form != AS_IT_IS:
        raise bad_spec(f"`{section.where}` is a hook, which returns rows as they should be")
    return Source(Path(path or ""), weight, hook, _parse_hub(hub) if hub else None, form, name)


def _parse_hub(section: Section) -> Hub:
    hub = Hub(
        id=section.text("id"),
        split=section.text("split", "train"),
        config=section.optional_text("config"),
        revision=section.optional_text("revision"),
    )
    section.close()
    return hub


def _parse_batch(section: Section) -> Batch:
    batch = Batch(
        overall=section.integer("global", minimum=1),
        micro=section.integer("micro", minimum=1),
        accumulation=section.integer("accumulation", minimum=1),
        processes=section.integer("processes", minimum=1),
    )
    section.close()
    product = batch.micro * batch.accumulation * batch.processes
    if product != batch.overall:
        raise bad_spec(
            f"`{section.where}`: micro {batch.micro} × accumulation {batch.accumulation} × processes "
            f"{batch.processes} is {product}, not global {batch.overall}"
        )
    return batch


def _parse_schedule(section: Section) -> Schedule:
    schedule = Schedule(
        max_steps=section.optional_integer("max_steps", minimum=1),
        epochs=section.optional_number("epochs", above=True),
        max_length=section.integer("max_length", minimum=2),
        long_samples=section.choice("long_samples", LONG_SAMPLES, "drop"),
        drop_limit=section.number("drop_limit", 0.1),
        learning_rate=section.number("learning_rate", above=True),
        warmup_steps=section.number("warmup_steps", 0),
        lr_scheduler=section.choice("lr_scheduler", SCHEDULERS, "cosine"),
        weight_decay=section.number("weight_decay", 0.0),
        max_grad_norm=section.number("max_grad_norm", 1.0),
        seed=section.integer("seed", minimum=0),
        log_every_steps=section.integer("log_every_steps", 1, minimum=1),
        eval_every_steps=section.optional_integer("eval_every_steps", minimum=1),
        activation_checkpointing=(
            None
            if section.get("activation_checkpointing", None) is None
            else section.flag("activation_checkpointing", default=False)
        ),
        packing=section.flag("packing", default=False),
        group_by_length=section.flag("group_by_length", default=False),
        neftune_alpha=section.optional_number("neftune_alpha", above=True),
        kernels=section.choice("kernels", KERNELS, "none"),
        compile=section.flag("compile", default=False),
        sharding=section.choice("sharding", SHARDINGS, "none"),
        optimizer=parse_optimizer(section.optional_section("optimizer")),
        lr_floor=section.number("lr_floor", 0.0),
        decay_steps=_parse_decay(section),
        eval_batch_size=section.optional_integer("eval_batch_size", minimum=1),
        stop_early=parse_early_stop(section.optional_section("stop_early")),
        best_metric=parse_best(section.optional_section("best_metric")),
        logits=section.choice("logits", LOGITS, "tiles"),
    )
    section.close()
    if (schedule.max_steps is None) == (schedule.epochs is None):
        raise bad_spec(f"`{section.where}` must hold either `max_steps` or `epochs`")
    if schedule.packing and schedule.group_by_length:
        raise bad_spec(f"`{section.where}`: packing fills every row, so group_by_length has no effect")
    if schedule.drop_limit > 1:
        raise section.wrong("drop_limit", "a share of the rows, at most 1", schedule.drop_limit)
    if schedule.warmup_steps >= 1 and schedule.warmup_steps != int(schedule.warmup_steps):
        raise section.wrong("warmup_steps", "a whole number, or a share of the steps below 1", schedule.warmup_steps)
    if schedule.lr_floor and (schedule.lr_scheduler not in WITH_FLOOR or schedule.lr_floor >= 1):
        raise section.wrong("lr_floor", f"below 1, and 0 except with {' and '.join(WITH_FLOOR)}", schedule.lr_floor)
    return schedule


def _parse_decay(section: Section) -> float | None:
    """Return how long the learning rate decays; None if the schedule has no such part."""
    decay = section.optional_number("decay_steps", above=True)
    if section.get("lr_scheduler", "cosine") != "warmup_stable_decay":
        if decay is not None:
            raise bad_spec(f"`{section.where}.decay_steps` belongs to warmup_stable_decay")
        return None
    if decay is not None and decay >= 1 and decay != int(decay):
        raise section.wrong("decay_steps", "a whole number, or a share of the steps below 1", decay)
    return decay or _DECAY


def _parse_lora(section: Section | None) -> Lora | None:
    if section is None:
        return None
    init = section.get("init", True)
    if not any(init is choice or (isinstance(init, str) and init == choice) for choice in LORA_INITS):
        raise section.wrong("init", f"one of {', '.join(map(str, LORA_INITS))}", init)
    targets = section.get("target_modules", "all-linear")
    lora = Lora(
        r=section.integer("r", minimum=1),
        alpha=section.number("alpha", above=True),
        dropout=section.number("dropout", 0.0),
        dora=section.flag("dora", default=False),
        rslora=section.flag("rslora", default=False),
        target_modules=targets if targets == "all-linear" else section.texts("target_modules"),
        modules_to_save=section.texts("modules_to_save"),
        init=init,
        quantize=section.choice("quantize", QUANTIZATIONS, "none"),
    )
    section.close()
    if lora.quantize != "none" and init in CHANGES_BASE:
        raise bad_spec(f"`{section.where}.init` {init} starts from the base's weights, which are in 4 bits")
    if lora.dropout >= 1:
        raise section.wrong("dropout", "below 1", lora.dropout)
    if not lora.target_modules:
        raise section.wrong("target_modules", "`all-linear` or a list of names", targets)
    if "lm_head" in lora.target_modules:
        raise section.wrong("target_modules", "without lm_head, whose adapter TRL would never train", targets)
    return lora


def _parse_evaluation(section: Section | None) -> Evaluation:
    if section is None:
        return Evaluation(samples=0, sample_tokens=128)
    evaluation = Evaluation(
        samples=section.integer("samples", 0, minimum=0),
        sample_tokens=section.integer("sample_tokens", 128, minimum=1),
        function=section.optional_text("function"),
        prompts=section.integer("prompts", 64, minimum=1),
        temperature=section.number("temperature", 0.0),
        timeout_s=section.number("timeout_s", 600.0, above=True),
    )
    section.close()
    if evaluation.function is not None and not _HOOK.fullmatch(evaluation.function):
        raise section.wrong("function", "`module:function`", evaluation.function)
    return evaluation


def _parse_resume(section: Section | None) -> bool:
    if section is None:
        return False
    accept_changes = section.flag("accept_changes", default=False)
    section.close()
    return accept_changes


def _parse_start(section: Section | None) -> StartFrom | None:
    if section is None:
        return None
    optimizer = section.get("optimizer", False)
    start = StartFrom(path=Path(section.text("path")), moments=optimizer == "moments")
    section.close()
    if optimizer not in (False, None, "moments"):
        raise section.wrong("optimizer", "false or moments", optimizer)
    return start


def _parse_measurement(section: Section | None) -> Measurement | None:
    if section is None:
        return None
    measurement = Measurement(
        warmup_steps=section.integer("warmup_steps", minimum=1),
        steps=section.integer("steps", minimum=2),
        seconds=section.number("seconds"),
        started_at=section.optional_number("started_at"),
    )
    section.close()
    return measurement


def _parse_tracking(section: Section) -> Tracking:
    tracking = Tracking(
        wandb=section.choice("wandb", ("auto", "online", "offline", "off"), "off"),
        project=section.optional_text("project"),
        name=section.text("name"),
        id=section.text("id"),
    )
    section.close()
    return tracking
