"""Name the folders of a host's environments, and report the condition of each."""

import json
import os
import re
from typing import Any, Dict, Optional

from armada_agent.errors import AgentError
from armada_agent.foundation import files
from armada_agent.paths import list_folder
from armada_agent.provision import build_claim

READY = "READY"
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def checked_key(key: Optional[object]) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key.endswith(".lock"):
        raise AgentError("bad_request", "%.100r is not an environment's key" % (key,))
    return key


def locate(root: str, key: str) -> str:
    return os.path.join(root, "envs", key)


def staging(root: str, key: str) -> str:
    """Return the folder in which an environment that is sent to this host arrives."""
    return os.path.join(root, "envs", ".new-" + key)


def python_of(folder: str) -> str:
    return os.path.join(folder, "bin", "python")


def status(root: str, key: str) -> str:
    """Return `ready`, `partial` or `absent`."""
    folder = locate(root, key)
    if not os.path.isdir(folder):
        return "absent"
    # Its interpreter links to the host's Python, which an upgrade there can delete.
    usable = os.access(python_of(folder), os.X_OK)
    return "ready" if usable and read_ready(folder).get("key") else "partial"


def condition(root: str, key: str) -> str:
    """Return what `status` returns, or `building` if a build is under way, here or on a machine that shares the root."""
    found = status(root, key)
    return "building" if found != "ready" and build_claim.is_held(root, key) else found


def list_all(root: str) -> Dict[str, str]:
    """Return the condition of every environment on this host."""
    names = {name[:-5] if name.endswith(".lock") else name for name in list_folder(os.path.join(root, "envs"))}
    conditions = {name: condition(root, name) for name in sorted(names) if _KEY.fullmatch(name)}
    return {name: found for name, found in conditions.items() if found != "absent"}


def read_ready(folder: str) -> Dict[str, Any]:
    """Read an environment's READY. A missing or invalid one gives an empty object."""
    try:
        value = json.loads(files.read_text(os.path.join(folder, READY)) or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
