"""`armada __complete commands`: print every command with its words and options as JSON, for the dashboard's command line.

The dashboard asks this once, in a process of its own: the parsers import every command, and a dashboard must not wait for that.
"""

from __future__ import annotations

import argparse
import json
import sys


def print_tree() -> None:
    """Print the tree of commands as one JSON object."""
    from armada.cli.main import ELSEWHERE, build_parser

    json.dump({"format": 1, "commands": _below(build_parser(), ()), "elsewhere": ELSEWHERE}, sys.stdout)


def _below(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no public name for them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {each.dest: each.help or "" for each in action._choices_actions}  # noqa: SLF001
            for name, below in action.choices.items():
                found[name] = _command(below, (*path, name), helps.get(name, ""))
    return found


def _command(parser: argparse.ArgumentParser, path: tuple[str, ...], about: str) -> dict[str, object]:
    words, options = [], []
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        choices = [str(each) for each in action.choices] if action.choices is not None else []
        takes = action.nargs != 0
        told = {
            "name": str(action.metavar or action.dest),
            "kind": _kind(action, path),
            "choices": choices,
            "count": action.nargs if isinstance(action.nargs, str) else None,
        }
        if action.option_strings:
            options.append(told | {"flags": list(action.option_strings), "takes": takes, "help": action.help or ""})
        else:
            words.append(told)
    return {"help": about, "words": words, "options": options, "verbs": _below(parser, path)}


def _kind(action: argparse.Action, path: tuple[str, ...]) -> str | None:
    """Return what a word names: as for the shells, and what the dashboard knows besides."""
    from armada.cli.completion import kind_of

    if action.dest == "place":
        return "places"
    if action.metavar == "EXPERIMENT":
        return "experiments"
    if path[0] == "sweep" and len(path) > 1 and action.metavar == "NAME" and not action.option_strings:
        return "sweeps"
    return kind_of(action, path[-1])
