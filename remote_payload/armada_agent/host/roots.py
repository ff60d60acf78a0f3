"""Give each root a unique id, once, so that home can distinguish an empty mount point from a deleted root.

The folder of runs may be a mount point of its own, or a link to another disk. So it gets a mark with an id, and the root
records that it has one:

| the folder of runs                            | the root reports                                         |
|-----------------------------------------------|----------------------------------------------------------|
| has a mark                                    | the mark's id                                            |
| has none, none is recorded, and it has no run | its own id                                               |
| has none, none is recorded, and it has runs   | its own id, which becomes the mark's                     |
| has none, one is recorded, and it has no run  | no id: a file system may not be mounted                  |
| has none, one is recorded, and it has runs    | a new id, which becomes the mark's: it is another folder |
| cannot be read                                | no id                                                    |
"""

import contextlib
import os
import time
import uuid
from typing import Any, Collection, Dict, List, Optional

from armada_agent.foundation import files
from armada_agent.paths import is_run_id, list_folder, list_runs_folder, runs_folder

NAME = "root.json"
LOCK = ".wipe.lock"
"""The file in the root whose lock a wipe holds."""
MARK = ".root.json"
"""The mark in the folder of runs."""
RECORD = "runs.json"
"""The file of the root that records that its folder of runs has a mark."""
_MOST_WIPES = 20
_LIMIT = 65536


def identify(root: str) -> Optional[str]:
    """Return the id of the root with its folder of runs; create one if it has none.

    Returns:
        None if the id can be neither read nor written, or if the folder of runs is away; then nothing is known about the
            runs that are not seen.
    """
    path = os.path.join(root, NAME)
    try:
        if not os.path.lexists(path):
            files.make_folders(root)
            files.link_json(path, {"format": 1, "id": uuid.uuid4().hex})
        own = _read_id(path)
        return None if own is None else _identify_runs(root, own)
    except (OSError, files.UnreadableError):
        return None


def _identify_runs(root: str, own: str) -> Optional[str]:
    names = list_runs_folder(root)
    is_recorded = (files.read_json(os.path.join(root, RECORD), _LIMIT) or {}).get("root") == own
    mark = os.path.join(runs_folder(root), MARK)
    if MARK not in names:
        without = None if is_recorded else own
        if not any(map(is_run_id, names)):
            return without
        try:
            files.link_json(mark, {"format": 1, "id": uuid.uuid4().hex if is_recorded else own})
        except OSError:  # its disk is full, or read-only
            return without
    found = _read_id(mark)
    if found is not None and not is_recorded:
        _record_mark(root, own)
    return found


def _record_mark(root: str, own: str) -> None:
    with contextlib.suppress(OSError):  # the next request records it
        files.write_json(os.path.join(root, RECORD), {"format": 1, "root": own})


def forget_mark(root: str) -> None:
    """Forget that the folder of runs has a mark: a wipe deletes both."""
    files.remove(os.path.join(root, RECORD))


def _read_id(path: str) -> Optional[str]:
    told = (files.read_json(path, _LIMIT) or {}).get("id")
    return told if isinstance(told, str) and 0 < len(told) <= 64 else None


def describe(root: str, before: Optional[str]) -> Dict[str, Any]:
    """Return the root's id and, if homes wiped this folder, its former ids with the time and the author of each wipe.

    Args:
        root: The root.
        before: Its id before anything was looked for there. If it has another one now, a file system was mounted or
            unmounted meanwhile, and the answer has no id.
    """
    now = identify(root)
    return {"root": now if now == before else None, "wiped": _wipes(root)}


def note_wipe(root: str, former: Optional[str], by: str, only_asker: bool = False) -> None:
    """Give a wiped root a new id, and leave a note for the homes whose runs were here.

    Args:
        root: The root.
        former: Its id until now.
        by: Who wiped it.
        only_asker: Nobody needs the note but the home that asked, until it has the answer (`forget_wipes`).
    """
    wipes = _wipes(root)
    if former is not None and former not in former_ids(root):
        mark = {"only_asker": True} if only_asker else {}
        wipes.append(dict(mark, root=former, time=time.time(), by=by))
    files.write_json(os.path.join(root, NAME), {"format": 1, "id": uuid.uuid4().hex, "wiped": wipes[-_MOST_WIPES:]})


def forget_wipes(root: str, recorded: Collection[str]) -> None:
    """Delete the notes that only the asking home needed, and the root's record with the last one, if nothing else is there.

    Args:
        root: The root.
        recorded: The former ids whose wipes the home has recorded.
    """
    path, wipes = os.path.join(root, NAME), _wipes(root)
    left = [one for one in wipes if not (one.get("only_asker") is True and one["root"] in recorded)]
    if left == wipes:
        return
    if not left and set(list_folder(root)) <= {NAME, LOCK}:
        files.remove(path)
        return
    own = _read_id(path)
    if own is not None:
        files.write_json(path, {"format": 1, "id": own, "wiped": left})


def tells_others(root: str) -> bool:
    """Return whether a wipe of this root is recorded for homes other than the one that asked for it."""
    return any(one.get("only_asker") is not True for one in _wipes(root))


def former_ids(root: str) -> List[str]:
    """Return the ids that this root had before it was wiped, as far as they are recorded."""
    return [one["root"] for one in _wipes(root)]


def _wipes(root: str) -> List[Dict[str, Any]]:
    try:
        listed = (files.read_json(os.path.join(root, NAME), _LIMIT) or {}).get("wiped")
    except files.UnreadableError:
        return []
    return (
        [one for one in listed if isinstance(one, dict) and isinstance(one.get("root"), str)]
        if isinstance(listed, list)
        else []
    )
