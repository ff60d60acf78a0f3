"""Every command has `--json`, and a shape that says what it prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from armada.cli.main import build_parser
from armada.cli.shapes import ERROR, METRICS, SEVERAL, SHAPES, all_schemas, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = Path(__file__).parents[3] / "docs" / "schemas" / "output.schema.json"


NO_JSON = {
    "mcp": "its output is the protocol, which is JSON of its own",
    "dashboard": "a screen",
    "ssh": "a shell of a person's own",
    "exec": "what it prints is the command's own",
    "forward": "it prints nothing but where the port is",
    "completion": "a shell's own language",
    "daemon run": "a service, whose words go to its log: `armada daemon logs --json`",
    "config schema": "what it prints is a JSON Schema",
}
"""The commands without `--json`, and why."""


def leaves(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Every command with the options it takes; argparse has no public names for them."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if not groups:
        yield " ".join(words), [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001
    for group in groups:
        for word, below in group.choices.items():
            yield from leaves(below, (*words, word))


def test_every_command_has_json_or_a_reason_why_not() -> None:
    without = {command for command, options in leaves(build_parser()) if "--json" not in options}
    assert without == set(NO_JSON)


def test_every_command_with_json_has_a_shape() -> None:
    commands = {command for command, _ in leaves(build_parser())} - set(NO_JSON)
    described = {
        name.removesuffix(" --dry-run").removesuffix(SEVERAL).removesuffix(METRICS).replace("help exit-codes", "help")
        for name in SHAPES
    }
    assert described == commands


def test_the_kept_schemas_are_current() -> None:
    assert json.loads(KEPT.read_text()) == all_schemas(), "armada help json > docs/schemas/output.schema.json"
    jsonschema.Draft7Validator.check_schema(all_schemas())


def test_every_object_carries_the_number_of_its_format() -> None:
    objects = {name: shape[0] if isinstance(shape, list) else shape for name, shape in SHAPES.items()}
    assert [name for name, shape in objects.items() if "format" not in shape] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": 1},
        {"format": 2, "error": {"kind": "NotFound", "message": "m", "hint": None, "host": None, "exit_code": 7}},
        {"format": 1, "error": {"kind": "NotFound", "message": "m", "hint": None, "host": None, "exit_code": "7"}},
        {"format": 1, "error": {"kind": "NotFound", "message": None, "hint": None, "host": None, "exit_code": 7}},
    ],
)
def test_a_shape_refuses_what_is_not_of_it(wrong: dict[str, object]) -> None:
    schema = schema_of(ERROR)
    right = {"format": 1, "error": {"kind": "NotFound", "message": "m", "hint": None, "host": None, "exit_code": 7}}
    jsonschema.validate({**right, "added_later": 1}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)
