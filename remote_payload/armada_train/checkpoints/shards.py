"""List a checkpoint's shards in shards.json, so that a missing one, or one of another save, is found without torch.

Each rank writes its own part of the weights and of the optimizer. `torch.distributed.checkpoint` only notices while it
reads that a part is missing, after the GPUs were taken; a part of another save of the same model it reads silently.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from armada_train.records import find_object, show
from armada_train.runfolder import replace_json

NAME = "shards.json"
MODEL, OPTIMIZER = "pytorch_model_fsdp_0", "optimizer_0"
"""accelerate's folders for the two."""

_FORMAT = 1
_UNLISTED = f"{NAME} is missing or unreadable, so it is unknown whether every rank's shards are there"
_SAMPLES, _SAMPLE_BYTES = 32, 1 << 16


def is_sharded(checkpoint: Path) -> bool:
    """Tell whether a checkpoint's weights or optimizer are in shards, whole or not."""
    return (checkpoint / NAME).is_file() or any((checkpoint / folder).is_dir() for folder in (MODEL, OPTIMIZER))


def find_wrong_weights(checkpoint: Path) -> str | None:
    """Return what is wrong with the shards of the weights alone, or None."""
    files = _read_listing(checkpoint)
    return _UNLISTED if files is None else _first_wrong(checkpoint, _of(files, MODEL))


def write_listing(checkpoint: Path, ranks: int) -> None:
    """Record size and fingerprint of every shard, when all ranks have written theirs."""
    files = {}
    for folder in (MODEL, OPTIMIZER):
        for path in sorted((checkpoint / folder).iterdir()):
            files[f"{folder}/{path.name}"] = {"size": path.stat().st_size, "sample": fingerprint(path)}
    replace_json(checkpoint / NAME, {"format": _FORMAT, "ranks": ranks, "files": files})


def find_wrong_shard(checkpoint: Path) -> str | None:
    """Return what is wrong with the shards of a checkpoint, or None."""
    files = _read_listing(checkpoint)
    if files is None:
        return _UNLISTED
    for folder in (MODEL, OPTIMIZER):
        if not _of(files, folder):
            return f"{NAME} lists nothing of {folder}"
    return _first_wrong(checkpoint, files)


def fingerprint(path: Path) -> str:
    """Hash 32 pieces of 64 KiB, spread over the file: hashing all of 100 GB at every save would cost minutes."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        if size <= _SAMPLES * _SAMPLE_BYTES:
            digest.update(file.read())
            return digest.hexdigest()
        for number in range(_SAMPLES):
            file.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _read_listing(checkpoint: Path) -> dict[str, Any] | None:
    content = find_object(checkpoint / NAME)
    files = content.get("files") if content.get("format") == _FORMAT else None
    if not isinstance(files, dict) or not all(map(_is_inside, files)):
        return None
    return files


def _is_inside(name: str) -> bool:
    folder, _, file = name.partition("/")
    return folder in {MODEL, OPTIMIZER} and bool(file) and "/" not in file and file not in {".", ".."}


def _of(files: dict[str, Any], folder: str) -> dict[str, Any]:
    return {name: entry for name, entry in files.items() if name.startswith(f"{folder}/")}


def _first_wrong(checkpoint: Path, files: dict[str, Any]) -> str | None:
    if not files:
        return "no shard is listed"
    for name, entry in files.items():
        path = checkpoint / name
        if not os.path.isfile(path):  # noqa: PTH113  # Path.is_file raises where a name is too long
            return f"the shard {show(name)} is missing"
        try:
            if not isinstance(entry, dict) or path.stat().st_size != entry.get("size"):
                return f"the shard {name} is truncated"
            if fingerprint(path) != entry.get("sample"):
                return f"the shard {name} is not the one that this checkpoint was saved with"
        except OSError as error:
            return f"the shard {name} cannot be read: {error.strerror}"
    return None
