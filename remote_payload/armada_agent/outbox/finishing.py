"""Finish announced checkpoints: hash them at idle priority and name them by their manifest.

Training continues meanwhile, so everything here runs in one thread at nice 19. (On Linux each thread has its own
niceness, and the disk scheduler derives its priority from it.) A folder left by a killed supervisor is still announced:
the next supervisor finishes it, or `orphans` if there is none. A lock keeps the two apart.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from armada_agent.errors import is_disk_full
from armada_agent.foundation import durability, files
from armada_agent.foundation.log import say
from armada_agent.outbox import thinning
from armada_agent.outbox.checkpoint_watch import CheckpointWatch
from armada_agent.outbox.listing import (
    ANNOUNCEMENT,
    MANIFEST,
    MANIFEST_LIMIT,
    describe,
    kind_of,
    measure,
    read_announcement,
)
from armada_agent.outbox.settling import settling
from armada_agent.paths import ANNOUNCED, RunPaths
from armada_agent.records.journal import Journal
from armada_agent.records.place import is_readable

_INTERVAL_S = 1.0
_LONGEST_PAUSE_S = 60.0
_BLOCK = 1024 * 1024
_TRIES = 3
_TOO_MUCH = 1 << 53  # home refuses such a number, so its checkpoint would never come home


class ChangedError(Exception):
    """A file was changed or deleted while it was being hashed."""


class Outbox:
    """Watches a run's outbox in a thread.

    Args:
        paths: The run's files.
        settings: The spec's `outbox`: how many checkpoints to keep, and how much disk space to leave free.
        journal: Records checkpoints and their deletion.
        checkpoint_watch: Finds the checkpoints of a job that announces none.
    """

    def __init__(
        self,
        paths: RunPaths,
        settings: Dict[str, Any],
        journal: Journal,
        checkpoint_watch: Optional[CheckpointWatch] = None,
    ) -> None:
        self._paths = paths
        self._checkpoint_watch = checkpoint_watch
        self._is_trusted = False
        self._settings = settings
        self._journal = journal
        self._finishing = threading.Event()
        self._failures: Dict[str, int] = {}
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def note_end(self) -> None:
        """Note that the job has ended just now, however long it takes until its last checkpoints are taken."""
        if self._checkpoint_watch is not None:
            self._checkpoint_watch.note_end()

    def finish(self, is_trusted: bool = False) -> None:
        """Hash the checkpoints that are still announced, then end the thread.

        Args:
            is_trusted: The job ended well, so everything that it wrote is complete.
        """
        self._is_trusted = is_trusted
        self._finishing.set()
        self._thread.join()

    def _work(self) -> None:
        os.nice(19)
        pause_s = _INTERVAL_S
        while True:
            is_last = self._finishing.is_set()
            if not self._journal.place.is_ours():
                if is_last:
                    return
                self._finishing.wait(_INTERVAL_S)
                continue
            is_done = self._turn(is_last)
            if is_last and is_done:
                return
            if is_last:
                time.sleep(pause_s)  # the disk is full or cannot be reached, or a file is still changing
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)  # a copy of gigabytes may have been made in vain
            else:
                self._finishing.wait(_INTERVAL_S)

    def _turn(self, is_last: bool) -> bool:
        """Take and finish checkpoints once; return whether nothing waits any more."""
        is_taken = self._reap(is_last)
        try:
            self.look()
            return is_taken and not self.waiting()
        except OSError as error:
            return self._note_unread("announced", error, is_last)

    def _reap(self, is_last: bool) -> bool:
        """Take the checkpoints that the job itself does not announce; return whether that succeeded."""
        if self._checkpoint_watch is None:
            return True
        try:
            if is_last:
                with settling(self._paths):
                    self._checkpoint_watch.finish(self._is_trusted)
            else:
                self._checkpoint_watch.look()
        except OSError as error:
            if is_disk_full(error):
                self._relieve(error)
                return False
            return self._note_unread("saved", error, is_last)
        return True

    def _note_unread(self, what: str, error: OSError, is_last: bool) -> bool:
        """Note that checkpoints could not be looked for; return whether that is given up: the run's folder can be read, and they cannot."""
        say("looking for what the job %s: %s" % (what, error))
        if is_last and is_readable(self._paths):
            self._failures[what] = self._failures.get(what, 0) + 1
            if self._failures[what] == _TRIES:
                message = "the checkpoints that the job %s last cannot be taken: %s"
                self._journal.record("finding", message=message % (what, error))
        return self._failures.get(what, 0) >= _TRIES

    def look(self, wait_s: Optional[float] = 0.0) -> None:
        """Finish every announced checkpoint, then delete surplus ones.

        Args:
            wait_s: How many seconds to wait for another process that does the same; None waits without limit.
        """
        if self.waiting():
            self._finish_all(wait_s)
        try:
            thinning.thin(self._paths, self._settings, self._journal)
        except OSError as error:
            say("thinning the outbox: %s" % error)

    def _finish_all(self, wait_s: Optional[float]) -> None:
        try:
            lock = files.lock(self._paths.outbox_lock, wait_s)
        except OSError as error:
            say("checkpoints cannot be finished now: %s" % error)
            return
        if lock is None:
            return
        try:
            for folder in self.waiting():
                self._try(folder)
        finally:
            os.close(lock)

    def waiting(self) -> List[str]:
        """List the announced checkpoints that have not failed too often."""
        return [folder for folder in self._paths.announced() if self._failures.get(folder, 0) < _TRIES]

    def given_up(self) -> List[str]:
        """List the announced checkpoints that have failed too often."""
        return [folder for folder in self._paths.announced() if folder not in self.waiting()]

    def finish_now(self, folder: str) -> Optional[str]:
        """Hash one announced checkpoint, for who is about to use it; return why it cannot be."""
        try:
            lock = files.lock(self._paths.outbox_lock, None)
        except OSError as error:
            return str(error)
        try:
            problem = self._try(folder)
            for _ in range(_TRIES - 1):
                if problem is None or folder in self._failures:
                    break
                problem = self._try(folder)  # the disk was full, and each try makes room
            return problem
        finally:
            if lock is not None:
                os.close(lock)

    def _try(self, folder: str) -> Optional[str]:
        """Hash an announced checkpoint; return why it cannot be."""
        try:
            origin = self._checkpoint_watch.origin if self._checkpoint_watch is not None else None
            digest = publish(self._paths, folder, self._journal.state["attempt"], time.time, origin)
        except FileNotFoundError as error:
            if os.path.isdir(folder):  # else it was withdrawn by the job
                self._note_failure(folder, str(error))
            return str(error)
        except OSError as error:
            if is_disk_full(error):
                self._relieve(error)
            else:
                self._note_failure(folder, str(error))
            return str(error)
        except (ChangedError, ValueError) as error:
            self._note_failure(folder, str(error))
            return str(error)
        self._failures.pop(folder, None)
        if self._checkpoint_watch is not None:
            self._checkpoint_watch.note_published(folder, digest)
        self._announce(digest)
        return None

    def _announce(self, digest: str) -> None:
        known = describe(self._paths, digest)
        if known is None:
            say("the manifest of %s cannot be read any more" % digest)
            return
        self._journal.record(
            "checkpoint",
            digest=digest,
            step=known["step"],
            final=kind_of(self._paths.checkpoint(digest, MANIFEST)) == "final",
            size_bytes=known["size_bytes"],
            file_count=known["file_count"],
        )

    def _note_failure(self, folder: str, problem: str) -> None:
        self._failures[folder] = self._failures.get(folder, 0) + 1
        if self._failures[folder] == _TRIES:
            name = os.path.basename(folder)[len(ANNOUNCED) :]
            self._journal.record("finding", message="checkpoint %s could not be finished: %s" % (name, problem))

    def _relieve(self, error: OSError) -> None:
        say("the disk is full: %s" % error)
        # If there is no space even for a manifest, the disk's floor is reached, whatever its setting.
        with contextlib.suppress(OSError):
            thinning.thin(self._paths, dict(self._settings, disk_floor_bytes=1 << 62), self._journal, most=1)


