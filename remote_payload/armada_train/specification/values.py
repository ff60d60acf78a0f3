"""The specification of a training: `training` of spec.json as frozen, final values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from armada_train.failure import PayloadFailure
from armada_train.specification.early_stop import Best, EarlyStop
from armada_train.specification.forms import AS_IT_IS, Form
from armada_train.specification.objectives import FSDP, SFT, Objective
from armada_train.specification.optimizers import Optimizer

ZERO = ("zero2", "zero3")
"""The words of `train.sharding` for which DeepSpeed divides what a training keeps."""


@dataclass(frozen=True, slots=True)
class TinyModel:
    """A Qwen2 with random weights, created by the run."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    intermediate_size: int
    vocab_size: int


@dataclass(frozen=True, slots=True)
class Hub:
    """One split of a dataset on the Hugging Face hub; without `revision`, the newest."""

    id: str
    split: str = "train"
    config: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A data file, a dataset of the hub, or a hook `module:function` that creates rows.

    `weight` is how many passes over a file one epoch makes (0.5: a random half of it); beside hooks, its share of the
    samples. `set` is the evaluation set it belongs to; empty where there is one without a name.
    """

    path: Path
    weight: float = 1.0
    hook: str | None = None
    hub: Hub | None = None
    form: Form = AS_IT_IS
    set: str = ""

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.hook or (f"{self.hub.id} ({self.hub.split})" if self.hub else str(self.path))


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples per optimizer step: overall = micro × accumulation × processes."""

    overall: int
    micro: int
    accumulation: int
    processes: int


@dataclass(frozen=True, slots=True)
class Schedule:
    max_steps: int | None
    epochs: float | None
    max_length: int
    long_samples: str
    drop_limit: float
    learning_rate: float
    warmup_steps: float
    lr_scheduler: str
    weight_decay: float
    max_grad_norm: float
    seed: int
    log_every_steps: int
    eval_every_steps: int | None
    activation_checkpointing: bool | None
    packing: bool
    group_by_length: bool
    neftune_alpha: float | None
    kernels: str
    compile: bool
    sharding: str = "none"
    """What the processes divide among themselves; the words are home's."""
    optimizer: Optimizer = field(default_factory=Optimizer)
    lr_floor: float = 0.0
    """Where the schedule ends, as a share of the learning rate."""
    decay_steps: float | None = None
    """How long `warmup_stable_decay` decays: steps, or a share of them below 1; None for another schedule."""

    eval_batch_size: int | None = None
    """Rows that a process evaluates at once; None is the Trainer's default, 8."""
    stop_early: EarlyStop | None = None
    best_metric: Best = field(default_factory=Best)
    """What tells the best checkpoint."""
    logits: str = "tiles"
    """How the output head computes them: in `tiles`, or the `whole` of a micro batch at once."""

    def count_steps(self, value: float, steps: int) -> int:
        """Return a number of steps that may be a share of all of them, as the Trainer rounds it."""
        return int(value) if value >= 1 else math.ceil(value * steps)


CHANGES_BASE = ("pissa", "olora")
"""Values of `lora.init` that subtract the adapter's first value from the base: without the adapter, it is another model."""


@dataclass(frozen=True, slots=True)
class Lora:
    r: int
    alpha: float
    dropout: float
    dora: bool
    rslora: bool
    target_modules: str | tuple[str, ...]
    modules_to_save: tuple[str, ...]
    init: bool | str
    quantize: str = "none"
    """The 4-bit format of the frozen base: `nf4` or `fp4`."""


