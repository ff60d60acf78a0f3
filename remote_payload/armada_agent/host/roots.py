"""Give each root a unique id, once, so that home can distinguish an empty mount point from a deleted root."""

import os
import time
import uuid
from typing import Any, Dict, List, Optional

from armada_agent.foundation import files

NAME = "root.json"
_MOST_WIPES = 20


def identify(root: str) -> Optional[str]:
    """Return the root's id; create one if it has none.

    Returns:
        None if the id can be neither read nor written; then nothing is known about the root.
    """
    path = os.path.join(root, NAME)
    try:
        if not os.path.lexists(path):
            files.make_folders(root)
            files.link_json(path, {"format": 1, "id": uuid.uuid4().hex})
        told = (files.read_json(path, limit=65536) or {}).get("id")
    except (OSError, files.UnreadableError):
        return None
    return told if isinstance(told, str) and 0 < len(told) <= 64 else None


def describe(root: str) -> Dict[str, Any]:
    """Return the root's id and, if homes wiped this folder, its former ids with the time and the author of each wipe."""
    return {"root": identify(root), "wiped": _wipes(root)}


def note_wipe(root: str, former: Optional[str], by: str) -> None:
    """Give a wiped root a new id, and leave a note for other homes whose runs were here."""
    wipes = _wipes(root)
    if former is not None:
        wipes.append({"root": former, "time": time.time(), "by": by})
    files.write_json(os.path.join(root, NAME), {"format": 1, "id": uuid.uuid4().hex, "wiped": wipes[-_MOST_WIPES:]})


def was_wiped(root: str) -> bool:
    """Return whether a wipe of this root is recorded."""
    return bool(_wipes(root))


def _wipes(root: str) -> List[Dict[str, Any]]:
    try:
        listed = (files.read_json(os.path.join(root, NAME), limit=65536) or {}).get("wiped")
    except files.UnreadableError:
        return []
    return (
        [one for one in listed if isinstance(one, dict) and isinstance(one.get("root"), str)]
        if isinstance(listed, list)
        else []
    )
