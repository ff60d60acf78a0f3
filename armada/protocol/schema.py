"""Generate `remote_payload/protocol.json` from the models: the messages between home and a host, and the files on a host."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from armada.protocol import (
    containers,
    content,
    environment,
    facts,
    files,
    handshake,
    homes,
    host,
    observation,
    orphans,
    outbox,
    packing,
    preview,
    records,
    runs,
    scheduler,
    sources,
    spec,
    sweeps,
    sync,
)
from armada.protocol.message import MayMiss, Message, Request
from armada.protocol.version import OLDEST_PROTOCOL, PROTOCOL

_ABOUT = (
    "`make reference` writes this file from armada/protocol. `methods`, `lines` and `files` map names to schemas; each $ref points "
    "into $defs of this document. A method has `params` and `result`. In names of files, <…> stands for a number, a step, a rank, "
    "a key or a digest."
)
_VERSIONS = (
    "Each side understands the protocols from `oldest_protocol` to `protocol`. Two sides work together if these ranges overlap; "
    "otherwise armada names the older side. A reader ignores fields that it does not know and reads unknown words as `unknown`, so "
    "an addition (a method, a field, a word) raises neither number. A change that an older side would misread raises `protocol`; "
    "dropping support raises `oldest_protocol`. The supervisor that started a run writes the files in its folder; agents of any "
    "version read them."
)

LINES: dict[str, type[Message]] = {
    "head": handshake.Head,
    "agent": handshake.AgentUpload,
    "need": handshake.Need,
    "hello": handshake.Hello,
    "failure": handshake.Failure,
    "request": handshake.RequestLine,
    "answer": handshake.AnswerLine,
    "refusal": handshake.RefusalLine,
    "progress": handshake.ProgressLine,
}

FILES: JsonSchemaValue = {
    "spec.json": spec.Spec,
    "state.json": records.State,
    "events.jsonl": files.AnyEvent,
    "metrics.jsonl": files.MetricsLine,
    "heartbeat-<rank>.json": records.Heartbeat,
    "telemetry.jsonl": files.TelemetryLine,
    "stop.json": files.StopRequest,
    "secrets.env": runs.Secrets,
    "submissions/<k>/claim.json": files.Claim,
    "submissions/<k>/job.json": records.Job,
    "attempts/<n>/run.json": records.RunRecord,
    "attempts/<n>/exit.json": records.ExitRecord,
    "attempts/<n>/status.json": records.StatusRecord,
    "attempts/<n>/failure.json": files.FailureRecord,
    "attempts/<n>/failure-<rank>.json": files.FailureRecord,
    "outbox/.new-<step>/.announce.json": files.Announcement,
    "outbox/<digest>/MANIFEST.json": files.ManifestRecord,
    "outbox/<digest>.ack": files.Dated,
    "envs/<key>/READY": files.EnvironmentReady,
    "envs/.packed-<key>-<digest>.json": packing.PackingList,
    "harvest.json": files.CheckpointWatch,
    "curves.json": files.MetricsWatch,
    "submissions/<k>/quota.json": files.QuotaRecord,
    "homes/<home>/home.json": files.HomeRecord,
    "homes/<home>/<digest>.ack": files.Dated,
    "homes/<home>/settled.json": files.SettledRecord,
    "homes/<home>/forgotten.json": files.ForgottenRecord,
    "homes/<home>/<digest>.unwanted": files.Dated,
}

_FAMILIES = (
    containers,
    content,
    environment,
    facts,
    homes,
    host,
    observation,
    orphans,
    outbox,
    packing,
    preview,
    runs,
    scheduler,
    sources,
    spec,
    sweeps,
    sync,
)


def requests() -> dict[str, type[Request[Any]]]:
    """Return the methods that a host understands, each with the model of its parameters."""
    found = (value for family in _FAMILIES for value in vars(family).values() if isinstance(value, type))
    asked = [cls for cls in found if issubclass(cls, Request) and "method" in vars(cls)]
    return {cls.method: cls for cls in sorted(asked, key=lambda cls: cls.method)}


class _Schema(GenerateJsonSchema):
    """The schema of a message as its writer writes it: all fields and no others, unless its model says otherwise."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        found.pop("title", None)
        cls: type[BaseModel] = schema["cls"]
        if not issubclass(cls, Message):
            return found
        found["required"] = [
            name
            for name, told in cls.model_fields.items()
            if not any(isinstance(each, MayMiss) for each in told.metadata)
        ]
        found["additionalProperties"] = cls.open_ended
        return found

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        found = super().dict_schema(schema)
        if "patternProperties" not in found:
            return found
        (pattern, values), *_ = found["patternProperties"].items()
        return {"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": values}

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  # pydantic passes it
        return False


def document() -> JsonSchemaValue:
    """Return the content of protocol.json."""
    methods = requests()
    wanted: JsonSchemaValue = {f"params {name}": asked for name, asked in methods.items()}
    wanted |= {f"result {name}": asked.answer for name, asked in methods.items()}
    wanted |= {f"line {name}": model for name, model in LINES.items()}
    wanted |= {f"file {name}": model for name, model in FILES.items()}
    made, shared = TypeAdapter.json_schemas(
        [(name, "validation", TypeAdapter(model)) for name, model in wanted.items()], schema_generator=_Schema
    )
    schemas = {name: schema for (name, _), schema in made.items()}
    definitions: JsonSchemaValue = shared.get("$defs", {})
    found: JsonSchemaValue = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What crosses between home and a host, and what lies on a host",
        "description": _ABOUT,
        "versions": {"description": _VERSIONS, "protocol": PROTOCOL, "oldest_protocol": OLDEST_PROTOCOL},
        "methods": {
            name: {"params": schemas[f"params {name}"], "result": schemas[f"result {name}"]} for name in methods
        },
        "lines": {name: schemas[f"line {name}"] for name in LINES},
        "files": {name: schemas[f"file {name}"] for name in FILES},
        "$defs": definitions,
    }
    found["methods"] = dict(sorted(found["methods"].items()))
    found["$defs"] = dict(sorted(_used(found, definitions).items()))
    return found


def _used(found: JsonSchemaValue, definitions: JsonSchemaValue) -> JsonSchemaValue:
    """Remove definitions that nothing references: parts of fields whose schema is written by hand."""
    kept: JsonSchemaValue = {}
    where = json.dumps({**found, "$defs": {}})
    while more := {name: made for name, made in definitions.items() if name not in kept and f'/{name}"' in where}:
        kept |= more
        where = json.dumps(more)
    return kept


def text() -> str:
    """Return the text of the file: JSON, in which whatever fits on one line is on one line."""
    return _folded(document(), "", 120) + "\n"


def _folded(value: object, indent: str, width: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= width or not isinstance(value, dict | list) or not value:
        return flat
    deeper = indent + "  "
    if isinstance(value, list):
        parts = [_folded(item, deeper, width) for item in value]
        return "[\n" + ",\n".join(f"{deeper}{part}" for part in parts) + f"\n{indent}]"
    named = [f"{deeper}{json.dumps(key)}: {_folded(item, deeper, width - len(key) - 4)}" for key, item in value.items()]
    return "{\n" + ",\n".join(named) + f"\n{indent}" + "}"
