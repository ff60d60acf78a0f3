"""Settings of the bundled trainer: model, training, LoRA, starting point and evaluation."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from armada.config.best_metric import BestMetric, check_name, direction_of
from armada.config.checkpoints import Count, Positive
from armada.config.data import HOOK
from armada.config.documents import shown
from armada.config.early_stop import StopEarly
from armada.config.optimizers import Optimizer
from armada.config.schedulers import Duration
from armada.config.settings import FilePath, FilledText, SchemaPart, Settings, Share, problem, shaped
from armada.units import duration_s

Logits = Literal["auto", "tiles", "whole"]
Sharding = Literal["none", "fsdp", "fsdp-hybrid", "zero2", "zero3"]
FSDP_WORDS: tuple[str, ...] = ("fsdp", "fsdp-hybrid")
ZERO_STAGES: dict[str, int] = {"zero2": 2, "zero3": 3}
SHARDED_WORDS = (*FSDP_WORDS, "zero3")
"""With these no process has the whole model."""

_SCHEDULES = {
    "wsd": "lr_scheduler: warmup_stable_decay",
    "cosine_with_min_lr": "lr_scheduler: cosine, and lr_floor: 0.1",
    "cosine_with_min_lr_rate": "lr_scheduler: cosine, and lr_floor: 0.1",
}
"""What others call a schedule, and how it is written here."""

CHANGES_BASE = ("pissa", "olora")
"""Values of `lora.init` that subtract the adapter's first value from the base."""
_LONGEST_CALL_S = 1200
_WITH_FLOOR = ("cosine", "warmup_stable_decay")


class TinyModel(Settings):
    """A Qwen2 with random weights, made on the spot: for tests and the quickstart."""

    hidden_size: Count = 128
    """Width of the model; a multiple of `heads`."""
    layers: Count = 4
    """Number of layers."""
    heads: Count = 4
    """Attention heads; a multiple of `kv_heads`."""
    kv_heads: Count = 2
    """Heads for keys and values."""
    intermediate_size: Count = 352
    """Width of the feed-forward layers."""
    vocab_size: Annotated[int, Field(ge=300)] = 560
    """Number of tokens."""

    @model_validator(mode="after")
    def _heads_divide(self) -> TinyModel:
        if self.hidden_size % self.heads:
            raise problem(f"must be a multiple of heads, {self.heads}", key="hidden_size")
        if self.heads % self.kv_heads:
            raise problem(f"must be a multiple of kv_heads, {self.kv_heads}", key="heads")
        return self


class TinyChoice(Settings):
    tiny: TinyModel
    """The sizes of a model with random weights."""


