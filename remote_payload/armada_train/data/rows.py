"""Validate and normalise rows; every error names its place. This runs before torch is imported.

Three kinds of rows are supported: chats (`messages`, or `conversations` in ShareGPT's from/value form), `prompt` with
`completion`, and plain `text`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from armada_train.data.hub import read_hub
from armada_train.data.readers import DataFailure, Place, read_file, show
from armada_train.failure import PayloadFailure
from armada_train.specification.values import Source

ROLES = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "human": "user",
    "gpt": "assistant",
}
KINDS = ("messages", "prompt_completion", "text")
_SHAPES = "messages, conversations, prompt and completion, or text"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Survey:
    """A source that was read to the end: the kind of its rows, and their number."""

    name: str
    kind: str
    rows: int


class Files:
    """The files of one split. They are opened only when rows are requested, so prepared data needs no reading.

    Args:
        sources: At least one.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self.ignored_keys: Counter[str] = Counter()
        """Filled when the rows are tokenised, or found in the cache."""

    @functools.cached_property
    def kind(self) -> str:
        """The kind of the first row; all other rows must have the same kind."""
        return next(iterate_source(self.sources[0], Counter()))[0]

    def check(self) -> None:
        """Read everything once, without keeping it.

        Raises:
            PayloadFailure: `data_error` at the first invalid row, or if kinds are mixed.
        """
        refuse_mixed_kinds([survey(source) for source in self.sources])

    def rows(self, source: Source, ignored: Counter[str]) -> Iterator[Row]:
        """Yield the rows of one source; they must have the same kind as all others."""
        for kind, row in iterate_source(source, ignored):
            if kind != self.kind:
                raise _mixed(source.name, kind, self.kind)
            yield row

    def first(self, count: int) -> list[Row]:
        rows = (row for source in self.sources for row in self.rows(source, Counter()))
        return list(itertools.islice(rows, count))

    def texts(self) -> Iterator[str]:
        """Yield all texts in the rows, for a tokenizer to learn from."""
        for source in self.sources:
            for row in self.rows(source, Counter()):
                yield from texts_of(row)


def texts_of(row: Row) -> Iterator[str]:
    """Yield all texts in a row."""
    if "messages" in row:
        yield from (message["content"] for message in row["messages"])
    else:
        yield from row.values()


def survey(source: Source) -> Survey:
    """Read a source to the end, without keeping it. Home also calls this, before it contacts a host.

    Raises:
        PayloadFailure: `data_error` at the first invalid row.
    """
    kind, rows = "", 0
    for kind, _ in iterate_source(source, Counter()):  # noqa: B007 - all are of one kind
        rows += 1
    return Survey(source.name, kind, rows)


def refuse_mixed_kinds(train: Sequence[Survey], evaluation: Sequence[Survey] = ()) -> None:
    """Refuse sources of several kinds, in one split or between the two.

    Raises:
        PayloadFailure: `data_error`.
    """
    for split in (train, evaluation):
        for found in split:
            if found.kind != split[0].kind:
                raise _mixed(found.name, found.kind, split[0].kind)
    if train and evaluation:
        refuse_other_evaluation(train[0].kind, evaluation[0].kind)


def refuse_other_evaluation(train: str, evaluation: str) -> None:
    """Refuse to evaluate on rows of another kind than the training rows.

    Raises:
        PayloadFailure: `data_error`.
    """
    if train != evaluation:
        raise PayloadFailure("data_error", f"training rows have {train}, eval rows have {evaluation}: one kind per run")


def without_end(kind: str) -> PayloadFailure:
    """Return the failure for rows of text that cannot be terminated, because there is no end token."""
    return PayloadFailure(
        "data_error",
        f"the rows are {kind}, which end with the tokenizer's end token, but the model's tokenizer has none: "
        "set `eos_token` in its tokenizer_config.json",
    )


def _mixed(name: str, kind: str, before: str) -> PayloadFailure:
    return DataFailure(name, f"has {kind}, but earlier files have {before}: one kind per run")


def read_source(source: Source, ignored: Counter[str]) -> tuple[str, list[Row]]:
    """Read every row of one source into memory; return their kind and the rows."""
    kinds, rows = zip(*iterate_source(source, ignored), strict=True)
    return kinds[0], list(rows)


