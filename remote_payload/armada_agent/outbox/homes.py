"""The homes that registered for a run, and what each has reported about its checkpoints.

Only one home writes to `runs/<id>/homes/<home>/`, one file per report, so that two homes that report at once do not
overwrite each other.
"""

import os
import re
import time
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters
from armada_agent.foundation.session import Call
from armada_agent.paths import RunPaths, checked_digest, list_folder, list_run_ids, require_own
from armada_agent.records.place import require_there
from armada_agent.verdicts.letting_go import Words

_ID = re.compile(r"[0-9a-f]{32}")
_RECORD = "home.json"
_FORGOTTEN = "forgotten.json"
_SETTLED = "settled.json"
_HELD = ".ack"
_UNWANTED = ".unwanted"
_LONGEST = 300
_MOST_RUNS = 100000
NOBODY = "another home"

Home = Dict[str, str]


def read_asker(params: Dict[str, Any]) -> Optional[Home]:
    """Return the home that sent a request; None for an armada of the first release, which does not identify itself.

    Raises:
        AgentError: `bad_request`.
    """
    told = params.get("home")
    if told is None:
        return None
    if not isinstance(told, dict):
        raise AgentError("bad_request", "`home` must be an object")
    home = {"id": _checked_id(told.get("id"))}
    for name in ("label", "path"):
        home[name] = parameters.text(told, name)[:_LONGEST]
    return home


def register(paths: RunPaths, home: Optional[Home]) -> Optional[str]:
    """Register a home for a run, and record that it was connected just now.

    A full disk does not delay a sync: the next sync registers the home.

    Returns:
        Why it is not registered, so that nothing is kept for it here; None if it is, or if there is nothing to register.
    """
    if home is None or not os.path.isdir(paths.folder):
        return None
    try:
        folder = _own_folder(paths, home["id"])
        record = os.path.join(folder, _RECORD)
        known = _read(record)
        if known is None or any(known.get(name) != home[name] for name in home):
            files.make_within(paths.folder, os.path.basename(paths.homes), home["id"])
            files.write_json(record, dict(home, time=time.time()))
        else:
            os.utime(record, (time.time(), time.time()), follow_symlinks=False)
        files.remove(os.path.join(folder, _FORGOTTEN))  # the home is active again, so it is no longer forgotten
    except OSError as error:
        return None if _is_registered(paths, home) else error.strerror or str(error)
    return None


def note(paths: RunPaths, home: Home, digest: str, is_wanted: bool) -> None:
    """Record what a home reports about a checkpoint: that it holds it, or that it does not want it.

    Raises:
        OSError: The disk refuses the record.
    """
    register(paths, home)
    said, unsaid = (_HELD, _UNWANTED) if is_wanted else (_UNWANTED, _HELD)
    folder = _own_folder(paths, home["id"])
    files.write_json(os.path.join(folder, digest + said), {"time": time.time()})
    files.remove(os.path.join(folder, digest + unsaid))


def read_words(paths: RunPaths, digest: str) -> Words:
    """Collect the reports of all homes about a checkpoint."""
    homes = registered_ids(paths)
    held: Set[str] = set()
    unwanted: Set[str] = set()
    for home in homes:
        has, has_not = _said(paths, home)
        if digest in has:
            held.add(home)
        elif digest in has_not:
            unwanted.add(home)
    has_any = os.path.exists(paths.acknowledgement(digest))
    return Words(homes, frozenset(held), frozenset(unwanted), has_any)


def registered_ids(paths: RunPaths) -> FrozenSet[str]:
    """List the homes that are registered for a run. A home with an unreadable record counts as registered."""
    return frozenset(home for home in _every(paths) if not os.path.exists(os.path.join(paths.home(home), _FORGOTTEN)))


def has_others(paths: RunPaths, asker: Optional[Home]) -> bool:
    """Return whether another home was ever registered for a run, forgotten or not."""
    return bool(set(_every(paths)) - {(asker or {}).get("id")})


def drop_words(paths: RunPaths, digest: str) -> None:
    """Delete the reports about a checkpoint that is no longer here."""
    files.remove(paths.acknowledgement(digest))
    for home in _every(paths):
        for word in (_HELD, _UNWANTED):
            files.remove(os.path.join(_own_folder(paths, home), digest + word))


def describe(paths: RunPaths) -> List[Dict[str, Any]]:
    """Describe the homes that are registered for a run.

    `held` and `unwanted` are digests of checkpoints on this host. `settled` means that the home has everything of the
    newest submission.
    """
    ids = registered_ids(paths)
    if not ids:
        return []
    there = paths.checkpoints()
    number = paths.newest_submission()
    found = []
    for home in sorted(ids):
        held, unwanted = _said(paths, home)
        record = _read(os.path.join(paths.home(home), _RECORD)) or {}
        found.append(
            {
                "id": home,
                "label": str(record.get("label") or NOBODY)[:_LONGEST],
                "path": str(record.get("path") or "")[:_LONGEST],
                "seen_at": _modified_at(os.path.join(paths.home(home), _RECORD)),
                "held": [digest for digest in there if digest in held],
                "unwanted": [digest for digest in there if digest in unwanted],
                "settled": _is_settled(paths, home, number or 0),
            }
        )
    return found


