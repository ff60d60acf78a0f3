"""The settings of a merge, from its section of spec.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Merge:
    """A requested merge.

    Attributes:
        adapter: Folder of a checkpoint with an adapter.
        base: Folder or hub id; a model created by the training lies beside its adapter.
        precision: The training's precision, in which its base was loaded.
        quantized: The training's base was in 4 bits.
        dtype: The type of the merged weights; `auto` is the base's, if that is exact enough.
        step: The checkpoint's step.
        rows: Files to compare the two models on; missing ones are skipped.
        memory_bytes: How much memory this process may use.
        sharded: The checkpoint in `adapter` holds all weights in shards; there is no base, and nothing to compare with.
    """

    adapter: Path
    base: str
    precision: str
    quantized: bool
    dtype: str
    step: int
    rows: tuple[Path, ...]
    memory_bytes: int | None
    sharded: bool = False
