"""Each command's words are looked up before its module is loaded."""

from __future__ import annotations

import argparse

import pytest
from pydantic_core import SchemaError

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


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("lanch", "did you mean armada launch?"),
        ("status", "did you mean armada ps?"),
        ("cost", "did you mean armada costs?"),
        ("quantize", "armada --help lists them"),
        ("evaluate", "armada --help lists them"),
    ],
)
def test_a_word_that_is_no_command_is_answered_with_a_near_one_only(
    capsys: pytest.CaptureFixture[str], typed: str, said: str
) -> None:
    assert run([typed]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hosts", "chek"], "there is no command armada hosts 'chek'\n  → did you mean armada hosts check?"),
        (["hosts", "list"], "there is no command armada hosts 'list'\n  → did you mean armada hosts ls?"),
        (["sync", "list"], "there is no command armada sync 'list'\n  → did you mean armada sync ls?"),
        (["store", "list"], "there is no command armada store 'list'\n  → armada store has check"),
        (["sync", "fly"], "there is no command armada sync 'fly'\n  → armada sync has now, ls, verify, retention"),
        (["ps", "--jsn"], "unrecognized arguments: --jsn\n  → did you mean --json? armada ps --help lists all"),
        (["sync", "ls", "--jsom"], "unrecognized arguments: --jsom\n  → did you mean --json? armada sync ls --help"),
        (
            ["stop", "a", "--gracee=3"],
            "unrecognized arguments: --gracee=3\n  → did you mean --grace? armada stop --help",
        ),
        (["hosts", "ls", "a", "b"], "unrecognized arguments: a b\n  → armada hosts ls --help"),
        (["ps", "--hos", "box"], "unrecognized arguments: --hos\n  → did you mean --host? armada ps --help"),
        (["stop", "a", "--g=0"], "unrecognized arguments: --g=0\n  → did you mean --grace? armada stop --help"),
        (["ps", "-tag:old"], "unrecognized arguments: -tag:old\n  → in a filter, write 'not tag:old'"),
        (["ps", "--paint"], "unrecognized arguments: --paint\n  → armada ps --help"),
    ],
)
def test_a_wrong_verb_or_option_is_answered_with_a_near_one_only(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run(words) == 2
    assert capsys.readouterr().err.startswith(f"armada: {said}")


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        ([], "usage: armada [-h]"),
        (["ps"], "usage: armada ps"),
        (["hosts", "add"], "usage: armada hosts add"),
        (["exit-codes"], "   0  done"),
    ],
)
def test_help_explains_commands_as_well_as_topics(
    capsys: pytest.CaptureFixture[str], words: list[str], beginning: str
) -> None:
    assert run(["help", *words]) == 0
    assert capsys.readouterr().out.startswith(beginning)


@pytest.mark.parametrize("words", [["lanch"], ["hosts", "fly"]])
def test_help_for_what_there_is_not_is_wrong_usage(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(["help", *words]) == 2
    assert capsys.readouterr().err.startswith("armada: ")


@pytest.mark.parametrize(
    ("words", "runs"),
    [
        ("stop -- -x", ["-x"]),
        ("stop --grace 0 -- -x b", ["-x", "b"]),
        ("stop a -- -x b", ["a", "-x", "b"]),
        ("stop a --grace 0 -- -x b", ["a", "-x", "b"]),
        ("stop a --grace 0 b", ["a", "b"]),
    ],
)
def test_words_after_two_dashes_are_no_options(words: str, runs: list[str]) -> None:
    assert build_parser("stop").parse_args(words.split()).runs == runs


def test_ctrl_c_while_a_model_is_made_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As pydantic reports it, who makes a model on its first use."""
    told = "Error building `definitions` serializer:\n  SchemaError: Field `device`:\n  KeyboardInterrupt: "

    def interrupted(_: object) -> int:
        raise SchemaError(told)

    monkeypatch.setattr("armada.cli.profiles._ls", interrupted)
    assert run(["profiles", "ls"]) == 130
    assert "interrupted; started runs continue" in capsys.readouterr().err
    told = "Field `device`: unknown type"
    assert run(["profiles", "ls"]) == 1
    assert "this is a bug in armada (SchemaError)" in capsys.readouterr().err
