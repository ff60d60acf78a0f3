"""Find the checkpoint to resume from: the last one that is complete, also after a kill.

The Trainer itself takes the highest number. It then fails on a half-written checkpoint, or silently restarts the
optimizer if only that file is missing.
"""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from armada_train.checkpoints.choice import Found
from armada_train.checkpoints.manifest import read_manifest, saved_processes
from armada_train.checkpoints.shards import find_wrong_shard, find_wrong_weights, is_sharded
from armada_train.checkpoints.trainer_state import find_wrong_state
from armada_train.checkpoints.whole import changed_files, recorded_files
from armada_train.records import UnreadableRecord, find_object, is_whole, open_file, parse_object, show
from armada_train.runfolder import remove

MARK = "checkpoint-is-incomplete.txt"
"""In a checkpoint that is still being written."""
_NAME = re.compile(r"checkpoint-(\d+)")
_WEIGHTS = ("adapter_model", "model")
_LONGEST_NAME = 255
_LONGEST_HEADER = 100_000_000
"""Of a safetensors file, as in its own reader."""
_WEIGHTS_OF_ANY = (*_WEIGHTS, "pytorch_model")


def find_all(folder: Path, processes: int) -> Iterator[Found]:
    """Look at the checkpoints of a training, the newest first. Each is read when it is asked for.

    Args:
        folder: Where the trainer writes `checkpoint-<step>` folders.
        processes: Number of ranks, for a checkpoint that does not record it; each rank has a random state.
    """
    for checkpoint in newest_first(folder):
        defect = find_defect(checkpoint)
        yield Found(checkpoint, defect, () if defect else missing_states(checkpoint, processes))


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
        if entry.name.rpartition("-")[2].isdecimal() and step_of(entry) <= step:
            with contextlib.suppress(OSError):
                remove(entry)


def count_to_keep(folder: Path, step: int, keep_last: int, best: Sequence[int]) -> int:
    """Return how many checkpoints to keep, plus one for the best: otherwise the Trainer would delete the last one instead.

    Args:
        folder: Where they are.
        step: Of the one that is being saved.
        keep_last: How many are asked for.
        best: The steps that may be the best one's. The first that is there, or is being saved, counts.
    """
    others = [step_of(found) for found in newest_first(folder)]
    last = [step, *(other for other in others if other < step)][:keep_last]
    kept = next((each for each in best if each == step or each in others), step)
    return keep_last + (kept not in last)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def find_defect(checkpoint: Path) -> str | None:
    """Return what keeps a checkpoint from being loaded, or None."""
    if (checkpoint / MARK).exists():
        return "it is marked as incomplete"
    if wrong := find_wrong_state(checkpoint, step_of(checkpoint)):  # the Trainer writes this file last
        return wrong
    if is_sharded(checkpoint):
        return find_wrong_shard(checkpoint)
    if not has_weights(checkpoint):
        return "its weights are missing or truncated"
    changed = [name for name in changed_files(checkpoint) if Path(name).name.startswith(_WEIGHTS_OF_ANY)]
    return f"{changed[0]} is not the file that was saved" if changed else None


def missing_states(checkpoint: Path, processes: int) -> list[str]:
    """Name the missing files without which training continues, but with other results; the Trainer does not report that."""
    settings = read_manifest(checkpoint) or {}
    processes = saved_processes(settings, processes)
    names = ["optimizer.pt", "scheduler.pt", *random_states(processes)]
    if settings.get("precision") == "fp16":
        names.append("scaler.pt")  # without it many a step would be skipped until the scale fits again
    if (checkpoint / "latest").is_file():
        if lacking := _missing_of_deepspeed(checkpoint, processes):
            return [lacking]
        names = list(random_states(processes))
    if is_sharded(checkpoint):
        names.remove("optimizer.pt")  # it is in shards, which find_defect has looked at
    changed, recorded = changed_files(checkpoint), recorded_files(checkpoint)
    return [
        name for name in names if name in changed or not _is_as_saved(checkpoint / name, is_recorded=name in recorded)
    ]


def _is_as_saved(path: Path, *, is_recorded: bool) -> bool:
    """Tell whether torch can load a file of states, and would load what was saved.

    A file of which nothing was recorded is read whole: torch loads changed bytes without a word, and what it saved has a
    checksum of each part.
    """
    if is_recorded or not is_zip(path):
        return is_zip(path)
    try:
        with zipfile.ZipFile(path) as states:
            return states.testzip() is None
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return False