def publish(
    paths: RunPaths,
    folder: str,
    attempt: int,
    clock: Callable[[], float],
    origin: Optional[Callable[[str, int, float], Tuple[int, float]]] = None,
) -> str:
    """Hash an announced checkpoint and move it to the folder that is named by its manifest's SHA-256.

    Args:
        paths: The run's files.
        folder: The checkpoint's folder.
        attempt: The attempt of the job that wrote it.
        clock: Returns unix time, for an announcement without a time.
        origin: Gets the checkpoint's identity, attempt and time, and returns the attempt and time of its first
            occurrence.

    Returns:
        The digest.

    Raises:
        ChangedError: It is still being written.
        ValueError: Its announcement is wrong.
        OSError: The disk refuses it.
    """
    content = _finished_manifest(folder)
    listed = None  # type: Optional[List[Dict[str, Any]]]
    if content is None:
        announcement = _read_announcement(folder)
        listed = _hash_all(folder)
        _refuse_if_cut(listed, announcement.get("size_bytes"))
        moment = announcement.get("time", clock())
        manifest = {
            "step": announcement["step"],
            "kind": announcement.get("kind", "periodic"),
            "metrics": announcement.get("metrics", {}),
            "files": listed,
        }  # type: Dict[str, Any]
        if origin is not None:
            attempt, moment = origin(hashlib.sha256(files.encode(manifest)).hexdigest(), attempt, moment)
        manifest.update(format=1, run_id=paths.run_id, attempt=attempt, created_at=moment)
        content = files.encode(manifest)
        if len(content) > MANIFEST_LIMIT:
            raise ValueError("its manifest would be larger than %d bytes" % MANIFEST_LIMIT)
        temporary = os.path.join(folder, ".%s.tmp" % MANIFEST)
        files.remove(temporary)
        files.write_bytes(temporary, content)
        os.rename(temporary, os.path.join(folder, MANIFEST))
        files.remove(os.path.join(folder, ANNOUNCEMENT))
        durability.fsync_folders(folder)
    digest = hashlib.sha256(content).hexdigest()
    _move(folder, paths.checkpoint(digest).rstrip("/"), digest, listed)
    files.fsync_folder(paths.outbox)
    return digest


