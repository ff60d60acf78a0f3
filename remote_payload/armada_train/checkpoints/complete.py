"""Find the checkpoint to resume from: the last one that is complete, also after a kill.

The Trainer itself takes the highest number. It then fails on a half-written checkpoint, or silently restarts the
optimizer if only that file is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from armada_train.checkpoints.manifest import read_manifest
from armada_train.checkpoints.shards import find_wrong_shard, find_wrong_weights, is_sharded
from armada_train.checkpoints.whole import changed_files

MARK = "checkpoint-is-incomplete.txt"
"""In a checkpoint that is still being written."""
_NAME = re.compile(r"checkpoint-(\d+)")
_WEIGHTS = ("adapter_model", "model")
_WEIGHTS_OF_ANY = (*_WEIGHTS, "pytorch_model")


def last_complete(folder: Path, processes: int) -> tuple[Path | None, list[str]]:
    """Find the checkpoint to resume from.

    Args:
        folder: Where the trainer writes `checkpoint-<step>` folders.
        processes: Number of ranks, for a checkpoint that does not record it; each rank has a random state.

    Returns:
        The newest complete checkpoint, and a sentence for each newer one that was skipped.
    """
    skipped: list[str] = []
    for checkpoint in newest_first(folder):
        defect = find_defect(checkpoint)
        missing = [] if defect else missing_states(checkpoint, processes)
        if defect is None and not missing:
            return checkpoint, skipped
        skipped.append(f"{checkpoint.name} is skipped: {defect or f'{missing[0]} is missing or damaged'}")
    return None, skipped


def newest_first(folder: Path) -> list[Path]:
    return sorted(_checkpoints(folder), key=step_of, reverse=True)


def set_aside_newer(folder: Path, step: int, attempt: int) -> None:
    """Rename checkpoints beyond `step`, all of which were skipped.

    Under their names the trainer's rotation would count them as the newest and delete good ones instead.
    """
    for checkpoint in _checkpoints(folder):
        if step_of(checkpoint) > step:
            checkpoint.rename(folder / f"skipped-by-attempt-{attempt}-{checkpoint.name}")


def drop_set_aside(folder: Path, step: int) -> None:
    """Delete the skipped checkpoints up to this step, whose new checkpoint is complete."""
    for entry in folder.glob("skipped-by-attempt-*-checkpoint-*"):
        if entry.name.rpartition("-")[2].isdigit() and step_of(entry) <= step:
            shutil.rmtree(entry, ignore_errors=True)


def count_to_keep(folder: Path, step: int, keep_last: int, best: int | None) -> int:
    """Return how many checkpoints to keep, plus one for the best: otherwise the Trainer would delete the last one instead.

    Args:
        folder: Where they are.
        step: Of the one that is being saved.
        keep_last: How many are asked for.
        best: The step of the best one; None or 0 if there is none.
    """
    others = [step_of(found) for found in newest_first(folder)]
    last = [step, *(other for other in others if other < step)][:keep_last]
    return keep_last + (1 if best and best in others and best not in last else 0)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def find_defect(checkpoint: Path) -> str | None:
    """Return what keeps a checkpoint from being loaded, or None."""
    if (checkpoint / MARK).exists():
        return "it is marked as incomplete"
    # the Trainer writes this file last
    if _read_object(checkpoint / "trainer_state.json").get("global_step") != step_of(checkpoint):
        return "trainer_state.json is missing or unfinished"
    if is_sharded(checkpoint):
        return find_wrong_shard(checkpoint)
    if not has_weights(checkpoint):
        return "its weights are missing or truncated"
    wrong = [name for name in changed_files(checkpoint) if Path(name).name.startswith(_WEIGHTS_OF_ANY)]
    return f"{wrong[0]} is not the file that was saved" if wrong else None


def missing_states(checkpoint: Path, processes: int) -> list[str]:
    """Name the missing files without which training continues, but with other results; the Trainer does not report that."""
    settings = read_manifest(checkpoint) or {}
    processes = settings.get("batch.processes", processes)
    names = ["optimizer.pt", "scheduler.pt", *random_states(processes)]
    if (checkpoint / "latest").is_file():
        if lacking := _missing_of_deepspeed(checkpoint, processes):
            return [lacking]
        names = list(random_states(processes))
    if is_sharded(checkpoint):
        names.remove("optimizer.pt")  # it is in shards, which find_defect has looked at
    # torch.save writes a zip, whose index is at its end
    changed = changed_files(checkpoint)
    return [name for name in names if name in changed or not zipfile.is_zipfile(checkpoint / name)]


def _missing_of_deepspeed(checkpoint: Path, processes: int) -> str | None:
    """Name what is missing of DeepSpeed's own states, in the folder that its file `latest` names.

    Each rank writes its part of the optimizer. Without ZeRO only the first rank writes it, beside the weights.
    """
    tag = (checkpoint / "latest").read_text(encoding="utf-8", errors="replace").strip()
    folder = checkpoint / tag
    if not tag or folder.parent != checkpoint or not list(folder.glob("*model_states.pt")):
        return f"{tag or 'latest'}/mp_rank_00_model_states.pt"
    shares = list(folder.glob("*optim_states.pt"))
    changed = changed_files(checkpoint)
    broken = [share.name for share in shares if f"{tag}/{share.name}" in changed or not zipfile.is_zipfile(share)]
    if broken or len(shares) not in {0, processes}:
        return f"{tag}/{broken[0] if broken else '*optim_states.pt of a rank'}"
    return None


def set_aside_broken(checkpoint: Path, processes: int) -> None:
    """Rename damaged states whose loss was accepted, because the Trainer would fail to load them."""
    for name in missing_states(checkpoint, processes):
        if (checkpoint / name).is_file():
            (checkpoint / name).rename((checkpoint / name).with_name(f"damaged-{Path(name).name}"))


def random_states(processes: int) -> Sequence[str]:
    return ["rng_state.pth"] if processes == 1 else [f"rng_state_{rank}.pth" for rank in range(processes)]


def _checkpoints(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [entry for entry in folder.iterdir() if _NAME.fullmatch(entry.name) and entry.is_dir()]


def has_weights(checkpoint: Path) -> bool:
    """Tell whether a checkpoint's weights or adapter are complete to the last byte."""
    for stem in _WEIGHTS:
        index = checkpoint / f"{stem}.safetensors.index.json"
        if index.exists():
            shards = set(_read_object(index).get("weight_map", {}).values())
            return bool(shards) and all(_is_whole_safetensors(checkpoint / shard) for shard in shards)
        if (checkpoint / f"{stem}.safetensors").exists():
            return _is_whole_safetensors(checkpoint / f"{stem}.safetensors")
    return find_wrong_weights(checkpoint) is None


