"""Choose the next cells of a search by how former ones did, with Optuna. Asks no host and keeps no state of its own."""

from __future__ import annotations

import importlib
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from armada.config.sweep import MOST_AT_ONCE, Interval
from armada.errors import UsageError
from armada.foundation.extras import install_command
from armada.sweeps.cells import count_combinations, draft_of_cells, draw, expand, fitted_space, rounded
from armada.sweeps.equal_cells import identity
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.sweep import SearchCells
    from armada.sweeps.cells import Cell, Draft

AT_ONCE = 4
"""Cells under way at once where nothing else is said."""

_STARTUP = 10
"""Cells drawn at random at first, as Optuna does; at most a third of a small search."""

_TRIES = 10
_DRAWS = 100

_FAILED_IN_A_ROW = 5


@dataclass(frozen=True, slots=True)
class Trial:
    """One cell of a search.

    Attributes:
        number: Of the cell.
        values: Its settings by dotted keys.
        state: `done` with a value, `pruned` with the value at `step`, `failed` without one, or `pending`.
        value: Of the metric; None for a pruned one where it was no number.
        run_id: Its run.
        why: Why it failed or was pruned.
        step: Where it was pruned.
    """

    number: int
    values: Mapping[str, Any]
    state: Literal["done", "pruned", "failed", "pending"]
    value: float | None = None
    run_id: str = ""
    why: str = ""
    step: int = 0


def search_in(draft: Draft, parallel: int | None) -> SearchCells | None:
    """The search of an experiment, with what it leaves open; None if its `sweep:` is none.

    Raises:
        ConfigError: Its space is empty.
        UsageError: Optuna is not installed, or it cannot be searched so.
    """
    search = draft.sweep.search
    if search is None:
        return None
    load_optuna()
    if draft.document.data.get("secrets"):
        raise UsageError(
            "a search cannot have `secrets`: the daemon hands later trials over, and has none of them",
            hint="keep the secret in a file on the host, or list the cells with --random",
        )
    at_once = min(search.trials, search.at_once or parallel or AT_ONCE, MOST_AT_ONCE)
    found = search.model_copy(update={"at_once": at_once, "space": fitted_space(draft, "search", search.space)})
    refuse_small_space(found)
    return found


def first_cells(draft: Draft, search: SearchCells) -> list[Cell]:
    """The cells that a search begins with.

    Args:
        draft: The experiment.
        search: From `search_in`.

    Raises:
        ConfigError: A key is no setting, or a value does not fit it.
    """
    values = propose(search, draft.sweep.decided_goal, (), 1, search.at_once or AT_ONCE)
    return expand(draft_of_cells(draft.document, values))