def name_of(paths: RunPaths, home: str) -> str:
    """Return a home's name for display."""
    record = _read(os.path.join(paths.home(home), _RECORD)) or {}
    return "%s (home %s)" % (record.get("label") or NOBODY, home[:8])


def find_lacking(paths: RunPaths, asker: Optional[Home]) -> Dict[str, str]:
    """Return the other homes that would lose something with a run's folder: for each id, a sentence about what it would lose."""
    found = {}
    for home in describe(paths):
        count = len(set(paths.checkpoints()) - set(home["held"]) - set(home["unwanted"]))
        if home["id"] == (asker or {}).get("id") or (home["settled"] and not count):
            continue
        what = "%d checkpoints" % count if count else "the end of its logs and outputs"
        found[home["id"]] = "%s (home %s) has not fetched %s of %s" % (
            home["label"],
            home["id"][:8],
            what,
            paths.run_id,
        )
    return found


def enroll(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Register a home for runs that it has just found.

    Returns:
        Those of them that are on this host, and keep from now on what the home has not fetched.
    """
    home = read_asker(params)
    asked = parameters.sequence(params, "run_ids")
    there = [
        paths for paths in (RunPaths(call.root, run_id) for run_id in asked[:_MOST_RUNS]) if os.path.isdir(paths.folder)
    ]
    for paths in there:
        register(paths, home)
    return {"runs": [paths.run_id for paths in there if _is_registered(paths, home)]}


def _is_registered(paths: RunPaths, home: Optional[Home]) -> bool:
    """Return whether a home is registered for a run; not if that cannot be read: one damaged folder must not keep it out of the others."""
    try:
        return home is not None and home["id"] in registered_ids(paths)
    except OSError:
        return False


def settle(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Record that a home has all it wants of a run, up to the submission and the checkpoints that it names.

    Raises:
        AgentError: `bad_request`: the request names no home; `not_found`.
    """
    home = read_asker(params)
    paths = RunPaths(call.root, params.get("run_id"))
    require_there(paths)
    if home is None:
        raise AgentError("bad_request", "`home` is missing")
    register(paths, home)
    digests = [checked_digest(digest) for digest in parameters.sequence(params, "digests")]
    asked = "submission" in params
    number = parameters.integer(params, "submission") if asked else paths.newest_submission() or 0
    word = {"time": time.time(), "submission": number, "digests": digests}
    files.write_json(os.path.join(_own_folder(paths, home["id"]), _SETTLED), word)
    return {}


def forget(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Forget a home that the user named, in all runs. It no longer protects checkpoints until it connects again.

    Returns:
        The runs for which it was registered.
    """
    asker = read_asker(params) or {}
    home = _checked_id(params.get("forget"))
    told = {"time": time.time(), "by": asker.get("label") or NOBODY}
    done = []
    for run_id in list_run_ids(call.root):
        paths = RunPaths(call.root, run_id)
        try:
            if home in registered_ids(paths):
                files.write_json(os.path.join(_own_folder(paths, home), _FORGOTTEN), told)
                done.append(run_id)
        except OSError:
            continue  # one damaged folder must not keep the home registered in the other runs
    return {"runs": done}


def _checked_id(value: object) -> str:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise AgentError("bad_request", "%.100r is not the id of a home" % (value,))
    return value


def _own_folder(paths: RunPaths, home: str) -> str:
    """Return the folder of a home's reports about a run.

    Raises:
        OSError: The folder is a link.
    """
    for folder in (paths.homes, paths.home(home)):
        require_own(folder)
    return paths.home(home)


def _every(paths: RunPaths) -> List[str]:
    return [name for name in list_folder(paths.homes) if _ID.fullmatch(name)]


def _said(paths: RunPaths, home: str) -> Tuple[Set[str], Set[str]]:
    """List the checkpoints that a home holds, and those that it does not want. This reads names only, so it is fast for many."""
    names = list_folder(paths.home(home))
    held = {name[: -len(_HELD)] for name in names if name.endswith(_HELD)}
    unwanted = {name[: -len(_UNWANTED)] for name in names if name.endswith(_UNWANTED)}
    settled = _settled(paths, home).get("digests") if _SETTLED in names else None
    unwanted.update(digest for digest in (settled if isinstance(settled, list) else ()) if isinstance(digest, str))
    return held, unwanted - held


def _is_settled(paths: RunPaths, home: str, newest_number: int) -> bool:
    up_to = _settled(paths, home).get("submission", -1)
    up_to = 0 if up_to is None else up_to  # of a run that was never submitted
    return isinstance(up_to, int) and up_to >= newest_number


def _settled(paths: RunPaths, home: str) -> Dict[str, Any]:
    return _read(os.path.join(paths.home(home), _SETTLED)) or {}


def _read(path: str) -> Optional[Dict[str, Any]]:
    try:
        return files.read_json(path, limit=65536)
    except files.UnreadableError:
        return None  # an unreadable report does not count


def _modified_at(path: str) -> Optional[float]:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
