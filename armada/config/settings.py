"""The base class of every settings model, and the types of values that they share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from armada.config.documents import literal_text, shown

PROBLEM = "armada"
"""The pydantic error type of everything `problem` makes."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = re.compile(r"ARMADA_.*|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER", re.DOTALL)


class SchemaPart(TypedDict, total=False):
    """JSON Schema of one spelling of a value."""

    type: str | list[str]
    pattern: str
    items: SchemaPart


class Settings(BaseModel):
    """The base of all settings: strict (no `"5"` for 5), closed (no unknown keys), frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    other_names: ClassVar[dict[str, str]] = {}
    """What other trainers call the same thing, for the hint on an unknown key."""

    also_written: ClassVar[dict[str, SchemaPart]] = {}
    """Fields with other spellings that a validator takes before they are looked at: the JSON Schema of those."""

    from_elsewhere: ClassVar[frozenset[str]] = frozenset()
    """Fields that do not stand in the file, such as the name by which it is known; nor do those left out of dumps."""

    if_missing: ClassVar[dict[str, str]] = {}
    """Why a field has to be there, where its name alone does not tell."""

    @classmethod
    def refusal(cls, key: str) -> tuple[str, str | None] | None:  # noqa: ARG003  # a model with siblings asks them
        """Explain why a key does not belong to this model, and what to do; None if the key is unknown."""
        return None


def problem(message: str, *, key: str | None = None, hint: str | None = None) -> PydanticCustomError:
    """Make an error inside a validator that names the wrong key below the model, and what to do."""
    return PydanticCustomError(PROBLEM, "{message}", {"message": message, "key": key, "hint": hint})


def shaped(pattern: re.Pattern[str], *, blanks: bool = False) -> Any:
    """Add the validator's full pattern to the JSON Schema of a string.

    Args:
        pattern: The validator's own.
        blanks: It takes blanks around it, too.
    """
    around = r"\s*" if blanks else ""
    return Field(json_schema_extra={"pattern": f"^{around}(?:{pattern.pattern}){around}$"})


def _not_empty(text: str) -> str:
    if not text.strip():
        raise problem("must not be empty")
    return text


def _variable_text(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _variable_name(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise problem(f"{shown(name)} cannot be the name of an environment variable")
    if _OURS.fullmatch(name):
        hint = "choose another name" if name.startswith("ARMADA_") else "choose GPUs with `resources.gpus`"
        raise problem(f"{name} is set by armada itself", hint=hint)
    return name


def _path(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, str | Path) or str(value).strip() == "":
        raise problem(f"must be a path, not {shown(value)}")
    literal_text(str(value))
    path = Path(value)
    try:
        path = path.expanduser() if str(value).startswith("~") else path
    except RuntimeError as error:
        raise problem(f"{shown(str(value))}: this user does not exist") from error
    folder = (info.context or {}).get("folder")
    return path if folder is None else Path(folder) / path


Text = Annotated[str, AfterValidator(literal_text)]
FilledText = Annotated[Text, AfterValidator(_not_empty), Field(json_schema_extra={"pattern": r"\S"})]
FilePath = Annotated[
    Path, PlainValidator(_path, json_schema_input_type=FilledText), PlainSerializer(str, when_used="json")
]
"""Relative to the folder of the file it stands in; `~` is the user's home."""

VariableName = Annotated[Text, AfterValidator(_variable_name), shaped(_VARIABLE)]
Environment = dict[VariableName, Annotated[Text, BeforeValidator(_variable_text, json_schema_input_type=str | int)]]
"""Environment variables: whole numbers are taken as their text, because `NCCL_DEBUG_LEVEL: 1` is what everybody writes."""

Share = Annotated[float, Field(ge=0, lt=1)]
