"""The optimizers that a training may choose: transformers' name of each, its package, and its settings. Without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from armada_train.specification.section import Section, bad_spec


@dataclass(frozen=True, slots=True)
class Kind:
    """An optimizer.

    Attributes:
        theirs: What transformers calls it; None for its default, fused AdamW.
        package: What it needs beyond torch.
        takes: Its settings.
    """

    theirs: str | None
    package: str | None = None
    takes: tuple[str, ...] = ("betas", "eps")


_BITSANDBYTES = "bitsandbytes"

OPTIMIZERS = {
    "adamw": Kind(None),
    "adamw_8bit": Kind("adamw_bnb_8bit", _BITSANDBYTES),
    "paged_adamw": Kind("paged_adamw_32bit", _BITSANDBYTES),
    "paged_adamw_8bit": Kind("paged_adamw_8bit", _BITSANDBYTES),
    "torchao_adamw_8bit": Kind("adamw_torch_8bit", "torchao"),
    "torchao_adamw_4bit": Kind("adamw_torch_4bit", "torchao"),
    "lion": Kind("lion_32bit", _BITSANDBYTES, ("betas",)),
    "lion_8bit": Kind("lion_8bit", _BITSANDBYTES, ("betas",)),
    "paged_lion_8bit": Kind("paged_lion_8bit", _BITSANDBYTES, ("betas",)),
    "adafactor": Kind("adafactor", takes=()),
    "sgd": Kind("sgd", takes=("momentum",)),
    "adagrad": Kind("adagrad", takes=("eps",)),
    "rmsprop": Kind("rmsprop", takes=("momentum", "eps")),
}


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A choice; a setting of None is the optimizer's own default."""

    name: str = "adamw"
    betas: tuple[float, float] | None = None
    eps: float | None = None
    momentum: float | None = None

    @property
    def kind(self) -> Kind:
        return OPTIMIZERS[self.name]

    @property
    def needs_gpus(self) -> bool:
        """Whether it only computes on CUDA GPUs."""
        return self.kind.package == _BITSANDBYTES

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for transformers; none for its default."""
        found: dict[str, Any] = {} if self.kind.theirs is None else {"optim": self.kind.theirs}
        if self.betas is not None:
            found |= {"adam_beta1": self.betas[0], "adam_beta2": self.betas[1]}
        texts = []
        if self.momentum is not None:
            texts.append(f"momentum={self.momentum!r}")
        if self.eps is not None:
            found["adam_epsilon"] = self.eps
            if self.name in {"adagrad", "rmsprop"}:  # which read neither
                texts.append(f"eps={self.eps!r}")
        return found | ({"optim_args": ",".join(texts)} if texts else {})


def parse_optimizer(section: Section | None) -> Optimizer:
    """Read `train.optimizer`; without it, it is AdamW.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if section is None:
        return Optimizer()
    name = section.choice("name", tuple(OPTIMIZERS), "adamw")
    optimizer = Optimizer(
        name,
        _parse_betas(section),
        section.optional_number("eps", above=True),
        section.optional_number("momentum"),
    )
    section.close()
    for key in ("betas", "eps", "momentum"):
        if getattr(optimizer, key) is not None and key not in optimizer.kind.takes:
            raise bad_spec(f"`{section.where}.{key}` does not belong to {name}")
    if optimizer.momentum is not None and optimizer.momentum >= 1:
        raise section.wrong("momentum", "below 1", optimizer.momentum)
    return optimizer


def _parse_betas(section: Section) -> tuple[float, float] | None:
    betas = section.get("betas", None)
    if betas is None:
        return None
    numbers = isinstance(betas, list) and all(
        isinstance(beta, (int, float)) and not isinstance(beta, bool) and 0 <= beta < 1 for beta in betas
    )
    if not numbers or len(betas) != 2:
        raise section.wrong("betas", "two numbers from 0 to below 1", betas)
    return float(betas[0]), float(betas[1])
