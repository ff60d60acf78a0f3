"""Read and validate the rows of one split; every error names its place. This runs before torch is imported."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from armada_train.data.columns import Columns, recognise
from armada_train.data.hub import read_hub
from armada_train.data.places import DataFailure, Place
from armada_train.data.readers import read_file
from armada_train.data.shapes import CHATS, Row, describe_kinds, normalise, texts_of
from armada_train.data.tables import is_table
from armada_train.data.turns import has_tools
from armada_train.failure import PayloadFailure
from armada_train.specification.objectives import SFT
from armada_train.specification.values import Source


@dataclass(frozen=True, slots=True)
class Survey:
    """A source that was read to the end: the kind of its rows, their number, and what the first looks like."""

    name: str
    kind: str
    rows: int
    looks: str = ""
    offers_tools: bool = False
    calls_tools: bool = False


class Files:
    """The files of one split. They are opened only when rows are requested, so prepared data needs no reading.

    Args:
        sources: At least one.
        kinds: The kinds of rows that the training takes.
    """

    def __init__(self, sources: Sequence[Source], kinds: Sequence[str] = SFT.kinds) -> None:
        self.sources = tuple(sources)
        self._kinds = tuple(kinds)
        self.ignored_keys: Counter[str] = Counter()
        """Filled when the rows are tokenised, or found in the cache."""

    @functools.cached_property
    def kind(self) -> str:
        """The kind of the first row; all other rows must have the same kind."""
        return next(iterate_source(self.sources[0], Counter(), self._kinds))[0]

    def check(self) -> None:
        """Read everything once, without keeping it.

        Raises:
            PayloadFailure: `data_error` at the first invalid row, or if kinds are mixed.
        """
        refuse_mixed_kinds([survey(source, self._kinds) for source in self.sources])

    def rows(self, source: Source, ignored: Counter[str]) -> Iterator[Row]:
        """Yield the rows of one source; they must have the same kind as all others."""
        for kind, row in iterate_source(source, ignored, self._kinds):
            if kind != self.kind:
                raise _mixed(source.name, kind, self.kind)
            yield row

    def placed(self, name: str) -> Iterator[tuple[object, Row, Any]]:
        """Yield the rows of an evaluation set, each with its place before and what the file says behind."""
        for source in self.sources:
            if source.set == name:
                for where, _, row, content in _iterate(source, Counter(), self._kinds):
                    yield where, row, content

    def first(self, count: int) -> list[Row]:
        rows = (row for source in self.sources for row in self.rows(source, Counter()))
        return list(itertools.islice(rows, count))

    def texts(self) -> Iterator[str]:
        """Yield all texts in the rows, for a tokenizer to learn from."""
        for source in self.sources:
            for row in self.rows(source, Counter()):
                yield from texts_of(row)


def survey(source: Source, kinds: Sequence[str] = SFT.kinds) -> Survey:
    """Read a source to the end, without keeping it. Home also calls this, before it contacts a host.

    Raises:
        PayloadFailure: `data_error` at the first invalid row.
    """
    kind, rows, offers, calls = "", 0, False, False
    looks: list[str] = []
    for kind, row in iterate_source(source, Counter(), kinds, looks):
        rows += 1
        if kind in CHATS and not (offers and calls):
            here = has_tools(row)
            offers, calls = offers or here[0], calls or here[1]
    return Survey(source.name, kind, rows, looks[0], offers, calls)


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


def read_source(source: Source, ignored: Counter[str], kinds: Sequence[str] = SFT.kinds) -> tuple[str, list[Row]]:
    """Read every row of one source into memory; return their kind and the rows."""
    kinds, rows = zip(*iterate_source(source, ignored, kinds), strict=True)
    return kinds[0], list(rows)


def iterate_source(
    source: Source, ignored: Counter[str], kinds: Sequence[str] = SFT.kinds, looks: list[str] | None = None
) -> Iterator[tuple[str, Row]]:
    """Read one file, folder or dataset of the hub, row by row.

    Args:
        source: Its rows may have other columns than ours.
        ignored: Counts the columns that nothing uses.
        kinds: The kinds of rows that the training takes.
        looks: Receives what the first row looks like.

    Yields:
        The kind of the row, and the row.

    Raises:
        PayloadFailure: `data_error` at the first row that is invalid or of another kind.
    """
    for _, kind, row, _ in _iterate(source, ignored, kinds, looks):
        yield kind, row


def _iterate(
    source: Source, ignored: Counter[str], kinds: Sequence[str], looks: list[str] | None = None
) -> Iterator[tuple[object, str, Row, Any]]:
    first = ""
    origin: object = source.name if source.hub else Place(source.path)
    columns = Columns(source.form, origin, is_table=source.hub is None and is_table(source.path))
    for where, content in read_file(source.path) if source.hub is None else read_hub(source.hub):
        ours = columns.apply(content, where, ignored, kinds)
        kind, row = normalise(ours, where, ignored, columns.narrow(kinds))
        if looks is not None and not first:
            looks.append(recognise(ours if source.form.columns or source.form.template else content))
        if first and kind != first:
            raise DataFailure(where, f"this row has {kind}, but earlier ones have {first}: one kind per run")
        first = kind
        yield where, kind, row, content
    if not first:
        raise DataFailure(origin, "it has no rows", f"it needs rows with {describe_kinds(kinds)}")
    columns.end()
