"""What a model will see of a training's data: rows as text with the part that is not trained on, and their lengths.

Home reads the files with the payload's own readers. Tokens need a tokenizer: `data_tokens` asks a host that has one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import UsageError
from armada.launch.training.bundled_payload import payload_module
from armada.launch.training.dataset import check_data, payload_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.tasks.bundled import BundledTraining
    from armada.config.tasks.experiment import Experiment

MOST_ROWS = 500
"""Rows of a part that are looked at for lengths."""

MOST_CHARACTERS = 2_000_000
"""The text of all rows that are looked at; a request to a host may have 8 MiB."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of `train` or `eval`, in their canonical form.

    Attributes:
        part: `train` or `eval`.
        kind: The kind of the rows; None if home cannot read them.
        rows: What was read; empty if home cannot read them.
        count: Rows of all files; None if some can only be counted on the host.
        looks: What they look like by their columns.
    """

    part: str
    kind: str | None
    rows: tuple[Mapping[str, Any], ...]
    count: int | None
    looks: str = ""

    @property
    def is_prompts(self) -> bool:
        """Whether the rows are prompts alone: the model writes what it is trained on."""
        return self.kind is not None and self.kind.removeprefix("chat ").startswith("prompt") and "_" not in self.kind


@dataclass(frozen=True, slots=True)
class Piece:
    """A text of a row, and whether it is trained on; `of` is the role or column that it is from."""

    of: str
    text: str
    trained: bool


@dataclass(frozen=True, slots=True)
class Example:
    """One row; its length and what of it is trained on, in the view's unit."""

    pieces: tuple[Piece, ...]
    length: int
    trained: int


@dataclass(frozen=True, slots=True)
class PartView:
    """What is known of one part.

    Attributes:
        sampled: The rows that were looked at.
        shortest: The least length, as the others in the view's unit; 0 without rows.
        beyond: Rows that are longer than `train.max_length`; None where lengths are no tokens.
        total: The lengths of all rows that were looked at, in one sum.
        trained: What of it is trained on.
        untrained_rows: Rows of which nothing is trained on.
    """

    sample: Sample
    sampled: int
    examples: tuple[Example, ...]
    shortest: int
    median: int
    p95: int
    longest: int
    beyond: int | None
    total: int
    trained: int
    untrained_rows: int


@dataclass(frozen=True, slots=True)
class DataView:
    """What the parts of a training's data look like; `why` says why lengths are characters and no tokens."""

    unit: str
    parts: tuple[PartView, ...]
    host: str | None = None
    why: str | None = None
    notes: tuple[str, ...] = ()


