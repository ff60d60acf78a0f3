"""Keep tokenised data on disk, in folders named by everything that it depends on, and reuse it.

A folder is written under a temporary name and renamed when every byte is on disk, so it is complete or absent. Its
writer holds its lock; a second run waits and finds it finished.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from armada_train.failure import PayloadFailure
from armada_train.records import find_object, is_whole
from armada_train.runfolder import RunFolder, remove
from armada_train.specification.values import Training

FORMAT = 2
"""Goes up when the same rows become other tokens: 2 reads system prompts and tools of ShareGPT."""

ROWS = "rows.arrow"
_FACTS = "facts.json"
_COUNTS = {
    "tokens": ("rows", "tokens", "trained", "lost_prompts"),
    "rows": ("too_long", "truncated", "split", "untrainable", "cut_tokens", "kept", "tokens", "trained"),
}
"""Which counts the facts have, by what was made: the tokens of a source, or rows of several that fit."""

_BETWEEN_LOOKS_S = 0.2

Make = Callable[[Path], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One finished folder, the facts about its rows, and whether it was created now or found."""

    folder: Path
    facts: Mapping[str, Any]
    is_new: bool

    @property
    def rows(self) -> Path:
        return self.folder / ROWS

    @property
    def key(self) -> str:
        return self.folder.name


class Cache:
    """The folder with all prepared data, shared by all runs of a host.

    Args:
        folder: Created when something is stored.
        beat: Called repeatedly while waiting for another run's work.
        say: Called once if there is such a wait.
    """

    def __init__(self, folder: Path, beat: Callable[[], None], say: Callable[[str], None]) -> None:
        self.folder = folder
        self._beat = beat
        self._say = say

    def find(self, ingredients: Mapping[str, Any]) -> Prepared | None:
        """Find the folder that was created from these ingredients before."""
        folder = self.folder / name(ingredients)
        facts = _read_facts(folder, ingredients.get("what"))
        return None if facts is None else Prepared(folder, facts, is_new=False)

    def obtain(self, ingredients: Mapping[str, Any], make: Make) -> Prepared:
        """Find the folder that was created from these ingredients, or create it.

        Args:
            ingredients: Everything the content depends on.
            make: Writes `rows.arrow` into the given folder, and returns the facts.

        Raises:
            PayloadFailure: `disk_full`, or whatever `make` raises.
        """
        if found := self.find(ingredients):
            return found
        key = name(ingredients)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._lock(key) as is_ours:
                if found := self.find(ingredients):
                    return found
                if is_ours:  # no other process is writing, so an existing folder was left by a killed one
                    for left in [*self.folder.glob(f".new-{key}-*"), self.folder / key]:
                        with contextlib.suppress(OSError):
                            remove(left)
                return self._make(key, ingredients, make)
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                message = f"no room for prepared data in {self.folder}: {error.strerror}"
                raise PayloadFailure("disk_full", message) from error
            raise

    def _make(self, key: str, ingredients: Mapping[str, Any], make: Make) -> Prepared:
        part = self.folder / f".new-{key}-{uuid.uuid4().hex}"
        part.mkdir()
        try:
            facts = make(part)
            facts = {
                "format": FORMAT,
                "rows_bytes": (part / ROWS).stat().st_size,
                "made_from": dict(ingredients),
                **facts,
            }
            (part / _FACTS).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            for path in (part / ROWS, part / _FACTS, part):
                _fsync(path)
            try:
                part.rename(self.folder / key)
            except OSError:  # without locks (some network file systems) another process may have been faster
                if found := self.find(ingredients):
                    return found
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return Prepared(self.folder / key, facts, is_new=True)

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[bool]:
        """Hold a folder's lock; yield False if the file system does not support locks."""
        descriptor = os.open(self.folder / f".lock-{key}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            is_told = False
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    is_ours = True
                    break
                except BlockingIOError:
                    if not is_told:
                        self._say("another run is preparing the same data; waiting for it")
                        is_told = True
                    self._beat()
                    time.sleep(_BETWEEN_LOOKS_S)
                except OSError:
                    is_ours = False
                    break
            yield is_ours
        finally:
            os.close(descriptor)


def prepared_folder(training: Training, run: RunFolder) -> Path:
    """Return the folder that all runs of a host share, or one in the run's folder if home specifies none."""
    return training.prepared or run.path / "prepared"


def check_once(folder: Path, hashes: Sequence[str], check: Callable[[], None]) -> None:
    """Check data, unless all of it, identified by its hashes, was found valid before.

    An invalid file must be reported before torch is imported, and reading it costs a minute per 10 GB.
    """
    marks = [folder / f".checked-{FORMAT}-{sha}" for sha in hashes]
    if all(mark.exists() for mark in marks):
        return
    check()
    folder.mkdir(parents=True, exist_ok=True)
    for mark in marks:
        mark.touch()


def name(ingredients: Mapping[str, Any]) -> str:
    canonical = json.dumps({"format": FORMAT, **ingredients}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read_facts(folder: Path, what: str | None) -> dict[str, Any] | None:
    """Read a finished folder's facts; None if it does not exist, its rows are incomplete, or its facts were damaged."""
    facts = find_object(folder / _FACTS)
    try:
        is_complete = (folder / ROWS).stat().st_size == facts.get("rows_bytes")
    except OSError:
        return None
    are_counts = all(is_whole(facts.get(name)) for name in _COUNTS.get(what or "", ()))
    return facts if is_complete and are_counts and (what != "tokens" or _tells_of_source(facts)) else None


def _tells_of_source(facts: Mapping[str, Any]) -> bool:
    kind, ignored = facts.get("kind"), facts.get("ignored_keys")
    return isinstance(kind, str) and isinstance(ignored, dict) and all(map(is_whole, ignored.values()))


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
