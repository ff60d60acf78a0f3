"""Every command and option says what it does, in one form."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from armada.cli.main import build_parser
from armada.cli.shapes import SEVERAL, SHAPES

_RIDDLES = ("go on", "goes on", "look over", "it lives", " of its own", "broke off", "what it said", "anew")


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:  # noqa: SLF001 - argparse has no public names for them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for choice in action.choices.values():
                yield from walk(choice)


PARSERS = {parser.prog: parser for parser in walk(build_parser())}


def helps(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str | None]]:
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from ((choice.dest, choice.help) for choice in action._choices_actions)  # noqa: SLF001
        elif action.help != argparse.SUPPRESS:
            yield action.dest, action.help


@pytest.mark.parametrize("prog", PARSERS)
def test_each_command_and_option_says_what_it_does(prog: str) -> None:
    parser = PARSERS[prog]
    description = parser.description or ""
    assert description[:1].isupper() or description.startswith("armada")
    assert description.endswith(".")
    for name, said in helps(parser):
        assert said, f"{prog}: {name} has no help"
        assert said[0].isupper() or said.startswith(("armada", "user@", "openssh")), f"{prog} {name}: {said}"
        assert not said.endswith("."), f"{prog} {name}: {said}"


@pytest.mark.parametrize("prog", PARSERS)
def test_help_has_no_riddles_and_no_long_sentences(prog: str) -> None:
    text = " ".join(PARSERS[prog].format_help().split())
    assert [riddle for riddle in _RIDDLES if riddle in text] == []
    for sentence in (PARSERS[prog].description or "").split(". "):
        assert len(sentence.split()) <= 40, sentence


@pytest.mark.parametrize(
    "command",
    [
        command
        for command in SHAPES
        if "--" not in command and not command.endswith(SEVERAL) and command != "help exit-codes"
    ],
)
def test_help_says_what_json_prints(command: str) -> None:
    (said,) = (said or "" for name, said in helps(PARSERS[f"armada {command}"]) if name == "json")
    assert ("a JSON list" in said) is isinstance(SHAPES[command], list), said
