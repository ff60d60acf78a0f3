"""List finished checkpoints for home, read their manifests, and record acknowledgements."""

import json
import os
import time
from typing import Any, Dict, FrozenSet, List, Optional, Sequence

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.session import Call
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths, checked_digest, require_own

MANIFEST = "MANIFEST.json"
ANNOUNCEMENT = ".announce.json"
MANIFEST_LIMIT = 4 * 1024 * 1024
_UNREAD = object()
"""The kind of a checkpoint that is here, and of which no file says what it is."""
_MOST_ATTEMPTS = 1 << 31
_LINE_LIMIT = 7 * 1024 * 1024  # home closes the connection at 8 MiB
_TAIL = 256 * 1024  # of events.jsonl
_known: Dict[str, Dict[str, Any]] = {}  # by path; a finished checkpoint never changes


def list_finished(paths: RunPaths) -> List[Dict[str, Any]]:
    """Describe every finished checkpoint, oldest first, without those that `find_unreadable` names."""
    found = (describe(paths, digest) for digest in paths.checkpoints())
    return sorted((entry for entry in found if entry), key=lambda entry: (entry["created_at"], entry["step"]))


def find_unreadable(paths: RunPaths) -> List[str]:
    """List the digests of the finished checkpoints of which nobody can say what they are: their manifest cannot be read."""
    unread = [digest for digest in paths.checkpoints() if describe(paths, digest) is None]
    # One that was deleted meanwhile is not there.
    return [digest for digest in unread if os.path.lexists(paths.checkpoint(digest).rstrip("/"))]


def last_recorded(paths: RunPaths) -> FrozenSet[str]:
    """Return the digest of the checkpoint here that a supervisor recorded last, as far as events.jsonl says one.

    Its lines are in order, whatever the clock shows, and whichever steps a script saves.
    """
    there = set(paths.checkpoints())
    for line in reversed(files.read_tail(paths.events, _TAIL).splitlines()):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # the first line is cut; a job may have written into the file
            continue
        if isinstance(event, dict) and event.get("kind") == "checkpoint":
            digest = event.get("digest")
            if isinstance(digest, str) and digest in there:
                return frozenset([digest])
    return frozenset()


def has_final(paths: RunPaths) -> Optional[bool]:
    """Return whether a job announced its final checkpoint, finished or not; None if one that is here may be it, and cannot be read."""
    # Those that are announced first: one that is finished meanwhile is then among the finished ones.
    kinds = [_kind_among(folder, (ANNOUNCEMENT, MANIFEST)) for folder in paths.announced()]
    kinds += [_kind_among(paths.checkpoint(digest).rstrip("/"), (MANIFEST,)) for digest in paths.checkpoints()]
    return True if "final" in kinds else None if _UNREAD in kinds else False


def _kind_among(folder: str, names: Sequence[str]) -> Any:
    """Return what the first of these files that can be read says of a checkpoint's kind; `_UNREAD` if none can be."""
    for name in names:
        try:
            said = read_announcement(folder) if name == ANNOUNCEMENT else _read(os.path.join(folder, name))
        except files.UnreadableError:
            continue
        if said is not None:
            return said.get("kind")
    return _UNREAD if os.path.lexists(folder) else None  # one that was deleted meanwhile is not there


def read_announcement(folder: str) -> Optional[Dict[str, Any]]:
    """Read what a job announced of a checkpoint; None if it announced nothing.

    A loss may be NaN. That is no reason to refuse the checkpoint: such a number is left out of its metrics.

    Raises:
        files.UnreadableError: It is something else, or cannot be read.
    """
    announced = files.read_json(os.path.join(folder, ANNOUNCEMENT), MANIFEST_LIMIT, has_measured=True)
    if announced is not None and "metrics" in announced:
        told = announced["metrics"] if isinstance(announced["metrics"], dict) else {}
        announced["metrics"] = {name: value for name, value in told.items() if value is not None}
    return announced