class Train(Settings):
    other_names: ClassVar[dict[str, str]] = {
        "batch_size": "global_batch_size",
        "per_device_train_batch_size": "micro_batch_size",
        "gradient_accumulation_steps": "global_batch_size",
        "num_train_epochs": "epochs",
        "steps": "max_steps",
        "max_seq_length": "max_length",
        "max_seq_len": "max_length",
        "sequence_len": "max_length",
        "lr": "learning_rate",
        "warmup_ratio": "warmup_steps",
        "scheduler": "lr_scheduler",
        "lr_scheduler_type": "lr_scheduler",
        "logging_steps": "log_every_steps",
        "eval_steps": "eval_every_steps",
        "sample_packing": "packing",
        "neftune_noise_alpha": "neftune_alpha",
        "use_liger_kernel": "kernels",
        "torch_compile": "compile",
        "train_sampling_strategy": "group_by_length",
        "fsdp": "sharding",
        "zero_stage": "sharding",
        "optim": "optimizer",
        "per_device_eval_batch_size": "eval_batch_size",
        "metric_for_best_model": "best_metric",
        "greater_is_better": "best_metric",
        "early_stopping_patience": "stop_early",
        "early_stopping": "stop_early",
        "min_lr": "lr_floor",
        "min_lr_rate": "lr_floor",
        "min_lr_ratio": "lr_floor",
        "num_decay_steps": "decay_steps",
    }
    also_written: ClassVar[dict[str, SchemaPart]] = {"optimizer": {"type": "string"}, "best_metric": {"type": "string"}}

    global_batch_size: Count
    """Samples per optimizer step over all processes; the same on every host."""
    micro_batch_size: Count | Literal["auto"] = "auto"
    """Samples per process at once; `auto` takes the largest that divides, up to the profile's."""
    max_steps: Count | None = None
    """Optimizer steps; give this or `epochs`."""
    epochs: Positive | None = None
    """Passes over the data; give this or `max_steps`."""
    max_length: Annotated[int, Field(ge=8)] = 2048
    """Longest sample, in tokens."""
    long_samples: Literal["drop", "truncate", "split"] = "drop"
    """What is done about samples beyond max_length; counted and reported in any case."""
    drop_limit: Annotated[float, Field(ge=0, le=1)] = 0.1
    """The share of the rows that may be dropped as too long before the run is refused."""
    packing: bool = False
    """Fill each row of max_length with several samples, which do not see each other."""
    group_by_length: bool = False
    """Put samples of like length into one batch, so that less is padding."""
    neftune_alpha: Positive | None = None
    """Strength of NEFTune's noise on embeddings."""
    kernels: Literal["auto", "none", "liger", "hub"] = "auto"
    """Faster kernels on GPUs: Liger's, or those of the hub; `auto` takes Liger's where they are known to compute the same."""
    compile: bool = False
    """Use torch.compile."""
    logits: Logits = "auto"
    """Compute the loss of tiles of logits, or of all at once, which on CPUs is faster; `auto` chooses by their memory."""
    sharding: Sharding = "none"
    """What the processes divide among themselves: by FSDP, by FSDP in two replicas, or by DeepSpeed's ZeRO."""
    learning_rate: Positive = 5e-5
    """The highest learning rate of the schedule."""
    warmup_steps: Annotated[int, Field(ge=0)] | Share = 0
    """A whole number is steps, a fraction below 1 a share of all steps."""
    lr_scheduler: Literal[
        "linear", "cosine", "constant", "constant_with_warmup", "polynomial", "inverse_sqrt", "warmup_stable_decay"
    ] = "cosine"
    """How the learning rate changes after the warm-up; `warmup_stable_decay` is constant until its last `decay_steps`."""
    lr_floor: Share = 0.0
    """Where `cosine` or `warmup_stable_decay` ends, as a share of learning_rate."""
    decay_steps: Count | Annotated[float, Field(gt=0, lt=1)] | None = None
    """How long `warmup_stable_decay` decays at the end: steps, or a share of all steps; 0.1 by default."""
    optimizer: Optimizer = Field(default_factory=Optimizer)
    """A name, or {name: adamw, betas: [0.9, 0.95], eps: 1e-8}."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """The optimizer's weight decay."""
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    """Gradients are clipped to this norm; 0 clips nothing."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 5
    """Seed of the weights that are new, the data's order and dropout."""
    log_every_steps: Count = 1
    """Steps between two points of the curves."""
    eval_every_steps: Count | None = None
    """Steps between two evaluations; one before the first step and one after the last always happen."""
    eval_batch_size: Count | None = None
    """Rows that each process evaluates at once, 8 by default; the result is the same with any number."""
    best_metric: BestMetric | None = None
    """What the best checkpoint is the best by, `eval_loss` by default: a name, or {name: eval_wer, goal: min}."""
    stop_early: StopEarly | None = None
    """End the training when the evaluation no longer improves."""

    @property
    def best_by(self) -> str:
        """The metric that tells the best checkpoint."""
        return self.best_metric.name if self.best_metric is not None else "eval_loss"

    def best_section(self) -> dict[str, object]:
        """What the payload is told of `best_metric` and `stop_early`: with every name and goal decided."""
        rule, best = self.stop_early, self.best_metric
        if rule is None:
            return {}
        metric = rule.metric or self.best_by
        goal = best.goal if best is not None and best.name == metric else direction_of(metric)
        return {"stop_early": {**rule.model_dump(mode="json"), "metric": metric, "goal": goal}}

    @model_validator(mode="after")
    def _an_end_and_a_warmup(self) -> Train:
        if self.max_steps is None and self.epochs is None:
            raise problem("needs `max_steps` or `epochs`, or it would never end")
        if self.max_steps is not None and self.epochs is not None:
            raise problem("conflicts with max_steps: only one may end the run", key="epochs", hint="leave one out")
        if self.packing and self.group_by_length:
            raise problem("packing fills every row, so there is nothing to group", key="group_by_length")
        if self.lr_scheduler == "constant" and self.warmup_steps:
            raise problem(
                "constant ignores warmup_steps", key="lr_scheduler", hint="lr_scheduler: constant_with_warmup"
            )
        if self.max_steps and isinstance(self.warmup_steps, int) and self.warmup_steps > self.max_steps:
            raise problem(
                f"is more than max_steps, {self.max_steps}: the learning rate would never be reached",
                key="warmup_steps",
            )
        return self

    @field_validator("optimizer", mode="before")
    @classmethod
    def _a_name_alone(cls, value: Any) -> Any:
        if not isinstance(value, str | dict | Optimizer):
            raise problem(f"must be a name, or {{name: adamw, betas: [0.9, 0.95]}}, not {shown(value)}")
        return {"name": value} if isinstance(value, str) else value

    @field_validator("best_metric", mode="before")
    @classmethod
    def _a_metric_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            check_name(value)
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _stops_in_a_direction(self) -> Train:
        metric = self.stop_early.metric if self.stop_early is not None else None
        if metric is None or metric == self.best_by:
            return self
        if direction_of(metric) is None:
            raise problem(
                f"{shown(metric)} does not say whether low or high values are better",
                key="stop_early.metric",
                hint=f"best_metric: {{name: {metric}, goal: max}}",
            )
        return self

    @field_validator("lr_scheduler", mode="before")
    @classmethod
    def _has_our_name(cls, value: Any) -> Any:
        if isinstance(value, str) and (ours := _SCHEDULES.get(value)) is not None:
            raise problem(f"has no schedule {value}", hint=ours)
        return value

    @model_validator(mode="after")
    def _the_schedule_has_room(self) -> Train:
        if self.lr_floor and self.lr_scheduler not in _WITH_FLOOR:
            raise problem(f"belongs to {' and '.join(_WITH_FLOOR)}, not to {self.lr_scheduler}", key="lr_floor")
        if self.lr_scheduler != "warmup_stable_decay":
            if self.decay_steps is not None:
                raise problem(f"belongs to warmup_stable_decay, not to {self.lr_scheduler}", key="decay_steps")
            return self
        decay = self.decay_steps or 0.1
        if self.max_steps is not None:
            steps = [value if value >= 1 else math.ceil(value * self.max_steps) for value in (self.warmup_steps, decay)]
            if sum(steps) > self.max_steps:
                raise problem(
                    f"{steps[1]:g} and {steps[0]:g} of warm-up are more than max_steps, {self.max_steps}",
                    key="decay_steps",
                )
        elif sum(value for value in (self.warmup_steps, decay) if value < 1) > 1:
            raise problem("and warmup_steps are more than all steps", key="decay_steps")
        return self


