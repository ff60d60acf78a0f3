"""Write files that only their owner may read, atomically."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Put `text` at `path` with mode 0600, durably, unless it is there already."""
    try:
        if path.read_text(encoding="utf-8") == text and path.stat().st_mode & 0o777 == 0o600:
            return
    except (FileNotFoundError, UnicodeDecodeError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
