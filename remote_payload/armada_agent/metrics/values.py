"""Names and numbers of metrics in the formats of other trainers. The functions are pure; their input comes from a job and is untrusted."""

import re
from typing import Any, Dict, Iterable, Optional, Tuple

LONGEST_NAME = 40
MOST_NAMES = 64
MOST_STEP = (1 << 53) - 1
_LONGEST_NUMBER = 40
_MOST_DIGITS = 100
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"\d{1,16}(?:\.0{0,20})?")
_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_./@:-]+")
_STEP_NAMES = ("step", "global_step", "_step", "iteration", "iter", "global_iteration", "train/global_step", "epoch")
_TIME_NAMES = ("time", "_time", "timestamp", "_timestamp", "wall_time", "created_at")
_SYNONYMS = {
    "lr": "learning_rate",
    "learning-rate": "learning_rate",
    "gradient_norm": "grad_norm",
    "train_loss": "loss",
    "training_loss": "loss",
    "train_loss_step": "loss",
    "loss_step": "loss",
    "val_loss": "eval_loss",
    "valid_loss": "eval_loss",
    "validation_loss": "eval_loss",
    "test_loss": "eval_loss",
    "val_loss_epoch": "eval_loss",
    "eval_loss_epoch": "eval_loss",
    "loss/train": "loss",
    "loss/val": "eval_loss",
    "loss/valid": "eval_loss",
    "loss/validation": "eval_loss",
    "loss/eval": "eval_loss",
    "loss/test": "eval_loss",
    "tokens_per_sec": "tokens_per_s",
    "tokens_per_second": "tokens_per_s",
}
_EVALUATIONS = ("eval/", "val/", "valid/", "validation/")
RESERVED = frozenset(("kind", "time", "attempt", "source", "steps", "step"))
_EMPTY = ("", "None", "null")


def number(value: Any) -> Optional[float]:
    """Parse a number, also one that is written as text, and NaN and the infinities; return None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return None


def whole(value: Any) -> Optional[int]:
    """Parse a step: an integer that is not negative, also `12.0` and `"12"`; return None for anything else."""
    if isinstance(value, float) and value.is_integer() and 0 <= value <= MOST_STEP:
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value.strip().split(".")[0])
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_STEP:
        return value
    return None


def whole_number(word: str) -> int:
    """Convert a number in JSON. Before Python 3.11, the time that one takes grows with the square of its digits.

    Raises:
        ValueError: It has more digits than any number of a record.
    """
    if len(word) > _MOST_DIGITS:
        raise ValueError("a number of %d digits" % len(word))
    return int(word)


def clean_name(name: Any) -> Optional[str]:
    """Return the curve's name for any key: armada's own names for the usual ones, at most 40 harmless characters."""
    if not isinstance(name, str):
        return None
    found = _OTHER_CHARACTERS.sub("_", name[: 4 * LONGEST_NAME].strip()).strip("_")
    for prefix in _EVALUATIONS:
        if found.startswith(prefix):
            found = "eval_" + found[len(prefix) :]
    if found.startswith("train/train_"):
        found = found[len("train/") :]  # the mean of all steps, which the Trainer reports at its end
    else:
        found = found[len("train/") :] if found.startswith("train/") else found
        found = _SYNONYMS.get(found.lower(), found)
    found = found[:LONGEST_NAME]
    return found if found and found not in RESERVED else None


def numbers(record: Dict[Any, Any]) -> Dict[str, float]:
    """Return the numbers of a record under clean names. Of two keys with the same clean name, the first counts.

    They are at most one more than are drawn: whoever takes them sees that there are more, and says so.
    """
    found: Dict[str, float] = {}
    for key, value in record.items():
        amount = number(value)
        name = clean_name(key) if amount is not None else None
        if name is not None and amount is not None and name not in found and len(found) <= MOST_NAMES:
            found[name] = amount
    return found


def split(found: Dict[str, float]) -> Tuple[Dict[str, float], Dict[str, float]]:
    """Split the numbers of one record into those of the training and those of an evaluation."""
    evaluated = {name: value for name, value in found.items() if name.startswith("eval_")}
    return {name: value for name, value in found.items() if name not in evaluated}, evaluated


def step_column(names: Iterable[Any]) -> Optional[str]:
    """Return the key of a record that contains the step: the first present one of `step`, `global_step`, `iteration`, …, `epoch`."""
    return _first(names, _STEP_NAMES)


def time_column(names: Iterable[Any]) -> Optional[str]:
    """Return the key of a record that contains the time."""
    return _first(names, _TIME_NAMES)


def is_empty(value: Any) -> bool:
    """Return whether a table's cell is empty."""
    return value is None or (isinstance(value, str) and value.strip() in _EMPTY)


def _first(names: Iterable[Any], wanted: Tuple[str, ...]) -> Optional[str]:
    there = {name.strip().lower(): name for name in names if isinstance(name, str)}
    return next((there[name] for name in wanted if name in there), None)
