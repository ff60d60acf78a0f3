"""What lies in a project's folder: data files, what git ignores, and scripts that can be started."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from armada.errors import ArmadaError
from armada.launch.drafts.script import has_main, parse_script
from armada.launch.training.bundled_payload import payload_module
from armada.paths import bundled
from armada.provision.code import LARGE_BYTES

MOST_DATA = 20
"""More entries of data are left out of a draft."""

_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_FOR_TRAINING = (".jsonl", ".jsonl.gz", ".json", ".parquet", *_TABLES)
_DATA = (
    *_FOR_TRAINING,
    ".arrow",
    ".npy",
    ".npz",
    ".h5",
    ".hdf5",
    ".bin",
    ".tar",
    ".zip",
    ".txt",
    ".pt",
)
_NOT_DATA = re.compile(
    r"\..*|__pycache__|venv|env|node_modules|wandb|mlruns|runs|outputs?|out|results?|logs?|lightning_logs|checkpoints?.*"
    r"|build|dist|.*\.egg-info",
    re.IGNORECASE,
)
"""Ignored folders that hold results, tools or caches."""
_EVALUATION = re.compile(r"(?:.*[^a-z])?(?:eval|evaluation|val|valid|validation|dev|test)(?:[^a-z].*)?", re.IGNORECASE)
_LOOKED_AT = 2_000
_MOST_SCRIPTS = 200
_FIRST_ROW_BYTES = 4 << 20
_PACKAGE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file or folder of data.

    Attributes:
        path: Relative to the project's folder.
        why_not: Why a training cannot read it; empty if it can, or if nobody looked.
        kind: Of its rows: `messages`, `prompt_completion`, `text`; empty if it is not known.
    """

    path: Path
    why_not: str = ""
    kind: str = ""

    @property
    def is_for_evaluation(self) -> bool:
        """Whether its name says so."""
        return bool(_EVALUATION.fullmatch(self.path.name.partition(".")[0]))


def find_scripts(folder: Path) -> list[Path]:
    """The Python files directly in a folder that do something when they are started."""
    found = []
    for path in sorted(folder.glob("*.py"))[:_MOST_SCRIPTS]:
        try:
            if has_main(parse_script(path)):
                found.append(path)
        except (ArmadaError, OSError):
            continue  # another file's trouble is none of the draft's
    return found


def find_ignored_data(folder: Path) -> list[Path]:
    """The data files and folders that git ignores, and that therefore do not travel with the code."""
    listed = _git(folder, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    found = []
    for name in sorted(listed):
        path = Path(name)
        is_folder = (folder / path).is_dir()  # a link to one, too: what travels as data is what lies behind it
        if not _is_name(name) or holds_results(path, is_folder=is_folder):
            continue
        if is_folder:
            inside = itertools.islice(_below(folder / path), _LOOKED_AT)
            if any(file.name.lower().endswith(_DATA) for file in inside):
                found.append(path)
        elif name.lower().endswith(_DATA) and (folder / path).is_file():
            found.append(path)
    return found[:MOST_DATA]


def holds_results(path: Path, *, is_folder: bool) -> bool:
    """Whether a folder, by its name or that of one above it, holds results, caches or an environment."""
    return any(_NOT_DATA.fullmatch(part) for part in path.parts[: None if is_folder else -1])


def is_sent(folder: Path, path: Path) -> bool:
    """Whether a file or folder travels with the code: it is no link, and git tracks it or does not ignore it."""
    if any((folder / each).is_symlink() for each in (path, *path.parents) if each != Path()):
        return False
    if not _is_checkout(folder):
        return True
    return not _git(folder, "check-ignore", "--", path.as_posix())


def find_training_data(folder: Path) -> list[DataFile]:
    """Data files in a folder, and in a folder `data` in it, each with whether `task: sft` can read it."""
    places = [folder, folder / "data"]
    files = [file for place in places if place.is_dir() for file in sorted(place.iterdir())[:_LOOKED_AT]]
    named = [file for file in files if file.name.lower().endswith(_FOR_TRAINING) and file.is_file()]
    return [_look_at(file, file.relative_to(folder)) for file in named if _is_name(str(file.relative_to(folder)))][
        :MOST_DATA
    ]


def missing_packages(folder: Path) -> tuple[str, ...]:
    """The packages of requirements.txt that armada's own environments do not have."""
    file = folder / "requirements.txt"
    if not file.is_file() or file.stat().st_size > 1 << 20:
        return ()
    there = {name for each in bundled("profiles", "requirements").glob("*.txt") for name in _packages(each.read_text())}
    there.add("torch")
    wanted = _packages(file.read_text("utf-8", errors="replace"))
    return tuple(name for name in dict.fromkeys(wanted) if name not in there)


def is_too_large(folder: Path) -> bool:
    """Whether a folder that is no checkout holds more than may travel as code."""
    if _is_checkout(folder):
        return False
    size = 0
    for file in itertools.islice(_below(folder), 100_000):
        size += file.lstat().st_size
        if size > LARGE_BYTES:
            return True
    return False


def _packages(text: str) -> list[str]:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("#", "-")) and "://" not in line)
    return [re.sub(r"[-_.]+", "-", match[1]).lower() for line in lines if (match := _PACKAGE.match(line))]


def _look_at(file: Path, path: Path) -> DataFile:
    """Read the first row of a file, as a training would."""
    if file.name.lower().endswith(".parquet"):
        return DataFile(path)
    try:
        with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as stream:
            line = next((line for line in _lines(stream) if line.strip()), b"")
    except (OSError, EOFError, zlib.error):
        return DataFile(path, "it cannot be read")
    if line.lstrip().startswith(b"[") or file.name.lower().endswith(_TABLES):
        try:
            row = next((row for _, row in payload_module("data.readers").read_file(file)), None)
        except payload_module("failure").PayloadFailure as failure:
            return DataFile(path, f"it cannot be read: {getattr(failure, 'what', failure.message)}")
    else:
        try:
            row = json.loads(line) if line else None
        except (ValueError, RecursionError):
            return DataFile(path, "its first line is no JSON object")
    if not isinstance(row, dict):
        return DataFile(path, "it is empty" if row is None else "its first row is no JSON object")
    if "messages" in row or "conversations" in row or {"instruction", "output"} <= set(row):
        return DataFile(path, kind="messages")
    if {"prompt", "completion"} <= set(row):
        return DataFile(path, kind="prompt_completion")
    if "text" in row:
        return DataFile(path, kind="text")
    return DataFile(
        path,
        "its rows have neither messages, conversations, instruction and output, prompt and completion, nor text; "
        "`columns` and `template` of `data` say what others are",
    )


def _lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """The first lines of a file; one without an end in the first megabytes is no line."""
    readline = getattr(stream, "readline")  # noqa: B009  # gzip's and a file's, which share no type
    for _ in range(100):
        line: bytes = readline(_FIRST_ROW_BYTES)
        if not line:
            return
        yield line


def _below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in ("venv", "node_modules")
        )
        yield from (Path(parent) / name for name in files)


def _is_name(name: str) -> bool:
    """Whether a name can stand in an experiment: names that are no text, or hold control characters, cannot."""
    return name.isprintable()


def _is_checkout(folder: Path) -> bool:
    return bool(_git(folder, "rev-parse", "--is-inside-work-tree"))


def _git(folder: Path, *arguments: str) -> list[str]:
    """What git lists about a folder; nothing where it is no checkout or there is no git."""
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return []
    return [name for name in os.fsdecode(answer.stdout).split("\0") if name] if answer.returncode == 0 else []
