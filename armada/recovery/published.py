"""Recognise checkpoints and other results at home by their own manifests and records."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.atomic_write import fsync
from armada.foundation.progress import TransferProgress
from armada.foundation.regular_files import is_absence
from armada.foundation.validation import MOST
from armada.monitor.look import Folder, Look
from armada.monitor.observe import record_look
from armada.paths import RUN_ID
from armada.protocol.observation import Lines, Observation
from armada.records.launch_record import read_record
from armada.store import adopted, checkpoints, files_home, runs
from armada.sync.checkpoints.manifest import NAME, Manifest
from armada.sync.checkpoints.published import obstacle_of, read_published
from armada.sync.errors import ManifestRejected
from armada.sync.outputs.listing import FOLDER
from armada.sync.transfer.interface import File
from armada.sync.transfer.staging import has_size
from armada.verdicts.adoption import Launched, adopted_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from armada.paths import HomePaths
    from armada.store.database import Database

_FOLDER = re.compile(r"checkpoint-(\d{1,12})(?:@([0-9a-f]{8}))?")
_READ_BYTES = 4 << 20
_LARGEST_SPEC_BYTES = 8 << 20
_WRONG = "wrong-"
_DAY_S = 86_400.0  # a host's clock may be ahead, but not by years: such a time could not be displayed
_PARTS = ("environment", "experiment", "outbox", "project", "scheduler", "sync", "training", "watch")


@dataclass(frozen=True, slots=True)
class Published:
    """A checkpoint's folder at home. If it does not match its own records, `manifest` is None and `problem` says why.

    `obstacle`: the error of a disk that cannot read it; then nothing else is known of it.
    """

    run_id: str
    place: Path
    manifest: Manifest | None
    files: tuple[File, ...] = ()
    problem: str | None = None
    obstacle: OSError | None = None

    @property
    def size_bytes(self) -> int:
        return sum(file.size for file in self.files)


def run_ids(home: HomePaths) -> list[str]:
    """List the runs that have files at home."""
    folder = home.state / "runs"
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path.name for path in found if RUN_ID.fullmatch(path.name) and path.is_dir())


def find(home: HomePaths, run_id: str) -> Iterator[Published]:
    """Yield the published checkpoints of a run in order of step. Names and sizes are checked; contents are not read."""
    folder = home.checkpoints(run_id)
    steps = {path: int(match[1]) for path in _folders(folder) if (match := _FOLDER.fullmatch(path.name))}
    for place, step in sorted(steps.items(), key=lambda item: (item[1], item[0].name)):
        try:
            digest = hashlib.sha256((place / NAME).read_bytes()).hexdigest()
            manifest, files = read_published(place, digest)
            missing = [file for file in files if not _has_size(place, file)]
        except (OSError, ManifestRejected) as error:
            obstacle = obstacle_of(error) if isinstance(error, ManifestRejected) else error
            if obstacle is not None and not is_absence(obstacle):
                yield Published(run_id, place, None, obstacle=obstacle)
            else:
                yield Published(run_id, place, None, problem=f"its {NAME} cannot be used: {error}")
            continue
        problem = f"{missing[0].path} is missing or has another size" if missing else None
        if manifest.step != step:
            problem = f"its {NAME} belongs to step {manifest.step}"
        yield Published(run_id, place, manifest, tuple(files), problem)


def _has_size(place: Path, file: File) -> bool:
    """Whether a file has its size. Raises OSError if its disk does not say."""
    try:
        (place / file.path).lstat()
    except OSError as error:
        if not is_absence(error):
            raise
    return has_size(place, file)


class Reader:
    """Reads every byte of checkpoints; files that several checkpoints share are read once.

    Args:
        progress: Receives the progress, by the name of what is read.
        total_bytes: An upper bound of the bytes to read.
    """

    def __init__(self, progress: Callable[[str, TransferProgress], None], total_bytes: int) -> None:
        self._progress = progress
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._began = time.monotonic()
        self._known: dict[tuple[int, files_home.Look], str] = {}
        self.seen: dict[Path, files_home.Look] = {}
        """What `stat` showed of each file before it was read."""

    def first_wrong(self, found: Published) -> File | None:
        """Return the first file whose content does not match the manifest, or None.

        Raises:
            OSError: The disk cannot read one: nothing is known of its content.
        """
        for file in found.files:
            self._progress(f"{found.run_id} {found.place.name}", self._so_far())
            if self._hash(found.place / file.path) != file.sha256:
                return file
        return None

    def _hash(self, path: Path) -> str | None:
        try:
            with path.open("rb") as stream:
                stat = os.fstat(stream.fileno())
                self.seen[path] = files_home.Look.of(stat)
                key = (stat.st_dev, self.seen[path])
                if key not in self._known:
                    self._known[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            if is_absence(error):
                return None
            raise
        self._done_bytes += stat.st_size
        return self._known[key]

    def _so_far(self) -> TransferProgress:
        spent_s = time.monotonic() - self._began
        rate = self._done_bytes / spent_s if spent_s > 1 else None
        return TransferProgress(self._done_bytes, max(self._total_bytes, self._done_bytes), rate)


def record(database: Database, found: Published, reader: Reader | None) -> None:
    """Record in the store that a checkpoint is at home and, if its bytes were read, which files need not be fetched again.

    Args:
        database: The store.
        found: The checkpoint.
        reader: What has read its files; None if nothing has.
    """
    is_read = reader is not None
    manifest = found.manifest
    if manifest is None:
        raise ValueError(f"{found.place} has no manifest")
    if reader is not None:
        files = [(f.sha256, found.place / f.path, f.size) for f in found.files if f.size]
        files_home.record(database, files, reader.seen)
    told = json.loads(manifest.text)
    moment, attempt = told.get("created_at"), told.get("attempt")
    created_at = float(moment) if isinstance(moment, int | float) else None
    checkpoints.adopt(
        database,
        found.run_id,
        manifest.digest,
        step=manifest.step,
        size_bytes=manifest.size_bytes,
        file_count=len(manifest.files),
        created_at=created_at,
        home_path=found.place,
        attempt=attempt if isinstance(attempt, int) and 0 <= attempt <= MOST else None,
        is_read=is_read,
    )
    if created_at is not None:
        runs.note_saved(database, found.run_id, manifest.step, created_at)


def put_aside(found: Published) -> Path:
    """Rename a folder with wrong content. Otherwise a sync would take it for the checkpoint and not fetch that again."""
    aside = found.place.with_name(f"{_WRONG}{found.place.name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    found.place.rename(aside)
    fsync(aside.parent)
    return aside


def put_aside_before(home: HomePaths, run_id: str) -> list[Path]:
    return [path for path in _folders(home.checkpoints(run_id)) if path.name.startswith(_WRONG)]


def adopt_run(database: Database, home: HomePaths, run_id: str) -> bool:
    """Record a run from its files at home: its plan, last state and curves; only its id if there are none.

    Returns:
        Whether the run is new to the store.
    """
    folder = home.run(run_id) / FOLDER
    spec = _read_object(folder / "spec.json")
    if spec is None or not adopt_spec(database, home, run_id, spec, host=None):
        name = run_id.rpartition("-")[0] or run_id
        made = _made_at(home.run(run_id))
        return spec is None and adopted.adopt(
            database, run_id=run_id, name=name, host=adopted.NO_HOST, task="unknown", spec={}, created_at=made
        )
    _take_outputs(database, folder, run_id)
    return True


def adopt_spec(database: Database, home: HomePaths, run_id: str, spec: dict[str, object], *, host: str | None) -> bool:
    """Record a run by its plan.

    Args:
        database: The store.
        home: What it has of the run decides how much of the plan counts (`armada.verdicts.adoption`).
        run_id: The name of the run's folder. A plan of another run is refused.
        spec: The plan.
        host: The host on which it was found; None takes the host that the plan names.

    Returns:
        Whether the run is new; also False if the plan is invalid.
    """
    name, task, said, created = (spec.get(key) for key in ("name", "task", "host", "created_at"))
    place = host or (said if isinstance(said, str) and said else adopted.NO_HOST)
    if spec.get("run_id") != run_id or not isinstance(name, str) or not isinstance(task, str) or not _is_plan(spec):
        return False
    try:
        created_at = (
            float(created) if isinstance(created, int | float) else dt.datetime.fromisoformat(str(created)).timestamp()
        )
    except (ValueError, OverflowError):
        created_at = time.time()
    created_at = created_at if 0 <= created_at <= time.time() + _DAY_S else time.time()
    kept = read_record(home, run_id)
    launched = Launched(kept.secrets, kept.sync) if kept is not None else Launched()
    has_checkpoints = any(_FOLDER.fullmatch(path.name) for path in _folders(home.checkpoints(run_id)))
    plan = adopted_plan(spec, launched, has_checkpoints=has_checkpoints)
    return adopted.adopt(
        database, run_id=run_id, name=name, host=place, task=task[:40], spec=plan, created_at=created_at
    )


def _is_plan(spec: dict[str, object]) -> bool:
    """Return whether a plan has the fields that its readers expect: a host may contain anything."""
    parts = [spec.get(name) for name in _PARTS]
    job = spec.get("job")
    argv = job.get("argv") if isinstance(job, dict) else None
    return isinstance(argv, list) and all(part is None or isinstance(part, dict) for part in parts)


def _take_outputs(database: Database, folder: Path, run_id: str) -> None:
    """Record in the store from files at home what usually comes from a host. The files are copies of the host's, as far as they arrived."""
    state = _read_object(folder / "state.json")
    # Without a state, nothing at home says that it was ever submitted.
    submission = {"number": 1, "claimed": True, "job": None} if state is not None else None
    seen = Observation.model_validate(
        {
            "run_id": run_id,
            "exists": True,
            "evidence": {"state": state, "submission": submission, "supervisor": "unknown"},
            "log_size_bytes": _size(folder / "output.log"),
        }
    )
    seen_at = _made_at(folder / "state.json") if state is not None else None
    there = Folder(exists=True)
    record_look(database, runs.find(database, run_id), Look(seen, there), observed_at=seen_at)
    for part in ("metrics", "events"):
        for text, end in _pieces(folder / f"{part}.jsonl"):
            piece = seen.model_copy(update={part: Lines(text=text, next_offset=end)})
            record_look(database, runs.find(database, run_id), Look(piece, there), observed_at=seen_at)
    adopted.retell(database, run_id)


def _pieces(path: Path) -> Iterator[tuple[str, int]]:
    """Yield whole lines in pieces of some MiB, each with the offset of the next piece."""
    try:
        with path.open("rb") as stream:
            offset = 0
            while lines := stream.readlines(_READ_BYTES):
                if not lines[-1].endswith(b"\n"):
                    lines.pop()
                block = b"".join(lines)
                if not block:
                    return
                offset += len(block)
                yield block.decode("utf-8", "replace"), offset
    except OSError:
        return


def _read_object(path: Path) -> dict[str, object] | None:
    try:
        with path.open("rb") as stream:
            value = json.loads(stream.read(_LARGEST_SPEC_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    except OSError:
        return []


def _made_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
