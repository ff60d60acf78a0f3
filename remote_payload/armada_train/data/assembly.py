"""Assemble the training rows from tokenised sources: mix by weight, fit to the maximum length, pack."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset, concatenate_datasets
from trl import pack_dataset

from armada_train.data.encodings import TOKENS, Encoding, Tokens
from armada_train.data.lengths import Fitted, describe_lengths, refuse_many_dropped
from armada_train.data.prepared import ROWS, Cache, Prepared
from armada_train.failure import PayloadFailure
from armada_train.specification.values import Schedule, Source

WRAPPED = "wrapped"
"""TRL's packing for plain text: documents follow each other without padding, and every row is full."""
_BATCH = 1000

Made = Sequence[tuple[Source, Prepared]]


@dataclass(frozen=True, slots=True)
class Part:
    """One split's rows, read from disk on access; `lengths` in tokens, of the final rows."""

    dataset: Any
    lengths: Any
    fitted: Fitted
    tokens: int
    trained: int
    lost_prompts: int
    encoding: Encoding = TOKENS
    long_prompts: str | None = None
    """Which prompts leave no room for a completion."""

    def describe(self) -> str:
        """Describe the split in one line; percentiles are those of the original rows."""
        fitted = self.fitted
        rows = len(fitted.lengths)
        if fitted.room:
            return f"{fitted.name}: {rows:,} prompts of {describe_lengths(fitted.lengths)}; {fitted.dropped / rows:.1%} dropped"
        return (
            f"{fitted.name}: {rows:,} rows of {describe_lengths(fitted.lengths)}; {fitted.dropped / rows:.1%} dropped; "
            f"{self.tokens:,} tokens an epoch, {self.trained / max(1, self.tokens):.1%} of them trained on"
        )

    def findings(self) -> list[str]:
        """Return messages for the user: rows that were changed or left out, and prompts that are tokenised differently later."""
        found = [sentence] if (sentence := self.fitted.describe()) else []
        if self.long_prompts:
            found.append(self.long_prompts)
        if self.lost_prompts:
            found.append(
                f"{self.lost_prompts} {self.fitted.name} rows: the end of the prompt is tokenised differently before its "
                "completion than alone, so the model is prompted differently than it was trained; end prompts with a line break"
            )
        return found


def assemble(
    cache: Cache,
    made: Made,
    name: str,
    schedule: Schedule,
    *,
    packing: str | None,
    encoding: Encoding = TOKENS,
    room: int = 0,
) -> Part:
    """Assemble a split.

    Rows that are only selected stay where they are. Rows that change (truncated, split, packed) are written once, for
    all ranks and runs that need the same.

    Args:
        cache: Stores the changed rows.
        made: The tokenised sources.
        name: The split's name in messages.
        schedule: Defines the permitted lengths.
        packing: How several samples are packed into a row; None if they are not.
        encoding: What the rows consist of.
        room: Tokens that the permitted length leaves to something else.

    Raises:
        PayloadFailure: `data_error`: more is dropped than the schedule allows, or nothing is left.
    """
    whole = concatenate_datasets([open_rows(prepared.rows) for _, prepared in made])
    chosen = _choose(made, schedule.seed)
    lengths, trained, counted = (_numbers(whole, column)[chosen] for column in ("length", "trained", encoding.counted))
    fitted = Fitted(name, schedule.max_length, np.sort(lengths).tolist(), room=room)
    is_long = lengths > schedule.max_length
    keep = ~is_long & (trained > 0)
    must_change = bool(is_long.any()) and schedule.long_samples != "drop" and packing != WRAPPED
    long_prompts = _describe_long_prompts(made, encoding, name, schedule)
    lost_prompts = sum(prepared.facts["lost_prompts"] for _, prepared in made)
    refuse = partial(refuse_many_dropped, fitted, schedule, long_prompts, splits="prompt" not in encoding.numbers)
    if not (must_change or packing):
        _count_dropped(fitted, is_long, trained)
        refuse()
        rows = chosen[keep]
        dataset = whole if np.array_equal(rows, np.arange(len(whole))) else whole.select(rows)
        tokens, learnt = int(counted[keep].sum()), int(trained[keep].sum())
        return Part(dataset, lengths[keep], fitted, tokens, learnt, lost_prompts, encoding, long_prompts)

    def make(folder: Path) -> dict[str, Any]:
        return _rewrite(whole.select(chosen), schedule, folder, encoding, packing)

    ingredients = {
        "what": "rows",
        "sources": [[prepared.key, source.weight] for source, prepared in made],
        "seed": schedule.seed,
        "max_length": schedule.max_length,
        "long_samples": schedule.long_samples,
        "packing": f"{packing} of trl {version('trl')}" if packing else None,
    }
    if (
        not must_change and packing != WRAPPED
    ):  # packing is the only change: refuse too many dropped rows before packing
        _count_dropped(fitted, is_long, trained)
        refuse()
    rewritten = cache.obtain(ingredients, make)
    for key in ("too_long", "truncated", "split", "untrainable", "cut_tokens", "kept"):
        setattr(fitted, key, rewritten.facts[key])
    refuse()
    dataset = open_rows(rewritten.rows)
    return Part(
        dataset,
        None if packing else _numbers(dataset, "length"),
        fitted,
        rewritten.facts["tokens"],
        rewritten.facts["trained"],
        lost_prompts,
        encoding,
        long_prompts,
    )


