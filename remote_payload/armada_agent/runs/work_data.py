"""Link the data and files of a job into its working folder.

Each file is a link of its own to a content that runs share and never write to. Folders are real, so files that a job
writes next to its data stay in its own run.
"""

import os
from typing import Any, Dict, List, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.paths import RunPaths
from armada_agent.provision import content

_SHA = frozenset("0123456789abcdef")
_AGAIN = "put it back, or launch the experiment again: armada then sends what is missing"


def check(data: Any) -> None:
    """Check a list of contents and the names under which a job sees them.

    Raises:
        AgentError: `bad_request`.
    """
    if data is None:
        return
    if not isinstance(data, list):
        raise AgentError("bad_request", "`job.data` must be a list")
    for entry in data:
        if not isinstance(entry, dict):
            raise AgentError("bad_request", "each of `job.data` must be an object")
        if not os.path.isabs(parameters.text(entry, "content")):
            raise AgentError("bad_request", "`job.data` must give the absolute paths of contents")
        if not isinstance(entry.get("outside", False), bool):
            raise AgentError("bad_request", "`outside` must be true or false")
        parts = parameters.text(entry, "name").split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise AgentError("bad_request", "`job.data` must stay below the folder the job works in")


def link(root: str, work: str, data: List[Dict[str, Any]]) -> None:
    """Link contents into a run's new folder. Files that came with the code are not replaced.

    Raises:
        AgentError: `bad_request`: not a content of this root; `not_found`: the content is missing.
    """
    for entry in data:
        source = os.path.normpath(entry["content"])
        target = os.path.join(work, *entry["name"].split("/"))
        if entry.get("outside"):
            _link_outside(source, target)
            continue
        if _content_of(root, source) is None:
            raise AgentError("bad_request", "%.200r is not data on this host" % source)
        if os.path.islink(source) or not os.path.exists(source):
            raise AgentError("not_found", "the data %s is not on this host" % source, "send it first")
        _link(source, target)


def require_unchanged(call: Call, paths: RunPaths) -> None:
    """Check that what an earlier attempt of a run found in its folder is still on the host, and still the same.

    Raises:
        AgentError: `environment`: something is missing or has changed.
    """
    try:
        job = (files.read_json(paths.spec) or {}).get("job")
    except files.UnreadableError as error:
        raise AgentError("io", str(error))
    linked = (job.get("data") if isinstance(job, dict) else None) or []
    check(linked)
    contents = set()
    for entry in linked:
        source = os.path.normpath(entry["content"])
        if not os.path.exists(source):
            message = "%.300s, which run %s needs as %.200s, is no longer on its host"
            raise AgentError("environment", message % (source, paths.run_id, entry["name"]), _AGAIN)
        sha = None if entry.get("outside") else _content_of(call.root, source)
        if sha is not None:
            contents.add(sha)
    for sha in sorted(contents):
        folder = os.path.join(call.root, "data", sha)
        content.require_right(folder, sha, folder, False, call)


def _content_of(root: str, source: str) -> Optional[str]:
    """Return the hash of the content that a path belongs to."""
    sha = os.path.relpath(source, os.path.join(root, "data")).split(os.sep)[0]
    return sha if len(sha) == 64 and set(sha) <= _SHA else None


def _link_outside(source: str, target: str) -> None:
    """Link a file or folder of the host with a single link: a folder may contain millions of files."""
    if not os.path.exists(source):
        raise AgentError("not_found", "there is no %.300s on this host" % source, "mount it, or correct `files:`")
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    if not os.path.lexists(target):
        os.symlink(source, target)


def _link(source: str, target: str) -> None:
    if not os.path.isdir(source):
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        if not os.path.lexists(target):
            os.symlink(source, target)
        return
    os.makedirs(target, mode=0o700, exist_ok=True)
    for name in sorted(os.listdir(source)):
        _link(os.path.join(source, name), os.path.join(target, name))
