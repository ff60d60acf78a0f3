"""Which Pythons of this machine the agent is tested under: the oldest and our own, or each with ARMADA_ALL_INTERPRETERS=1."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

_MINORS = range(6, 15)
_OURS = f"3.{sys.version_info.minor}"


@functools.cache
def chosen() -> dict[str, str]:
    """Paths by version, the oldest first."""
    every = os.environ.get("ARMADA_ALL_INTERPRETERS", "0") not in ("", "0")
    found: dict[str, str] = {}
    for version in (f"3.{minor}" for minor in _MINORS):
        path = sys.executable if version == _OURS else None
        if path is None and (every or not found):
            path = next(filter(None, map(_working, _candidates(version))), None)
        if path is not None:
            found[version] = path
    return found


def ends() -> dict[str, str]:
    """The oldest and our own."""
    return {version: path for version, path in chosen().items() if version in (next(iter(chosen())), _OURS)}


def _candidates(version: str) -> list[str]:
    managed = Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python3")
    return [*map(str, managed), *filter(None, [shutil.which(f"python{version}")])]


def _working(path: str) -> str | None:
    """The interpreter itself, where the path is one that starts; a shim may be there and refuse."""
    try:
        said = subprocess.run(
            [path, "-c", "import sys; print(sys.executable)"], check=False, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip() if not said.returncode and re.match("/", said.stdout) else None
