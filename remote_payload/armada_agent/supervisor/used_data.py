"""Say which files that runs share changed while a run used them, and keep the changed ones from later runs.

The files are read-only, but a job of root, or one that changes their modes, writes to them through the links in its
work folder. Without this, only the next launch would notice, and nobody would know which run had other data.
"""

import os
import shlex
import shutil
from typing import Any, Dict, List

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.foundation.log import say
from armada_agent.paths import RunPaths, list_run_ids
from armada_agent.provision import content, integrity
from armada_agent.records.ending import ENDED

_SHOWN = 3
_WITHIN_S = 15.0  # a batch system may kill this process 30 s after its signal; the next launch looks, too
_SHA = frozenset("0123456789abcdef")
_PLAN_LIMIT = 1024 * 1024


def find_changed(paths: RunPaths, spec: Dict[str, Any]) -> List[str]:
    """Look at a run's data after its last attempt; set aside what changed, unless another run that has not ended uses it.

    Returns:
        A sentence for each content that changed.
    """
    said = []
    for sha, names in sorted(_contents(paths.root, spec).items()):
        folder = os.path.join(paths.root, "data", sha)
        try:
            changed = integrity.find_changed(folder, sha, content.record_path(folder), _WITHIN_S)
            if changed:
                said.append(_sentence(paths, folder, sha, names, changed))
        except (OSError, AgentError) as error:
            say("the data %s cannot be checked: %s" % (folder, error))
    return said


def _sentence(paths: RunPaths, folder: str, sha: str, names: List[str], changed: List[str]) -> str:
    more = " and %d more" % (len(changed) - _SHOWN) if changed[_SHOWN:] else ""
    what = "%s%s of its data (%s) changed while this run used it" % (
        ", ".join(changed[:_SHOWN]),
        more,
        ", ".join(names[:_SHOWN]),
    )
    why = "a job wrote through a link to the copy that runs of this host share, so its results may rest on other data"
    others = _users(paths, sha)
    if others:
        remedy = "when %s has ended: rm -rf %s" % (", ".join(others[:_SHOWN]), shlex.quote(folder))
        return "%s: %s. The copy stays, because other runs use it; %s" % (what, why, remedy)
    aside = _set_aside(folder, sha)
    return "%s: %s. The changed copy is now %s, and the next launch sends the data again" % (what, why, aside)


def _set_aside(folder: str, sha: str) -> str:
    """Give a changed content another name; an earlier one that was set aside is deleted."""
    parent = os.path.dirname(folder)
    aside = os.path.join(parent, ".changed-" + sha)
    with files.locked(os.path.join(parent, ".lock-" + sha)):
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(folder, aside)
        files.fsync_folder(parent)
    return aside


def _users(paths: RunPaths, sha: str) -> List[str]:
    """List the other runs that have not ended and use a content."""
    found = []
    for run_id in list_run_ids(paths.root):
        other = RunPaths(paths.root, run_id)
        if run_id == paths.run_id:
            continue
        try:
            other.is_there()
            state = files.read_json(other.state) or {}
            if state.get("state") in ENDED:
                continue
            spec = files.read_json(other.spec, _PLAN_LIMIT) or {}
        except (files.UnreadableError, OSError):
            found.append(run_id)  # nobody knows
            continue
        if sha in _contents(paths.root, spec):
            found.append(run_id)
    return found


def _contents(root: str, spec: Dict[str, Any]) -> Dict[str, List[str]]:
    """Return the contents that a job's files lead to, by hash, with the names under which the job sees them."""
    job = spec.get("job")
    listed = job.get("data") if isinstance(job, dict) else None
    found: Dict[str, List[str]] = {}
    for entry in listed if isinstance(listed, list) else []:
        if not isinstance(entry, dict) or entry.get("outside") or not isinstance(entry.get("content"), str):
            continue
        sha = os.path.relpath(os.path.normpath(entry["content"]), os.path.join(root, "data")).split(os.sep)[0]
        if len(sha) == 64 and set(sha) <= _SHA:
            found.setdefault(sha, []).append(str(entry.get("name")))
    return found