def iterate_source(source: Source, ignored: Counter[str]) -> Iterator[tuple[str, Row]]:
    """Read one file, folder or dataset of the hub, row by row.

    Yields:
        The kind of the row, and the row.

    Raises:
        PayloadFailure: `data_error` at the first row that is invalid or of another kind.
    """
    first = ""
    for where, content in read_file(source.path) if source.hub is None else read_hub(source.hub):
        kind, row = normalise(content, where, ignored)
        if first and kind != first:
            raise DataFailure(where, f"this row has {kind}, but earlier ones have {first}: one kind per run")
        first = kind
        yield kind, row
    if not first:
        raise DataFailure(
            source.name if source.hub else Place(source.path), "it has no rows", f"it needs rows with {_SHAPES}"
        )


def normalise(content: Any, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    """Convert a row to the canonical form of its kind; unused keys are counted.

    Raises:
        DataFailure: The row is invalid.
    """
    if not isinstance(content, dict):
        raise DataFailure(where, f"a row must be a JSON object, not {show(content)}", f"with {_SHAPES}")
    if "messages" in content or "conversations" in content:
        key = "messages" if "messages" in content else "conversations"
        ignored.update(content.keys() - {key})
        return "messages", {"messages": _normalise_chat(content[key], where, f"`{key}", ignored)}
    if "prompt" in content and "completion" in content:
        ignored.update(content.keys() - {"prompt", "completion"})
        return "prompt_completion", {key: _text(content[key], where, f"`{key}`") for key in ("prompt", "completion")}
    if "text" in content:
        ignored.update(content.keys() - {"text"})
        return "text", {"text": _text(content["text"], where, "`text`")}
    for key, other in (("prompt", "completion"), ("completion", "prompt")):
        if other in content:
            raise DataFailure(where, f"`{key}` is missing beside `{other}`")
    keys = ", ".join(show(key) for key in itertools.islice(content, 5)) or "nothing"
    raise DataFailure(where, f"the row has {keys}; it needs {_SHAPES}")


def _normalise_chat(turns: Any, where: object, key: str, ignored: Counter[str]) -> list[dict[str, str]]:
    if not isinstance(turns, list) or not turns:
        raise DataFailure(where, f"{key}` must be a filled list of turns, not {show(turns)}")
    messages = []
    for index, turn in enumerate(turns):
        if not isinstance(turn, dict):
            raise DataFailure(where, f"{key}[{index}]` must be an object with role and content, not {show(turn)}")
        role_key, text_key = ("role", "content") if "role" in turn or "content" in turn else ("from", "value")
        if turn.get("tool_calls"):
            raise DataFailure(
                where, f"{key}[{index}]` has tool calls, which are not supported yet", "leave such rows out"
            )
        role = turn.get(role_key)
        if not isinstance(role, str) or role not in ROLES:
            raise DataFailure(where, f"{key}[{index}].{role_key}` is {show(role)}; known roles are {', '.join(ROLES)}")
        ignored.update(turn.keys() - {role_key, text_key})
        said = turn.get(text_key)
        if isinstance(said, list):
            raise DataFailure(
                where,
                f"{key}[{index}].{text_key}` is a list of parts, as for images; only text is supported",
                "leave such rows out, or join their texts",
            )
        messages.append({"role": ROLES[role], "content": _text(said, where, f"{key}[{index}].{text_key}`")})
    if not any(message["role"] == "assistant" and message["content"] for message in messages):
        raise DataFailure(where, f"{key}` has no assistant turn, so there is nothing to train on")
    return messages


def _text(value: Any, where: object, name: str) -> str:
    if isinstance(value, list) and name in ("`prompt`", "`completion`"):
        raise DataFailure(
            where, f"{name} is a list of messages, and must be text", "give the whole conversation as `messages`"
        )
    if not isinstance(value, str):
        raise DataFailure(where, f"{name} must be text, not {show(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataFailure(
            where, f"{name} has half a character (\\ud800 to \\udfff alone), which no tokenizer can read"
        ) from error
    return value
