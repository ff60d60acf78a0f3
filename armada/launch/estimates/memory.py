"""Estimate the memory that a training with the bundled trainer needs on each GPU, at its worst moment.

What is counted, and where from:

- Weights, gradients and moments: `choose_weights_dtype` of the payload. Full training keeps 32-bit weights under
  autocast; an adapter's base has 16 bits, or 4 (NF4 with double quantization: 0.516 bytes, QLoRA, arXiv 2305.14314,
  section 3). TRL 1.16 keeps an adapter of a 4-bit base in bf16. AdamW has two moments of a weight's own type; what other
  optimizers keep is in `_OPTIMIZERS`, and transformers keeps 32 bits for embeddings under bitsandbytes' 8-bit ones.
- Copies of weights: autocast keeps a 16-bit copy of each 32-bit linear weight, for the backward pass too unless
  activations are recomputed.
- Activations: bytes for each token and layer as a linear function of the layer's widths. The factors were fitted to what
  torch 2.13 and transformers 5.23 keep, counted storage by storage with fake tensors; they are in `_KEPT` and `_LAYER`.
- Liger's kernels keep neither the activation of the feed-forward part nor each norm's result: `_FUSED`, from peaks on an H200.
- Output head: TRL 1.16 computes the loss in tiles of 4096 tokens × 32,768 words (its module `chunked_logprob`), so
  no logits of vocabulary × length exist. The gradients of hidden states and head are summed in 32 bits. With
  `train.logits: whole` they do, as `WHOLE_LOGITS_BYTES` says.
- Buckets: DistributedDataParallel keeps a copy of all gradients where several processes train.
- Sharding: what the processes divide counts by its share. Where weights are divided, two layers and the embeddings are
  gathered at a time, in the precision, in place of 16-bit copies of all.

- RAM: a process without GPUs has its libraries, and the heap keeps blocks that were freed. Both are measured, by
  `benchmarks/memory.py`.

Not counted: fragmentation of a GPU's memory, what `compile` saves, and rows that are shorter than `length`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from armada.launch.estimates.parameters import count_adapter, count_experts, count_parameters, list_linears

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.launch.estimates.shape import ModelShape

Attention = Literal["flash", "sdpa", "eager"]
Device = Literal["cuda", "cpu"]
Sharded = Literal["weights", "gradients", "optimizer"]

SPREAD = 0.15
"""The peak is expected within this share of the estimate, for dense models in 16 or 32 bits."""

WIDE_SPREAD = 0.35
"""The same for what was not traced: models with experts, bases in 4 bits, and GPT-2, whose dropout keeps more."""

_OPTIMIZERS: dict[str, tuple[float, float]] = {
    "adamw": (2, 0),
    "adamw_8bit": (0, 2 + 8 / 256),
    "paged_adamw": (0, 8),
    "paged_adamw_8bit": (0, 2 + 8 / 256),
    "torchao_adamw_8bit": (0, 2 + 8 / 256),
    "torchao_adamw_4bit": (0, 1 + 8 / 256),
    "lion": (0, 4),
    "lion_8bit": (0, 1 + 4 / 256),
    "paged_lion_8bit": (0, 1 + 4 / 256),
    "adafactor": (0, 0),
    "sgd": (0, 0),
    "adagrad": (1, 0),
    "rmsprop": (1, 0),
}
"""What an optimizer keeps of each trained weight: numbers of the weight's own type, and bytes beside them.

8-bit states have a 32-bit scale for each block of 256.
"""

_WHOLE_EMBEDDINGS = {"adamw_8bit": 8, "paged_adamw_8bit": 8, "lion_8bit": 4, "paged_lion_8bit": 4}
"""Bytes of an embedding's weight, which bitsandbytes' 8-bit optimizers keep in 32 bits."""

_NF4_BYTES = 0.516
WHOLE_LOGITS_BYTES = 16
"""Of each token and word, where the loss is computed of all logits at once: logits, their softmax, and gradients of both."""

_TILE_TOKENS, _TILE_WORDS = 4096, 32_768
_CUDA_BYTES = 600_000_000
"""CUDA's context, kernels and cuBLAS's workspace: about 0.5 to 0.7 GB."""

_LIBRARIES_BYTES = 550_000_000
"""A process with torch's CPU build, transformers and TRL, and next to no model: 0.5 GB, and what its allocator rounds up."""

