"""Each command's words are looked up before its module is loaded."""

from __future__ import annotations

import argparse

import pytest

from armada.cli.main import COMMANDS, build_parser, run


def words_of(parser: argparse.ArgumentParser) -> set[str]:
    # argparse has no public names for them.
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001
    return set(commands.choices)


def test_the_table_has_every_word_that_a_command_registers() -> None:
    assert words_of(build_parser()) == {word for words in COMMANDS.values() for word in words}


@pytest.mark.parametrize("module", COMMANDS)
def test_a_word_loads_its_own_module_alone(module: str) -> None:
    for word in COMMANDS[module]:
        assert words_of(build_parser(word)) == set(COMMANDS[module])


@pytest.mark.parametrize("word", [None, "", "--help", "launhc"])
def test_any_other_word_knows_all_commands(word: str | None) -> None:
    assert len(words_of(build_parser(word))) > 15


@pytest.mark.parametrize(
    ("typed", "hint"), [("lauch", "did you mean armada launch?"), ("xyzzy", "armada --help lists them")]
)
def test_a_command_that_is_not_there_is_named_with_the_nearest(
    typed: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([typed]) == 2
    assert capsys.readouterr().err == f"armada: there is no command '{typed}'\n  → {hint}\n"
