"""Check trainer_state.json before the Trainer reads it: what a disk or a person changed there would end the training later."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from armada_train.records import UnreadableRecord, is_number, is_whole, read_object, show

NAME = "trainer_state.json"


def _is_finite(value: object) -> bool:
    return is_number(value) and math.isfinite(value)


_WHOLE, _FINITE = "a whole number", "a number"
_REQUIRED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_steps": (is_whole, _WHOLE),
    "train_batch_size": (is_whole, _WHOLE),
    "log_history": (lambda value: isinstance(value, list), "a list"),
}
_OPTIONAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "epoch": (_is_finite, _FINITE),
    "num_train_epochs": (is_number, _FINITE),
    "num_input_tokens_seen": (is_number, _FINITE),
    "total_flos": (is_number, _FINITE),
    "best_global_step": (is_whole, _WHOLE),
    "best_metric": (is_number, _FINITE),
    "best_model_checkpoint": (lambda value: isinstance(value, str), "a path"),
    "stateful_callbacks": (lambda value: isinstance(value, dict), "an object"),
}
"""What transformers 5.23 and armada compute with; these may also be null."""


def find_wrong_state(checkpoint: Path, step: int) -> str | None:
    """Return what keeps the Trainer from continuing with a checkpoint's state, or None.

    Args:
        checkpoint: Its folder.
        step: The one that its name says.
    """
    try:
        state = read_object(checkpoint / NAME)
    except UnreadableRecord:
        return f"{NAME} is missing or unfinished"
    if not is_whole(state.get("global_step")) or state["global_step"] != step:
        return f"{NAME} is missing or unfinished"
    for key, (fits, wanted) in {**_REQUIRED, **_OPTIONAL}.items():
        value = state.get(key)
        if (value is not None or key in _REQUIRED) and not fits(value):
            return f"{NAME} is damaged: `{key}` is {show(value)}, not {wanted}"
    return next(filter(None, map(_wrong_entry, state["log_history"])), None)


def _wrong_entry(entry: Any) -> str | None:
    if not isinstance(entry, Mapping) or not is_whole(entry.get("step")):
        return f"{NAME} is damaged: an entry of `log_history` has no step"
    for key, value in entry.items():
        if key.startswith("eval_") and not is_number(value):
            return f"{NAME} is damaged: `{show(key)}` of step {entry['step']} in `log_history` is {show(value)}, not a number"
    return None
