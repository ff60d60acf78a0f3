"""What a merge is asked for, as its part of spec.json says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class Merge:
    """What is to be merged.

    Attributes:
        adapter: Folder of a checkpoint with an adapter.
        base: Folder or hub id; a model made on the spot lies beside its adapter.
        precision: What the training ran in, which is what its base was loaded in.
        quantized: The training's base was in 4 bits.
        dtype: Of the merged weights; `auto` is the base's, where that is exact enough.
        step: Of the checkpoint.
        rows: Files to compare the two on; those that are gone are passed over.
        memory_bytes: What this process may have.
    """

    adapter: Path
    base: str
    precision: str
    quantized: bool
    dtype: str
    step: int
    rows: tuple[Path, ...]
    memory_bytes: int | None