def load_optuna() -> Any:
    """Import Optuna.

    Raises:
        UsageError: It is not installed; the hint installs it.
    """
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise UsageError(
            "there is no package optuna here, which chooses the cells of a search", hint=install_command("search")
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def propose(search: SearchCells, goal: str, trials: Sequence[Trial], first: int, count: int) -> list[Mapping[str, Any]]:
    """Choose further cells. The same trials, numbers and seed give the same cells.

    Args:
        search: What is searched; its intervals have fractions where their settings have them.
        goal: `min` or `max`.
        trials: All there are, by number.
        first: The number of the first new cell.
        count: How many new ones.

    Returns:
        Their values; fewer than `count` if all combinations were tried.

    Raises:
        UsageError: Optuna is not installed.
    """
    optuna = load_optuna()
    chooser = _Chooser(optuna, search, goal)
    for trial in trials:
        chooser.tell(trial)
    taken = {identity(trial.values) for trial in trials}
    found: list[Mapping[str, Any]] = []
    for number in range(first, first + count):
        values = _new(chooser, search, number, taken)
        if values is None:
            break
        taken.add(identity(values))
        chooser.tell(Trial(number, values, "pending"))
        found.append(values)
    return found


def refuse_small_space(search: SearchCells) -> None:
    """Refuse more trials than there are combinations.

    Raises:
        UsageError: It says how many there are.
    """
    size = count_combinations(search.space)
    if size is not None and search.trials > size:
        raise UsageError(
            f"the search has {counted(search.trials, 'trial')}, but its space has only {counted(size, 'combination')}",
            hint=f"--search {size}, or more values",
        )


def free_places(host: str, first: Sequence[str], pending: Sequence[str], at_once: int) -> int:
    """How many new trials a host may have. Each host keeps as many under way as it had at first.

    Args:
        host: Its name.
        first: The host of each of the first trials; the places of those that were removed are anybody's.
        pending: The host of each trial under way.
        at_once: How many are under way at once, on all hosts together.
    """
    own = first.count(host) + at_once - len(first)
    return max(0, min(own - pending.count(host), at_once - len(pending)))


def why_give_up(trials: Sequence[Trial], at_once: int, since: int = 0) -> str | None:
    """Say why no more cells are to be tried; None if they are. A mistake would otherwise fail every cell.

    Args:
        trials: By number.
        at_once: How many are under way at once.
        since: Trials up to this number do not count: a person continued the search after them.
    """
    ended = [trial for trial in trials if trial.number > since and trial.state != "pending"]
    most = max(_FAILED_IN_A_ROW, at_once)
    newest = ended[-most:]
    if len(newest) < most or any(trial.state in ("done", "pruned") for trial in newest):
        return None
    last = newest[-1]
    return f"the last {most} trials failed, such as {last.run_id}: {last.why}"


class _Chooser:
    """A study of Optuna in memory, made anew from the store for each question."""

    def __init__(self, optuna: Any, search: SearchCells, goal: str) -> None:
        self._optuna = optuna
        self._search = search
        direction = "minimize" if goal == "min" else "maximize"
        self._study = optuna.create_study(direction=direction, sampler=self._sampler(0))
        self._distributions = {key: self._distribution(choices) for key, choices in search.space.items()}

    def tell(self, trial: Trial) -> None:
        """Tell of a trial; one whose values are not of this space is left out."""
        params = self._params(trial.values)
        if params is None:
            return
        states = self._optuna.trial.TrialState
        named = {"done": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL", "pending": "RUNNING"}
        at_step = {trial.step: math.nan if trial.value is None else trial.value} if trial.state == "pruned" else None
        told = self._optuna.trial.create_trial(
            state=states[named[trial.state]],
            value=trial.value if trial.state == "done" else None,
            params=params,
            distributions=self._distributions,
            intermediate_values=at_step,
        )
        self._study.add_trial(told)

    def ask(self, seed: int) -> dict[str, Any]:
        """Choose values. What is asked counts for nothing until it is told."""
        self._study.sampler = self._sampler(seed)
        asked = self._study.ask(self._distributions)
        self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)
        return {key: self._value(choices, asked.params[key]) for key, choices in self._search.space.items()}

    def _sampler(self, seed: int) -> Any:
        startup = max(1, min(_STARTUP, self._search.trials // 3))
        # Cells under way count as bad ones, so that those that are asked for together differ.
        return self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup, constant_liar=True)

    def _distribution(self, choices: Any) -> Any:
        distributions = self._optuna.distributions
        if not isinstance(choices, Interval):
            # Optuna takes no lists and mappings as values, and holds True for 1.
            return distributions.CategoricalDistribution(tuple(range(len(choices))))
        is_log = choices.scale == "log"
        if choices.is_whole:
            return distributions.IntDistribution(int(choices.min), int(choices.max), log=is_log)
        return distributions.FloatDistribution(float(choices.min), float(choices.max), log=is_log)

    def _value(self, choices: Any, param: Any) -> Any:
        if not isinstance(choices, Interval):
            return choices[param]
        number = int(param) if choices.is_whole else rounded(param, choices)
        return str(number) if choices.text else number

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any] | None:
        if set(values) != set(self._search.space):
            return None
        params = {key: _param(choices, values[key]) for key, choices in self._search.space.items()}
        return None if None in params.values() else params


def _param(choices: Any, value: Any) -> int | float | None:
    """A value as Optuna takes it; None if it is none of the choices."""
    if not isinstance(choices, Interval):
        same = identity({"": value})
        return next((index for index, each in enumerate(choices) if identity({"": each}) == same), None)
    if choices.text and isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not choices.min <= value <= choices.max:
        return None
    return int(value) if choices.is_whole else float(value)


def _new(chooser: _Chooser, search: SearchCells, number: int, taken: set[str]) -> Mapping[str, Any] | None:
    """Values that no cell has yet: chosen, else drawn; None if there are none, as far as trying tells."""
    dice = random.Random(f"{search.seed}-{number}")  # noqa: S311 - which settings are tried is no secret
    for _ in range(_TRIES):
        values = chooser.ask(dice.getrandbits(32))
        if identity(values) not in taken:
            return values
    size = count_combinations(search.space)
    for _ in range(_DRAWS * min(size or 1, _DRAWS)):
        values = {key: draw(choices, dice) for key, choices in search.space.items()}
        if identity(values) not in taken:
            return values
    return None
