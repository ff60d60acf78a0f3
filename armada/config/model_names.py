"""Tell model folders from hub ids, so that a mistyped folder is not fetched from the hub and does not fail there minutes later."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from armada.config.validation import nearest

if TYPE_CHECKING:
    from pathlib import Path


def mistyped_folder(name: str, base: Path) -> str | None:
    """Find the model folder that a mistyped name probably means.

    Names that differ in their numbers alone are another size or version, and not mistyped.

    Args:
        name: `models/lama`, which is no folder below `base`.
        base: The folder of the experiment's file.

    Returns:
        `models/llama`, relative to `base`.
    """
    first, _, last = name.partition("/")
    if not last:
        return _near(first, _model_folders(base))
    if (base / first).is_dir():
        found = _near(last, _model_folders(base / first))
        return f"{first}/{found}" if found else None
    for folder in _folders(base):
        if (base / folder / last / "config.json").is_file() and _near(first, [folder]):
            return f"{folder}/{last}"
    return None


def models_beside(name: str, base: Path) -> list[str]:
    """List the model folders next to the place where a hub id would be as a folder: `Qwen/…` for `Qwen/Qwen3-8B`."""
    first, _, last = name.partition("/")
    return [f"{first}/{folder}" for folder in _model_folders(base / first)] if last else []


def _near(name: str, known: list[str]) -> str | None:
    without = _without_numbers(name)
    return nearest(name, [folder for folder in known if _without_numbers(folder) != without])


def _without_numbers(name: str) -> str:
    return re.sub(r"[\d.]+", "", name).lower()


def _model_folders(folder: Path) -> list[str]:
    return [name for name in _folders(folder) if (folder / name / "config.json").is_file()]


def _folders(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []
