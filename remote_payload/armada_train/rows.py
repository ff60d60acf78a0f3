"""Rows in the form they are trained on, every mistake with its place. It runs before torch is imported.

Three kinds of rows are known: chats (`messages`, or `conversations` in ShareGPT's from/value form), `prompt` with
`completion`, and plain `text`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from armada_train.failure import PayloadFailure
from armada_train.hub import read_hub
from armada_train.readers import read_file
from armada_train.specification import Source

ROLES = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "human": "user",
    "gpt": "assistant",
}
KINDS = ("messages", "prompt_completion", "text")

Row = dict[str, Any]


class Files:
    """The files of one split. Nothing is read until rows are asked for: who finds them prepared reads none.

    Args:
        sources: At least one.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self.ignored_keys: Counter[str] = Counter()
        """Filled when the rows are tokenised, or found to be."""

    @functools.cached_property
    def kind(self) -> str:
        """The kind of the first row, which is the kind of all that are accepted."""
        return next(iterate_source(self.sources[0], Counter()))[0]

    def check(self) -> None:
        """Read everything through once, keeping nothing of it.

        Raises:
            PayloadFailure: `data_error` at the first row that cannot be trained on, or when kinds are mixed.
        """
        for source in self.sources:
            for _ in self.rows(source, Counter()):
                pass

    def rows(self, source: Source, ignored: Counter[str]) -> Iterator[Row]:
        """Read one of the sources, whose rows must be of the same kind as all others."""
        for kind, row in iterate_source(source, ignored):
            if kind != self.kind:
                raise _data_error(
                    f"{source.name}: holds {kind}, but the files before hold {self.kind}: one kind per run"
                )
            yield row

    def first(self, count: int) -> list[Row]:
        rows = (row for source in self.sources for row in self.rows(source, Counter()))
        return list(itertools.islice(rows, count))

    def texts(self) -> Iterator[str]:
        """Everything written in the rows, for a tokenizer to learn from."""
        for source in self.sources:
            for row in self.rows(source, Counter()):
                yield from texts_of(row)


def texts_of(row: Row) -> Iterator[str]:
    """Everything written in a row."""
    if "messages" in row:
        yield from (message["content"] for message in row["messages"])
    else:
        yield from row.values()


def read_source(source: Source, ignored: Counter[str]) -> tuple[str, list[Row]]:
    """Read every row of one source into memory, and say of which kind they are."""
    kinds, rows = zip(*iterate_source(source, ignored), strict=True)
    return kinds[0], list(rows)


def iterate_source(source: Source, ignored: Counter[str]) -> Iterator[tuple[str, Row]]:
    """Read one file, folder or dataset of the hub, row by row.

    Yields:
        The kind of the row, and the row.

    Raises:
        PayloadFailure: `data_error` at the first row that cannot be trained on, or is of another kind.
    """
    first = ""
    for where, content in read_file(source.path) if source.hub is None else read_hub(source.hub):
        kind, row = normalise(content, where, ignored)
        if first and kind != first:
            raise _data_error(f"{where}: holds {kind}, but the rows before hold {first}: one kind per run")
        first = kind
        yield kind, row
    if not first:
        raise _data_error(f"{source.name} holds no rows")


def normalise(content: Any, where: str, ignored: Counter[str]) -> tuple[str, Row]:
    """Bring a row into the form of its kind; keys that are not used are counted."""
    if not isinstance(content, dict):
        raise _data_error(f"{where}: must be an object")
    if "messages" in content or "conversations" in content:
        key = "messages" if "messages" in content else "conversations"
        ignored.update(content.keys() - {key})
        return "messages", {"messages": _normalise_chat(content[key], f"{where}: `{key}`", ignored)}
    if "prompt" in content and "completion" in content:
        ignored.update(content.keys() - {"prompt", "completion"})
        return "prompt_completion", {key: _text(content[key], f"{where}: `{key}`") for key in ("prompt", "completion")}
    if "text" in content:
        ignored.update(content.keys() - {"text"})
        return "text", {"text": _text(content["text"], f"{where}: `text`")}
    raise _data_error(f"{where}: has none of `messages`, `conversations`, `prompt` with `completion`, `text`")


def _normalise_chat(turns: Any, where: str, ignored: Counter[str]) -> list[dict[str, str]]:
    if not isinstance(turns, list) or not turns:
        raise _data_error(f"{where} must be a list of turns")
    messages = []
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            raise _data_error(f"{where}[{index}] must be an object")
        role_key, text_key = ("role", "content") if "role" in turn else ("from", "value")
        if turn.get("tool_calls"):
            raise _data_error(f"{where}[{index}] holds tool calls, which this payload does not train on yet")
        role = turn.get(role_key)
        if not isinstance(role, str) or role not in ROLES:
            raise _data_error(f"{where}[{index}] has the role {role!r}; known are {', '.join(ROLES)}")
        ignored.update(turn.keys() - {role_key, text_key})
        messages.append({"role": ROLES[role], "content": _text(turn.get(text_key), f"{where}[{index}].{text_key}")})
    if not any(message["role"] == "assistant" and message["content"] for message in messages):
        raise _data_error(f"{where} has no assistant turn, so there is nothing to train on")
    return messages


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _data_error(f"{where} must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _data_error(f"{where} holds half a character, which no tokenizer can read") from error
    return value


def _data_error(message: str) -> PayloadFailure:
    return PayloadFailure("data_error", message)