def _move(folder: str, target: str, digest: str, listed: Optional[List[Dict[str, Any]]]) -> None:
    """Give a folder its place in the outbox, or delete it if the identical checkpoint is there, whole.

    Args:
        folder: The announced checkpoint.
        target: Its place.
        digest: Of its manifest.
        listed: Its files, if they were hashed just now; None if a killed supervisor had hashed them.

    Raises:
        ChangedError: Its files are still being written.
        ValueError: The job has put something else there.
        OSError: The disk refuses it.
    """
    try:
        os.rename(folder, target)
    except OSError:
        if not os.path.isdir(target):
            raise
        if not _is_manifest(os.path.join(target, MANIFEST), digest):
            raise ValueError("its place in the outbox is taken by something else: %s" % target)
        told = (files.read_json(os.path.join(target, MANIFEST), MANIFEST_LIMIT) or {}).get("files")
        if (_hash_all(folder) if listed is None else listed) != told or is_whole(target, told):
            shutil.rmtree(folder)
        else:
            say("%s was damaged: the same checkpoint, which was saved again, replaces it" % target)
            _replace(folder, target)


def is_whole(folder: str, told: object) -> bool:
    """Read a checkpoint of the outbox: return whether its files are those of its manifest. They may have changed since they were hashed."""
    try:
        return _hash_all(folder) == told
    except (ChangedError, OSError):
        return False


