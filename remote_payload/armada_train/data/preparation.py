"""Prepare training rows from files: one process tokenises for all ranks, once per data, tokenizer and chat template."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from armada_train.checkpoints.manifest import hash_source
from armada_train.data.assembly import Part, assemble
from armada_train.data.hooks import Stream
from armada_train.data.prepared import Cache, Prepared, prepared_folder
from armada_train.data.rows import Files
from armada_train.data.tokenising import tokenise_rows
from armada_train.data.tokens import choose_template, hash_tokenizer, load_tokenizer
from armada_train.failure import PayloadFailure
from armada_train.model.loading import make_tiny_model, model_path
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder
from armada_train.specification.values import Source, TinyModel, Training

_BETWEEN_LOOKS_S = 0.05
_UNKNOWN_BYTES = 1 << 40
"""The assumed size of sources that are not files: large."""


@dataclass(frozen=True, slots=True)
class Splits:
    """The training rows (None: a stream) and the evaluation rows; `found` of the `made` sources were prepared before."""

    train: Part | None
    evaluation: Part | None
    made: int
    found: int
    seconds: float

    @property
    def parts(self) -> list[Part]:
        return [part for part in (self.train, self.evaluation) if part]


def prepare(
    training: Training,
    run: RunFolder,
    heartbeat: Heartbeat,
    tokenizer: Any,
    template: str | None,
    train_files: Files | None,
    eval_files: Files | None,
) -> Splits:
    """Prepare both splits, or find them prepared.

    Args:
        training: The specification.
        run: The run's folder and this rank.
        heartbeat: Updated meanwhile.
        tokenizer: The model's tokenizer.
        template: The chat template, if it is not the tokenizer's own.
        train_files: None for a stream.
        eval_files: None without evaluation.

    Raises:
        PayloadFailure: `data_error`, `disk_full`.
    """
    started = time.monotonic()
    cache = Cache(prepared_folder(training, run), lambda: heartbeat.beat("preparing"), _say)
    tokens: list[Prepared] = []

    def tokens_of(files: Files) -> list[tuple[Source, Prepared]]:
        sha = hash_tokenizer(tokenizer, template)
        made = [
            (source, _tokenise(cache, files, source, tokenizer, template, sha, heartbeat)) for source in files.sources
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

    train = evaluation = None
    schedule = training.schedule
    if train_files:
        train = assemble(cache, tokens_of(train_files), "train", schedule, packing=schedule.packing)
    if eval_files:
        # The eval loss must be comparable, whether or not the training rows are packed.
        evaluation = assemble(cache, tokens_of(eval_files), "eval", schedule, packing=False)
    new = sum(prepared.is_new for prepared in tokens)
    return Splits(train, evaluation, new, len(tokens) - new, time.monotonic() - started)


def prepare_model_and_data(
    training: Training,
    run: RunFolder,
    heartbeat: Heartbeat,
    train_rows: Files | Stream,
    eval_files: Files | None,
) -> tuple[Any, str | None, Splits]:
    """Prepare what the ranks share: a tiny model if requested, and the tokenised rows.

    Returns:
        The tokenizer, the chat template if it is not the tokenizer's own, and the rows.
    """
    if isinstance(training.model, TinyModel):
        make_tiny_model(training.model, training, run, train_rows)
    tokenizer = load_tokenizer(model_path(training, run))
    template = choose_template(tokenizer, train_rows.kind)
    files = train_rows if isinstance(train_rows, Files) else None
    return tokenizer, template, prepare(training, run, heartbeat, tokenizer, template, files, eval_files)


def as_main_first(run: RunFolder, heartbeat: Heartbeat, work: Callable[[], Any]) -> Any:
    """Let rank 0 do some work first; the other ranks then find it done.

    They wait for a file and not in a collective, which would time out however well the work proceeds. If rank 0 fails,
    the launcher ends the waiting ranks.
    """
    # Each start has a new port from the launcher, so a marker of an earlier start does not apply.
    marker = run.attempt_folder / f".prepared-{os.environ.get('MASTER_PORT', '0')}"
    if run.is_main:
        result = work()
        if run.world_size > 1:
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
        return result
    while not marker.exists():
        heartbeat.beat("preparing")
        time.sleep(_BETWEEN_LOOKS_S)
    return work()


def _tokenise(
    cache: Cache,
    files: Files,
    source: Source,
    tokenizer: Any,
    template: str | None,
    tokenizer_sha: str,
    heartbeat: Heartbeat,
) -> Prepared:
    data_sha = hash_source(source)

    def make(folder: Path) -> dict[str, Any]:
        size = source.path.stat().st_size if source.hub is None and source.path.is_file() else _UNKNOWN_BYTES
        ignored: Counter[str] = Counter()
        rows = files.rows(source, ignored)
        facts = tokenise_rows(rows, size, tokenizer, template, folder, lambda: heartbeat.beat("preparing"), _say)
        return {**facts, "kind": files.kind, "ignored_keys": dict(ignored)}

    ingredients = {
        "what": "tokens",
        "data": data_sha,
        "tokenizer": tokenizer_sha,
        "libraries": {name: version(name) for name in ("transformers", "tokenizers", "trl")},
    }
    return cache.obtain(ingredients, make)


def _say(sentence: str) -> None:
    print(sentence, flush=True)
