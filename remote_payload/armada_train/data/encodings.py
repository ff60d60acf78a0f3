"""What a tokenised row consists of, by the kind of its text: the trainer's columns, how it is stored, measured and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

IGNORED = -100
"""The label of a token that does not count for the loss."""

Tokens = Mapping[str, Any]
"""A tokenised row, by column: lists of tokens, and texts."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The columns of tokenised rows.

    Attributes:
        columns: What the trainer takes.
        numbers: What is stored beside them.
        measure: Returns those numbers of a row: `length` is that of its longest sequence, in tokens; `trained` counts
            the tokens that count for the loss, 0 if nothing can be learnt from it; `tokens` is what a pass computes.
        cut: Cuts each sequence of a row to a length.
        counted: The number that says how many tokens a pass computes.
        texts: Those of the columns that are texts.
    """

    columns: tuple[str, ...]
    numbers: tuple[str, ...]
    measure: Callable[[Tokens], Mapping[str, int]]
    cut: Callable[[Tokens, int], Tokens]
    counted: str
    texts: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        lists = [(name, pa.string() if name in self.texts else pa.list_(pa.int32())) for name in self.columns]
        return pa.schema([*lists, *((name, pa.int32()) for name in self.numbers)])

    def make_batch(self, rows: Iterable[Tokens]) -> pa.RecordBatch:
        """Convert tokenised rows to the stored format."""
        made = [({name: row[name] for name in self.columns}, self.measure(row)) for row in rows]
        columns: dict[str, list[object]] = {name: [row[name] for row, _ in made] for name in self.columns}
        columns |= {name: [numbers[name] for _, numbers in made] for name in self.numbers}
        return pa.RecordBatch.from_pydict(columns, schema=self.schema)


def count_trained(labels: list[int]) -> int:
    """Count the tokens that count for the loss; nothing predicts the first one."""
    return sum(label != IGNORED for label in labels[1:])


def _measure_tokens(row: Tokens) -> Mapping[str, int]:
    return {"length": len(row["labels"]), "trained": count_trained(row["labels"])}


def _cut_tokens(row: Tokens, length: int) -> Tokens:
    return {name: row[name][:length] for name in ("input_ids", "labels")}


def _measure_pair(row: Tokens) -> Mapping[str, int]:
    prompt, chosen, rejected = (len(row[name]) for name in PAIRS.columns)
    is_trained = chosen and rejected and row["chosen_ids"] != row["rejected_ids"]
    return {
        "length": prompt + max(chosen, rejected),
        "trained": chosen + rejected if is_trained else 0,
        "tokens": 2 * prompt + chosen + rejected,
        "prompt": prompt,
    }


def _measure_unpaired(row: Tokens) -> Mapping[str, int]:
    prompt, completion = len(row["prompt_ids"]), len(row["completion_ids"])
    return {"length": prompt + completion, "trained": completion, "prompt": prompt}


def _cut_unpaired(row: Tokens, length: int) -> Tokens:
    room = max(0, length - len(row["prompt_ids"]))
    return {**row, "completion_ids": row["completion_ids"][:room]}


def _cut_pair(row: Tokens, length: int) -> Tokens:
    room = max(0, length - len(row["prompt_ids"]))
    return {**row, "chosen_ids": row["chosen_ids"][:room], "rejected_ids": row["rejected_ids"][:room]}


def _measure_prompt(row: Tokens) -> Mapping[str, int]:
    length = len(row["prompt_ids"])
    return {"length": length, "trained": int(length > 0)}


def _cut_prompt(row: Tokens, _length: int) -> Tokens:
    return row  # a prompt that is cut asks something else: long ones are dropped


TOKENS = Encoding(("input_ids", "labels"), ("length", "trained"), _measure_tokens, _cut_tokens, "length")
PAIRS = Encoding(
    ("prompt_ids", "chosen_ids", "rejected_ids"),
    ("length", "trained", "tokens", "prompt"),
    _measure_pair,
    _cut_pair,
    "tokens",
)

UNPAIRED = Encoding(
    ("prompt_ids", "completion_ids", "label"),  # the label is a list of one number
    ("length", "trained", "prompt"),
    _measure_unpaired,
    _cut_unpaired,
    "length",
)

PROMPTS = Encoding(("prompt_ids", "row"), ("length", "trained"), _measure_prompt, _cut_prompt, "length", texts=("row",))
"""`row` is the prompt with its columns, as JSON: completions are sampled from it, and judged by them."""

_OF_KIND = {
    "preference": PAIRS,
    "chat preference": PAIRS,
    "unpaired": UNPAIRED,
    "chat unpaired": UNPAIRED,
    "prompt": PROMPTS,
    "chat prompt": PROMPTS,
}


def encoding_of(kind: str) -> Encoding:
    """Return what rows of a kind become."""
    return _OF_KIND.get(kind, TOKENS)