def is_zip(path: Path) -> bool:
    """Tell whether a file has the end of a zip, which is what torch.save writes last."""
    try:
        return path.is_file() and zipfile.is_zipfile(path)
    except (OSError, zipfile.BadZipFile):
        return False


def _missing_of_deepspeed(checkpoint: Path, processes: int) -> str | None:
    """Name what is missing of DeepSpeed's own states, in the folder that its file `latest` names.

    Each rank writes its part of the optimizer. Without ZeRO only the first rank writes it, beside the weights.
    """
    tag = _read_tag(checkpoint / "latest")
    folder = checkpoint / tag
    if not tag or not folder.is_dir() or not list(folder.glob("*model_states.pt")):
        return f"{tag or 'latest'}/mp_rank_00_model_states.pt"
    shares = list(folder.glob("*optim_states.pt"))
    changed, recorded = changed_files(checkpoint), recorded_files(checkpoint)
    broken = [
        share.name
        for share in shares
        if (name := f"{tag}/{share.name}") in changed or not _is_as_saved(share, is_recorded=name in recorded)
    ]
    if broken or len(shares) not in {0, processes}:
        return f"{tag}/{broken[0] if broken else '*optim_states.pt of a rank'}"
    return None


def _read_tag(path: Path) -> str:
    """Return the name of a folder that a file consists of; an empty one if it is none."""
    try:
        with open_file(path) as file:
            tag = file.read(_LONGEST_NAME + 2).decode("utf-8", "replace").strip()
    except (UnreadableRecord, OSError):
        return ""
    is_name = tag.isprintable() and "/" not in tag and tag not in {".", ".."}
    return tag if is_name and len(tag.encode()) <= _LONGEST_NAME else ""


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
            listed = find_object(index).get("weight_map")
            shards = list(listed.values()) if isinstance(listed, dict) else []
            if not all(isinstance(shard, str) for shard in shards):
                return False
            return bool(shards) and all(_is_whole_safetensors(checkpoint / shard) for shard in set(shards))
        if (checkpoint / f"{stem}.safetensors").exists():
            return _is_whole_safetensors(checkpoint / f"{stem}.safetensors")
    return find_wrong_weights(checkpoint) is None


def name_base_model(checkpoint: Path, name: str) -> None:
    """Write home's name of the base model into an adapter's configuration and model card.

    PEFT writes the host's path into both, which is useless elsewhere, and which the hub refuses in a card.
    """
    path, card = checkpoint / "adapter_config.json", checkpoint / "README.md"
    config = find_object(path)
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
    """Read the shape of every tensor in a folder's safetensors, from their headers alone.

    Raises:
        UnreadableRecord: A header is damaged.
    """
    headers = [_read_header(path)[1] for path in sorted(folder.glob("*.safetensors"))]
    return {name: entry["shape"] for header in headers for name, entry in header.items()}


def weights_bytes(folder: Path) -> int:
    """Return the total size of the files with a model's weights; 0 if there are none."""
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _is_whole_safetensors(path: Path) -> bool:
    """Compare a file's size with its header: 8 bytes of header length, the header, the tensors."""
    try:
        header_length, header = _read_header(path)
        ends = [entry["data_offsets"][1] for entry in header.values()]
        return bool(path.stat().st_size == 8 + header_length + max(ends, default=0))
    except (UnreadableRecord, OSError):
        return False


def _read_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Return the length of a header, and what it says of each tensor.

    Raises:
        UnreadableRecord: It is damaged, or there is none.
    """
    with open_file(path) as file:
        try:
            begin = file.read(8)
            length = int.from_bytes(begin, "little")
            content = file.read(length) if len(begin) == 8 and length <= _LONGEST_HEADER else b""
        except OSError as error:
            raise UnreadableRecord(f"{path} cannot be read: {error.strerror}") from error
    if len(begin) < 8 or len(content) < length:
        raise UnreadableRecord(f"{path} is truncated")
    tensors = {name: entry for name, entry in parse_object(content).items() if name != "__metadata__"}
    for name, entry in tensors.items():
        numbers = [entry.get("shape"), entry.get("data_offsets")] if isinstance(entry, dict) else [None, None]
        is_right = all(isinstance(each, list) and all(map(is_whole, each)) for each in numbers)
        if not is_right or len(entry["data_offsets"]) != 2:
            raise UnreadableRecord(f"{path}: its header does not say where {show(name)} is")
    return length, tensors
