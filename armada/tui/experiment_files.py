"""The experiment files near the folder in which the dashboard was started."""

from __future__ import annotations

import codecs
import os
import re
import time
from collections import deque
from itertools import islice
from pathlib import Path

_KEY = rb"""["']?(?:task|sweep|script|command)["']?[ \t]*:"""
_LINE = re.compile(b"^" + _KEY, re.MULTILINE)
"""A key of an experiment at the left edge: profiles, workflows and sites have none of them."""
_JSON = re.compile(rb"[{,]\s*" + _KEY)
"""The same in a file that is JSON."""
_READ = 65_536
_DEEP = 2
_MOST = 200
_ENTRIES = 5_000
"""So many files and folders are looked at: a home folder can have millions."""
_COST = 10
"""A file that is read counts as so many."""
PATIENCE_S = 0.2
"""A disk of a network can take milliseconds for each: what was found by then is offered, and any path can be typed."""
_NOT_SEARCHED = frozenset({"node_modules", "__pycache__", "site-packages"})


def experiments() -> list[str]:
    """Return the bundled experiment, then the files that have a key of an experiment: here, and up to two folders below."""
    return ["quickstart", *_found()]


def _found() -> list[str]:
    found: list[str] = []
    left, folders, until = _ENTRIES, deque([("", 0)]), time.monotonic() + PATIENCE_S
    while folders and left > 0 and len(found) < _MOST and time.monotonic() < until:
        folder, deep = folders.popleft()
        try:
            with os.scandir(folder or ".") as entries:
                listed = [(each.name, each.is_dir(follow_symlinks=False)) for each in islice(entries, left)]
        except OSError:
            continue  # somebody else's folder
        left -= len(listed)
        for name, is_folder in sorted(listed):
            path = os.path.join(folder, name)  # noqa: PTH118  # a Path for each of 5,000 would take four times as long
            if name.startswith("."):
                continue
            if is_folder:
                if deep < _DEEP and name not in _NOT_SEARCHED:
                    folders.append((path, deep + 1))
            elif name.endswith((".yaml", ".yml")) and left > 0 and time.monotonic() < until:
                left -= _COST
                found += [path] if _is_experiment(path) else []
    return found[:_MOST]


def _is_experiment(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for its writer
    except OSError:
        return False
    try:
        text = os.read(descriptor, _READ).removeprefix(codecs.BOM_UTF8)
        return (_JSON if text.lstrip().startswith(b"{") else _LINE).search(text) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)


def folder_of(name: str) -> str:
    """Say where an experiment lies."""
    if name == "quickstart" and not Path(name).exists():
        return "bundled: trains a tiny model, in about a minute"
    return str(Path(name).absolute().parent)
