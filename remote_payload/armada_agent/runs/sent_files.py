"""Tell what a run has written below its work folder from what armada put there.

Times alone do not tell: `cp -p`, `tar x` and `rsync -a` keep those of long ago, and a copied folder has new ones.
"""

import os
import stat
from typing import Any, Dict, Optional, Set

from armada_agent.foundation import files
from armada_agent.outbox.inventory import is_below
from armada_agent.paths import RunPaths
from armada_agent.provision import content, integrity

_MOST_BEHIND_LINK = 1000
"""So many files behind a link are looked at: a folder with more may hold what the run wrote."""


class Sent:
    """What armada put into a run's work folder: a copy of its code, and links to its data.

    Args:
        paths: The run's.
    """

    def __init__(self, paths: RunPaths) -> None:
        self._work = paths.work
        self._root = os.path.realpath(paths.root)
        job = _job(paths)
        code = job.get("code")
        self._has_code = isinstance(code, str)
        self._born = _birth(paths)
        self._manifest = _manifest_of(paths.root, code) if isinstance(code, str) else {}
        self._links = _outside_names(job.get("data"))

    def is_own(self, path: str, found: os.stat_result) -> bool:
        """Return whether a run wrote a file: it was not sent, or has changed since.

        Args:
            path: Relative to the work folder.
            found: What is there.
        """
        # A copy has the times of its origin; only `st_ctime`, which nobody sets, is that of the copying.
        is_newer = max(found.st_mtime, found.st_ctime) > self._born
        if not self._has_code:
            return True
        if self._manifest is None:  # the code is not one of armada's contents, or that is gone: times alone tell
            return is_newer
        sent = self._manifest.get(_in_utf8(path))
        if sent is None or sent[1] != found.st_size:
            return True
        return is_newer and not _has_hash(os.path.join(self._work, path), sent[2])

    def leads_out(self, path: str) -> bool:
        """Return whether a link below the work folder leads to files elsewhere that the run may have written.

        Args:
            path: Relative to the work folder.
        """
        target = os.path.realpath(os.path.join(self._work, path))
        if is_below(target, os.path.realpath(self._work)):
            return False
        if any(is_below(target, os.path.join(self._root, name)) for name in ("code", "data", "envs")):
            return False
        if path in self._links:  # armada made it, to data that the run was to read
            return _has_newer(target, self._born, unknown=False)
        # A disk that is not mounted now may have what the run wrote.
        return not os.path.lexists(target) or _has_newer(target, self._born)


def _has_newer(place: str, born: float, *, unknown: bool = True) -> bool:
    """Return whether something at or below a place is newer than a run.

    Args:
        place: A file or a folder.
        born: When the run was created, unix time.
        unknown: The answer if that cannot be told: too much lies there, or is closed.
    """
    left = _MOST_BEHIND_LINK
    waiting = [place]
    while waiting:
        place = waiting.pop()
        left -= 1
        try:
            found = os.lstat(place)
            if left < 0:
                return unknown
            if max(found.st_mtime, found.st_ctime) > born:
                return True
            if stat.S_ISDIR(found.st_mode):
                waiting += [os.path.join(place, name) for name in os.listdir(place)[: left + 1]]
        except FileNotFoundError:
            continue
        except OSError:
            return unknown
    return False


def _in_utf8(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def _job(paths: RunPaths) -> Dict[str, Any]:
    try:
        job = (files.read_json(paths.spec) or {}).get("job")
    except (files.UnreadableError, AttributeError):
        job = None
    return job if isinstance(job, dict) else {}


def _birth(paths: RunPaths) -> float:
    """Return the time of the run's creation. The copy of the code below work/ is older than that.

    Somebody may have touched the plan since; the record of the first submission says when it was handed over.
    """
    try:
        born = os.stat(paths.spec).st_mtime
        submitted = (files.read_json(paths.submission(1, "job.json")) or {}).get("time")
    except (OSError, files.UnreadableError, AttributeError):
        return 0.0
    return min(born, submitted) if isinstance(submitted, (int, float)) else born


def _manifest_of(root: str, code: str) -> Optional[Dict[str, integrity.Entry]]:
    """Return the manifest of a run's code; None if that is not recorded."""
    sha = content.find_code(root, code)
    return (integrity.read_manifest(content.record_path(code), sha) if sha is not None else None) or None


def _has_hash(path: str, sha256: str) -> bool:
    try:
        return integrity.hash_file(path) == sha256
    except OSError:
        return False


def _outside_names(data: object) -> Set[str]:
    """Return the names of the links that armada made to files of the host outside of its root."""
    listed = data if isinstance(data, list) else []
    return {str(entry.get("name")) for entry in listed if isinstance(entry, dict) and entry.get("outside")}
