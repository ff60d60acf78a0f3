"""What a line of the command line means, what is filled in, and what completes it."""

from __future__ import annotations

import contextlib
import functools
import io
import shlex
from collections.abc import Sequence

import pytest

from armada.cli.command_tree import print_tree
from armada.errors import UsageError
from armada.tui.commands import rules
from armada.tui.commands.completion import Candidate, complete, replaced
from armada.tui.commands.registry import Command, Registry, parse
from armada.tui.commands.typed import LONGEST, Selected, fill_in, understand

TWO = Selected(("a-aaaaaa", "b-bbbbbb"), ("b-bbbbbb",), None, "box", "b-bbbbbb".startswith)
ONE = Selected(("a-aaaaaa",), ("a-aaaaaa",), None, "box", "a-aaaaaa".startswith)
HOST = Selected(host="far")


@functools.cache
def registry() -> Registry:
    """The real one."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        print_tree()
    found = parse(printed.getvalue())
    assert found is not None
    return found


def started(text: str, selected: Selected) -> list[str]:
    typed = understand(text, registry())
    assert typed is not None
    return [shlex.join(words) for words in fill_in(typed, selected)]


def every(commands: Sequence[Command]) -> list[Command]:
    return [each for command in commands for each in [command, *every(list(command.verbs.values()))]]


@pytest.mark.parametrize(
    ("text", "selected", "commands"),
    [
        ("show", ONE, ["show a-aaaaaa"]),
        ("armada show", ONE, ["show a-aaaaaa"]),
        ("show", TWO, ["show a-aaaaaa", "show b-bbbbbb"]),
        ("show c-cccccc", TWO, ["show c-cccccc"]),
        ("stop", TWO, ["stop b-bbbbbb"]),
        ("stop --grace 0", TWO, ["stop --grace 0 b-bbbbbb"]),
        ("stop --where loss>9", TWO, ["stop --where 'loss>9'"]),
        ("tag --add=x", TWO, ["tag --add=x a-aaaaaa b-bbbbbb"]),
        ("compare", TWO, ["compare a-aaaaaa b-bbbbbb"]),
        ("diff", TWO, ["diff a-aaaaaa b-bbbbbb"]),
        ("diff", ONE, ["diff"]),
        ("diff x", ONE, ["diff x a-aaaaaa"]),
        ("group arc", TWO, ["group a-aaaaaa b-bbbbbb arc"]),
        ("group b-bb arc", TWO, ["group b-bb arc"]),
        ("group --clear", TWO, ["group --clear a-aaaaaa b-bbbbbb"]),
        ("note 'a word'", ONE, ["note a-aaaaaa 'a word'"]),
        ("note a-aa text", ONE, ["note a-aa text"]),
        ("sync now", ONE, ["sync now a-aaaaaa"]),
        ("sync now --", ONE, ["sync now --"]),
        ("sync ls", ONE, ["sync ls"]),
        ("hosts release", HOST, ["hosts release far"]),
        ("hosts release", ONE, ["hosts release box"]),
        ("hosts check", ONE, ["hosts check"]),
        ("hosts check", HOST, ["hosts check far"]),
        ("hosts check other", HOST, ["hosts check other"]),
        ("hosts add new", HOST, ["hosts add new"]),
        ("ssh", HOST, ["ssh far"]),
        ("ssh", ONE, ["ssh a-aaaaaa"]),
        ("forward 6006", ONE, ["forward a-aaaaaa 6006"]),
        ("forward --login-node 6006:8006 8888", ONE, ["forward --login-node a-aaaaaa 6006:8006 8888"]),
        ("forward 6006 --login-node", HOST, ["forward far 6006 --login-node"]),
        ("forward a-aa 6006", HOST, ["forward a-aa 6006"]),
        ("forward 6006", Selected(), ["forward 6006"]),
        ("note --edit", ONE, ["note --edit a-aaaaaa"]),
        ("note b-bb --edit", ONE, ["note b-bb --edit"]),
        ("exec --tty -- htop", HOST, ["exec --tty -- htop"]),
        ("logs --tail 5", ONE, ["logs --tail 5 a-aaaaaa"]),
        ("costs", TWO, ["costs"]),
        ("ps loss<0.4", TWO, ["ps 'loss<0.4'"]),
        ("sweep best", Selected(sweep="lr-x7"), ["sweep best lr-x7"]),
        ("sweep best", ONE, ["sweep best"]),
        ("show --help", ONE, ["show --help"]),
        ("show", Selected(), ["show"]),
    ],
)
def test_what_is_selected_is_filled_in_where_the_command_takes_it(
    text: str, selected: Selected, commands: list[str]
) -> None:
    assert started(text, selected) == commands


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shwo", "did you mean armada show?"),
        ("kill", "did you mean armada stop?"),
        ("hosts chekc", "did you mean armada hosts check?"),
        ("hosts", "hosts needs a verb"),
        ("note 'half", "a quote in the command is not closed"),
        ('tag "', "a quote in the command is not closed"),
        ("--json", "a command does not begin with '--json'"),
        ("\x1b[31m", "there is no command"),
        ("[/red]", "there is no command"),
        ("x" * (LONGEST + 1), "10,001 characters"),
    ],
)
def test_a_line_that_means_nothing_is_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        understand(text, registry())
    assert words in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize("text", ["", "   ", "armada", "''"])
def test_an_empty_line_means_nothing_or_no_command(text: str) -> None:
    if text == "''":
        with pytest.raises(UsageError, match="there is no command ''"):
            understand(text, registry())
    else:
        assert understand(text, registry()) is None


def names(kind: str) -> list[tuple[Candidate, str]]:
    found = {
        "runs": [Candidate("lora-aaaaaa", "lora, running on box"), Candidate("full-bbbbbb", "full, failed on far")],
        "active": [Candidate("lora-aaaaaa", "lora, running on box")],
        "hosts": [Candidate("box", "host"), Candidate("far", "host")],
        "experiments": [Candidate("exp one.yaml", "experiment")],
    }.get(kind, [])
    return [(each, f"{each.word} {each.about}".lower()) for each in found]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("sho", "show"),
        ("armada sho", "show"),
        ("hosts rel", "release"),
        ("hosts release ", "box"),
        ("stop ", "lora-aaaaaa"),
        ("show FULL", "full-bbbbbb"),
        ("show far", "full-bbbbbb"),
        ("show lora-aaaaaa --j", "--json"),
        ("launch --host f", "far"),
        ("launch --host=f", "--host=far"),
        ("launch ", "exp one.yaml"),
        ("stop lora-aaaaaa ", None),
        ("show 'lo", None),
        ("nothing ", None),
        ("completion ", "bash"),
        ("compare full-bbbbbb ", "lora-aaaaaa"),
        ("to", "tour"),
    ],
)
def test_the_last_word_is_completed(text: str, first: str | None) -> None:
    start, found = complete(text, registry(), names)
    assert next(iter(found), Candidate("")).word == (first or "")
    if first is not None:
        assert shlex.split(replaced(text, start, found[0]))[-1] == first


def test_every_command_is_known_with_its_help() -> None:
    from armada.cli.main import COMMANDS

    assert set(registry().commands) == {word for words in COMMANDS.values() for word in words}
    assert all(command.about for command in every(list(registry().commands.values())))


def test_every_command_has_a_manner_and_only_known_names_have_rules() -> None:
    known = {command.name for command in every(list(registry().commands.values())) if not command.verbs}
    ruled = {name for name, value in vars(rules).items() if isinstance(value, frozenset) and name != "_FOLLOWS"}
    assert {name for group in ruled for name in getattr(rules, group)} <= known
    acts = {name for name in known if (typed := understand(name, registry())) and rules.manner(typed) == "acts"}
    assert {"stop", "rm", "launch", "resume", "hosts release", "sync now", "pull"} <= acts
    assert not acts & {"ps", "show", "why", "costs", "compare", "diff", "logs", "help", "plan"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dashboard", "it is open already"),
        ("logs x --follow", "l on a run follows its log"),
        ("launch -f x.yaml", "the dashboard follows by itself"),
        ("launch x.yaml --follow", "the dashboard follows by itself"),
    ],
)
def test_what_needs_a_terminal_of_its_own_is_refused(text: str, words: str) -> None:
    typed = understand(text, registry())
    assert typed is not None
    assert words in (rules.refusal(typed) or "")


@pytest.mark.parametrize(
    "words", ["touch x -h", "touch x --help", "-h", "ls -t", "rm -f x", "-- rm --follow x", "sh -c -h"]
)
def test_options_of_the_program_that_exec_starts_are_not_those_of_exec(words: str) -> None:
    typed = understand(f"exec x {words}", registry())
    assert typed is not None
    assert (rules.refusal(typed), rules.manner(typed), rules.changes(typed)) == (None, "prints", True)
    assert fill_in(typed, Selected(("a",), ("a",))) == [("exec", "x", *words.split())]


def test_options_of_exec_stand_before_the_run() -> None:
    typed = understand("exec -t x ls", registry())
    assert typed is not None
    assert (rules.refusal(typed), rules.manner(typed)) == (None, "lent")
    typed = understand("exec --help", registry())
    assert typed is not None
    assert rules.manner(typed) == "reads"


@pytest.mark.parametrize(
    ("text", "manner"),
    [
        ("data show exp.yaml", "reads"),
        ("config edit exp.yaml --set=a=1", "reads"),
        ("config edit exp.yaml --to=b.yaml", "acts"),
        ("profiles detect box", "reads"),
        ("profiles detect box --save mine", "acts"),
        ("bench --show=x", "reads"),
        ("bench --show=x --apply mine", "prints"),
        ("bench exp.yaml --host box", "acts"),
        ("hosts provision --list", "reads"),
        ("hosts provision box torch", "acts"),
        ("ps --remember x", "acts"),
    ],
)
def test_what_a_command_prints_is_shown_where_that_is_what_it_is_for(text: str, manner: str) -> None:
    typed = understand(text, registry())
    assert typed is not None
    assert rules.manner(typed) == manner


def test_read_only_lets_through_what_reads_home_alone() -> None:
    def refused(text: str) -> bool:
        typed = understand(text, registry())
        assert typed is not None
        return rules.changes(typed)

    let_through = ["costs", "ps", "compare a b", "diff a b", "help", "stop --help", "history", "quit", "sweep best s"]
    assert not any(refused(text) for text in let_through)
    assert all(
        refused(text) for text in ("stop", "show x", "logs x", "hosts release --dry-run h", "undo", "tag x --add=y")
    )
    typed = understand("ps loss<1", registry())
    assert typed is not None
    assert rules.from_home_alone(typed, typed.words) == ("ps", "--cached", "loss<1")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"commands": {"a": 1}, "elsewhere": {}}', '{"commands": 1}', '{"a"', "null"]
)
def test_something_else_is_no_registry(text: str) -> None:
    assert parse(text) is None
