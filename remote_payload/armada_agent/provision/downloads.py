"""Download a source of `files:` into the content store: resume, verify, and share it between runs."""

import hashlib
import http.client
import os
import shutil
import time
import urllib.error
from typing import Any, Dict, List, Optional, Set

from armada_agent.errors import AgentError, from_os_error, is_disk_full
from armada_agent.foundation import durability, files, parameters
from armada_agent.foundation.session import Call
from armada_agent.provision import content, integrity, sources
from armada_agent.provision.hub_listing import HubError
from armada_agent.provision.integrity import Entry
from armada_agent.provision.sources import Item, Source

_BLOCK = 1024 * 1024
_TRIES = 5
_FIRST_PAUSE_S = 0.5
_TOLD_EVERY_S = 1.0


def fetch(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Download a source's files if they are missing.

    Raises:
        AgentError: `conflict`: the source has changed since it was looked up; `environment`: its server refuses or
            interrupts the download; `disk_full`.
    """
    asked = parameters.mapping(params, "source")
    try:
        source = sources.resolve(call, asked, params)
    except HubError as error:
        raise AgentError("environment", error.message, "launch again to continue from here")
    if source.identity != (params.get("identity") or ""):
        message = "%s changed while the launch was prepared" % sources.hide_query(source.items[0].url)
        raise AgentError("conflict", message, "launch again")
    name = source.identity or _unversioned(source)
    top = os.path.join(call.root, "data")
    os.makedirs(top, mode=0o700, exist_ok=True)
    lock_path = os.path.join(top, ".lock-" + name)
    lock = files.lock(lock_path, timeout_s=0)
    if lock is None:
        call.progress("another launch is downloading it already")
        lock = files.lock(lock_path)
    try:
        folder, outcome = sources.find_fetched(call, source), "ready"
        if folder is None:
            folder, outcome = _fetch(call, source, os.path.join(top, ".new-" + name)), "fetched"
            if source.identity:
                note = {"content": os.path.basename(folder), "urls": [sources.hide_query(i.url) for i in source.items]}
                files.keep_json(sources.note_path(call.root, source.identity), note)
    finally:
        if lock is not None:
            os.close(lock)
    return {"outcome": outcome, "path": sources.linked_path(folder, source), "size_bytes": _size(folder)}


def _fetch(call: Call, source: Source, staging: str) -> str:
    """Download into the staging folder, then publish the content under its hash."""
    if not source.identity:
        shutil.rmtree(staging, ignore_errors=True)  # an earlier, partial download may be of another file
    os.makedirs(staging, mode=0o700, exist_ok=True)
    integrity.loosen(staging)
    progress = _Progress(call, source.items)
    manifest: List[Entry] = []
    for item in source.items:
        target = os.path.join(staging, *(integrity.native(part) for part in item.path.split("/")))
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        _download(item, target, progress)
        manifest.append(_verified(item, target))
        progress.finished(item)
    sha = integrity.digest(manifest)
    path, waiting = content.places(call.root, {"kind": "data", "sha": sha})
    with files.locked(os.path.join(os.path.dirname(path), ".lock-" + sha)):
        if not os.path.isdir(path):
            shutil.rmtree(waiting, ignore_errors=True)  # of an interrupted transfer; everything is here now
            _remove_others(staging, {entry[0] for entry in manifest})
            durability.fsync_folders(staging)
            integrity.protect(staging)
            integrity.note(content.record_path(path), staging, manifest)
            os.rename(staging, path)
            files.fsync_folder(os.path.dirname(path))
        else:
            shutil.rmtree(staging, ignore_errors=True)
            content.require_right(path, sha, path, False, call)
    return path


def _download(item: Item, target: str, progress: "_Progress") -> None:
    """Download one file, and resume after an interruption. An attempt that received bytes does not count as a failure.

    Raises:
        AgentError: `conflict`: the file has changed since it was looked up; `environment`: the server refuses, interrupts
            too often, or sends too much; `disk_full`.
    """
    failures = farthest = 0
    while True:
        had = os.path.getsize(target) if os.path.exists(target) else 0
        if had and (not item.can_resume or (item.size is not None and had > item.size)):
            os.unlink(target)
            had = 0
        if item.size is not None and had == item.size and (had or os.path.exists(target)):
            return
        try:
            if _pour(item, target, had, progress):
                return
            error: Exception = OSError("the server ended the connection too early")
        except urllib.error.HTTPError as refusal:
            if refusal.code < 500 and refusal.code != 429:
                shown = sources.hide_query(item.url)
                raise AgentError("environment", "%s answered %d (%.300s)" % (shown, refusal.code, refusal.reason))
            error = refusal
        except HubError as refusal:
            raise AgentError("environment", refusal.message)
        except (OSError, ValueError, http.client.HTTPException) as broken:
            if isinstance(broken, OSError) and is_disk_full(broken):
                raise from_os_error(broken)
            error = broken
        got = os.path.getsize(target) if os.path.exists(target) else 0
        # Only a new mark is progress: a server that starts at 0 again, or sends too much, would be asked for ever.
        failures = 0 if got > max(had, farthest) else failures + 1
        farthest = max(had, got, farthest)
        if failures >= _TRIES:
            why = str(error) or type(error).__name__
            message = "%s broke off after %d bytes: %.300s" % (sources.hide_query(item.url), got, why)
            raise AgentError("environment", message, "launch again to continue from here")
        time.sleep(_FIRST_PAUSE_S * 2**failures)


def _pour(item: Item, target: str, had: int, progress: "_Progress") -> bool:
    """Append what the server sends. Return whether the file is complete."""
    try:
        answer = sources.opened(item, start=had)
    except urllib.error.HTTPError as refusal:
        if refusal.code == 416 and item.size in (None, had):
            open(target, "ab").close()
            return True
        raise
    with answer:
        version = sources.version_of(answer.headers)
        if item.check is None and item.version and version and version != item.version:
            message = "%s changed while it was downloaded" % sources.hide_query(item.url)
            raise AgentError("conflict", message, "launch again")
        starts = answer.status == 206 and answer.headers.get("Content-Range", "").startswith("bytes %d-" % had)
        if answer.status == 206 and not starts:
            raise OSError("the server sent another part than the one that armada asked for")
        length = answer.headers.get("Content-Length")
        expected = int(length) if length and length.isdigit() else None
        arrived = 0
        with open(target, "ab" if starts else "wb") as stream:
            for block in iter(lambda: answer.read(_BLOCK), b""):
                stream.write(block)
                arrived += len(block)
                if item.size is not None and arrived > item.size - (had if starts else 0):
                    message = "%s sends more than the %d bytes that it announced"
                    raise AgentError("environment", message % (sources.hide_query(item.url), item.size), "launch again")
                progress.arrived(item, (had if starts else 0) + arrived)
    whole = (had if starts else 0) + arrived
    return whole == item.size if item.size is not None else expected is None or arrived == expected


def _verified(item: Item, target: str) -> Entry:
    """Hash a downloaded file.

    Raises:
        AgentError: `environment`: its hash is not the expected one; the file is deleted.
    """
    size = os.path.getsize(target)
    sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size)  # noqa: S324  # git's blob hash
    with files.open_regular(target) as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            sha256.update(block)
            blob.update(block)
        durability.flush_or_remove(stream.fileno(), target)
    kind, _, wanted = (item.check or "").partition(":")
    found = {"sha256": sha256.hexdigest(), "blob": blob.hexdigest()}.get(kind)
    if found is not None and found != wanted:
        os.unlink(target)
        what = "SHA-256" if kind == "sha256" else "git hash"
        message = "%s arrived with %s %s, not %s" % (sources.hide_query(item.url), what, found, wanted)
        raise AgentError("environment", message, "correct `sha256:` if the file changed; otherwise launch again")
    os.chmod(target, 0o644)
    return item.path, size, sha256.hexdigest(), 0o644


def _remove_others(staging: str, wanted: Set[str]) -> None:
    """Delete files of an earlier download that the source no longer has."""
    for parent, _, names in os.walk(staging):
        for name in names:
            path = os.path.join(parent, name)
            if os.fsencode(os.path.relpath(path, staging)).decode("utf-8", "surrogateescape") not in wanted:
                os.unlink(path)


def _unversioned(source: Source) -> str:
    """Return the staging folder's name for a source without a version: a hash of its URL alone."""
    return hashlib.sha256("\n".join(item.url for item in source.items).encode("utf-8")).hexdigest()


def _size(folder: str) -> int:
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(folder) for name in names)


class _Progress:
    """Reports the progress of a download to home, about once a second."""

    def __init__(self, call: Call, items: List[Item]) -> None:
        self._call = call
        sizes = [item.size for item in items]
        self._total: Optional[int] = None if any(size is None for size in sizes) else sum(size or 0 for size in sizes)
        self._done = 0
        self._told = 0.0

    def arrived(self, item: Item, size: int) -> None:
        now = time.monotonic()
        if now - self._told >= _TOLD_EVERY_S:
            self._told = now
            fraction = (self._done + size) / float(self._total) if self._total else None
            self._call.progress("%s: %.0f MB" % (item.path, size / 1e6), fraction)

    def finished(self, item: Item) -> None:
        self._done += item.size or 0