_HEAP_SHARE = 0.3
"""Of activations, in RAM: blocks that were freed and that glibc keeps; with `MALLOC_MMAP_THRESHOLD_=65536` there are none.

Where weights are divided, gathering them in between scatters the output head's blocks, too, and what was read whole before
it was divided stays."""

_Widths = tuple[float, float, float, float]

_KEPT: dict[tuple[bool, int], _Widths] = {
    (False, 2): (27, 8, 1, 8),
    (True, 2): (13, 8, 2, 8),
    (False, 4): (26, 16, 3, 16),
    (True, 4): (18, 16, 4, 16),
}
"""Bytes that a layer keeps of a token, for each number of hidden, query, key and feed-forward width.

By (adapter, bytes of the precision), for Llama, Mistral, Phi 3 and Qwen 2 with SDPA.
"""

_FUSED: dict[tuple[bool, int], _Widths] = {
    (False, 2): (8, 0, 0, 2),
    (True, 2): (4, 0, 0, 2),
    (False, 4): (8, 0, 0, 4),
    (True, 4): (8, 0, 0, 4),
}
"""Fewer with Liger's kernels."""

_DORA_CASTS: _Widths = (6, 2, 0, 0)
"""More for DoRA in 16 bits: its layers keep copies of their inputs in 32 bits, which the payload leaves out elsewhere."""

_LAYER: dict[tuple[bool, int], _Widths] = {
    (False, 2): (16, 9, 10, 11),
    (True, 2): (36, 12, 6, 15),
    (False, 4): (19, 18, 13, 23),
    (True, 4): (30, 19, 11, 25),
}
"""The same for all that exists while one recomputed layer goes backward."""

_PLAIN: dict[str, dict[int, _Widths]] = {
    "gpt_neox": {2: (15, 8, 0, 4), 4: (26, 16, 0, 8)},
    "gpt2": {2: (75, 8, 0, 16), 4: (85, 16, 0, 26)},
}
_QK_NORM = {2: 6.0, 4: 8.0}
"""More for each number of query and key width, where those have norms."""

_MORE_NORMS = {False: 7.5, True: 3.5}
"""More for each number of hidden width and norm beyond two, with and without an adapter."""


