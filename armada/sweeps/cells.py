"""Expand an experiment's `sweep:` into cells, each an experiment of its own. Asks no host."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from armada.config.documents import Document, Location, Place, read_document, shown
from armada.config.experiments import experiment_of
from armada.config.overrides import ANY_WORDS, apply_choices, apply_override, put_value
from armada.config.sweep import Interval, Sweep
from armada.config.validation import validate
from armada.errors import ConfigError, UsageError
from armada.foundation.secrets import (
    HIDDEN,
    is_secret_name,
    may_be_given_secret,
    may_be_secret,
    without_secret_settings,
)
from armada.foundation.user_folder import expanded
from armada.sweeps.equal_cells import DistinctCells, identity, loose
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from armada.config.tasks.experiment import Experiment

MOST_CELLS = 10_000
"""Of one sweep. Each is a run with a folder, a record and a row."""

_DIGITS = 6
"""Significant digits of numbers that are drawn, so that what is shown is what is used."""

_TRIES = 100

_LONG_OPTION = 120
"""Characters."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the command line says about cells, over the experiment's file."""

    overrides: Sequence[str] = ()
    grid: Sequence[str] = ()
    space: Sequence[str] = ()
    random: int | None = None
    seed: int | None = None
    search: int | None = None
    prune: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An experiment's file and its `sweep:`, before it is expanded."""

    document: Document
    sweep: Sweep

    @property
    def count(self) -> int:
        """How many cells it has at most: equal ones are counted twice. Expands nothing."""
        grid = math.prod(len(values) for values in self.sweep.grid.values()) if self.sweep.grid else 0
        drawn = self.sweep.random.n if self.sweep.random is not None else 0
        searched = self.sweep.search.trials if self.sweep.search is not None else 0
        return len(self.sweep.cells) + grid + drawn + searched


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a sweep.

    Attributes:
        number: From 1, in the order of the sweep.
        values: What differs, by dotted keys.
        label: The same in a few words: `learning_rate=1e-05 seed=2`.
        experiment: With the values in it, and without `sweep`.
    """

    number: int
    values: Mapping[str, Any]
    label: str
    experiment: Experiment


def read_draft(path: Path, words: Words) -> Draft:
    """Read an experiment's file and what it sweeps over.

    Raises:
        ConfigError: The file, or an option, is wrong.
        UsageError: It has nothing to sweep over.
    """
    document = read_document(expanded(path))
    for text in words.overrides:
        apply_override(document, text)
    way = "search" if words.search is not None or (words.random is None and _searches(document)) else "random"
    for option, texts, above in (
        ("--grid", words.grid, ("sweep", "grid")),
        ("--space", words.space, ("sweep", way, "space")),
    ):
        for text in _each_key_once(option, texts):
            apply_choices(document, text, option, above)
    if words.random is not None:
        put_value(document, "sweep.random.n", words.random, _option("--random", words.random))
    if words.search is not None:
        put_value(document, "sweep.search.trials", words.search, _option("--search", words.search))
    if words.prune is not None:
        place = _option("--prune", ",".join(map(str, words.prune)))
        put_value(document, "sweep.prune.at", list(words.prune), place)
    if words.seed is not None:
        put_value(document, f"sweep.{way}.seed", words.seed, _option("--seed", words.seed))
    if not isinstance(document.data.get("sweep"), dict):
        if document.data.get("sweep") is not None:
            raise document.value_place(("sweep",)).error(
                "`sweep` must be a mapping", "sweep: {grid: {train.seed: [1, 2]}}"
            )
        raise _nothing(document)
    draft = Draft(document, validate(document, Sweep, at=("sweep",)))
    if not draft.count:
        raise _nothing(document)
    _refuse_secrets(draft)
    _refuse_same(draft, way)
    return draft


def _refuse_secrets(draft: Draft) -> None:
    """Refuse values that may be secrets: what cells differ by is in their plans, in lists and in recorded commands."""
    sweep, document = draft.sweep, draft.document
    found: list[tuple[Location, Mapping[str, Any]]] = [(("sweep", "grid"), sweep.grid)]
    found += [(("sweep", "random", "space"), sweep.random.space)] if sweep.random is not None else []
    found += [(("sweep", "search", "space"), sweep.search.space)] if sweep.search is not None else []
    found += [(("sweep", "cells", index), cell) for index, cell in enumerate(sweep.cells)]
    for above, settings in found:
        for key, told in settings.items():
            values = told if isinstance(told, tuple) else (told,)
            if key.partition(".")[0] in ANY_WORDS and any(may_be_given_secret(key, value) for value in values):
                place = document.value_place((*above, key))
                place = place if place.override is None else replace(place, override=f"{key}={HIDDEN}")
                raise place.error(
                    f"`{key}` may be a secret, and what cells differ by is in their plans and in recorded commands",
                    "name it under `secrets`, and launch a sweep for each value",
                )


def _refuse_same(draft: Draft, way: str) -> None:
    """Refuse values that are written differently and mean the same, such as 1 and "1" for text: their cells are equal."""
    sweep, base = draft.sweep, _without_sweep(draft.document)
    drawn = sweep.search if way == "search" else sweep.random
    for above, choices in (
        (("sweep", "grid"), sweep.grid),
        (("sweep", way, "space"), drawn.space if drawn is not None else {}),
    ):
        for key, values in choices.items():
            if isinstance(values, Interval) or len(values) == len({loose(value) for value in values}):
                continue
            place = draft.document.value_place((*above, key))
            seen: dict[str, Any] = {}
            for value in values:
                made = _made(base, key, value, place)
                if made in seen:
                    both = f"{shown(seen[made])} and {shown(value)}"
                    raise place.error(f"`{key}` has {both}, which are the same to it", "leave one of them out")
                seen |= {made: value} if made is not None else {}


def _made(base: Document, key: str, value: Any, place: Place) -> str | None:
    """The experiment with one value, as text; None if it does not fit, which is said where cells are made."""
    with contextlib.suppress(ConfigError):
        return _experiment(base, {key: value}, {key: place}).model_dump_json()
    return None


def _fitting(base: Document, values: Mapping[str, Any]) -> Experiment | None:
    """The experiment of a cell; None if a value does not fit, which is said where cells are made."""
    with contextlib.suppress(ConfigError):
        return _experiment(base, values, {key: _option("--grid", f"{key}={shown(values[key])}") for key in values})
    return None


def _searches(document: Document) -> bool:
    sweep = document.data.get("sweep")
    return isinstance(sweep, dict) and isinstance(sweep.get("search"), dict)


def _each_key_once(option: str, texts: Sequence[str]) -> Iterator[str]:
    seen = set[str]()
    for text in texts:
        if (key := text.partition("=")[0].strip()) in seen:
            raise _option(option, text).error(f"`{key}` has values already", f"give all of them in one {option}")
        seen.add(key)
        yield text


@dataclass(frozen=True, slots=True)
class Known:
    """The cells that a sweep has already.

    Attributes:
        done: Values of cells that are handed over; they are left out.
        pending: Numbers of cells whose hand-over was interrupted, by `identity`; they keep them.
        last: The largest number that a cell of the sweep ever had.
    """

    done: Sequence[Mapping[str, Any]] = ()
    pending: Mapping[str, int] = field(default_factory=dict)
    last: int = 0


def expand(draft: Draft, known: Known | None = None) -> list[Cell]:
    """Make the cells, in a stable order: those listed, the grid (its last key varies first), those drawn.

    Args:
        draft: From `read_draft`.
        known: The cells that the sweep has already.

    Raises:
        ConfigError: A key is no setting, or a value does not fit it.
        UsageError: There are too many.
    """
    if draft.count > MOST_CELLS:
        hint = "--random 200 draws some of them" if draft.sweep.grid else None
        raise UsageError(f"a sweep has at most {MOST_CELLS:,} cells, not {draft.count:,}", hint=hint)
    known = known or Known()
    base = _without_sweep(draft.document)
    distinct = DistinctCells(lambda values: _fitting(base, values))
    for values in known.done:
        distinct.take(values)
    found = [(values, places) for values, places in _all_values(draft) if distinct.take(values)]
    labels = label_all([values for values, _ in found])
    new = itertools.count(known.last + 1)
    return [
        Cell(number, values, label, _experiment(base, values, places))
        for (values, places), label in zip(found, labels, strict=True)
        for number in (known.pending.get(identity(values)) or next(new),)
    ]


def draft_of_cells(document: Document, cells: Sequence[Mapping[str, Any]]) -> Draft:
    """The same experiment with these cells instead of what its `sweep:` says."""
    own = _without_sweep(document)
    return Draft(own, Sweep(cells=tuple(dict(values) for values in cells)))


def fitted_space(draft: Draft, way: str, space: Mapping[str, Any]) -> dict[str, Any]:
    """A space whose intervals have fractions where their settings have them.

    Args:
        draft: The experiment.
        way: `random` or `search`: where in `sweep:` the space is written.
        space: From there.

    Raises:
        ConfigError: The space is empty.
    """
    document, base = draft.document, _without_sweep(draft.document)
    if not space:
        raise document.key_place(("sweep", way)).error(
            f"`sweep.{way}` has no `space` to draw from", "--space train.learning_rate='{min: 1e-6, max: 1e-4}'"
        )
    places = {key: document.value_place(("sweep", way, "space", key)) for key in space}
    return {key: _fitted(base, key, choices, places[key]) for key, choices in space.items()}


def label_all(all_values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name cells by what differs, with the last part of each key, or as much of it as tells the keys apart.

    What may be a secret is not in them: the name of a run is shown everywhere, and sent to trackers.
    """
    keys = list(dict.fromkeys(key for values in all_values for key in values))
    short = {key: _short(key, keys) for key in keys}
    return [
        " ".join(f"{short[key]}={_word(open_value(key, value))}" for key, value in values.items())
        for values in all_values
    ]


