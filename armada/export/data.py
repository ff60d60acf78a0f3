"""Describe the data of a training for its model card: names, hashes and rows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.export.subject import SETTINGS
from armada.foundation.validation import flat_sources, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.export.subject import Subject

_LARGEST_COUNTED = 4_000_000_000
"""Files above this size in bytes are not read for the card."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of rows; `rows` is known only where home still has the very file."""

    use: str
    name: str
    sha256: str | None
    rows: int | None


def describe_data(subject: Subject) -> list[Source]:
    """Return the sources of a training: those for training, with the hashes that the checkpoint recorded, and those for evaluation."""
    settings = mapping(subject.documents.get(SETTINGS, {}).get("settings"))
    recorded = settings.get("data.train")
    hashes = [mapping(item).get("sha256") for item in recorded] if isinstance(recorded, list) else []
    found = []
    for use in ("train", "eval"):
        listed = _listed(subject.plan, use)
        for number, source in enumerate(listed):
            told = hashes[number] if use == "train" and len(hashes) == len(listed) else None
            sha256 = told if isinstance(told, str) else None
            path = source.get("path")
            rows = count_rows(Path(path), sha256) if isinstance(path, str) and sha256 is not None else None
            found.append(Source(use, _name(source), sha256, rows))
    return found


def hub_datasets(plan: Mapping[str, Any]) -> list[str]:
    """Return the ids of the datasets of the hub that a model was trained on."""
    ids = [source.get("hub") for source in _listed(plan, "train")]
    return list(dict.fromkeys(each for each in ids if isinstance(each, str) and each))


def count_rows(path: Path, sha256: str) -> int | None:
    """Count the lines of a JSONL file if it still has this hash; None otherwise."""
    if path.suffix != ".jsonl":
        return None
    digest, rows = hashlib.sha256(), 0
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_COUNTED:
            return None
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                rows += bool(line.strip())
    except OSError:
        return None
    return rows if digest.hexdigest() == sha256 else None


def _listed(plan: Mapping[str, Any], use: str) -> list[dict[str, Any]]:
    listed = mapping(mapping(plan.get("experiment")).get("data")).get(use)
    return [mapping(item) for item in flat_sources(listed)]


def _name(source: Mapping[str, Any]) -> str:
    """Return a name that says nothing of the folders of this machine."""
    if isinstance(path := source.get("path"), str):
        return Path(path).name
    if isinstance(hub := source.get("hub"), str):
        more = [f"{key} {source[key]}" for key in ("config", "split", "revision") if source.get(key)]
        return f"{hub} ({', '.join(more)})" if more else hub
    return f"rows of {source.get('hook')}" if source.get("hook") else "unknown"