@dataclass(frozen=True, slots=True)
class TrainingShape:
    """What decides the memory of a training.

    Attributes:
        method: `qlora` is an adapter on a base in 4 bits.
        length: Tokens of each row.
        accumulates: Whether gradients of an earlier micro batch exist while the next one is computed.
        processes: How many train together.
        sharded: What they divide among themselves.
    """

    method: Literal["full", "lora", "qlora"]
    micro_batch: int
    length: int
    precision: Literal["bf16", "fp16", "fp32"] = "bf16"
    activation_checkpointing: bool = False
    attention: Attention = "sdpa"
    rank: int = 16
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"
    saved_modules: tuple[str, ...] = ()
    dora: bool = False
    accumulates: bool = False
    processes: int = 1
    sharded: frozenset[Sharded] = field(default_factory=frozenset)
    divided_by: int | None = None
    """Among how many of them; None: among all."""
    device: Device = "cuda"
    sequences: int = 1
    """Sequences of tokens in each row: a pair has two."""
    has_reference: bool = False
    """A second copy of the model is in memory, which is never trained."""
    teacher: ModelShape | None = None
    """Another model in memory, which is never trained, and whose output for each row is compared with this one's."""
    optimizer: str = "adamw"
    """As `train.optimizer.name`."""
    has_momentum: bool = False
    """It keeps a momentum of each weight too, as SGD and RMSprop do if they are told."""
    whole_logits: bool = False
    """All logits of a micro batch exist at once: the loss is not computed in tiles."""
    stages_checkpoints: bool = False
    """Checkpoints are copied to host memory before they are written."""
    masks: bool = True
    """Padding may be anywhere in a row, so that SDPA is given a mask."""
    fuses: bool = False
    """Liger's kernels compute norms and the feed-forward part."""
    scores: bool = False
    """The model ends in a score for each sequence, as a reward model does: no word is predicted."""

    @property
    def has_adapter(self) -> bool:
        return self.method != "full"

    @property
    def width(self) -> Literal[2, 4]:
        """Bytes of a number in the precision."""
        return 4 if self.precision == "fp32" else 2

    @property
    def tokens(self) -> int:
        return self.micro_batch * self.sequences * self.length


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the estimate."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The memory of one process at its worst moment.

    Attributes:
        moment: When that is.
        terms: What exists then.
        certain_bytes: Weights and optimizer alone: without them no step is possible.
        spread: The share by which the peak may differ.
        parameters: Of the model.
        trained: Parameters that are trained.
    """

    moment: str
    terms: tuple[Term, ...]
    certain_bytes: int
    spread: float
    parameters: int
    trained: int

    @property
    def total_bytes(self) -> int:
        return sum(term.size_bytes for term in self.terms)

    @property
    def low_bytes(self) -> int:
        return int(self.total_bytes * (1 - self.spread))

    @property
    def high_bytes(self) -> int:
        return int(self.total_bytes * (1 + self.spread))


@dataclass(frozen=True, slots=True)
class _States:
    """What belongs to weights, in bytes."""

    weights: float
    gradients: float
    optimizer: float
    """A paged one can leave the GPU."""
    buckets: float
    copies: float
    gathered: float
    trained: int


def estimate_memory(shape: ModelShape, training: TrainingShape) -> MemoryEstimate:
    """Estimate the memory of one process, on its GPU or in RAM."""
    if training.scores:
        shape = replace(shape, tied=True)  # an output head of its own is not loaded
    states = _states(shape, training)
    kept, layer, head = _kept(shape, training), _layer(shape, training), _head(shape, training)
    one = 1 / shape.layers
    lasting = {
        "weights": states.weights,
        "reference model": states.weights if training.has_reference else 0.0,
        **_teacher(training),
        "optimizer": states.optimizer,
        "gradient buckets": states.buckets,
        "gathered layers": states.gathered,
        "checkpoint being written": _staged(states, training) if training.device == "cpu" else 0.0,
        "CUDA and its kernels" if training.device == "cuda" else "libraries": _base(training),
    }
    earlier = states.gradients if training.accumulates else 0.0
    recomputes = training.activation_checkpointing
    # Each moment: gradients, 16-bit copies of weights, activations of all layers, those of one layer, the output head.
    moments = {
        "the end of the forward pass": (earlier, states.copies, kept, 0.0, head.forward),
        "the loss": (earlier, 0.0 if recomputes else states.copies, kept, 0.0, head.backward),
        "the first layer backward": (
            max(earlier, head.gradient),
            states.copies * (one if recomputes else 1.0),
            kept,
            layer,
            0.0,
        ),
        "the end of the backward pass": (
            states.gradients,
            states.copies * one,
            0.0 if recomputes else kept * one,
            layer,
            head.gradient if shape.tied else 0.0,
        ),
    }
    worst = max(moments, key=lambda moment: sum(moments[moment]))
    names = ("gradients", "16-bit copies of weights", "activations", "one layer's backward pass", "output head")
    sizes = lasting | dict(zip(names, moments[worst], strict=True))
    if training.device == "cpu":
        sizes["freed blocks"] = _freed(sizes, training)
    certain_optimizer = 0.0 if training.optimizer.startswith("paged_") else states.optimizer
    rough = bool(shape.experts) or shape.kind == "gpt2" or training.method == "qlora"
    return MemoryEstimate(
        moment=worst,
        terms=tuple(Term(name, int(size)) for name, size in sizes.items() if size >= 1),
        certain_bytes=int(
            states.weights * (2 if training.has_reference else 1)
            + _teacher(training).get("teacher model", 0.0)
            + certain_optimizer
        ),
        spread=WIDE_SPREAD if rough else SPREAD,
        parameters=count_parameters(shape),
        trained=states.trained,
    )


def _freed(sizes: Mapping[str, float], training: TrainingShape) -> float:
    """Return what glibc keeps of blocks that were freed."""
    if "weights" not in training.sharded or training.processes == 1:
        return _HEAP_SHARE * sizes["activations"]
    share = _share(training, "weights")
    divided = sum(sizes[name] for name in ("weights", "reference model", "teacher model") if name in sizes)
    return _HEAP_SHARE * (sizes["activations"] + sizes["output head"]) + divided * (1 / share - 1)


def _teacher(training: TrainingShape) -> dict[str, float]:
    """Return what a teacher needs: a process's share of its weights, in the precision, and one layer of a forward pass."""
    teacher = training.teacher
    if teacher is None:
        return {}
    widths = 6 * teacher.hidden + 3 * teacher.intermediate + 2 * teacher.attention
    return {
        "teacher model": float(training.width * count_parameters(teacher)) * _share(training, "weights"),
        "teacher's forward pass": float(training.width * training.tokens * widths),
    }


