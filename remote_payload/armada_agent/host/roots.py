"""Give each root a name of its own, once, so that home can tell an empty mount point from a cleared root."""

import os
import time
import uuid
from typing import Any, Dict, List, Optional

from armada_agent.foundation import files

NAME = "root.json"
_MOST_WIPES = 20


def identify(root: str) -> Optional[str]:
    """Read the root's own name; a root that has none gets one.

    Returns:
        None where that can be neither read nor written: nothing is known of it then.
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
    """Say the root's name and, where homes wiped this folder, which names it had before, when and by whom."""
    return {"root": identify(root), "wiped": _wipes(root)}


def note_wipe(root: str, former: Optional[str], by: str) -> None:
    """Give a wiped root its next name, with a word for the other homes whose runs were here."""
    wipes = _wipes(root)
    if former is not None:
        wipes.append({"root": former, "time": time.time(), "by": by})
    files.write_json(os.path.join(root, NAME), {"format": 1, "id": uuid.uuid4().hex, "wiped": wipes[-_MOST_WIPES:]})


def was_wiped(root: str) -> bool:
    """Tell whether a word for other homes stands here."""
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
