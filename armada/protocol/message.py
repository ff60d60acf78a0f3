"""The base class of all messages, the types of their fields, and the one function that parses an answer.

A message with an invalid field is refused, unless the field's type says otherwise: `Unsaid` reads it as None, `Word`
reads an unknown word as `unknown`, `Entries` refuses one entry of a list and keeps the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from armada.errors import UnexpectedAnswer
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import MOST, YEAR_10000

T = TypeVar("T")

_WORDS = {
    "missing": "is missing",
    "tuple_type": "should be a list",
    "model_type": "should be an object",
    "is_instance_of": "should be a text",
}
"""pydantic's messages in Python's terms, and the same in JSON's terms."""


class Message(BaseModel):
    """Something that home or a host sends, or that a file on a host contains.

    The models describe what is written: a message contains every field that is not marked `MAY_MISS`. Home may accept
    less: a field with a default may be missing when home parses it, because an older agent does not write it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",  # fields of a newer peer
        strict=True,
        defer_build=True,  # each model is built on first use: 12 ms for `run.observe`
        hide_input_in_errors=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )

    open_ended: ClassVar[bool] = False
    """Whether the writer may add fields that the model does not list, as a job may in its metrics."""


M = TypeVar("M", bound=BaseModel)


class Request(Message, Generic[M]):
    """The parameters of a method. A subclass names the method and the model of its answer.

    Only the given fields are sent, so that an older agent does not receive an unknown parameter.
    """

    method: ClassVar[str]
    answer: ClassVar[type[BaseModel]]

    def as_params(self) -> dict[str, object]:
        """Return the parameters as a JSON object."""
        return self.model_dump(mode="json", exclude_unset=True)


@dataclass(frozen=True, slots=True)
class MayMiss:
    """The writer may omit the field."""


MAY_MISS = MayMiss()


@dataclass(frozen=True, slots=True)
class Misfit:
    """A refused entry of a list: the run that it is about, if it names one, and the problem."""

    run_id: str | None
    problem: str


@dataclass(frozen=True, slots=True)
class OnMisfit:
    """Read an invalid value as the default instead of refusing the message. `null`: the writer may write null."""

    default: object = None
    null: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), default=self.default, on_error="default")

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        return schema if self.null else _without_null(schema)


def _without_null(schema: JsonSchemaValue) -> JsonSchemaValue:
    left = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    return schema if not left else left[0] if len(left) == 1 else {**schema, "anyOf": left}


@dataclass(frozen=True, slots=True)
class _NeverNull:
    """The writer writes a value or omits the field."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return _without_null(handler(core))


OrMissing = Annotated[T | None, _NeverNull(), MAY_MISS]
"""None if the field is missing."""

EMPTY = OnMisfit(default=())


Unsaid = Annotated[T | None, OnMisfit()]
"""None if the value is invalid. Its writer always writes it; an invalid value comes from a job or a broken disk."""

UnsaidOrNull = Annotated[T | None, OnMisfit(null=True)]
"""Like `Unsaid`, for a field that its writer may set to null."""

Flag = Annotated[bool, OnMisfit(default=False)]
"""A boolean; False if the value is invalid."""

Many = Annotated[tuple[T, ...], Strict(strict=False)]
"""A JSON list, as a tuple."""

CountOrZero = Annotated[int, Field(ge=0, le=MOST), OnMisfit(default=0)]
"""A count; 0 if the value is invalid."""

ManyOrNone = Annotated[tuple[T, ...], Strict(strict=False), EMPTY]
"""A JSON list as a tuple; empty if one of its entries is invalid."""


@dataclass(frozen=True, slots=True)
class _Omit:
    """Omit an invalid entry from its list."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_default_schema(handler(source), on_error="omit")


Fitting = Many[Annotated[T, _Omit()]]
"""A list without its invalid entries."""


@dataclass(frozen=True, slots=True)
class _OrMisfit:
    """For a union of a message and `Misfit`: parse the message; if it is invalid, return a `Misfit` instead of raising an error."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        entry = handler.generate_schema(get_args(source)[0])
        return core_schema.no_info_wrap_validator_function(_or_misfit, entry)


