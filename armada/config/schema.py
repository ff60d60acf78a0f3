"""Make JSON Schemas of the files that people write, for editors, from the models that read those files.

Draft 7: what editors' YAML servers know best. What a schema cannot say (one of two keys, files that must be there) armada alone says.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from armada.config.hosts import HOST_NAME, Host, HostsFile, ProjectFile
from armada.config.profiles import Profile
from armada.config.settings import Settings
from armada.config.tasks.registry import TASKS, load, models

FILES: dict[str, str] = {
    "experiment": "what to train or run",
    "hosts": "hosts.yaml",
    "profile": "profiles/NAME.yaml",
    "project": "a project's armada.yaml",
}
"""The kinds of files, by the word for each."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PART = "Part"
_NULL = {"type": "null"}


def schema_of(kind: str) -> JsonSchemaValue:
    """The JSON Schema of one of `FILES`."""
    if kind == "experiment":
        made = _of_experiments()
    elif kind == "profile":
        made = _of_profiles()
    else:
        made = _of_hosts(HostsFile if kind == "hosts" else ProjectFile)
    return {"$schema": _DRAFT, "title": f"armada: {FILES[kind]}", **made}


def schema_of_task(task: str) -> JsonSchemaValue:
    """The JSON Schema of the settings of one task alone; far quicker than that of all experiments."""
    return _schema(load(TASKS[task].settings))


class _Generator(GenerateJsonSchema):
    """Pydantic's, with what stands beside a field in the source, and closed where keys have a pattern."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        model = schema["cls"]
        if issubclass(model, Settings):
            _leave_out(made, model)
            _describe(made, model)
            _widen(made, model)
        return made

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        if "patternProperties" in made:
            made["additionalProperties"] = False
        return made


def _schema(model: type[Settings]) -> JsonSchemaValue:
    return model.model_json_schema(schema_generator=_Generator)


def _leave_out(made: JsonSchemaValue, model: type[Settings]) -> None:
    """Fields that armada fills in; in a file they are unknown keys."""
    hidden = {name for name, info in model.model_fields.items() if info.exclude} | model.from_elsewhere
    made["properties"] = {name: value for name, value in made.get("properties", {}).items() if name not in hidden}
    if "required" in made:
        made["required"] = [name for name in made["required"] if name not in hidden]


def _describe(made: JsonSchemaValue, model: type[Settings]) -> None:
    made.pop("title", None)
    for name, value in made["properties"].items():
        value.pop("title", None)
        if said := _docstrings(model).get(name):
            value["description"] = said


@functools.cache
def _docstrings(model: type[Settings]) -> dict[str, str]:
    """The texts under fields, of the classes above it too; read from the source, as pydantic does it at a cost for every start."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not issubclass(owner, Settings) or owner is Settings:
            continue
        statements = _classes(owner.__module__)[owner.__qualname__].body
        for field, text in itertools.pairwise(statements):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(text.value.value).split())
    return found


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes at the top of a module, from its source; parsed once, where `inspect` parses it anew for each class."""
    parsed = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in parsed.body if isinstance(each, ast.ClassDef)}


def _widen(made: JsonSchemaValue, model: type[Settings]) -> None:
    """What validators take before the fields are looked at, as each model says it."""
    for name, more in model.also_written.items():
        known = made["properties"][name]
        said = {key: known.pop(key) for key in ("description", "default") if key in known}
        made["properties"][name] = {"anyOf": [known, more], **said}


def _of_hosts(model: type[ProjectFile]) -> JsonSchemaValue:
    """A hosts file; its entries are read one by one, by the name that is their key."""
    made, host = _schema(model), _schema(Host)
    defs = {**made.pop("$defs", {}), **host.pop("$defs", {}), "Host": host}
    made["properties"]["hosts"] = {
        "description": "How to reach each host, and what it is.",
        "anyOf": [
            {
                "type": "object",
                "propertyNames": {"pattern": f"^(?:{HOST_NAME.pattern})$"},
                "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Host"}, {"type": "null"}]},
            },
            {"type": "null"},
        ],
    }
    return {**made, "$defs": defs}


def _of_experiments() -> JsonSchemaValue:
    """An experiment: its task decides which keys it has. One without a task (yet) is offered those of all."""
    tasks = {task: (model.__name__, _schema(model)) for task, model in models().items()}
    defs: dict[str, JsonSchemaValue] = {}
    offered: dict[str, list[JsonSchemaValue]] = {}
    for name, made in tasks.values():
        defs.update(made.pop("$defs", {}))
        defs[name] = made
        for key, value in made["properties"].items():
            known, said = offered.setdefault(key, []), {part: text for part, text in value.items() if part != "default"}
            known += [said] if said not in known else []
    for _, made in tasks.values():  # empty, another task's key hinders nobody
        foreign = [key for key in offered if key not in made["properties"]]
        made["properties"].update(dict.fromkeys(foreign, _NULL))
        for key in foreign:
            offered[key] += [_NULL] if _NULL not in offered[key] else []
    return {
        "type": "object",
        "properties": {key: known[0] if len(known) == 1 else {"anyOf": known} for key, known in offered.items()}
        | {"task": {"enum": list(tasks)}},
        "required": ["name", "task"],
        "additionalProperties": False,
        "allOf": [
            {
                "if": {"properties": {"task": {"const": task}}, "required": ["task"]},
                "then": {"$ref": f"#/$defs/{name}"},
            }
            for task, (name, _) in tasks.items()
        ],
        "$defs": defs,
    }


def _of_profiles() -> JsonSchemaValue:
    """A profile; one that extends another says only what is different."""
    whole = _schema(Profile)
    defs: dict[str, JsonSchemaValue] = whole.pop("$defs", {})
    parts = {f"{name}{_PART}": _without_required(value) for name, value in {**defs, "Profile": whole}.items()}
    extends = {"required": ["extends"], "properties": {"extends": {"type": "string"}}}
    return {
        "type": "object",
        "if": extends,
        "then": {"$ref": f"#/$defs/Profile{_PART}"},
        "else": {"$ref": "#/$defs/Profile"},
        "$defs": {**defs, "Profile": whole, **parts},
    }


def _without_required(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _without_required(item) for key, item in value.items() if key != "required"}
        if isinstance(reference := kept.get("$ref"), str):
            kept["$ref"] = f"{reference}{_PART}"
        return kept
    return [_without_required(item) for item in value] if isinstance(value, list) else value
