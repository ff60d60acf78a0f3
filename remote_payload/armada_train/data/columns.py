"""Turn rows as people have them into rows with our columns: by renaming, by a template, or by Alpaca's names.

This comes between reading a row (`readers`) and validating it (`shapes`), at home and on the host.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from armada_train.data.places import DataFailure, show
from armada_train.specification.forms import COLUMNS, FORMATS, OPTIONAL, Form
from armada_train.specification.objectives import PROMPTS

if TYPE_CHECKING:
    from armada_train.data.templates import RowTemplate

Row = dict[str, Any]

_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_LISTS = ("messages", "conversations", "tools", "history")
"""Columns that hold lists, which a table of text holds as JSON."""

LOOKS = {
    "conversations": "ShareGPT",
    "messages": "chats",
    "instruction": "Alpaca",
    "chosen": "preference pairs",
    "label": "judged answers",
    "completion": "prompts with completions",
    "text": "text",
    "prompt": "prompts",
}
"""What rows look like, by the first of these columns that they have."""


class Columns:
    """The columns of one source.

    Args:
        form: How its rows are written.
        name: The source's, for messages.
        is_table: Whether every value is text, as in CSV.

    Raises:
        DataFailure: The template cannot be used.
    """

    def __init__(self, form: Form, name: object, *, is_table: bool) -> None:
        self._form, self._name, self._is_table = form, name, is_table
        self._unseen = set(form.columns)
        self._has: dict[str, None] = {}
        self._template: RowTemplate | None = None
        if form.template:
            from armada_train.data.templates import RowTemplate  # Jinja takes 30 ms, and few experiments need it

            self._template = RowTemplate(form.template, name)
        self.format = FORMATS[form.format] if form.format else None

    def apply(self, content: Any, where: object, ignored: Counter[str], kinds: Sequence[str]) -> Any:
        """Return a row with our columns; what is no object is returned as it is.

        Args:
            content: The row as it was read.
            where: Its place.
            ignored: Counts the columns that nothing uses.
            kinds: The kinds of rows that the training takes.

        Raises:
            DataFailure: A column is missing, or the template fails.
        """
        if not isinstance(content, dict):
            return content
        row = self._rename(content, where, ignored) if self._form.columns else content
        if self._template is not None:
            row = self._render(self._template, row, where, takes_all=any(kind in PROMPTS for kind in kinds))
        if self._is_table:
            row = dict(_parse_cells(row))
        if self.format is not None:
            self._refuse_missing(row, where)
        if self.format is not None and not self.format.takes_all:
            known = (*self.format.needed, *self.format.optional)
            ignored.update(key for key in row if key not in known)
            row = {key: value for key, value in row.items() if key in known}
        if "messages" in kinds and is_alpaca(row):
            return read_alpaca(row, where, ignored)
        return row

    def narrow(self, kinds: Sequence[str]) -> Sequence[str]:
        """Return the kinds that rows of the stated format can have."""
        return kinds if self.format is None else [kind for kind in kinds if kind in self.format.kinds] or kinds

    def end(self) -> None:
        """Refuse the name of a column that no row had.

        Raises:
            DataFailure: There is one.
        """
        if self._unseen:
            has = ", ".join(map(show, list(self._has)[:12])) or "nothing"
            name = min(self._unseen)
            raise DataFailure(self._name, f"`columns` names {show(name)}, and no row has it", f"the rows have {has}")

    def _rename(self, content: Row, where: object, ignored: Counter[str]) -> Row:
        renamed = {}
        for theirs, ours in self._form.columns.items():
            if theirs in content:
                renamed[ours] = content[theirs]
            elif ours not in OPTIONAL:
                has = ", ".join(map(show, list(content)[:12])) or "nothing"
                raise DataFailure(
                    where, f"`columns` names {show(theirs)}, and the row has no such column", f"it has {has}"
                )
        if self._unseen:
            self._unseen -= content.keys()
            if len(self._has) < len(COLUMNS):
                self._has |= dict.fromkeys(content)
        kept = {key: value for key, value in content.items() if key not in self._form.columns}
        ignored.update(key for key in kept if key in renamed)
        return {**kept, **renamed}

    def _render(self, template: RowTemplate, row: Row, where: object, *, takes_all: bool) -> Row:
        made: Row = dict(template.render(row, where))
        for key in ("completion", "text", "output"):
            if key in made and not made[key].strip():
                raise DataFailure(
                    where, f"`template` makes an empty `{key}`, so there is nothing to train on", "leave such rows out"
                )
        if takes_all:
            return {**row, **made}
        return made | {key: row[key] for key in ("label", "tools") if key in row}

    def _refuse_missing(self, row: Row, where: object) -> None:
        if self.format is None:
            return
        lacking = next((key for key in self.format.needed if key not in row), None)
        if lacking is not None:
            has = ", ".join(map(show, list(row)[:12])) or "nothing"
            raise DataFailure(
                where,
                f"`format: {self._form.format}` needs `{lacking}`, and the row has {has}",
                f"`columns: {{their name: {lacking}}}` names another column",
            )


def recognise(content: Any) -> str:
    """Say what a row looks like, by its columns."""
    return next((words for key, words in LOOKS.items() if isinstance(content, dict) and key in content), "")


def is_alpaca(row: Row) -> bool:
    """Tell whether a row has Alpaca's columns, and none that says more."""
    others = ("messages", "conversations", "completion", "text")
    return "instruction" in row and "output" in row and not any(key in row for key in others)


def read_alpaca(row: Row, where: object, ignored: Counter[str]) -> Row:
    """Turn Alpaca's columns into a chat: `input` follows `instruction` on a line of its own.

    Raises:
        DataFailure: A column holds something else than text, or the answer is empty.
    """
    alpaca = FORMATS["alpaca"]
    known = (*alpaca.needed, *alpaca.optional)
    ignored.update(key for key in row if key not in known)
    for key in ("instruction", "input", "output", "system"):
        value = row.get(key)
        if not isinstance(value, str) and not (value is None and key in alpaca.optional):
            raise DataFailure(where, f"`{key}` must be text, not {show(value)}")
    if not row["output"].strip():
        raise DataFailure(where, "`output` is empty, so there is nothing to train on", "leave such rows out")
    said = "\n".join(text for text in (row["instruction"], row.get("input")) if text)
    if not said:
        raise DataFailure(where, "`instruction` and `input` are both empty", "leave such rows out")
    turns = [("system", row["system"])] if row.get("system") else []
    for pair in _history(row.get("history"), where):
        turns += [("user", pair[0]), ("assistant", pair[1])]
    turns += [("user", said), ("assistant", row["output"])]
    return {"messages": [{"role": role, "content": text} for role, text in turns]}


def _history(history: Any, where: object) -> list[Any]:
    pairs = history or []
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise DataFailure(where, f"`history` must be a list of [instruction, output], not {show(history)}")
    return pairs


def _parse_cells(row: Row) -> Iterator[tuple[str, Any]]:
    """Read the cells of a table that are more than text; leave out optional ones that are empty."""
    for key, value in row.items():
        if value == "" and key in OPTIONAL:
            continue
        if key == "label" and isinstance(value, str):
            yield key, _TRUTH.get(value.strip().lower(), value)
        elif key in _LISTS and isinstance(value, str):
            yield key, _as_json(value)
        else:
            yield key, value


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
