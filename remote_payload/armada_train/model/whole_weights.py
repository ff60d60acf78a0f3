"""Load weights that were saved into a model that exists, and refuse a checkpoint that lacks some.

transformers' Trainer compares names of files with names in memory, and only warns of a difference. A model with experts
is saved under the hub's names, one tensor for each expert, and holds them in one: a resume kept the base's experts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

_MOST_NAMED = 3


class WeightsDifferError(ValueError):
    """A checkpoint lacks weights of the model, or holds others."""


def load_whole(model: Any, checkpoint: Path, dtype: Any) -> None:
    """Load all weights of a model, through the same conversions of names and shapes as `from_pretrained`.

    The parameters stay the same objects. The checkpoint is read into host memory, whole. Of ranks whose weights are not
    there yet (FSDP: the first one sends its own when the model is divided), none is read.

    Args:
        model: Of transformers, not divided, without adapter.
        checkpoint: Its folder, or one that `save_pretrained` has written.
        dtype: With which the model was loaded, so that no weight is rounded.

    Raises:
        WeightsDifferError: A weight is missing, or one is left over.
        RuntimeError: One has another shape.
    """
    if any(weight.is_meta for weight in model.parameters()):
        return
    saved, found = type(model).from_pretrained(checkpoint, config=model.config, dtype=dtype, output_loading_info=True)
    _refuse(checkpoint, found["missing_keys"], found["unexpected_keys"])
    model.load_state_dict(saved.state_dict(), strict=True)


def load_adapter(model: Any, checkpoint: Path) -> None:
    """Load all weights of a model's active adapter.

    Raises:
        WeightsDifferError: A weight is missing, or one is left over.
        RuntimeError: One has another shape.
    """
    found = model.load_adapter(str(checkpoint), model.active_adapter, is_trainable=True)
    _refuse(checkpoint, found.missing_keys, found.unexpected_keys)


def _refuse(checkpoint: Path, missing: Iterable[str], unexpected: Iterable[str]) -> None:
    told = [_tell(missing, "of the model are missing in it"), _tell(unexpected, "in it are not of the model")]
    if any(told):
        raise WeightsDifferError(f"{checkpoint.name}: {'; '.join(sentence for sentence in told if sentence)}")


def _tell(names: Iterable[str], what: str) -> str:
    found = sorted(names)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{len(found)} weight(s) {what}: {', '.join(found[:_MOST_NAMED])}{more}" if found else ""
