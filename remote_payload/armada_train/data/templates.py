"""Make texts of a row's columns by Jinja templates, in a sandbox with a limited number of steps.

A template cannot reach attributes of Python's own, draws nothing at random, and ends: rounds of loops and calls are
counted, and the lengths of texts are limited. Home and the host render with the same code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from armada_train.data.places import DataFailure, show

MOST_STEPS = 100_000
"""Rounds of loops, and calls, for one row."""

LONGEST_TEXT = 16 << 20
"""The longest text, in characters."""

_LARGEST = 1 << 64
_FILTERS = [
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "int", "items", "join",
    "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse",
    "round", "select", "selectattr", "sort", "string", "title", "tojson", "trim", "truncate", "unique",
    "upper", "wordcount",
]  # fmt: skip
"""Filters that are the same at every call, and make no text much longer than it was."""

_GLOBALS = frozenset({"range", "dict", "namespace", "joiner", "cycler"})
_METHODS = frozenset({"center", "expandtabs", "format", "format_map", "ljust", "rjust", "translate", "zfill", "encode"})
"""Methods of text that can make it as long as anybody likes, or that give bytes."""


class RowTemplate:
    """Templates that make the columns of a row.

    Args:
        texts: The text of each template, by the column that it makes.
        where: Names the source, for a template that is none.

    Raises:
        DataFailure: A template's syntax is wrong.
    """

    def __init__(self, texts: Mapping[str, str], where: object) -> None:
        self._environment = _Sandbox()
        self._templates: dict[str, Template] = {}
        for name, text in texts.items():
            try:
                self._templates[name] = self._environment.from_string(text)
            except TemplateSyntaxError as error:
                raise DataFailure(where, f"`template` ({name}), line {error.lineno}: {error.message}") from error
            except RecursionError as error:
                raise DataFailure(where, f"`template` ({name}) is nested too deeply") from error

    def render(self, row: Mapping[str, Any], where: object) -> dict[str, str]:
        """Make the columns of one row.

        Raises:
            DataFailure: The template needs a column that the row lacks, fails, or does not end.
        """
        made = {}
        for name, template in self._templates.items():
            self._environment.steps = 0
            try:
                text = self._environment.limit("".join(template.generate({**row, "row": row})))
            except UndefinedError as error:
                has = ", ".join(map(show, list(row)[:12])) or "nothing"
                raise DataFailure(where, f"`template` ({name}): {error}", f"the row has {has}") from error
            except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
                raise DataFailure(where, f"`template` ({name}): {_explain(error)}") from error
            except (RecursionError, MemoryError) as error:
                raise DataFailure(where, f"`template` ({name}) needs too much memory") from error
            made[name] = text
        return made


class _TooMuch(SecurityError):
    """A template takes too many steps, or makes too long a text."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with steps counted and texts limited. It renders one template at a time."""

    intercepted_binops: ClassVar[frozenset[str]] = frozenset({"+", "*", "**", "%"})  # type: ignore[misc]  # jinja2 reads it from the class

    def __init__(self) -> None:
        # As transformers renders chat templates: the lines of statements leave nothing behind.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,  # a prompt may end with one
            undefined=StrictUndefined,
            finalize=_refuse_null,
        )
        self.steps = 0
        self.filters = {name: each for name, each in self.filters.items() if name in _FILTERS}
        self.filters |= {"armada_counted": self._counted, "armada_joined": self._joined, "tojson": _to_json}
        self.globals = {name: each for name, each in self.globals.items() if name in _GLOBALS}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Parse a template; each loop counts its rounds, and each `~` the length of what it makes."""
        tree: nodes.Template = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                message = "`recursive` loops are not supported"
                raise TemplateSyntaxError(message, loop.lineno)
            loop.iter = nodes.Filter(loop.iter, "armada_counted", [], [], None, None, lineno=loop.lineno)
        _join_counted(tree)
        return tree

    def call(self, context: Context, called: Any, /, *given: Any, **named: Any) -> Any:
        self._step()
        return self.limit(super().call(context, called, *given, **named))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        numbers = all(isinstance(each, int | float) for each in (left, right))
        if operator in ("**", "%") and not numbers:
            message = f"`{operator}` is for numbers"
            raise _TooMuch(message)
        if operator == "*" and not numbers:
            sizes = [len(each) if isinstance(each, str | list | tuple) else each for each in (left, right)]
            if all(isinstance(each, int) for each in sizes) and sizes[0] * sizes[1] > LONGEST_TEXT:
                raise _too_long()
        if numbers and operator in ("*", "**"):
            too_large = max(abs(left), abs(right)) > _LARGEST or (operator == "**" and abs(right) > 64)
            if too_large:
                message = "a number is too large"
                raise _TooMuch(message)
        return self.limit(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return not (isinstance(obj, str) and attr in _METHODS) and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> None:
        """Offer no formatting of text, whose widths have no limit: `is_safe_attribute` refuses it."""

    def limit(self, made: Any) -> Any:
        """Refuse a text that is too long."""
        if isinstance(made, str | list | tuple) and len(made) > LONGEST_TEXT:
            raise _too_long()
        return made

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self._step()
            yield value

    def _joined(self, values: list[Any]) -> str:
        return str(self.limit("".join(map(str, map(_refuse_null, values)))))

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            message = f"it takes more than {MOST_STEPS:,} steps, as if it never ended"
            raise _TooMuch(message)


def _join_counted(tree: nodes.Template) -> None:
    """Replace each `~` by a call that limits its length."""
    for owner in [tree, *tree.find_all(nodes.Node)]:
        for name, value in owner.iter_fields():
            if isinstance(value, nodes.Concat):
                setattr(owner, name, _join(value))
            elif isinstance(value, list):
                setattr(owner, name, [_join(each) if isinstance(each, nodes.Concat) else each for each in value])


def _join(node: nodes.Concat) -> nodes.Filter:
    every = nodes.List(node.nodes, lineno=node.lineno)
    return nodes.Filter(every, "armada_joined", [], [], None, None, lineno=node.lineno)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # Jinja's own escapes what HTML reserves


def _refuse_null(value: Any) -> Any:
    if value is None:
        message = 'it would print a value that is null: write `value or ""` for nothing'
        raise TypeError(message)
    return value


def _too_long() -> _TooMuch:
    return _TooMuch(f"it makes a text longer than {LONGEST_TEXT >> 20} million characters")


def _explain(error: Exception) -> str:
    said = str(error).partition("\n")[0] or type(error).__name__
    return said if isinstance(error, TemplateError) else f"{said} ({type(error).__name__})"
