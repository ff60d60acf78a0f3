"""Write armada.json into every checkpoint: its settings, so that a resume can tell which of them changed.

The Trainer silently resumes under another world size, learning rate or maximum length. The states of the optimizer and
scheduler then override some of the new values, and not others.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from armada_train.data.hooks import hook_file
from armada_train.data.hub import hash_hub
from armada_train.data.readers import unreadable
from armada_train.runfolder import replace_json
from armada_train.specification.values import Source, TinyModel, Training

NAME = "armada.json"
_FORMAT = 1
# These settings of the schedule may change at every start: they affect what is measured, not what is trained.
_FREE = ("log_every_steps", "eval_every_steps", "activation_checkpointing", "drop_limit")

Settings = Mapping[str, Any]


def describe_settings(training: Training) -> dict[str, Any]:
    """Return the settings that a checkpoint's optimizer, random states and data position depend on, by the user's keys.

    Reads the data again to hash it.
    """
    schedule = {key: value for key, value in dataclasses.asdict(training.schedule).items() if key not in _FREE}
    lora = dataclasses.asdict(training.lora) if training.lora else None
    model = dataclasses.asdict(training.model) if isinstance(training.model, TinyModel) else training.model
    settings = {
        "model": model,
        "data.train": [_describe_source(source) for source in training.train_data],
        "batch.global": training.batch.overall,
        "batch.micro": training.batch.micro,
        "batch.accumulation": training.batch.accumulation,
        "batch.processes": training.batch.processes,
        **{f"train.{key}": value for key, value in schedule.items()},
        **({f"lora.{key}": value for key, value in lora.items()} if lora else {"lora": None}),
        "precision": training.precision,
    }
    if training.start_from:
        settings["start_from"] = {"path": str(training.start_from.path), "moments": training.start_from.moments}
    content: dict[str, Any] = json.loads(json.dumps(settings))  # as it will be read back: tuples become lists
    return content


def write_manifest(checkpoint: Path, settings: Settings) -> None:
    checkpoint.mkdir(parents=True, exist_ok=True)
    replace_json(checkpoint / NAME, {"format": _FORMAT, "settings": settings})


def read_manifest(checkpoint: Path) -> dict[str, Any] | None:
    """Return a checkpoint's settings; None if there are none that can be read."""
    try:
        content = json.loads((checkpoint / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    settings = content.get("settings") if isinstance(content, dict) and content.get("format") == _FORMAT else None
    return settings if isinstance(settings, dict) else None


def compare(before: Settings, now: Settings) -> list[str]:
    """Describe every changed setting with its old and new value."""
    return [
        f"`{key}` was {_show(before, key)} and is {_show(now, key)}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
    ]


def hash_source(source: Source) -> str:
    """Hash a source's content; for a hook, the file that defines it."""
    if source.hook:
        return hash_data(hook_file(source.hook))
    return hash_hub(source.hub) if source.hub else hash_data(source.path)


def hash_data(path: Path) -> str:
    """Hash a data file, or the files of a folder with their names.

    Raises:
        DataFailure: It does not exist, or cannot be read.
    """
    try:
        if not path.is_dir():
            return _hash_file(path)
        digest = hashlib.sha256()
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            digest.update(f"{file.relative_to(path).as_posix()}\0{_hash_file(file)}\n".encode())
        return digest.hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def _hash_file(path: Path) -> str:
    found = path.stat()
    return _hash_version(path, found.st_size, found.st_mtime_ns)


@functools.cache  # called for a resume and for prepared data
def _hash_version(path: Path, _size_bytes: int, _changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_source(source: Source) -> dict[str, Any]:
    origin = {"hook": source.hook} if source.hook else {"hub": source.hub.id} if source.hub else {}
    return {**origin, "sha256": hash_source(source), "weight": source.weight}


def _show(settings: Settings, key: str) -> str:
    if key not in settings:
        return "not there"
    value = settings[key]
    if key == "data.train" and isinstance(value, Sequence):
        return " + ".join(
            f"{item.get('hook') or item.get('hub') or 'data'} {item['sha256'][:12]} × {item['weight']:g}"
            for item in value
        )
    return json.dumps(value)
