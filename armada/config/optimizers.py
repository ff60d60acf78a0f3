"""Settings of the optimizer: its name, and what each takes."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from armada.config.checkpoints import Positive
from armada.config.settings import Settings, Share, problem

OptimizerName = Literal[
    "adamw",
    "adamw_8bit",
    "paged_adamw",
    "paged_adamw_8bit",
    "torchao_adamw_8bit",
    "torchao_adamw_4bit",
    "lion",
    "lion_8bit",
    "paged_lion_8bit",
    "adafactor",
    "sgd",
    "adagrad",
    "rmsprop",
]

_OTHER_NAMES = {
    "adam": "adamw",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_bnb_8bit": "adamw_8bit",
    "paged_adamw_32bit": "paged_adamw",
    "adamw_torch_8bit": "torchao_adamw_8bit",
    "adamw_torch_4bit": "torchao_adamw_4bit",
    "lion_32bit": "lion",
}
"""What transformers calls the same optimizer."""

TAKES: dict[str, tuple[str, ...]] = {
    "adafactor": (),
    "sgd": ("momentum",),
    "adagrad": ("eps",),
    "rmsprop": ("momentum", "eps"),
    "lion": ("betas",),
    "lion_8bit": ("betas",),
    "paged_lion_8bit": ("betas",),
}
"""The settings that an optimizer takes; all others are AdamW's kinds, with `betas` and `eps`."""

PLAIN = ("adamw", "adafactor", "sgd", "adagrad", "rmsprop")
"""torch's and transformers' own, whose states are plain tensors."""

OF_ADAMW = ("betas", "eps")


class Optimizer(Settings):
    """What turns gradients into updates of the weights; a name alone keeps its own defaults."""

    other_names: ClassVar[dict[str, str]] = {
        "type": "name",
        "adam_beta1": "betas",
        "adam_beta2": "betas",
        "adam_epsilon": "eps",
        "epsilon": "eps",
    }

    name: OptimizerName = "adamw"
    """The 8-bit ones, `paged_…` and `lion` come from bitsandbytes (CUDA GPUs), `torchao_…` from torchao, the others from torch."""
    betas: tuple[Share, Share] | None = Field(default=None, strict=False)
    """How slowly the two means of AdamW or Lion forget; [0.9, 0.999] by default."""
    eps: Positive | None = None
    """Added to the denominator of the update; AdamW's default is 1e-8."""
    momentum: Share | None = None
    """Of `sgd` and `rmsprop`; 0 by default."""

    @field_validator("name", mode="before")
    @classmethod
    def _has_our_name(cls, value: Any) -> Any:
        if isinstance(value, str) and value in _OTHER_NAMES:
            raise problem(f"has no optimizer {value}", hint=f"here it is called {_OTHER_NAMES[value]}")
        return value

    @model_validator(mode="after")
    def _takes_its_settings(self) -> Optimizer:
        taken = TAKES.get(self.name, OF_ADAMW)
        for key in ("betas", "eps", "momentum"):
            if getattr(self, key) is not None and key not in taken:
                takes = f"it takes {' and '.join(taken)}" if taken else "it takes no settings"
                raise problem(f"does not belong to {self.name}", key=key, hint=takes)
        return self
