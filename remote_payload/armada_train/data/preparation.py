"""Prepare training rows from files: one process tokenises for all ranks, once per data, tokenizer and chat template."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from datasets import concatenate_datasets

from armada_train.data.assembly import Part, assemble
from armada_train.data.encodings import PROMPTS, encoding_of
from armada_train.data.hashes import hash_source
from armada_train.data.prepared import Cache, Prepared, prepared_folder
from armada_train.data.rows import Files
from armada_train.data.tokenising import tokenise_rows
from armada_train.data.tokens import hash_tokenizer
from armada_train.failure import PayloadFailure
from armada_train.runfolder import RunFolder
from armada_train.specification.objectives import SFT
from armada_train.specification.values import Source, Training

_UNKNOWN_BYTES = 1 << 40
"""The assumed size of sources that are not files: large."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The training rows (None: a stream) and each evaluation set's; `found` of the `made` sources were prepared before.

    A single set without a name has the empty one.
    """

    train: Part | None
    evaluation: Mapping[str, Part]
    made: int
    found: int
    seconds: float

    @property
    def parts(self) -> list[Part]:
        return [part for part in (self.train, *self.evaluation.values()) if part]

    def join_evaluation(self) -> tuple[Any, Any, dict[str, range]]:
        """Return the rows of all evaluation sets as one dataset, their lengths, and which of them are each set's."""
        parts = self.evaluation
        if not parts:
            return None, None, {}
        if len(parts) == 1:
            ((name, part),) = parts.items()
            return part.dataset, part.lengths, {name: range(len(part.dataset))}
        sets, start = {}, 0
        for name, part in parts.items():
            sets[name] = range(start, start + len(part.dataset))
            start = sets[name].stop
        rows = concatenate_datasets([part.dataset for part in parts.values()])
        return rows, np.concatenate([part.lengths for part in parts.values()]), sets


def prepare(
    training: Training,
    run: RunFolder,
    beat: Callable[[], None],
    tokenizer: Any,
    template: str | None,
    train_files: Files | None,
    eval_files: Files | None,
) -> Splits:
    """Prepare both splits, or find them prepared.

    Args:
        training: The specification.
        run: The run's folder and this rank.
        beat: Called regularly meanwhile.
        tokenizer: The model's tokenizer.
        template: The chat template, if it is not the tokenizer's own.
        train_files: None for a stream.
        eval_files: None without evaluation.

    Raises:
        PayloadFailure: `data_error`, `disk_full`.
    """
    started = time.monotonic()
    cache = Cache(prepared_folder(training, run), beat, _say)
    tokens: list[Prepared] = []

    def tokens_of(files: Files) -> list[tuple[Source, Prepared]]:
        sha = hash_tokenizer(tokenizer, template)
        # Other tasks may read another kind of row from the same file.
        kind = {} if training.objective.name == SFT.name else {"kind": files.kind}
        made = [
            (source, _tokenise(cache, files, source, tokenizer, template, {"tokenizer": sha, **kind}, beat))
            for source in files.sources
        ]
        for source, prepared in made:
            if prepared.facts["kind"] != files.kind:
                message = (
                    f"{source.name}: has {prepared.facts['kind']}, but other files have {files.kind}: one kind per run"
                )
                raise PayloadFailure("data_error", message)
            files.ignored_keys.update(prepared.facts["ignored_keys"])
        tokens.extend(prepared for _, prepared in made)
        return made

    train, evaluation = None, {}
    room = training.objective.room
    schedule = dataclasses.replace(training.schedule, max_length=training.schedule.max_length - room)
    if train_files:
        packing = training.objective.packing if schedule.packing else None
        encoding = encoding_of(train_files.kind)
        made = tokens_of(train_files)
        train = assemble(cache, made, "train", schedule, packing=packing, encoding=encoding, room=room)
    if eval_files:
        # The eval loss must be comparable, whether or not the training rows are packed.
        encoding = encoding_of(eval_files.kind)
        made = tokens_of(eval_files)
        for name in dict.fromkeys(source.set for source, _ in made):
            own = [(source, prepared) for source, prepared in made if source.set == name]
            called = f"eval {name}".rstrip()
            evaluation[name] = assemble(cache, own, called, schedule, packing=None, encoding=encoding, room=room)
    new = sum(prepared.is_new for prepared in tokens)
    return Splits(train, evaluation, new, len(tokens) - new, time.monotonic() - started)


def _tokenise(
    cache: Cache,
    files: Files,
    source: Source,
    tokenizer: Any,
    template: str | None,
    depends_on: Mapping[str, str],
    beat: Callable[[], None],
) -> Prepared:
    data_sha = hash_source(source)

    def make(folder: Path) -> dict[str, Any]:
        size = source.path.stat().st_size if source.hub is None and source.path.is_file() else _UNKNOWN_BYTES
        ignored: Counter[str] = Counter()
        rows = files.rows(source, ignored)
        facts = tokenise_rows(rows, encoding_of(files.kind), size, tokenizer, template, folder, beat, _say)
        return {**facts, "kind": files.kind, "ignored_keys": dict(ignored)}

    form = source.form.describe()
    ingredients = {
        "what": "tokens",
        "data": data_sha,
        **({"name": source.path.name} if encoding_of(files.kind) is PROMPTS else {}),  # the rows hold their place
        **({"form": form} if form else {}),
        **depends_on,
        "libraries": {name: version(name) for name in ("transformers", "tokenizers", "trl")},
    }
    return cache.obtain(ingredients, make)


def _say(sentence: str) -> None:
    print(sentence, flush=True)
