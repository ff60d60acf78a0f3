"""Link the data and files of a job into its working folder.

Each file is a link of its own to a content that runs share and never write to. Folders are real, so files that a job
writes next to its data stay in its own run.
"""

import os
from typing import Any, Dict, List

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters

_SHA = frozenset("0123456789abcdef")


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
        sha = os.path.relpath(source, os.path.join(root, "data")).split(os.sep)[0]
        if len(sha) != 64 or not set(sha) <= _SHA:
            raise AgentError("bad_request", "%.200r is not data on this host" % source)
        if os.path.islink(source) or not os.path.exists(source):
            raise AgentError("not_found", "the data %s is not on this host" % source, "send it first")
        _link(source, target)


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