def _short(key: str, keys: Sequence[str]) -> str:
    parts = key.split(".")
    for length in range(1, len(parts) + 1):
        tail = ".".join(parts[-length:])
        # `arguments.1` would be `1`, which names nothing.
        if not tail.isdecimal() and not any(other != key and f".{other}".endswith(f".{tail}") for other in keys):
            return tail
    return key


def open_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a cell differs by as it may be shown. Sweeps of older releases may have recorded secrets."""
    return {key: open_value(key, value) for key, value in values.items()}


def open_value(key: str, value: Any) -> Any:
    """Return a value without what may be a secret. Only variables are judged by their names: `train.pad_token` is none."""
    if key.startswith("env.") and not is_secret_name(key) and not may_be_secret(key, value):
        return value
    return without_secret_settings(value, key if key.startswith("env.") else "")


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value if len(value) <= 30 else f"{value[:29]}…"
    return f"{value:g}" if isinstance(value, float) else shown(value, 30)


def _experiment(document: Document, values: Mapping[str, Any], places: Mapping[str, Place]) -> Experiment:
    own = replace(document, data=copy.deepcopy(document.data), keys=dict(document.keys), values=dict(document.values))
    for key, value in values.items():
        put_value(own, key, copy.deepcopy(value), _own_place(places[key], key, value))
    return experiment_of(own)


def _own_place(place: Place, key: str, value: Any) -> Place:
    """A long option is named by the value that is meant: each cell keeps its places as text."""
    is_long = place.override is not None and len(place.override) > _LONG_OPTION
    return replace(place, override=f"{key}={shown(value)}") if is_long else place


def _without_sweep(document: Document) -> Document:
    """The same document without `sweep:`, which has a place for each value of each key and is of no use to a cell."""
    keys, values = (
        {location: place for location, place in places.items() if location[:1] != ("sweep",)}
        for places in (document.keys, document.values)
    )
    data = {key: value for key, value in document.data.items() if key != "sweep"}
    return replace(document, data=data, keys=keys, values=values)


def _all_values(draft: Draft) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Place]]]:
    document, sweep = draft.document, draft.sweep
    for index, cell in enumerate(sweep.cells):
        yield cell, {key: document.value_place(("sweep", "cells", index, key)) for key in cell}
    if sweep.grid:
        indexed = [list(enumerate(values)) for values in sweep.grid.values()]
        for chosen in itertools.product(*indexed):
            pairs = list(zip(sweep.grid, chosen, strict=True))
            places = {key: document.value_place(("sweep", "grid", key, index)) for key, (index, _) in pairs}
            yield {key: value for key, (_, value) in pairs}, places
    if sweep.random is not None:
        places = {key: document.value_place(("sweep", "random", "space", key)) for key in sweep.random.space}
        space = fitted_space(draft, "random", sweep.random.space)
        for values in _draw(document, sweep, space):
            yield values, places


def _fitted(base: Document, key: str, choices: Any, place: Place) -> Any:
    """Values to draw from: those of an interval are text or have fractions if its setting is text or has them."""
    if not isinstance(choices, Interval):
        return choices
    kind = _kind(base, key, choices.min, place)
    if kind is None and _kind(base, key, str(choices.min), place) is str:
        return choices.model_copy(update={"text": True})
    if choices.is_whole and kind is float:
        return choices.model_copy(update={"min": float(choices.min), "max": float(choices.max)})
    return choices


def _kind(base: Document, key: str, value: Any, place: Place) -> type | None:
    """The type that a value has as this setting; None if it does not fit, which is said where cells are made."""
    with contextlib.suppress(ConfigError, AttributeError, LookupError, ValueError):
        found: Any = _experiment(base, {key: value}, {key: place})
        for part in key.split("."):
            found = found[int(part)] if isinstance(found, tuple) else _below(found, part)
        return type(found)
    return None


def _below(found: Any, part: str) -> Any:
    return found[part] if isinstance(found, dict) else getattr(found, part)


def _draw(document: Document, sweep: Sweep, space: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    drawn, grid = sweep.random, sweep.grid
    if drawn is None:
        return
    dice = random.Random(drawn.seed)  # noqa: S311 - which settings are tried is no secret
    taken = {identity(cell) for cell in sweep.cells}
    size = count_combinations(space)
    if size is not None and drawn.n > size:
        raise document.key_place(("sweep", "random", "n")).error(
            f"`sweep.random.n` is {drawn.n:,}, but its space has only {counted(size, 'combination')}",
            f"n: {size}, or more values",
        )
    made = 0
    for _ in range(drawn.n * _TRIES):
        values = {key: draw(choices, dice) for key, choices in space.items()}
        own = identity(values)
        if own in taken or (set(values) == set(grid) and all(values[key] in grid[key] for key in grid)):
            continue
        taken.add(own)
        made += 1
        yield values
        if made == drawn.n:
            return


def count_combinations(space: Mapping[str, Any]) -> int | None:
    """How many combinations a space has; None if too many to count."""
    sizes = []
    for choices in space.values():
        if isinstance(choices, Interval) and not choices.is_whole:
            return None
        sizes.append(int(choices.max - choices.min) + 1 if isinstance(choices, Interval) else len(choices))
    return math.prod(sizes)


def draw(choices: Any, dice: random.Random) -> Any:
    """Draw a value from a list or an interval."""
    if not isinstance(choices, Interval):
        return dice.choice(choices)
    number = _number(choices, dice)
    return str(number) if choices.text else number


def _number(choices: Interval, dice: random.Random) -> float:
    if choices.scale == "log":
        value = math.exp(dice.uniform(math.log(choices.min), math.log(choices.max)))
    elif choices.is_whole:
        return dice.randint(int(choices.min), int(choices.max))
    else:
        value = dice.uniform(choices.min, choices.max)
    if choices.is_whole:
        return min(int(choices.max), max(int(choices.min), round(value)))
    return rounded(value, choices)


def rounded(value: float, choices: Interval) -> float:
    """A number with as many digits as are shown, within its interval."""
    return min(float(choices.max), max(float(choices.min), float(f"{value:.{_DIGITS}g}")))


def _option(option: str, value: object) -> Place:
    return Place(None, None, override=str(value), option=option)


def _nothing(document: Document) -> ConfigError:
    return ConfigError(
        "there is nothing to sweep over",
        path=document.path,
        hint="--grid train.learning_rate=1e-5,3e-5, or `sweep:` in the file",
    )
