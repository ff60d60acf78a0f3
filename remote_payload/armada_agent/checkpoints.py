"""Finished checkpoints as home sees them: listed, their manifests read, acknowledged."""

import os
import time
from typing import Any, Dict, List, Optional

from armada_agent import files, homes
from armada_agent.errors import AgentError
from armada_agent.paths import RunPaths, checked_digest
from armada_agent.session import Call

MANIFEST = "MANIFEST.json"
ANNOUNCEMENT = ".announce.json"
MANIFEST_LIMIT = 4 * 1024 * 1024
_known: Dict[str, Dict[str, Any]] = {}  # a digest names its content: what was read once stays true


def list_finished(paths: RunPaths) -> List[Dict[str, Any]]:
    """Describe every finished checkpoint, oldest first; damaged ones are left out."""
    found = (describe(paths, digest) for digest in paths.checkpoints())
    return sorted((entry for entry in found if entry), key=lambda entry: (entry["created_at"], entry["step"]))


def has_final(paths: RunPaths) -> bool:
    """Tell whether a job announced its final checkpoint, finished or not."""
    files_of = [paths.checkpoint(digest, MANIFEST) for digest in paths.checkpoints()]
    files_of += [os.path.join(folder, name) for folder in paths.announced() for name in (ANNOUNCEMENT, MANIFEST)]
    return any(_kind(path) == "final" for path in files_of)


def _kind(path: str) -> Any:
    try:
        return (files.read_json(path, limit=MANIFEST_LIMIT) or {}).get("kind")
    except files.UnreadableError:
        return None


def describe(paths: RunPaths, digest: str) -> Optional[Dict[str, Any]]:
    if digest not in _known:
        summary = _summarise(paths.checkpoint(digest, MANIFEST), digest)
        if summary is None:
            return None
        _known[digest] = summary
    return dict(_known[digest], acknowledged=os.path.exists(paths.acknowledgement(digest)))


def read_manifest(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Hand out a checkpoint's manifest, byte for byte: its SHA-256 is the checkpoint's digest.

    Raises:
        AgentError: `not_found`, or `io` when it is too large.
    """
    paths, digest = _checkpoint(call, params)
    with files.open_regular(paths.checkpoint(digest, MANIFEST)) as stream:
        content = stream.read(MANIFEST_LIMIT + 1)
    if len(content) > MANIFEST_LIMIT:
        raise AgentError("io", "the manifest of %s is larger than %d bytes" % (digest, MANIFEST_LIMIT))
    return {"text": content.decode("utf-8")}


def acknowledge(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Note that home holds a checkpoint, verified; only then may it be deleted here. `wanted: false` says that it will not fetch it.

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
    paths = RunPaths(call.root, params.get("run_id"))
    digest = checked_digest(params.get("digest"))
    if not os.path.isfile(paths.checkpoint(digest, MANIFEST)):
        raise AgentError("not_found", "run %s has no checkpoint %s here" % (paths.run_id, digest))
    return paths, digest


def _summarise(path: str, digest: str) -> Optional[Dict[str, Any]]:
    try:
        manifest = files.read_json(path, limit=MANIFEST_LIMIT)
        if manifest is None:
            return None
        listed = manifest["files"]
        return {
            "digest": digest,
            "step": int(manifest["step"]),
            "size_bytes": sum(int(entry["size"]) for entry in listed),
            "file_count": len(listed),
            "created_at": float(manifest["created_at"]),
        }
    except (files.UnreadableError, KeyError, TypeError, ValueError):
        return None
