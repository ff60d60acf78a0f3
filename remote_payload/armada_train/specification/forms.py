"""How a source's rows are written: their format, other names of their columns, and a template. Without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from armada_train.specification.objectives import KINDS, PAIRS, PROMPTS, UNPAIRED
from armada_train.specification.section import Section, bad_spec


@dataclass(frozen=True, slots=True)
class Format:
    """What rows of a stated format hold.

    Attributes:
        kinds: The kinds of rows that they are.
        needed: Columns of every row.
        optional: Columns that some rows may have.
        takes_all: Whether every other column is used, too.
    """

    kinds: tuple[str, ...]
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    takes_all: bool = False


FORMATS = {
    "messages": Format(("messages",), ("messages",), ("tools",)),
    "sharegpt": Format(("messages",), ("conversations",), ("system", "tools")),
    "alpaca": Format(("messages",), ("instruction", "output"), ("input", "system", "history")),
    "prompt-completion": Format(("prompt_completion",), ("prompt", "completion")),
    "text": Format(("text",), ("text",)),
    "preference": Format(PAIRS, ("chosen", "rejected"), ("prompt", "tools")),
    "unpaired": Format(UNPAIRED, ("prompt", "completion", "label"), ("tools",)),
    "prompt": Format(PROMPTS, ("prompt",), takes_all=True),
}
"""By the name that an experiment states."""

COLUMNS = tuple(dict.fromkeys(name for each in FORMATS.values() for name in (*each.needed, *each.optional)))
"""The columns that rows may have."""

OPTIONAL = frozenset(name for each in FORMATS.values() for name in each.optional) - {"prompt"}
"""Columns that a row may lack whatever its format."""

TEMPLATED = ("prompt", "completion", "text", "chosen", "rejected", "instruction", "input", "output", "system")
"""The columns that a template can make: those that hold text."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of a source are written.

    Attributes:
        format: The stated format; None if the columns tell it.
        columns: Their names of columns, with ours.
        template: Our columns, with the Jinja text that makes each.
    """

    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    template: Mapping[str, str] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return what is stated, as JSON; nothing for rows that are as they should be."""
        stated = {"format": self.format, "columns": dict(self.columns), "template": dict(self.template)}
        return {key: value for key, value in stated.items() if value}

    @property
    def digest(self) -> str:
        """A suffix for names that depend on it; empty for rows that are as they should be."""
        stated = json.dumps(self.describe(), sort_keys=True)
        return f"-{hashlib.sha256(stated.encode()).hexdigest()[:16]}" if self.describe() else ""


AS_IT_IS = Form()


def parse_form(section: Section) -> Form:
    """Read the keys of a source that say how its rows are written.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    stated = section.get("format", None)
    form = Form(
        format=None if stated is None else section.choice("format", tuple(FORMATS)),
        columns=_parse_texts(section, "columns"),
        template=_parse_texts(section, "template"),
    )
    for ours in form.columns.values():
        if ours not in COLUMNS:
            raise section.wrong("columns", f"names of columns with one of {', '.join(COLUMNS)} for each", ours)
    if len(set(form.columns.values())) < len(form.columns):
        raise section.wrong("columns", "one column for each of ours", dict(form.columns))
    for ours in form.template:
        if ours not in TEMPLATED:
            raise section.wrong("template", f"texts for {', '.join(TEMPLATED)}", ours)
    return form


def refuse_other_format(where: str, form: Form, task: str, kinds: Sequence[str]) -> None:
    """Refuse a format that a task does not take.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    if form.format is None or set(FORMATS[form.format].kinds) & set(kinds):
        return
    takes = [name for name, each in FORMATS.items() if set(each.kinds) & set(KINDS[task])]
    raise bad_spec(f"`{where}.format` {form.format} does not go with `task: {task}`, which takes {', '.join(takes)}")


def _parse_texts(section: Section, key: str) -> dict[str, str]:
    value = section.get(key, None) or {}
    if not isinstance(value, dict) or not all(
        isinstance(text, str) and text for pair in value.items() for text in pair
    ):
        raise section.wrong(key, "an object of texts", value)
    return value