def kind_of(path: str) -> Any:
    """Return what a manifest says of a checkpoint's kind; None if it cannot be read."""
    try:
        return (_read(path) or {}).get("kind")
    except files.UnreadableError:
        return None


def _read(path: str) -> Optional[Dict[str, Any]]:
    return files.read_json(path, limit=MANIFEST_LIMIT)


def describe(paths: RunPaths, digest: str) -> Optional[Dict[str, Any]]:
    path = paths.checkpoint(digest, MANIFEST)
    if path not in _known:
        summary = _summarise(path, digest)
        if summary is None:
            return None
        _known[path] = summary
    return dict(_known[path], acknowledged=os.path.exists(paths.acknowledgement(digest)))


def read_manifest(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return a checkpoint's manifest, byte for byte: its SHA-256 is the checkpoint's digest.

    Raises:
        AgentError: `not_found`; `io`: it is too large.
    """
    paths, digest = _checkpoint(call, params)
    text = manifest_text(paths, digest, MANIFEST_LIMIT)
    if len(json.dumps(text)) > _LINE_LIMIT:
        raise AgentError("io", "the manifest of %s is too large for an answer" % digest)
    return {"text": text}


def manifest_text(paths: RunPaths, digest: str, most_bytes: int) -> str:
    """Read a manifest byte for byte.

    Raises:
        AgentError: `io`: it is larger than `most_bytes`, or not text.
        OSError: It cannot be read.
    """
    with files.open_regular(paths.checkpoint(digest, MANIFEST)) as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise AgentError("io", "the manifest of %s is larger than %d bytes" % (digest, most_bytes))
    try:
        return content.decode("utf-8")
    except ValueError:
        raise AgentError("io", "the manifest of %s is damaged: it is not text" % digest)


def acknowledge(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Record that home holds a checkpoint, verified. Only then may it be deleted here. `wanted: false`: home will not fetch it.

    Raises:
        AgentError: `not_found`.
    """
    paths, digest = _checkpoint(call, params)
    home = homes.read_asker(params)
    is_wanted = params.get("wanted") is not False
    if home is not None:
        homes.note(paths, home, digest, is_wanted)
    if is_wanted:
        files.write_json(paths.acknowledgement(digest), {"time": time.time()})
    return {}


def _checkpoint(call: Call, params: Dict[str, Any]) -> "tuple[RunPaths, str]":
    """Return the run and the digest that a request names.

    Raises:
        AgentError: `not_found`.
        OSError: The outbox, or the checkpoint, is a link: an acknowledgement would be another run's.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    digest = checked_digest(params.get("digest"))
    for folder in (paths.outbox, paths.checkpoint(digest).rstrip("/")):
        require_own(folder)
    if not os.path.isfile(paths.checkpoint(digest, MANIFEST)):
        raise AgentError("not_found", "run %s has no checkpoint %s here" % (paths.run_id, digest))
    return paths, digest


def _summarise(path: str, digest: str) -> Optional[Dict[str, Any]]:
    try:
        manifest = _read(path)
        return None if manifest is None else dict(measure(manifest), digest=digest)
    except (files.UnreadableError, ValueError):
        return None


def measure(manifest: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts about a checkpoint that its manifest contains.

    Raises:
        ValueError: This is not a manifest.
    """
    step, created_at, listed = manifest.get("step"), manifest.get("created_at"), manifest.get("files")
    attempt = manifest.get("attempt")
    is_list = isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed)
    sizes = [entry.get("size") for entry in listed or []] if is_list else [None]
    if not all(isinstance(number, int) for number in [step] + sizes) or not isinstance(created_at, (int, float)):
        raise ValueError("its %s is wrong" % MANIFEST)
    return {
        "step": step,
        "size_bytes": sum(sizes),
        "file_count": len(sizes),
        "created_at": float(created_at),
        "attempt": attempt if isinstance(attempt, int) and 0 <= attempt < _MOST_ATTEMPTS else 0,
    }
