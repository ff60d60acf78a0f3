"""The user's evaluation function: called with answers, it returns numbers. Without torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from armada_train.data.hooks import load_hook
from armada_train.data.places import show
from armada_train.failure import GENERIC, PayloadFailure
from armada_train.specification.section import bad_spec
from armada_train.specification.values import Evaluation
from armada_train.training.judges import Judge

TAKES = ("prompts", "completions", "rows", "expected", "step", "eval_set")
"""What an evaluation function may take, by keyword."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,39}")


class Scorer(Judge):
    """An evaluation function.

    It is called with the prompts, the completions and whatever else of `TAKES` it names, each a list with one item for
    each prompt, and returns one number for each, one number, or a mapping of names to either.
    """

    kind = "evaluation function"
    limit_key = "evaluation.timeout"
    wanted = "a number, or one for each completion"

    def check(self, columns: Sequence[str] = TAKES) -> None:
        """Refuse a function that needs what no evaluation gives.

        Raises:
            PayloadFailure: `bad_spec`.
        """
        lacking = [name for name in self._needs if name not in columns]
        if lacking:
            raise bad_spec(
                f"{self._what} needs {' and '.join(f'`{name}`' for name in lacking)}; it is given {', '.join(columns)}"
            )

    def measure(self, given: Mapping[str, Any], places: Sequence[str]) -> dict[str, float]:
        """Call the function; return its metrics, without `eval_` before their names.

        Raises:
            PayloadFailure: It raised, took too long, or returned what are no numbers; the message names a row.
        """
        prompts = given["prompts"]
        taken = dict(given) if self._takes_all else {name: given[name] for name in given if name in self._takes}
        said = self._call(taken, prompts, places)
        if not isinstance(said, Mapping):
            return {self.__name__: self._mean("", said, prompts, places)}
        if not said:
            raise PayloadFailure(GENERIC, f"{self._what} returned an empty mapping, without any metric")
        for name in said:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise PayloadFailure(
                    GENERIC,
                    f"{self._what} returned a metric named {show(name)}; a name has letters, digits, `_`, `.`, `/` and `-`, "
                    "at most 40, and begins with a letter",
                )
        return {name: self._mean(f" as {name}", value, prompts, places) for name, value in said.items()}

    def _mean(self, named: str, said: Any, prompts: Sequence[Any], places: Sequence[str]) -> float:
        """Return a number, or the mean of one for each prompt."""
        value = said.tolist() if hasattr(said, "tolist") else said
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        numbers = self._numbers(value, prompts, places, named)
        return math.fsum(number or 0.0 for number in numbers) / len(numbers)


def load_scorer(evaluation: Evaluation, attempt_folder: Path) -> Scorer:
    """Import the evaluation function; the trainer calls it in the main thread.

    Raises:
        PayloadFailure: `data_error`, naming what is missing; `bad_spec`: it needs what it is not given.
    """
    place = str(evaluation.function)
    function = load_hook(place, Scorer.kind)
    name = place.rpartition(":")[2]
    scorer = Scorer(name, place, function, evaluation.timeout_s, attempt_folder, optional=False)
    scorer.check()
    return scorer
