"""The file of a GPU's results: one entry for each check, replaced as a whole each time, so that it can be read at any time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
_FORMAT = 1
_LONGEST_SLUG = 60


class ResultsError(ValueError):
    """A results file cannot be read or is not one; the message names it."""


def file_for(gpu: str, folder: Path = FOLDER) -> Path:
    """Name the file for a kind of GPU: `nvidia-h200.json`."""
    slug = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    return folder / f"{slug or 'gpu'}.json"


def read(path: Path) -> dict[str, Any]:
    """Read a results file; a missing one is empty.

    Raises:
        ResultsError: It is not a results file, or of a newer kit.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"format": _FORMAT, "gpu": None, "checks": {}}
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}; move it away to begin anew") from error
    checks = content.get("checks") if isinstance(content, dict) else None
    if not isinstance(checks, dict) or not all(isinstance(entry, dict) for entry in checks.values()):
        raise ResultsError(f"{path} has no results: move it away to begin anew")
    if content.get("format") != _FORMAT:
        raise ResultsError(f"{path} has format {content.get('format')!r}, and this kit knows format {_FORMAT}")
    return content


def record(path: Path, gpu: str | None, name: str, entry: Mapping[str, Any]) -> None:
    """Put a check's entry into the file: a reader sees the old or the new one.

    Raises:
        ResultsError: What is there is not a results file.
    """
    content = read(path)
    content["gpu"] = gpu
    content["checks"][name] = plain(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1, sort_keys=True, allow_nan=False)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def plain(value: Any) -> Any:
    """Make a value that JSON has: numbers that are none become null, whatever else is unknown its text."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
