"""Every command with `--json`, wrong in every way that all can be: one JSON error on standard output, and its exit code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from armada.cli.main import build_parser
from armada.cli.shapes import ERROR, schema_of
from armada.errors import EXIT_CODES
from tests.conftest import Armada
from tests.unit.cli.test_shapes import NO_JSON

ENROLS = {"daemon start", "daemon install"}
"""They would start a service, or write its unit; wrong words alone are tried."""
NAMES_AFTER = {"hosts add"}
"""The host that it names is one that is not there yet."""


def leaves(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command with its parser; argparse has no public names for them."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if not groups:
        yield " ".join(words), parser
    for group in groups:
        for word, below in group.choices.items():
            yield from leaves(below, (*words, word))


COMMANDS = {command: parser for command, parser in leaves(build_parser()) if command not in NO_JSON}
ACTING = sorted(set(COMMANDS) - ENROLS)


def required(parser: argparse.ArgumentParser, *, run: str, host: str) -> list[str]:
    """The fewest words that a command takes."""
    words: list[str] = []
    for action in parser._actions:  # noqa: SLF001
        if action.option_strings:
            word = "new-folder" if action.metavar in ("DIR", "FILE") else host
            words += [action.option_strings[0], word] if action.required else []
        elif action.metavar == "RUN":
            words.append(run)
        elif action.metavar == "EXPERIMENT":
            words.append("exp.yaml")
        elif action.dest in ("name", "names", "hosts"):
            words.append(host)
        elif action.dest == "target":
            words.append("me@127.0.0.1:1")
        elif action.nargs not in ("*", "?"):
            words.append("abc")
    if parser.prog == "armada compare":  # one alone has nothing beside it
        words.append(run)
    if parser.prog == "armada export":  # one of three options
        words += ["--to", "new-folder"]
    return words


def names(command: str, what: str) -> bool:
    """Whether a command takes a run, or a host, among the words that `required` gives."""
    return what in required(COMMANDS[command], run="RUN", host="HOST") and command not in NAMES_AFTER


def ask(armada: Armada, command: str, *words: str) -> tuple[int, Any]:
    """Run it; what it printed is one JSON value, and an error is of the documented shape, said on standard error too."""
    armada.command("true")
    done = armada.run(*command.split(), *words, "--json")
    told = json.loads(done.stdout)
    assert done.returncode in EXIT_CODES
    if isinstance(told, dict) and "error" in told and "kind" in (told["error"] or {}):
        jsonschema.validate(told, schema_of(ERROR))
        assert told["error"]["exit_code"] == done.returncode
        assert f"armada: {told['error']['message']}\n" in done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, told


def kind_of(told: Any) -> str | None:
    return told["error"]["kind"] if isinstance(told, dict) and isinstance(told.get("error"), dict) else None


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_word_too_many_is_a_usage_error(armada: Armada, command: str) -> None:
    words = required(COMMANDS[command], run="x", host="local")
    code, told = ask(armada, command, *words, "--no-such-option")
    assert (code, kind_of(told)) == (2, "UsageError")


@pytest.mark.parametrize("command", [command for command in sorted(COMMANDS) if names(command, "RUN")])
def test_an_unknown_run_is_not_found(armada: Armada, command: str) -> None:
    code, told = ask(armada, command, *required(COMMANDS[command], run="nothing", host="local"))
    assert (code, kind_of(told)) == (7, "NotFound")


@pytest.mark.parametrize("command", [command for command in ACTING if names(command, "HOST")])
def test_an_unknown_host_is_not_found(armada: Armada, command: str) -> None:
    code, told = ask(armada, command, *required(COMMANDS[command], run="x", host="nowhere"))
    assert (code, kind_of(told)) == (7, "NotFound")


@pytest.mark.parametrize("command", ACTING)
def test_broken_hosts_are_said_with_their_line_by_every_command_that_needs_them(armada: Armada, command: str) -> None:
    config = armada.folder / "home" / "config"
    config.mkdir(parents=True)
    (config / "hosts.yaml").write_text("hosts:\n  box: {ssh: me@x, nope: 1}\n")
    code, told = ask(armada, command, *required(COMMANDS[command], run="x", host="box"))
    if names(command, "HOST"):
        assert (code, kind_of(told)) == (2, "ConfigError")
        assert "hosts.yaml:2: " in told["error"]["message"]


@pytest.mark.parametrize("command", [command for command in ACTING if names(command, "RUN")])
def test_a_damaged_store_is_said_by_every_command_that_looks_for_a_run(armada: Armada, command: str) -> None:
    state = armada.folder / "home" / "state"
    state.mkdir(parents=True)
    (state / "armada.db").write_bytes(b"x" * 9000)
    code, told = ask(armada, command, *required(COMMANDS[command], run="x", host="local"))
    assert (code, kind_of(told)) == (2, "StoreDamaged")


def test_a_shortened_json_is_refused_in_json(armada: Armada) -> None:
    error = json.loads(armada.run("show", "nothing", "--js").stdout)["error"]
    assert (error["kind"], error["hint"]) == ("UsageError", "did you mean --json? armada show --help lists all")


def test_the_words_of_another_program_are_not_armadas(armada: Armada) -> None:
    done = armada.run("exec", "nothing", "--", "python3", "--json")
    assert (done.returncode, done.stdout) == (7, "")


def test_an_interruption_is_an_error_object(armada: Armada) -> None:
    armada.write("sitecustomize.py", PRESSES_CTRL_C)
    armada.env["PYTHONPATH"] = str(armada.folder)
    done = armada.run("sync", "ls", "--json", process=True)
    told = json.loads(done.stdout)
    jsonschema.validate(told, schema_of(ERROR))
    assert (done.returncode, told["error"]["kind"], told["error"]["exit_code"]) == (130, "Interrupted", 130)


# Python reads this at its start. Opening the store is then interrupted.
PRESSES_CTRL_C = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "armada.cli.context":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
"""


def test_a_plan_with_a_failed_check_is_printed_with_its_checks(armada: Armada) -> None:
    experiment = armada.command("true", secrets=["NO_SUCH_TOKEN"])
    told = armada.json("launch", "--host", "local", experiment, "--dry-run", rc=3)
    assert [check["code"] for check in told["checks"] if check["outcome"] == "fail"] == ["ARM004"]
