"""Which folder the root is: a name of its own, given once, so that home can tell an empty mount point from a root that was cleared."""

import os
import uuid
from typing import Optional

from armada_agent import files

NAME = "root.json"


def identify(root: str) -> Optional[str]:
    """Read the root's own name; a root that has none gets one.

    Returns:
        None where that can be neither read nor written: nothing is known of it then.
    """
    path = os.path.join(root, NAME)
    try:
        if not os.path.lexists(path):
            os.makedirs(root, mode=0o700, exist_ok=True)
            files.link_json(path, {"format": 1, "id": uuid.uuid4().hex})
        told = (files.read_json(path, limit=4096) or {}).get("id")
    except (OSError, files.UnreadableError):
        return None
    return told if isinstance(told, str) and 0 < len(told) <= 64 else None