def _or_misfit(value: object, handler: core_schema.ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError as error:
        run_id = value.get("run_id") if isinstance(value, dict) else None
        return Misfit(run_id if isinstance(run_id, str) else None, describe(error))


@dataclass(frozen=True, slots=True)
class _Text:
    """Any JSON string. Lone surrogates are accepted, although pydantic refuses them. With a limit it is sanitized to one line.

    `pattern` describes what its writer writes; home accepts any text. `most` is the largest number of characters.
    """

    limit: int | None = None
    pattern: str | None = None
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        text = core_schema.is_instance_schema(str)
        if self.limit is None and self.most is None:
            return text
        return core_schema.no_info_after_validator_function(self._sanitize, text)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        bounds = {"pattern": self.pattern, "maxLength": self.most}
        return {"type": "string", **{name: bound for name, bound in bounds.items() if bound is not None}}

    def _sanitize(self, value: str) -> str:
        if self.most is not None and len(value) > self.most:
            raise ValueError(f"should have at most {self.most} characters")
        return value if self.limit is None else sanitize_line(value, self.limit)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word that its writer takes from `known`. An unknown word is read as itself, sanitized, if `keeps`; otherwise as `unknown`."""

    known: tuple[str, ...]
    keeps: bool

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._read, core_schema.is_instance_schema(str))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"enum": list(self.known)}

    def _read(self, value: str) -> str:
        return value if value in self.known else sanitize_line(value, 40) if self.keeps else "unknown"


def word(*known: str) -> _Word:
    """Read an unknown word as `unknown`. Use it in the metadata of an `Annotated[str, …]`."""
    return _Word(known, keeps=False)


def any_word(*known: str) -> _Word:
    """Keep an unknown word, sanitized for display. Use it as `word`."""
    return _Word(known, keeps=True)


def line(limit: int = 500) -> _Text:
    """Sanitize text to one line of at most `limit` characters. Use it in metadata, too."""
    return _Text(limit)


def text_of(most: int) -> _Text:
    """Keep text unchanged if it has at most `most` characters. Use it in metadata, too."""
    return _Text(most=most)


Text = Annotated[str, _Text()]
"""Unchanged text. Code that displays it must sanitize it."""

Line = Annotated[str, _Text(500)]
"""One line for display, sanitized."""

Entries = Many[Annotated[T | Misfit, _OrMisfit()]]
"""A list of messages; an invalid one is refused alone."""

RunId = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
HomeId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
RootId = Annotated[str, Field(min_length=1, max_length=64)]
"""A root's id, from root.json."""

RelativePath = Annotated[str, Field(pattern=r"^[^/].*$")]
UnixTime = Annotated[float, Field(ge=0, lt=YEAR_10000)]
Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Size = Annotated[int, Field(ge=0, le=MOST)]
Positive = Annotated[int, Field(ge=1, le=MOST)]
Integer = Annotated[int, Field(ge=-MOST, le=MOST)]
EnvironmentKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")]
Reason = Annotated[str, _Text(60, r"^(signal_[A-Z0-9+]+|[a-z0-9_]+)$")]
"""Why a run ended: oom, host_oom, nan_loss, disk_full, missing_module, missing_file, network, data_error, env_error, killed_by_user,
terminated, not_enough_gpus, command_not_found, command_not_executable, exit_<code>, signal_<NAME>, or the reason in
failure.json.
"""


def parse(model: type[M], value: object, *, host: str | None, method: str) -> M:
    """Parse an answer of a host, or a file from it.

    Args:
        model: The expected type.
        value: The parsed JSON.
        host: The host's name, for the error.
        method: The method of the answer, or the file's name, for the error.

    Raises:
        UnexpectedAnswer: A field is missing, of the wrong type or out of range.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise UnexpectedAnswer(
            f"the answer to {method} does not fit: {describe(error)}",
            hint="armada hosts check shows which version of the agent it runs",
            host=host,
        ) from None


def describe(error: ValidationError) -> str:
    """Return which field is invalid and why. The value itself is not repeated: it may be a secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    more = error.error_count() - 1
    said = _WORDS.get(first["type"]) or first["msg"].removeprefix("Input ")
    words = f"{_place(first['loc'])}: {sanitize_line(said, 200)}"
    return f"{words} (and {more} more)" if more else words


def _place(parts: Sequence[object]) -> str:
    return sanitize_line(".".join(str(part) for part in parts), 120) or "the whole"
