"""Find files of the project that a job names but that are not sent, because git ignores them.

Nothing is executed. The words of the command and the string constants of Python sources are candidates; they count if
such a file exists.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from armada.config.tasks.command import Command
from armada.config.tasks.script import Script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from armada.config.tasks.experiment import Experiment
    from armada.provision.code import Snapshot

_MOST_SOURCES = 500
_LONGEST_SOURCE = 1_000_000
_WRITTEN = frozenset(
    [
        "out",
        "output",
        "outputs",
        "run",
        "runs",
        "log",
        "logs",
        "wandb",
        "mlruns",
        "lightning_logs",
        "checkpoint",
        "checkpoints",
        "ckpt",
        "ckpts",
        "result",
        "results",
        "artifacts",
        "tmp",
        "temp",
        "cache",
        ".cache",
        "__pycache__",
    ]
)
"""Names of folders that jobs write to: at home they contain the results of earlier trainings."""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A file or folder that is not sent, and where it is named."""

    path: str
    named_in: str


def find_left_behind(experiment: Experiment, snapshot: Snapshot | None, given: Iterable[str]) -> tuple[LeftBehind, ...]:
    """List the ignored files that the job names, each once, in order.

    Args:
        experiment: The job's experiment.
        snapshot: The code that is sent.
        given: Names that `data:` and `files:` provide to the job.
    """
    if snapshot is None or not snapshot.ignored or not isinstance(experiment, Command | Script):
        return ()
    top = snapshot.content.source
    there = tuple(given)
    pattern = experiment.checkpoint.pattern if experiment.checkpoint is not None else None
    written = PurePosixPath(pattern).parts[0] if pattern else None
    found: dict[str, str] = {}
    for place, word in _words(experiment, snapshot):
        path = _inside(top, word)
        if path is None or path in found or PurePosixPath(path).parts[0] in {written, *_WRITTEN}:
            continue
        is_ignored = any(path == name or path.startswith(name + "/") for name in snapshot.ignored)
        if is_ignored and not any(path == name or path.startswith(name + "/") for name in there) and _holds(top / path):
            found[path] = place
    return tuple(LeftBehind(path, place) for path, place in sorted(found.items()))


def _words(experiment: Command | Script, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each text that may be a path, and its place."""
    key, words = (
        ("command", experiment.command) if isinstance(experiment, Command) else ("arguments", experiment.arguments)
    )
    for word in words:
        yield f"`{key}`", word
        yield f"`{key}`", word.partition("=")[2]
    sources = [name for name in snapshot.content.files if name.endswith(".py")]
    for name in sources[:_MOST_SOURCES]:
        yield from ((name, text) for text in _constants(snapshot.content.source / name))


def _constants(source: Path) -> list[str]:
    """Return the string constants of a Python source; an empty list if it cannot be parsed."""
    try:
        if source.stat().st_size > _LONGEST_SOURCE:
            return []
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [text for text in nodes if isinstance(text, str) and 0 < len(text) < 300]


def _inside(top: Path, word: str) -> str | None:
    """Return a word as a path below the project, if it can be one."""
    if not word or not word.isprintable() or word.startswith(("/", "~", "-")):
        return None
    parts = [part for part in word.split("/") if part not in ("", ".")]
    path = "/".join(parts)
    return path if parts and ".." not in parts and (top / path).exists() else None


def _holds(path: Path) -> bool:
    """Tell whether it is a file, or a folder with something in it."""
    try:
        return path.is_file() or any(path.iterdir())
    except OSError:
        return False
