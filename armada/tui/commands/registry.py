"""armada's commands, as the dashboard knows them: their verbs, words and options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from armada.errors import UsageError


@dataclass(frozen=True, slots=True)
class Word:
    """A positional argument, or an option's value.

    Args:
        name: Its name in the help, such as RUN.
        kind: What it names: runs, active, hosts, places (a run or a host), profiles, experiments, sweeps; None if none of them.
        count: `?`, `*`, `+` or `...`; None for exactly one.
        choices: The words that can stand there, if they are limited.
    """

    name: str
    kind: str | None = None
    count: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def is_many(self) -> bool:
        return self.count in ("*", "+", "...")


@dataclass(frozen=True, slots=True)
class Option:
    """An option; `value` is None if it takes none."""

    flags: tuple[str, ...]
    about: str = ""
    value: Word | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command or a verb of one; `path` is its name, such as `("hosts", "check")`."""

    path: tuple[str, ...]
    about: str = ""
    words: tuple[Word, ...] = ()
    options: tuple[Option, ...] = ()
    verbs: Mapping[str, Command] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return " ".join(self.path)

    def option(self, flag: str) -> Option | None:
        return next((each for each in self.options if flag in each.flags), None)


OWN: Mapping[str, Command] = {
    word: Command((word,), about, words)
    for word, about, words in (
        ("history", "Show what the dashboard started, and its output", ()),
        ("notifications", "Show the notifications from the daemon", ()),
        ("pin", "Pin runs to the top of Runs, or take the pins away", (Word("RUN", "runs", "*"),)),
        ("quit", "Leave the dashboard", ()),
        ("tour", "Show the five steps for newcomers", ()),
        ("undo", "Undo the last act that can be undone", ()),
    )
}
"""Commands of the dashboard itself."""


@dataclass(frozen=True, slots=True)
class Registry:
    """All commands; `elsewhere` are the words of other programs and ours for them."""

    commands: Mapping[str, Command]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, Command]:
        """All that can be typed first: the commands of armada, and the dashboard's own."""
        return {**self.commands, **OWN}

    def find(self, words: list[str]) -> Command:
        """Return the command that the first words name.

        Raises:
            UsageError: There is no such command or verb.
        """
        known = self.all
        command = known.get(words[0])
        if command is None:
            near = _nearest(words[0], list(known), self.elsewhere)
            hint = "Tab completes it; `help` lists the commands"
            if near:
                hint = f"did you mean {near}?" if near in OWN else f"did you mean armada {near}?"
            raise UsageError(f"there is no command {words[0]!r}", hint=hint)
        if command.verbs:
            verb = next(iter(words[1:]), "")
            if verb in command.verbs:
                return command.verbs[verb]
            if command.path == ("sweep",) and verb and not verb.startswith("-"):
                return command.verbs.get("launch", command)  # `sweep FILE` is `sweep launch FILE`
            if not verb.startswith("-"):
                near = _nearest(verb, list(command.verbs), {})
                hint = (
                    f"did you mean armada {command.name} {near}?"
                    if near
                    else f"it has {', '.join(sorted(command.verbs))}"
                )
                said = (
                    f"there is no command {f'armada {command.name} {verb}'!r}"
                    if verb
                    else f"{command.name} needs a verb"
                )
                raise UsageError(said, hint=hint)
        return command


def _nearest(word: str, known: list[str], elsewhere: Mapping[str, str]) -> str | None:
    if (ours := elsewhere.get(word)) in known:
        return ours
    return next(iter(get_close_matches(word[:100], known, 1, 0.6)), None)


def parse(text: str) -> Registry | None:
    """Read the output of `armada __complete commands`; None if it is something else."""
    try:
        found = json.loads(text)
        commands = {name: _command(told, (name,)) for name, told in found["commands"].items()}
        return Registry(commands, dict(found["elsewhere"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _command(told: Mapping[str, object], path: tuple[str, ...]) -> Command:
    words, options, verbs = told["words"], told["options"], told["verbs"]
    if not (isinstance(words, list) and isinstance(options, list) and isinstance(verbs, dict)):
        raise TypeError(path)
    return Command(
        path,
        str(told["help"]),
        tuple(_word(each) for each in words),
        tuple(Option(tuple(each["flags"]), each["help"], _word(each) if each["takes"] else None) for each in options),
        {name: _command(each, (*path, name)) for name, each in verbs.items()},
    )


def _word(told: Mapping[str, object]) -> Word:
    choices, kind, count = told["choices"], told["kind"], told["count"]
    return Word(
        str(told["name"]),
        str(kind) if kind is not None else None,
        str(count) if count is not None else None,
        tuple(str(each) for each in choices) if isinstance(choices, list) else (),
    )
