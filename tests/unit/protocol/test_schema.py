"""protocol.json is made from the models, and home parses all that it lets an agent say."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from armada.paths import bundled
from armada.protocol.schema import FILES, document, requests, text

PROTOCOL: dict[str, Any] = document()


def test_the_committed_file_is_what_the_models_make() -> None:
    assert bundled("remote_payload", "protocol.json").read_text("utf-8") == text(), "make reference"


def test_each_method_has_parameters_and_a_result() -> None:
    assert all(set(method) == {"params", "result"} for method in PROTOCOL["methods"].values())


@pytest.mark.parametrize("name", [name for name, schema in PROTOCOL["$defs"].items() if "properties" in schema])
def test_a_writer_may_add_nothing_to_a_message_unless_that_is_said(name: str) -> None:
    schema = PROTOCOL["$defs"][name]
    open_ended = {"FailureRecord", "MetricsLine", "Wipe"}
    assert schema["additionalProperties"] is (name in open_ended)
    assert set(schema["required"]) <= set(schema["properties"])


def sample(schema: dict[str, Any]) -> Any:
    """The smallest value that a schema allows, with every required field."""
    if "$ref" in schema:
        return sample(PROTOCOL["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema["type"]
    if kind == "object":
        fields = {name: sample(schema["properties"][name]) for name in schema.get("required", ())}
        return {"job_id": "1", "name": "n", **fields, "scheduler": "slurm"} if "oneOf" in schema else fields
    if kind == "array":
        return [sample(item) for item in schema.get("prefixItems", [])] or [
            sample(schema["items"]) for _ in range(schema.get("minItems", 0))
        ]
    texts = ("a", "a" * 64, "0" * 32, "0022", "3.11.7")
    first = next((each for each in texts if Draft202012Validator(schema).is_valid(each)), None)
    return {"string": first, "boolean": False, "null": None}.get(kind, 1)


@pytest.mark.parametrize("method", requests())
def test_home_takes_the_least_that_an_agent_must_say_and_sends_what_the_protocol_allows(method: str) -> None:
    model = requests()[method]
    for part, parsed in (("params", model), ("result", model.answer)):
        schema = {"$defs": PROTOCOL["$defs"], **PROTOCOL["methods"][method][part]}
        value = sample(schema)
        Draft202012Validator(schema).validate(value)
        found = parsed.model_validate(value)
        if part == "params":
            Draft202012Validator(schema).validate(found.model_dump(mode="json", exclude_unset=True))


@pytest.mark.parametrize("name", FILES)
def test_home_reads_the_least_that_a_file_must_hold(name: str) -> None:
    schema = {"$defs": PROTOCOL["$defs"], **PROTOCOL["files"][name]}
    value = sample(schema)
    Draft202012Validator(schema).validate(value)
    try:
        TypeAdapter(FILES[name]).validate_python(value)
    except ValidationError as error:
        pytest.fail(f"{name}: {error}")