class Lora(Settings):
    other_names: ClassVar[dict[str, str]] = {
        "rank": "r",
        "lora_r": "r",
        "lora_alpha": "alpha",
        "lora_dropout": "dropout",
        "use_dora": "dora",
        "use_rslora": "rslora",
        "init_lora_weights": "init",
        "load_in_4bit": "quantize",
        "use_4bit_quantization": "quantize",
        "qlora": "quantize",
    }

    r: Count = 16
    """Rank of the adapter."""
    alpha: Positive = 32.0
    """Scale of the adapter."""
    dropout: Share = 0.0
    """Dropout before the adapter."""
    dora: bool = False
    """Weight-decomposed LoRA (DoRA)."""
    rslora: bool = True
    """Scale by alpha / √r instead of alpha / r."""
    target_modules: Literal["all-linear"] | Annotated[tuple[FilledText, ...], Field(strict=False, min_length=1)] = (
        "all-linear"
    )
    """Modules that get an adapter."""
    init: Literal[True, "gaussian", "pissa", "olora"] = True
    """pissa_niter_N is left out: its random SVD is another at every load, so adapter and base no longer fit (PEFT #2184)."""
    modules_to_save: Annotated[tuple[FilledText, ...], Field(strict=False)] = ()
    """Modules that are trained whole, and saved with the adapter."""
    quantize: Literal["none", "nf4", "fp4"] = "none"
    """QLoRA: the frozen base in 4 bits, by bitsandbytes, on CUDA GPUs."""

    @model_validator(mode="after")
    def _a_base_in_four_bits_is_left_whole(self) -> Lora:
        if self.quantize != "none" and self.init in CHANGES_BASE:
            raise problem(f"{self.init} starts from the base's weights, which are in 4 bits", key="init")
        return self

    @model_validator(mode="after")
    def _no_output_head(self) -> Lora:
        if "lm_head" in self.target_modules:
            raise problem(
                "must not hold lm_head: TRL's fused loss bypasses it",
                key="target_modules",
                hint="put it in modules_to_save",
            )
        return self


