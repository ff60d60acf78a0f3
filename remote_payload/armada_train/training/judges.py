"""Who judges completions: functions of the user's code, and reward models. Each failure names the judge and the prompt."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from armada_train.data.hooks import load_hook
from armada_train.data.places import show
from armada_train.failure import BROKEN, GENERIC, PayloadFailure, write_failure
from armada_train.specification.section import bad_spec
from armada_train.training.time_limit import TooLongError, time_limit

PLACES = "armada_row"
"""The column that holds the places of the rows."""

GIVEN = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")
"""What every reward function may take, beside the columns of the data."""


class Judge:
    """A reward function as TRL calls it: one number for each completion.

    Args:
        name: That of its curves.
        place: `module:function`.
        function: Sync or async.
        limit_s: Seconds that a call may take.
        attempt_folder: Receives the failure of a call that cannot be interrupted.
        optional: Whether it may return None for completions that it has nothing to say of.
    """

    kind = "reward function"
    limit_key = "grpo.reward_timeout"
    wanted = "a list of numbers, one for each completion"
    """What a call returns."""

    def __init__(
        self,
        name: str,
        place: str,
        function: Callable[..., Any],
        limit_s: float,
        attempt_folder: Path,
        *,
        optional: bool,
    ) -> None:
        self.__name__ = name
        self._what = f"{self.kind} {place}"
        self._function = function
        self._limit_s = limit_s
        self._attempt_folder = attempt_folder
        self._optional = optional
        parameters = inspect.signature(function).parameters.values()
        self._takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        self._takes = {each.name for each in named}
        self._needs = [each.name for each in named if each.default is each.empty]

    def check(self, columns: Sequence[str]) -> None:
        """Refuse a function that needs what the data does not have.

        Raises:
            PayloadFailure: `bad_spec`.
        """
        lacking = [name for name in self._needs if name not in columns and name not in GIVEN]
        if lacking:
            has = ", ".join(columns) or "none but the prompt"
            raise bad_spec(
                f"{self._what} needs {' and '.join(f'`{name}`' for name in lacking)}, and the rows have no such column "
                f"({has})"
            )

    def __call__(self, **given: Any) -> list[float | None]:
        places = given.pop(PLACES)
        prompts = given["prompts"]
        taken = given if self._takes_all else {name: value for name, value in given.items() if name in self._takes}
        return self._numbers(self._call(taken, prompts, places), prompts, places)

    def _call(self, taken: Mapping[str, Any], prompts: Sequence[Any], places: Sequence[str]) -> Any:
        late = (
            f"{self._what} took more than {self._limit_s:g} s (`{self.limit_key}`) for {name_row(places, prompts, 0)}"
        )
        late += f" and {len(places) - 1} more completions" if len(places) > 1 else ""
        try:
            with time_limit(self._limit_s, lambda: self._give_up(late)):
                said = self._function(**taken)
                return asyncio.run(_awaited(said)) if inspect.isawaitable(said) else said
        except TooLongError:
            raise PayloadFailure(GENERIC, late) from None
        except PayloadFailure:
            raise  # a signal arrived meanwhile
        except Exception as error:
            at = self._find_culprit(taken, len(places))
            raise PayloadFailure(
                GENERIC, f"{self._what} raised {type(error).__name__}: {error}; for {name_row(places, prompts, at)}"
            ) from error

    def _find_culprit(self, taken: Mapping[str, Any], count: int) -> int:
        """Find the first completion for which the function raises when it is asked for that one alone."""
        for at in range(count):
            one = {
                name: [value[at]] if isinstance(value, list) and len(value) == count else value
                for name, value in taken.items()
            }
            try:
                with time_limit(self._limit_s, lambda: None):
                    said = self._function(**one)
                    if inspect.isawaitable(said):
                        asyncio.run(_awaited(said))
            except (Exception, TooLongError):
                return at
        return 0

    def _numbers(self, said: Any, prompts: Sequence[Any], places: Sequence[str], named: str = "") -> list[float | None]:
        """Return what a call returned as numbers, one for each completion.

        Args:
            said: What it returned, or a part of that.
            prompts: Those of the completions.
            places: Theirs in the data.
            named: Which part it is, for the message.

        Raises:
            PayloadFailure: They are none, or not one for each completion.
        """
        values = said.tolist() if hasattr(said, "tolist") else said
        first = f"for {len(prompts)} completions, of which the first is for {name_row(places, prompts, 0)}"
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise PayloadFailure(GENERIC, f"{self._what} returned {show(said)}{named} {first}: not {self.wanted}")
        found = list(values)
        if len(found) != len(prompts):
            raise PayloadFailure(GENERIC, f"{self._what} returned {len(found)} numbers{named} {first}")
        return [self._number(value, at, prompts, places) for at, value in enumerate(found)]

    def _number(self, value: Any, at: int, prompts: Sequence[Any], places: Sequence[str]) -> float | None:
        if value is None and self._optional:
            return None
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            number = math.nan
        if not math.isfinite(number) or isinstance(value, str):
            raise PayloadFailure(GENERIC, f"{self._what} returned {show(value)} for {name_row(places, prompts, at)}")
        return number

    def _give_up(self, message: str) -> None:
        """End the process: the function does not return, and cannot be interrupted."""
        print(f"armada_train: {GENERIC}: {message}", flush=True)
        write_failure(self._attempt_folder, GENERIC, message)
        os._exit(BROKEN)


def load_functions(settings: Mapping[str, Any], attempt_folder: Path) -> dict[str, Judge]:
    """Import the reward functions, by their name. The trainer calls them in the main thread.

    Raises:
        PayloadFailure: `data_error`, naming what is missing.
    """
    judges = settings["rewards"]
    return {
        judge["name"]: Judge(
            judge["name"],
            judge["function"],
            load_hook(judge["function"], "reward function"),
            settings["reward_timeout_s"],
            attempt_folder,
            optional=len(judges) > 1,
        )
        for judge in judges
        if "function" in judge
    }


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said


def name_row(places: Sequence[str], prompts: Sequence[Any], at: int) -> str:
    """Name a row by its place, and by the end of what it asks."""
    prompt = prompts[at]
    asked = prompt if isinstance(prompt, str) else prompt[-1].get("content", "")
    return f"the prompt of {places[at]} ({show(asked)})"