def staged_bytes(shape: ModelShape, training: TrainingShape) -> int:
    """Return what a checkpoint takes of the host's memory while it is written.

    The first process copies it alone, or each process its part of what is divided.
    """
    copies = training.processes if "weights" in training.sharded else 1
    return int(copies * _staged(_states(shape, training), training))


def _staged(states: _States, training: TrainingShape) -> float:
    """Count a process's copy of the trained weights, in 32 bits, and of the optimizer."""
    if not training.stages_checkpoints:
        return 0.0
    return 4.0 * states.trained * _share(training, "weights") + states.optimizer


def _base(training: TrainingShape) -> int:
    return _CUDA_BYTES if training.device == "cuda" else _LIBRARIES_BYTES


def _states(shape: ModelShape, training: TrainingShape) -> _States:
    total = count_parameters(shape)
    linear = sum(layer.weights for layer in list_linears(shape))
    if training.method == "full":
        base, trained, width = 4.0 * total, total, 4
    else:
        base = float(training.width * total)
        if training.method == "qlora":
            base = _NF4_BYTES * linear + 2.0 * (total - linear)
        saved = {"embed_tokens", "lm_head"}.intersection(training.saved_modules)
        added = count_adapter(shape, training.rank, training.targets, dora=training.dora)
        trained = added + len(saved) * shape.vocabulary * shape.hidden
        width = 2 if training.method == "qlora" else 4
        base += width * trained
    copied = (linear + count_experts(shape)) if training.method == "full" else trained
    has_copies = training.width == 2 and width == 4
    gathers = "weights" in training.sharded and training.processes > 1
    gradients = width * trained * _share(training, "gradients")
    return _States(
        weights=base * _share(training, "weights"),
        gradients=gradients,
        optimizer=_moments(shape, training, trained, width) * _share(training, "optimizer"),
        buckets=gradients if training.processes > 1 and not training.sharded else 0.0,
        copies=2.0 * copied if has_copies and not gathers else 0.0,
        gathered=training.width * _gathered(shape, training) if gathers else 0.0,
        trained=trained,
    )


def _share(training: TrainingShape, part: Sharded) -> float:
    """Return which share of something a process has."""
    return 1 / (training.divided_by or training.processes) if part in training.sharded else 1.0


def _gathered(shape: ModelShape, training: TrainingShape) -> float:
    """Count the weights that exist whole at once where weights are divided.

    They are two layers of a model, and embeddings or head of each: a model that is not trained keeps its head, too.
    """
    models = [shape, *([shape] if training.has_reference else []), *([training.teacher] if training.teacher else [])]
    ends = [model.vocabulary * model.hidden for model in models]
    layers = [
        (count_parameters(model) - end * (1 if model.tied else 2)) / model.layers
        for model, end in zip(models, ends, strict=True)
    ]
    return 2 * max(layers) + sum(ends)


def _moments(shape: ModelShape, training: TrainingShape, trained: int, width: int) -> float:
    """What the optimizer keeps, in bytes."""
    numbers, more = _OPTIMIZERS.get(training.optimizer, _OPTIMIZERS["adamw"])
    numbers += training.has_momentum
    whole = shape.vocabulary * shape.hidden if training.method == "full" else 0
    if training.optimizer == "adafactor":  # 32-bit means of each row and column
        more = 4 / (training.rank if training.has_adapter else shape.hidden) + 4 / shape.hidden
    if (each := _WHOLE_EMBEDDINGS.get(training.optimizer)) is None:
        whole = each = 0
    return (numbers * width + more) * (trained - whole) + each * whole


