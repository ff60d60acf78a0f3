"""A Python that works in any folder, as those that uv downloads: a copy of the one that made our environment."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

MINOR = "python{}.{}".format(*sys.version_info[:2])
PROGRAM = Path(sys.base_prefix).resolve() / "bin" / MINOR
NAME = f"cpython-{platform.python_version()}-linux-{platform.machine()}-gnu"
"""Of its folder, as uv names it."""

_LEFT_OUT = (
    "__pycache__ test site-packages idlelib ensurepip config-* tkinter pydoc_data lib2to3 asyncio unittest xml* "
    "cp* mac_* iso* koi* big5* euc* shift_* distutils multiprocessing turtledemo curses dbm wsgiref *_test*"
)


def copy(base: Path) -> None:
    """Make one: the program, a script that names the folder, and what the program imports at its start."""
    (base / "bin").mkdir(parents=True)
    shutil.copy(PROGRAM, base / "bin" / MINOR)
    (base / "bin/python3").symlink_to(MINOR)
    (base / "bin/config").write_text(f"#!/bin/sh\necho {base}\n")
    left_out = shutil.ignore_patterns(*_LEFT_OUT.split())
    shutil.copytree(Path(sys.base_prefix) / "lib" / MINOR, base / "lib" / MINOR, ignore=left_out, symlinks=True)