def _replace(folder: str, target: str) -> None:
    """Put an announced checkpoint into the place of a damaged one. Until it is there, it is announced: whoever is next finishes it."""
    former = os.path.join(os.path.dirname(target), ".trash-%s-former" % os.path.basename(target))
    shutil.rmtree(former, ignore_errors=True)  # left by a supervisor that was killed here
    with contextlib.suppress(FileNotFoundError):  # home has just had it deleted
        os.rename(target, former)
    os.rename(folder, target)
    files.fsync_folder(os.path.dirname(target))
    shutil.rmtree(former, ignore_errors=True)


def _is_manifest(path: str, digest: str) -> bool:
    try:
        with files.open_regular(path) as stream:
            return hashlib.sha256(stream.read(MANIFEST_LIMIT + 1)).hexdigest() == digest
    except OSError:
        return False


def _finished_manifest(folder: str) -> Optional[bytes]:
    """Read the manifest of a folder that a killed supervisor hashed but did not move. Its announcement is already deleted."""
    if os.path.exists(os.path.join(folder, ANNOUNCEMENT)):
        return None
    try:
        with files.open_regular(os.path.join(folder, MANIFEST)) as stream:
            content = stream.read(MANIFEST_LIMIT)
    except FileNotFoundError:
        raise ValueError("it has no %s" % ANNOUNCEMENT)
    try:
        measure(files.read_json(os.path.join(folder, MANIFEST), MANIFEST_LIMIT) or {})
    except files.UnreadableError as error:
        raise ValueError(str(error))
    return content


def announced_step(folder: str) -> Optional[int]:
    """Return the step of an announced checkpoint; None if nobody can say it."""
    try:
        content = _finished_manifest(folder)
        told = _read_announcement(folder) if content is None else json.loads(content.decode("utf-8"))
        return int(told["step"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read_announcement(folder: str) -> Dict[str, Any]:
    try:
        announcement = read_announcement(folder) or {}
    except files.UnreadableError as error:
        raise ValueError(str(error))
    step, kind, moment = announcement.get("step"), announcement.get("kind"), announcement.get("time")
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _TOO_MUCH:
        raise ValueError("it was announced without a step")
    is_time = moment is None or (isinstance(moment, (int, float)) and 0 <= moment < _TOO_MUCH)
    if kind not in (None, "periodic", "final") or not is_time:
        raise ValueError("it was announced with an invalid kind or time")
    return {name: value for name, value in announcement.items() if value is not None}


def _refuse_if_cut(listed: List[Dict[str, Any]], announced: object) -> None:
    """Refuse files shorter than announced: a host that loses power loses what it has not yet written to disk.

    Raises:
        ValueError: The sizes differ.
    """
    size = sum(entry["size"] for entry in listed)
    if isinstance(announced, int) and size != announced:
        raise ValueError("it had %d bytes when it was announced and has %d now" % (announced, size))


def _hash_all(folder: str) -> List[Dict[str, Any]]:
    def fail(error: OSError) -> None:
        raise error  # without what it holds, the checkpoint is not whole

    found = []
    for parent, _, names in os.walk(folder, onerror=fail):
        for name in names:
            path = os.path.join(parent, name)
            relative = os.path.relpath(path, folder)
            if relative in (ANNOUNCEMENT, MANIFEST) or relative.startswith("." + MANIFEST):
                continue
            if stat.S_ISREG(os.lstat(path).st_mode):
                found.append(_hash(path, relative))
    return sorted(found, key=lambda entry: str(entry["path"]))


def _hash(path: str, relative: str) -> Dict[str, Any]:
    sha256 = hashlib.sha256()
    with files.open_regular(path) as stream:
        before = os.fstat(stream.fileno())
        block = stream.read(_BLOCK)
        while block:
            sha256.update(block)
            block = stream.read(_BLOCK)
        os.fsync(stream.fileno())
        after = os.fstat(stream.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ChangedError("%s changed while it was hashed" % relative)
    return {"path": relative, "size": after.st_size, "sha256": sha256.hexdigest()}
