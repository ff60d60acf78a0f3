"""`armada_train prepare`: tokenise before any GPU is allocated, and report the tokens to train on."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from armada_train.data.hooks import Stream
from armada_train.data.preparation import Splits, prepare
from armada_train.data.rows import Files
from armada_train.data.stream import StreamDataset
from armada_train.data.tokens import check_architecture, choose_template, load_tokenizer
from armada_train.model.loading import make_tiny_model, model_path
from armada_train.model.teacher import prepare_teacher
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.runfolder import RunFolder, replace_json
from armada_train.specification.values import TinyModel, Training


def prepare_and_report(
    training: Training, run: RunFolder, heartbeat: Heartbeat, train_rows: Files | Stream, eval_files: Files | None
) -> None:
    """Prepare both splits; print a description and write it into the run's report.json.

    Raises:
        PayloadFailure: `data_error`, `disk_full`.
    """
    heartbeat.beat("preparing")
    tokenizer, template, splits = prepare_model_and_data(training, run, heartbeat, train_rows, eval_files)
    lines = describe(splits)
    if isinstance(train_rows, Stream):
        _, lengths = StreamDataset(train_rows, tokenizer, template, training.schedule, training.batch.overall).survey()
        lines = [f"train: made by hooks while training; {lengths}", *lines]
    findings = [*ignored_keys(train_rows, eval_files), *(line for part in splits.parts for line in part.findings())]
    for line in [*lines, *(f"finding: {finding}" for finding in findings)]:
        print(line, flush=True)
    parts = {
        part.fitted.name: {
            **{key: value for key, value in dataclasses.asdict(part.fitted).items() if key != "lengths"},
            "rows": len(part.fitted.lengths),
            "tokens": part.tokens,
            "trained": part.trained,
            "described": part.describe(),
        }
        for part in splits.parts
    }
    replace_json(run.path / "report.json", {"parts": parts, "findings": findings, "seconds": splits.seconds})
    heartbeat.beat("ended")


def prepare_model_and_data(
    training: Training,
    run: RunFolder,
    heartbeat: Heartbeat,
    train_rows: Files | Stream,
    eval_files: Files | None,
) -> tuple[Any, str | None, Splits]:
    """Make what the ranks share: a tiny model where one is asked for, and the tokenised rows.

    Returns:
        The tokenizer, the chat template where it is not the tokenizer's own, and the rows.
    """
    if isinstance(training.model, TinyModel):
        make_tiny_model(training.model, training, run, train_rows)
    check_architecture(model_path(training, run))
    tokenizer = load_tokenizer(model_path(training, run))
    prepare_teacher(training, run, tokenizer)
    template = choose_template(tokenizer, train_rows.kind)
    files = train_rows if isinstance(train_rows, Files) else None
    beat = partial(heartbeat.beat, "preparing")
    return tokenizer, template, prepare(training, run, beat, tokenizer, template, files, eval_files)


def describe(splits: Splits) -> list[str]:
    """Describe what was prepared, and whether it existed before."""
    done = (
        f"{splits.made} tokenised in {splits.seconds:.1f} s"
        if splits.made
        else "all reused from an earlier preparation"
    )
    also = f", {splits.found} reused from an earlier preparation" if splits.made and splits.found else ""
    return [*(part.describe() for part in splits.parts), *([f"data: {done}{also}"] if splits.parts else [])]


def ignored_keys(*parts: Files | Stream | None) -> list[str]:
    """Name the rows' unused keys."""
    return [
        "unused keys in the rows: " + ", ".join(f"{key} ({count})" for key, count in rows.ignored_keys.most_common(8))
        for rows in parts
        if rows and rows.ignored_keys
    ]