def open_rows(path: Path) -> Any:
    """Open a file of rows as memory-mapped; all ranks of a machine share the pages they read."""
    return Dataset.from_file(str(path))


def _choose(made: Made, seed: int) -> Any:
    """List the rows of an epoch: a weight of 2 takes every row twice, 0.5 a random half of them."""
    chosen = []
    start = 0
    for number, (source, prepared) in enumerate(made):
        rows = range(start, start + prepared.facts["rows"])
        start = rows.stop
        passes, share = divmod(source.weight, 1)
        extra = round(share * len(rows))
        drawn = random.Random(f"{seed}-{number}").sample(rows, extra)  # noqa: S311 - a draw, not a secret
        chosen += [np.arange(rows.start, rows.stop)] * int(passes) + [np.array(drawn, dtype=np.int64)]
    result = np.concatenate(chosen)
    if not len(result):
        raise PayloadFailure("data_error", "the weights leave no training rows")
    return result


def _count_dropped(fitted: Fitted, is_long: Any, trained: Any) -> None:
    fitted.too_long = int(is_long.sum())
    fitted.untrainable = int((~is_long & (trained == 0)).sum())
    fitted.kept = len(is_long) - fitted.dropped


def _numbers(dataset: Any, column: str) -> Any:
    return dataset.data.column(column).to_numpy()


def _describe_long_prompts(made: Made, encoding: Encoding, name: str, schedule: Schedule) -> str | None:
    """Name the first row whose prompt alone is too long: cutting the row would leave nothing to compare."""
    if "prompt" not in encoding.numbers:
        return None
    found = [(source, np.flatnonzero(_numbers(open_rows(prepared.rows), "prompt") >= schedule.max_length))
             for source, prepared in made]  # fmt: skip
    count = sum(len(rows) for _, rows in found)
    first = next((f"{source.name}:{rows[0] + 1}" for source, rows in found if len(rows)), None)
    if first is None:
        return None
    return (
        f"{count} {name} rows have a prompt that alone fills max_length {schedule.max_length}, so no completion is left "
        f"(the first is row {first})"
    )


def _rewrite(rows: Any, schedule: Schedule, folder: Path, encoding: Encoding, packing: str | None) -> dict[str, Any]:
    """Write the changed rows, and count the changes."""
    facts = dict.fromkeys(
        ("too_long", "truncated", "split", "untrainable", "cut_tokens", "kept", "tokens", "trained"), 0
    )
    plain = folder / ("fitted.arrow" if packing else ROWS)
    with pa.OSFile(str(plain), "wb") as file, pa.ipc.new_stream(file, encoding.schema) as writer:
        for batch in rows.select_columns(list(encoding.columns)).iter(_BATCH):
            whole = [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]
            limit = None if packing == WRAPPED else schedule.max_length
            made = [row for one in whole for row in _fit(one, schedule, encoding, limit, facts)]
            writer.write_batch(encoding.make_batch(made))
    if packing:
        fit = open_rows(plain)
        if len(fit):
            packed = pack_dataset(
                fit.select_columns(list(encoding.columns)),
                schedule.max_length,
                packing,
                {"cache_file_name": str(folder / ROWS)},
            )
            facts["packed_rows"] = len(packed)
        else:
            plain.replace(folder / ROWS)
        plain.unlink(missing_ok=True)
    return facts


def _fit(
    row: Tokens, schedule: Schedule, encoding: Encoding, limit: int | None, facts: dict[str, int]
) -> Iterator[Tokens]:
    """Fit one row to the maximum length; yield no row, one, or several."""
    length = encoding.measure(row)["length"]
    parts: list[Tokens] = [row]
    if limit is not None and length > limit:
        if schedule.long_samples == "drop":
            facts["too_long"] += 1
            return
        if schedule.long_samples == "truncate":
            facts["truncated"] += 1
            facts["cut_tokens"] += length - limit
            parts = [encoding.cut(row, limit)]
        else:
            facts["split"] += 1
            parts = [{name: values[at : at + limit] for name, values in row.items()} for at in range(0, length, limit)]
    for part in parts:
        numbers = encoding.measure(part)
        if not numbers["trained"]:
            facts["untrainable"] += 1
            continue
        facts["kept"] += 1
        facts["tokens"] += numbers[encoding.counted]
        facts["trained"] += numbers["trained"]
        yield part
