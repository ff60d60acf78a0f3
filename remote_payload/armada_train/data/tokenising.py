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

from armada_train.data.prepared import ROWS
from armada_train.data.rows import Row
from armada_train.data.tokens import count_trained, tokenise_watching
from armada_train.failure import PayloadFailure

SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
        ("length", pa.int32()),
        ("trained", pa.int32()),
    ]
)
_CHUNK = 256
_SMALL_BYTES = 2_000_000
"""Less text than this is tokenised sooner than more processes are started."""
_SAID_EVERY_S = 10.0

Chunk = tuple[pa.RecordBatch, int]


def tokenise_rows(
    rows: Iterable[Row],
    size_bytes: int,
    tokenizer: Any,
    template: str | None,
    folder: Path,
    beat: Callable[[], None],
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Write rows as tokens.

    Args:
        rows: Read as they are needed, never all held at once.
        size_bytes: About how much text they are, which decides whether more processes are worth it.
        tokenizer: Of the model.
        template: Where it is not the tokenizer's own.
        folder: Gets `rows.arrow`.
        beat: Called for every chunk.
        say: Told now and then how far it is.

    Returns:
        Rows, tokens, tokens that are trained on, and rows whose prompt is no prefix.
    """
    count = tokens = trained = lost = 0
    said_at = time.monotonic()
    workers = 1 if size_bytes < _SMALL_BYTES else available_cpus()
    with pa.OSFile(str(folder / ROWS), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        for batch, lost_here in _chunks(rows, tokenizer, template, workers):
            writer.write_batch(batch)
            count += batch.num_rows
            lost += lost_here
            tokens += int(batch["length"].to_numpy().sum())
            trained += int(batch["trained"].to_numpy().sum())
            beat()
            if time.monotonic() - said_at > _SAID_EVERY_S:
                said_at = time.monotonic()
                say(f"tokenised {count:,} rows, {tokens:,} tokens")
    return {"rows": count, "tokens": tokens, "trained": trained, "lost_prompts": lost}


def available_cpus() -> int:
    """Count the CPUs this process may use, which a scheduler may have made fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def make_batch(rows: Iterable[dict[str, list[int]]]) -> pa.RecordBatch:
    """Put tokenised rows into the form they are stored in."""
    made = list(rows)
    return pa.RecordBatch.from_pydict(
        {
            "input_ids": [row["input_ids"] for row in made],
            "labels": [row["labels"] for row in made],
            "length": [len(row["labels"]) for row in made],
            "trained": [count_trained(row["labels"]) for row in made],
        },
        schema=SCHEMA,
    )


def _chunks(rows: Iterable[Row], tokenizer: Any, template: str | None, workers: int) -> Iterator[Chunk]:
    source = iter(rows)
    chunks = iter(lambda: list(itertools.islice(source, _CHUNK)), [])
    if workers == 1:
        for chunk in chunks:
            yield _tokenise_chunk(chunk, tokenizer, template)
        return
    # Forked, so that nobody loads the tokenizer anew, and few chunks at a time, so that no file is held in memory.
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("fork"), initializer=_begin, initargs=(tokenizer, template, os.getpid())
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
        pool.shutdown(wait=False, cancel_futures=True)  # what went wrong is said at once
        raise
    pool.shutdown()  # an interpreter that ends while a pool does may print a traceback of its own


def _tokenise_chunk(chunk: list[Row], tokenizer: Any, template: str | None) -> Chunk:
    made = [tokenise_watching(row, tokenizer, template) for row in chunk]
    return make_batch(row for row, _ in made), sum(lost > 0 for _, lost in made)


_given: tuple[Any, str | None] | None = None  # a worker's own, set once where it begins


def _begin(tokenizer: Any, template: str | None, parent: int) -> None:
    global _given  # noqa: PLW0603 - what a pool's workers share has no other place
    _given = (tokenizer, template)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the rank decides what its end means, and ends its workers itself
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End when the rank was killed: its end of the queue is held open by the other workers too."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(chunk: list[Row]) -> Chunk:
    if _given is None:
        raise PayloadFailure("exception", "a worker was started without a tokenizer")
    return _tokenise_chunk(chunk, *_given)
