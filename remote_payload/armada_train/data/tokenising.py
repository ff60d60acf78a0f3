"""Tokenise a whole source into an Arrow file, on all available CPUs, in the order of its rows."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from armada_train.data.encodings import Encoding
from armada_train.data.prepared import ROWS
from armada_train.data.shapes import Row
from armada_train.data.tokens import tokenise_watching
from armada_train.failure import PayloadFailure

_CHUNK = 256
_SMALL_BYTES = 2_000_000
"""Below this size, tokenising takes less time than starting more processes."""
_SAID_EVERY_S = 10.0

Chunk = tuple[pa.RecordBatch, int]


def tokenise_rows(
    rows: Iterable[Row],
    encoding: Encoding,
    size_bytes: int,
    tokenizer: Any,
    template: str | None,
    folder: Path,
    beat: Callable[[], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Tokenise rows into a file.

    Args:
        rows: Read as they are needed, never all in memory.
        encoding: What they become.
        size_bytes: Approximate size of their text, which decides whether more processes pay off.
        tokenizer: The model's tokenizer.
        template: The chat template, if it is not the tokenizer's own.
        folder: Receives `rows.arrow`.
        beat: Called for every chunk.
        say: Called with the progress now and then.

    Returns:
        The number of rows, tokens, trained tokens, and rows whose prompt is not a prefix.
    """
    count = tokens = trained = lost = 0
    said_at = time.monotonic()
    workers = 1 if size_bytes < _SMALL_BYTES else available_cpus()
    with pa.OSFile(str(folder / ROWS), "wb") as file, pa.ipc.new_stream(file, encoding.schema) as writer:
        for batch, lost_here in _chunks(rows, encoding, tokenizer, template, workers):
            writer.write_batch(batch)
            count += batch.num_rows
            lost += lost_here
            tokens += int(batch[encoding.counted].to_numpy().sum())
            trained += int(batch["trained"].to_numpy().sum())
            beat()
            if time.monotonic() - said_at > _SAID_EVERY_S:
                said_at = time.monotonic()
                say(f"tokenised {count:,} rows, {tokens:,} tokens")
    return {"rows": count, "tokens": tokens, "trained": trained, "lost_prompts": lost}


def available_cpus() -> int:
    """Count the CPUs this process may use, which a scheduler may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _chunks(
    rows: Iterable[Row], encoding: Encoding, tokenizer: Any, template: str | None, workers: int
) -> Iterator[Chunk]:
    source = iter(rows)
    chunks = iter(lambda: list(itertools.islice(source, _CHUNK)), [])
    if workers == 1:
        for chunk in chunks:
            yield _tokenise_chunk(chunk, encoding, tokenizer, template)
        return
    # Forked, so that no worker loads the tokenizer again. Few chunks at a time, so that no file is held in memory.
    pool = ProcessPoolExecutor(
        workers,
        multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(encoding, tokenizer, template, os.getpid()),
    )
    try:
        waiting: deque[Future[Chunk]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(_work, chunk))
            if len(waiting) > 3 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)  # the error is reported at once
        raise
    pool.shutdown()  # an interpreter that exits while a pool is closing may print a traceback


def _tokenise_chunk(chunk: list[Row], encoding: Encoding, tokenizer: Any, template: str | None) -> Chunk:
    made = [tokenise_watching(row, tokenizer, template) for row in chunk]
    return encoding.make_batch(row for row, _ in made), sum(lost > 0 for _, lost in made)


_given: tuple[Encoding, Any, str | None] | None = None  # a worker's own, set once when it starts


def _begin(encoding: Encoding, tokenizer: Any, template: str | None, parent: int) -> None:
    global _given  # noqa: PLW0603 - what a pool's workers share has no other place
    _given = (encoding, tokenizer, template)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the rank handles SIGTERM, and ends its workers itself
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Exit if the rank was killed: the other workers hold its end of the queue open too, so reading would block."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(chunk: list[Row]) -> Chunk:
    if _given is None:
        raise PayloadFailure("exception", "a worker was started without a tokenizer")
    return _tokenise_chunk(chunk, *_given)