class StartFrom(Settings):
    """Start with another training's weights. The schedule, the learning rate and the order of the data are this run's own."""

    run: FilledText | None = None
    """A run of this home: its id, or its first characters."""
    checkpoint: Literal["best", "last"] | Annotated[int, Field(ge=0)] | None = None
    """Of `run`; the last one by default."""
    path: FilePath | None = None
    """A checkpoint's folder here."""
    optimizer: Literal[False, "moments"] = False
    """`moments`: the optimizer's moments too, without its learning rate."""

    @model_validator(mode="before")
    @classmethod
    def _run_alone(cls, data: Any) -> Any:
        return {"run": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _one_origin(self) -> StartFrom:
        if (self.run is None) == (self.path is None):
            raise problem("needs either `run` or `path`")
        if self.path is not None and self.checkpoint is not None:
            raise problem("belongs to `run`; `path` is a checkpoint already", key="checkpoint", hint="leave it out")
        return self


class Evaluation(Settings):
    other_names: ClassVar[dict[str, str]] = {
        "max_new_tokens": "sample_tokens",
        "compute_metrics": "function",
        "hook": "function",
        "num_prompts": "prompts",
        "max_samples": "prompts",
    }

    samples: Annotated[int, Field(ge=0, le=1000)] = 0
    """Prompts of data.eval that are answered after each evaluation, into samples.jsonl."""
    sample_tokens: Count = 128
    """Longest answer to a prompt, in tokens."""
    function: Annotated[FilledText, shaped(HOOK)] | None = None
    """`module:function` of `code`, which is given the model's answers at each evaluation and returns numbers: curves `eval_…`."""
    prompts: Annotated[int, Field(ge=1, le=10_000)] = 64
    """How many prompts of each evaluation set are answered for it, drawn by `train.seed`."""
    temperature: Annotated[float, Field(ge=0, le=10)] = 0.0
    """How answers for it are sampled; 0 takes the most probable token each time."""
    timeout: Duration = "10m"
    """How long a call of it may take, at most 20m."""

    @field_validator("function")
    @classmethod
    def _names_a_function(cls, value: str | None) -> str | None:
        if value is not None and not HOOK.fullmatch(value):
            raise problem(f"must be `module:function`, not {shown(value)}")
        return value

    @field_validator("timeout")
    @classmethod
    def _others_wait_that_long(cls, value: str) -> str:
        if not 1 <= duration_s(value) <= _LONGEST_CALL_S:
            raise problem("must be between 1s and 20m: the other processes wait for it", hint="timeout: 10m")
        return value

    @model_validator(mode="after")
    def _says_nothing_without_it(self) -> Evaluation:
        for key in ("prompts", "temperature", "timeout"):
            if self.function is None and getattr(self, key) != type(self).model_fields[key].default:
                raise problem("belongs to `function`, and there is none", key=key, hint="function: module:function")
        return self

    def as_section(self) -> dict[str, object]:
        """What the payload is told of it."""
        section: dict[str, object] = {"samples": self.samples, "sample_tokens": self.sample_tokens}
        if self.function is None:
            return section
        more = {"function": self.function, "prompts": self.prompts, "temperature": self.temperature}
        return {**section, **more, "timeout_s": duration_s(self.timeout)}
