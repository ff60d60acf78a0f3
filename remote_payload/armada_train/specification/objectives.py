"""What each task trains for: the rows it takes, its own settings, and what it does not go with. Without torch.

A task is an entry here, a module of `training.objectives` with its trainer, and its settings at home.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from armada_train.specification.distillation import parse_distill
from armada_train.specification.generation import parse_grpo
from armada_train.specification.section import Section

DPO_LOSSES = (
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
)
"""The losses of TRL 1.16's DPOTrainer."""

KTO_LOSSES = ("kto", "apo_zero_unpaired")
"""The losses of TRL 1.16's KTOTrainer."""

FSDP = ("fsdp", "fsdp-hybrid")
"""The words of `train.sharding` for which FSDP divides the model."""

PAIRS = ("preference", "chat preference")
UNPAIRED = ("unpaired", "chat unpaired")
PROMPTS = ("prompt", "chat prompt")
"""Prompts whose other columns are for who judges the completions."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What a training trains for.

    Attributes:
        name: The task's.
        kinds: The kinds of rows that it takes.
        settings: Its own settings, final.
        packing: How TRL packs its rows; None if it cannot.
        makes_rows: Whether hooks may make its rows during training.
        splits: Whether a row that is too long may become several.
        shards: The words of `train.sharding` that may divide its model among the processes.
        generates: Whether its model generates text; otherwise it scores texts, with one number for each.
        has_reference: Whether it is compared with the model as it was.
        samples: Whether it trains on completions that its model samples meanwhile.
        completions: How many of each prompt.
    """

    name: str
    kinds: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    packing: str | None = None
    makes_rows: bool = False
    splits: bool = False
    shards: tuple[str, ...] = ()
    generates: bool = True
    has_reference: bool = False
    samples: bool = False
    completions: int = 1

    @property
    def room(self) -> int:
        """Tokens of `train.max_length` that a row leaves to its completion, which is not there yet."""
        return int(self.settings["max_completion_length"]) if self.samples else 0


SFT = Objective(
    "sft",
    ("messages", "prompt_completion", "text"),
    packing="bfd_split",  # TRL's default, bfd, discards tokens beyond the maximum length
    makes_rows=True,
    splits=True,
    shards=(*FSDP, "zero3"),
)


def _parse_sft(section: Section) -> Objective:
    section.close()
    return SFT


def _parse_pretrain(section: Section) -> Objective:
    section.close()
    return Objective("pretrain", ("text",), packing="wrapped", splits=True, shards=SFT.shards)


def _parse_dpo(section: Section) -> Objective:
    settings: dict[str, Any] = {
        "beta": section.number("beta", 0.1, above=True),
        "loss": section.choice("loss", DPO_LOSSES, "sigmoid"),
        "label_smoothing": section.number("label_smoothing", 0.0),
        "precompute_reference": section.flag("precompute_reference", default=False),
    }
    section.close()
    if settings["label_smoothing"] >= 0.5:
        raise section.wrong("label_smoothing", "below 0.5", settings["label_smoothing"])
    if settings["loss"] == "exo_pair" and not settings["label_smoothing"]:
        raise section.wrong("label_smoothing", "above 0 with the loss exo_pair, such as 0.001", 0.0)
    return Objective("dpo", PAIRS, settings, shards=FSDP, has_reference=True)


def _parse_reward(section: Section) -> Objective:
    settings = {"center": section.optional_number("center", above=True)}
    section.close()
    return Objective("reward", PAIRS, settings, shards=FSDP, generates=False)


def _parse_kto(section: Section) -> Objective:
    settings = {
        "beta": section.number("beta", 0.1, above=True),
        "loss": section.choice("loss", KTO_LOSSES, "kto"),
        "desirable_weight": section.number("desirable_weight", 1.0, above=True),
        "undesirable_weight": section.number("undesirable_weight", 1.0, above=True),
    }
    section.close()
    return Objective("kto", UNPAIRED, settings, shards=FSDP, has_reference=True)


def _parse_grpo(section: Section) -> Objective:
    settings = parse_grpo(section)
    each = settings["num_generations"]
    return Objective("grpo", PROMPTS, settings, has_reference=settings["beta"] > 0, samples=True, completions=each)


def _parse_distill(section: Section) -> Objective:
    settings = parse_distill(section)
    # Plain text has no prompt that the student could complete.
    kinds = ("messages", "prompt_completion") if settings["lmbda"] else SFT.kinds
    # Ranks that sample answers of other lengths would wait for each other's layers.
    return Objective("distill", kinds, settings, shards=() if settings["lmbda"] else FSDP)


OBJECTIVES: dict[str, Callable[[Section], Objective]] = {
    "sft": _parse_sft,
    "pretrain": _parse_pretrain,
    "dpo": _parse_dpo,
    "reward": _parse_reward,
    "kto": _parse_kto,
    "grpo": _parse_grpo,
    "distill": _parse_distill,
}
"""By name; each reads its own settings, and refuses unknown ones."""

KINDS = {name: parse(Section({}, "objective")).kinds for name, parse in OBJECTIVES.items()}
"""The kinds of rows that each task takes."""


def parse_objective(section: Section | None) -> Objective:
    """Read what a training is for; without a section, it is supervised fine-tuning.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if section is None:
        return SFT
    name = section.choice("name", tuple(OBJECTIVES))
    section.where = f"training.{name}"  # as the user wrote it
    return OBJECTIVES[name](section)


def tasks_taking(kind: str) -> list[str]:
    """Return the tasks that take rows of a kind."""
    return [name for name, kinds in KINDS.items() if kind in kinds]
