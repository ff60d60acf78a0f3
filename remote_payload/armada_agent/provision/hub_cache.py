"""Look into the host's Hugging Face cache, where runs with internet keep the models that they download."""

import os
from typing import Any, Dict, Optional

from armada_agent.provision.hub_listing import HubFile


def describe(
    root: str, repo: str, commit: str, files: Dict[str, HubFile], given: Dict[str, str]
) -> Optional[Dict[str, Any]]:
    """Return what the cache has of a model.

    Args:
        root: The host's root folder.
        repo: The model's id.
        commit: Its commit.
        files: The files that a training reads, with their sizes.
        given: The variables of the plan; they come before the host's own.

    Returns:
        `size_bytes` of the files that are there; `free_bytes` of the cache's disk; `shares_disk` whether `root` is on the
        same one. None if the disk cannot be examined.
    """
    cache = _folder(given)
    snapshot = os.path.join(cache, "models--" + repo.replace("/", "--"), "snapshots", commit)
    there = sum(file.size for name, file in files.items() if _size(os.path.join(snapshot, name)) == file.size)
    top = cache
    while not os.path.exists(top) and os.path.dirname(top) != top:
        top = os.path.dirname(top)
    try:
        disk = os.statvfs(top)
        shares = os.stat(top).st_dev == os.stat(root).st_dev
    except OSError:
        return None
    return {"size_bytes": there, "free_bytes": disk.f_bavail * disk.f_frsize, "shares_disk": shares}


def _folder(given: Dict[str, str]) -> str:
    """Return the folder that huggingface_hub uses (its `constants.py`)."""
    names = dict(os.environ, **given)
    if names.get("HF_HUB_CACHE"):
        return os.path.expanduser(names["HF_HUB_CACHE"])
    default = os.path.join(names.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface")
    return os.path.join(os.path.expanduser(names.get("HF_HOME") or default), "hub")


def _size(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return None
