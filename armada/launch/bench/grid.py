"""Make the cells of a bench: every combination of the values of `--grid`, each an experiment of its own. Asks no host."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.documents import Document, Place, read_document, shown
from armada.config.experiments import experiment_of
from armada.config.overrides import ANY_WORDS, apply_choices, apply_override, put_value
from armada.config.profiles import TrainSettings
from armada.config.tasks.bundled import BundledTraining
from armada.config.tasks.registry import MEASURED, TRAININGS
from armada.config.validation import validate
from armada.errors import PreflightRefused, UsageError
from armada.foundation.secrets import HIDDEN, may_be_given_secret
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MOST_CELLS = 500
"""Of one bench: each is a training's plan in the spec, and a row."""

OF_PROFILES = frozenset(f"train.{name}" for name in ("attention", "precision", "activation_checkpointing"))
"""Keys that a profile has, and no experiment."""

_ANYTHING = {"micro_batch_size": 1, "precision": "fp32"}
_FIXED = (
    "task",
    "name",
    "environment",
    "requirements",
    "container",
    "code",
    "files",
    "setup",
    "secrets",
    "sync",
    "stop_grace",
)
"""Keys that all cells share: they are measured in one environment and with one hand-over."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """One cell.

    Attributes:
        number: From 1.
        values: What the grid gives it, by dotted keys.
        label: The same in a few words.
        experiment: With those of the values that belong to an experiment.
        machine: Those that belong to a profile's `train`.
    """

    number: int
    values: Mapping[str, Any]
    label: str
    experiment: BundledTraining
    machine: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """An experiment and the values of each key, before they are combined."""

    document: Document
    choices: Mapping[str, Sequence[Any]]
    places: Mapping[str, Place]

    @property
    def count(self) -> int:
        """How many cells there are. Makes none."""
        return math.prod(len(values) for values in self.choices.values())


def read_grid(path: Path, overrides: Sequence[str], texts: Sequence[str]) -> Grid:
    """Read an experiment's file and the values of `--grid`.

    Raises:
        ConfigError: The file, an override or a value is wrong.
        PreflightRefused: A step of its task is not measured.
    """
    document = read_document(expanded(path))
    for text in overrides:
        apply_override(document, text)
    base = experiment_of(document)
    if base.task not in MEASURED:
        why = (
            "samples its rows meanwhile, which takes longer the longer they get: its steps are not measured yet"
            if base.task in TRAININGS
            else "does not say what a step is, so nothing can be measured"
        )
        raise PreflightRefused(
            f"`task: {base.task}` {why}",
            hint=f"`armada bench` is for `task: {'`, `'.join(MEASURED)}`",
        )
    choices: dict[str, list[Any]] = {}
    places: dict[str, Place] = {}
    for text in texts:
        place = Place(None, None, override=text, option="--grid")
        read = Document(document.path, {})
        apply_choices(read, text, "--grid", ("grid",))
        ((key, values),) = read.data["grid"].items()
        if not isinstance(values, list) or not values:
            raise place.error("there are no values", f"for example: --grid {key}=1,2,4")
        if key in choices:
            raise place.error(f"`{key}` has values already", "give all of them in one --grid")
        _refuse_key(key, place)
        if key.partition(".")[0] in ANY_WORDS and any(may_be_given_secret(key, value) for value in values):
            raise dataclasses.replace(place, override=f"{key}={HIDDEN}").error(
                f"`{key}` may be a secret, and what cells differ by is in their rows and in recorded commands",
                "name it under `secrets`, and run a bench for each value",
            )
        choices[key] = list({repr(value): value for value in values}.values())  # 1 and true are equal in Python
        places[key] = place
    return Grid(document, choices, places)


def _refuse_key(key: str, place: Place) -> None:
    if key.partition(".")[0] in _FIXED:
        raise place.error(
            f"`{key}` cannot differ between cells: they share one environment and one hand-over",
            "run one bench for each value, with --set",
        )
    near = difflib.get_close_matches(key, sorted(OF_PROFILES), 1, 0.85)
    if near and key not in OF_PROFILES:
        raise place.error(f"unknown key `{key}`", f"did you mean `{near[0]}`?")


def expand(grid: Grid) -> list[GridCell]:
    """Make the cells; the last key varies first.

    Raises:
        ConfigError: A key is no setting, or a value does not fit it.
        UsageError: There are too many.
    """
    if grid.count > MOST_CELLS:
        raise UsageError(f"a bench has at most {MOST_CELLS} cells, not {grid.count:,}", hint="give fewer values")
    for key in OF_PROFILES & set(grid.choices):
        for value in grid.choices[key]:
            _check_machine(grid, key, value)
    cells = []
    for number, chosen in enumerate(itertools.product(*grid.choices.values()), start=1):
        values = dict(zip(grid.choices, chosen, strict=True))
        machine = {key.removeprefix("train."): value for key, value in values.items() if key in OF_PROFILES}
        cells.append(GridCell(number, values, label_of(values), _experiment(grid, values), machine))
    return cells


def label_of(values: Mapping[str, Any]) -> str:
    """Name a cell by its values: `micro_batch_size=4 gpus=2`."""
    return " ".join(f"{key.rpartition('.')[2]}={_word(value)}" for key, value in values.items()) or "as it is"


def _word(value: Any) -> str:
    return value[:60] if isinstance(value, str) else shown(value, 40)


def _check_machine(grid: Grid, key: str, value: Any) -> None:
    document = Document(grid.document.path, {})
    for name, other in {**_ANYTHING, key.removeprefix("train."): value}.items():
        put_value(document, f"train.{name}", other, grid.places[key])
    validate(document, TrainSettings, at=("train",))


def _experiment(grid: Grid, values: Mapping[str, Any]) -> BundledTraining:
    document = grid.document
    own = dataclasses.replace(
        document, data=copy.deepcopy(document.data), keys=dict(document.keys), values=dict(document.values)
    )
    for key, value in values.items():
        if key not in OF_PROFILES:
            put_value(own, key, copy.deepcopy(value), grid.places[key])
    experiment = experiment_of(own)
    if not isinstance(experiment, BundledTraining):  # `task` cannot be in a grid
        raise TypeError(type(experiment))
    return experiment