def read_samples(experiment: Experiment) -> tuple[BundledTraining, list[Sample]]:
    """Read the data of an experiment to its end, and keep the first rows.

    Raises:
        UsageError: It has no data of the bundled trainer.
        ConfigError: A file is missing, or a row cannot be used.
    """
    from armada.config.tasks.bundled import BundledTraining

    if not isinstance(experiment, BundledTraining):
        raise UsageError(
            f"{experiment.name} is a {experiment.task}, whose data only its own code reads",
            hint="`armada data show` is for trainings with the bundled trainer",
        )
    data = experiment.data
    facts = check_data(data, experiment.task)
    kinds = payload_module("specification.objectives").KINDS[experiment.task]
    samples = []
    for part, sources in (("train", data.train), ("eval", data.eval_sources)):
        if not sources:
            continue
        counts = [facts.counts.get(each.path) if each.path is not None else None for each in sources]
        if None in counts:
            samples.append(Sample(part, None, (), None))
            continue
        files = payload_module("data.rows").Files([payload_source(data, each) for each in sources], kinds)
        rows = _bounded(files.first(MOST_ROWS), MOST_CHARACTERS // 2)
        looks = " and ".join(facts.looks)
        samples.append(Sample(part, files.kind, tuple(rows), sum(filter(None, counts)), looks))
    return experiment, samples


def view_characters(samples: Sequence[Sample], examples: int, why: str) -> DataView:
    """Show rows as they were read; lengths are characters."""
    return DataView("characters", tuple(_view(sample, examples) for sample in samples), why=why)


def summarise(
    sample: Sample, every: Sequence[Example], examples: int, *, sampled: int | None = None, limit: int | None = None
) -> PartView:
    """Summarise rows.

    Args:
        sample: Their part.
        every: Each row that was looked at.
        examples: How many of them to keep.
        sampled: How many were looked at, if `every` is not all of them.
        limit: The length beyond which a row does not fit; None if it is in another unit.
    """
    lengths = sorted(each.length for each in every)
    return PartView(
        sample=sample,
        sampled=len(every) if sampled is None else sampled,
        examples=tuple(every[:examples]),
        shortest=lengths[0] if lengths else 0,
        median=_quantile(lengths, 50),
        p95=_quantile(lengths, 95),
        longest=lengths[-1] if lengths else 0,
        beyond=None if limit is None else sum(length > limit for length in lengths),
        total=sum(lengths),
        trained=sum(each.trained for each in every),
        untrained_rows=0 if sample.is_prompts else sum(not each.trained for each in every),
    )


def as_json(view: DataView, experiment: BundledTraining) -> dict[str, object]:
    """Return a view as `--json` prints it."""
    return {
        "experiment": experiment.name,
        "task": experiment.task,
        "host": view.host,
        "unit": view.unit,
        "why": view.why,
        "notes": list(view.notes),
        "max_length": experiment.train.max_length,
        "long_samples": experiment.train.long_samples,
        "parts": [
            {
                "part": part.sample.part,
                "kind": part.sample.kind,
                "looks": part.sample.looks,
                "rows": part.sample.count,
                "sampled": part.sampled,
                "shortest": part.shortest,
                "median": part.median,
                "p95": part.p95,
                "longest": part.longest,
                "beyond": part.beyond,
                "total": part.total,
                "trained": part.trained,
                "untrained_rows": part.untrained_rows,
                "examples": [
                    {
                        "length": each.length,
                        "trained": each.trained,
                        "pieces": [{"of": p.of, "text": p.text, "trained": p.trained} for p in each.pieces],
                    }
                    for each in part.examples
                ],
            }
            for part in view.parts
        ],
    }


def _view(sample: Sample, examples: int) -> PartView:
    every = []
    for row in sample.rows:
        pieces = tuple(_pieces(row))
        trained = sum(len(piece.text) for piece in pieces if piece.trained)
        counted = pieces[:1] if "columns" in row else pieces
        every.append(Example(pieces, sum(len(piece.text) for piece in counted), trained))
    return summarise(sample, every, examples)


def _pieces(row: Mapping[str, Any]) -> list[Piece]:
    """Cut a row in its canonical form into texts: what an assistant says, or what follows a prompt, is trained on."""
    if "tools" in row:
        rest = {key: value for key, value in row.items() if key != "tools"}
        return [Piece("tools", json.dumps(row["tools"], ensure_ascii=False), trained=False), *_pieces(rest)]
    if "columns" in row:  # a prompt: the model writes the rest, and the other columns are for who judges it
        more = [Piece(name, str(value), trained=False) for name, value in row["columns"].items()]
        return [Piece("prompt", _text_of(row["prompt"]), trained=False), *more]
    if "messages" in row:
        return [Piece(turn["role"], _said(turn), turn["role"] == "assistant") for turn in row["messages"]]
    if "label" in row:
        judged = "completion (good)" if row["label"] else "completion (bad)"
        row = {"prompt": row["prompt"], judged: row["completion"]}
    return [
        Piece(key, _text_of(value), trained=key != "prompt")
        for key, value in row.items()
        if isinstance(value, str | list)
    ]


def _text_of(value: str | list[Mapping[str, Any]]) -> str:
    return value if isinstance(value, str) else "\n".join(f"{turn['role']}: {_said(turn)}" for turn in value)


def _said(turn: Mapping[str, Any]) -> str:
    calls = turn.get("tool_calls")
    return str(turn["content"]) + (json.dumps(calls, ensure_ascii=False) if calls else "")


def _bounded(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Keep rows up to a number of characters, and the first in any case."""
    kept: list[Mapping[str, Any]] = []
    size = 0
    for row in rows:
        size += len(json.dumps(row))
        if kept and size > most:
            break
        kept.append(row)
    return kept


def _quantile(ordered: Sequence[int], share: int) -> int:
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)] if ordered else 0