def _kept(shape: ModelShape, training: TrainingShape) -> float:
    """What the backward pass needs of all layers, and of the last norm."""
    residual = 2 if training.has_adapter and training.width == 2 else 4
    if training.activation_checkpointing:
        layers: float = shape.layers * residual * shape.hidden * training.tokens
        mask = _mask(training)
    else:
        layers = shape.layers * (_apply(_factors(shape, training), shape) * training.tokens + _scores(shape, training))
        mask = shape.layers * _mask(training)
    return layers + mask + 16.0 * shape.hidden * training.tokens


def _layer(shape: ModelShape, training: TrainingShape) -> float:
    """What exists of one layer while it goes backward, beside what is kept of it."""
    adapter, width = training.has_adapter, training.width
    widest = max(shape.hidden, _feed_forward(shape))
    unpacked = 2.0 * shape.hidden * shape.dense_intermediate if training.method == "qlora" else 0.0
    if not training.activation_checkpointing:
        return 2.0 * width * widest * training.tokens * (2 if adapter else 1) + unpacked
    factors = _LAYER[adapter, width] if not shape.is_plain else _factors(shape, training)
    return _apply(factors, shape) * training.tokens + 2 * _scores(shape, training) + unpacked


@dataclass(frozen=True, slots=True)
class _Head:
    """The output head and the loss, in bytes; `gradient` stays until the optimizer's step."""

    forward: float
    backward: float
    gradient: float


def _head(shape: ModelShape, training: TrainingShape) -> _Head:
    if training.scores:
        return _Head(0.0, 0.0, 0.0)
    tokens, hidden = training.tokens, shape.hidden
    is_trained = training.method == "full" or "lm_head" in training.saved_modules
    gradient = 4.0 * shape.vocabulary * hidden if is_trained else 0.0
    if training.whole_logits:
        each = WHOLE_LOGITS_BYTES + (training.width if training.width == 2 else 0)  # autocast's logits come before
        logits = float(each * tokens * shape.vocabulary)
        return _Head(logits / 2, logits + 4.0 * tokens * hidden + gradient, gradient)
    words = _TILE_WORDS if training.device == "cuda" else min(_TILE_WORDS, shape.vocabulary)
    tile = min(tokens, _TILE_TOKENS) * words
    # Without Triton, on CPUs, the loss of a tile takes about seven 32-bit copies of it, and beside a teacher's nine.
    copies = 36 if training.teacher is not None else 28
    folded = tile * training.width + (copies * tile if training.device == "cpu" else 0)
    converted = words * hidden * training.width if is_trained and training.width == 2 else 0
    return _Head(float(folded + converted), folded + converted + 4.0 * tokens * hidden + gradient, gradient)


def _factors(shape: ModelShape, training: TrainingShape) -> _Widths:
    adapter, width = training.has_adapter, training.width
    if shape.is_plain:
        return _PLAIN[shape.kind][width]
    h, a, k, f = _KEPT[adapter, width]
    if training.fuses:
        less = _FUSED[adapter, width]
        h, f = h - less[0], f - less[3]
    if training.dora and width == 2:
        h, a = h + _DORA_CASTS[0], a + _DORA_CASTS[1]
    if shape.has_qk_norms:
        a, k = a + _QK_NORM[width], k + _QK_NORM[width]
    if training.attention == "flash":  # keys and values are not repeated for each query head
        a, k = a - 2 * width, k + 2 * width
    return h + (shape.norms - 2) * _MORE_NORMS[adapter], a, k, f


def _apply(factors: _Widths, shape: ModelShape) -> float:
    h, a, k, f = factors
    return h * shape.hidden + a * shape.attention + k * shape.keys + f * _feed_forward(shape)


def _feed_forward(shape: ModelShape) -> int:
    """Width of the feed-forward part that a token passes."""
    if not shape.experts:
        return shape.dense_intermediate
    return shape.experts_per_token * shape.intermediate


def _scores(shape: ModelShape, training: TrainingShape) -> float:
    """Attention scores of a layer in bytes, which only eager attention keeps: 8 for each pair of tokens and head."""
    return 8.0 * shape.heads * training.tokens * training.length if training.attention == "eager" else 0.0


def _mask(training: TrainingShape) -> float:
    """The mask of padded rows as SDPA adds it, in the precision; a single row has no padding."""
    padded = training.masks and training.attention == "sdpa" and training.micro_batch * training.sequences > 1
    return float(training.width * training.tokens * training.length) if padded else 0.0