@dataclass(frozen=True, slots=True)
class StartFrom:
    """Another training's checkpoint that provides the initial weights, and with `moments` also the optimizer's moments."""

    path: Path
    moments: bool


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`samples` prompts of the eval set are answered after each evaluation, in at most `sample_tokens` tokens.

    Attributes:
        function: `module:function`, which is given answers to `prompts` prompts of each set; None without one.
        temperature: How they are sampled; 0 takes the most probable token each time.
        timeout_s: How long a call of the function may take.
    """

    samples: int
    sample_tokens: int
    function: str | None = None
    prompts: int = 64
    temperature: float = 0.0
    timeout_s: float = 600.0


_STARTING_SHARE = 0.18
"""Of the measured seconds, that the starts of all turns may take: more than 80 % of the time is then measured steps."""

_MOST_TURNS = 5


@dataclass(frozen=True, slots=True)
class Measurement:
    """A training that only measures its own speed: it neither saves nor evaluates, and ends by itself.

    Attributes:
        warmup_steps: Optimizer steps before the measured ones.
        steps: The fewest measured steps.
        seconds: The shortest time that is measured.
        started_at: When the process was started, on the machine's monotonic clock, if it may measure only the first of
            several turns; a short start allows more of them. None: all is measured at once.
    """

    warmup_steps: int
    steps: int
    seconds: float
    started_at: float | None = None

    def turns(self, start_s: float) -> int:
        """Return into how many turns the measured seconds are divided, where each turn takes `start_s` to start."""
        return max(1, min(_MOST_TURNS, int(self.seconds * _STARTING_SHARE / max(start_s, 1e-3))))


@dataclass(frozen=True, slots=True)
class Tracking:
    wandb: str
    project: str | None
    name: str
    id: str


@dataclass(frozen=True, slots=True)
class Training:
    """The whole specification; every value is final."""

    model: str | TinyModel
    train_data: tuple[Source, ...]
    eval_data: tuple[Source, ...]
    workers: int
    batch: Batch
    schedule: Schedule
    lora: Lora | None
    precision: str
    attention: str
    device: str
    save_every_steps: int | None
    save_every_minutes: float | None
    keep_last: int
    accept_changes: bool
    evaluation: Evaluation
    peak_flops: float | None
    tracking: Tracking
    objective: Objective = SFT
    """What it trains for."""
    start_from: StartFrom | None = None
    prepared: Path | None = None
    """Where tokenised data is kept for all runs of a host; None: in the run's own folder."""
    model_name: str | None = None
    """Home's name of a model that has another name on the host; None if both are the same."""
    deepspeed: str | None = None
    """A DeepSpeed configuration, whose values home compared with these."""
    saves_in_background: bool = False
    """Whether checkpoints are copied to host memory, and written while the training continues."""
    measurement: Measurement | None = None
    """It is a cell of a bench; None for a training that is meant to train."""

    @property
    def is_sharded(self) -> bool:
        """Whether weights and optimizer are divided by FSDP; a single process has nobody to divide them with."""
        return self.schedule.sharding in FSDP and self.batch.processes > 1

    @property
    def needs_all_ranks(self) -> bool:
        """Whether no process has the whole model, so that all must take part in each forward pass."""
        return self.is_sharded or (self.schedule.sharding == "zero3" and self.batch.processes > 1)

    @property
    def is_stream(self) -> bool:
        """Whether rows are created during training."""
        return any(source.hook for source in self.train_data)

    @property
    def data_is_local(self) -> bool:
        return not any(source.hub for source in (*self.train_data, *self.eval_data))

    @property
    def model_is_local(self) -> bool:
        """Whether no model has to be fetched: neither that which is trained nor one beside it."""
        settings = self.objective.settings
        beside = [judge["model"] for judge in settings.get("rewards", ()) if "model" in judge]
        return all(isinstance(each, TinyModel) or Path(each).is_absolute() for each in (self.model, *beside))


def check_world(training: Training, world_size: int) -> None:
    """Refuse a launcher that started another number of processes, which would silently change the batch.

    Raises:
        PayloadFailure: `world_mismatch`.
    """
    if world_size != training.batch.processes:
        raise PayloadFailure(
            "world_mismatch",
            f"the launcher started {world_size} process(es), but the batch is planned for {training.batch.processes}: "
            f"launch/accelerate.yaml and `training.batch.processes` must agree",
        )


def check_gpus(training: Training, local_world_size: int, visible: int, torch: str) -> None:
    """Compare the visible GPUs with the plan: exactly one for each process here.

    More would mean that another user's GPUs are visible, or that the batch was planned for another machine.

    Args:
        training: The plan.
        local_world_size: Processes on this machine.
        visible: GPUs that torch sees.
        torch: Its version, for the message.

    Raises:
        PayloadFailure: `env_error` if torch sees none at all, else `world_mismatch`.
    """
    if visible == local_world_size:
        return
    planned = f"{training.batch.processes} process(es) are planned, {local_world_size} of them on this machine, each with a GPU"
    reason = "world_mismatch" if visible else "env_error"
    raise PayloadFailure(reason, f"{planned}, but torch {torch} sees {visible}")