def name_base_model(checkpoint: Path, name: str) -> None:
    """Write home's name of the base model into an adapter's configuration and model card.

    PEFT writes the host's path into both, which is useless elsewhere, and which the hub refuses in a card.
    """
    path, card = checkpoint / "adapter_config.json", checkpoint / "README.md"
    config = _read_object(path)
    if not config:
        return
    there = config.get("base_model_name_or_path")
    _replace_text(path, json.dumps({**config, "base_model_name_or_path": name}, indent=2))
    if isinstance(there, str) and len(there) > 1 and card.is_file():
        text = card.read_text(encoding="utf-8", errors="replace")
        if there in text:
            _replace_text(card, text.replace(there, name))


def _replace_text(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def read_shapes(folder: Path) -> dict[str, list[int]]:
    """Read the shape of every tensor in a folder's safetensors, from their headers alone."""
    headers = [_read_header(path)[1] for path in sorted(folder.glob("*.safetensors"))]
    return {name: entry["shape"] for header in headers for name, entry in header.items() if name != "__metadata__"}


def weights_bytes(folder: Path) -> int:
    """Return the total size of the files with a model's weights; 0 if there are none."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _is_whole_safetensors(path: Path) -> bool:
    """Compare a file's size with its header: 8 bytes of header length, the header, the tensors."""
    try:
        header_length, header = _read_header(path)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        return bool(path.stat().st_size == 8 + header_length + max(ends, default=0))
    except (OSError, ValueError, struct.error, KeyError):
        return False


def _read_header(path: Path) -> tuple[int, dict[str, Any]]:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > path.stat().st_size:
            message = f"{path} is truncated"
            raise ValueError(message)
        header: dict[str, Any] = json.loads(file.read(length))
    return length, header


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
