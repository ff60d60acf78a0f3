"""Install `armada_log` where a script or command finds it, and tell it where to write."""

import os
import pkgutil
from typing import Dict

from armada_agent.foundation import files
from armada_agent.paths import RunPaths, require_own

_NAME = "armada_log"


def provide(paths: RunPaths) -> None:
    """Copy the module from the agent to the run's folder: the agent's archive may be deleted while the job runs.

    Raises:
        OSError: The disk is full, or the job has replaced the folder by a link.
    """
    source = pkgutil.get_data(_NAME, _NAME + ".py")
    if source is None:
        return
    require_own(paths.library)
    os.makedirs(paths.library, mode=0o700, exist_ok=True)
    target = os.path.join(paths.library, _NAME + ".py")
    part = files.temporary_name(target)
    files.write_bytes(part, source)
    os.rename(part, target)


def add_to_path(paths: RunPaths, environment: Dict[str, str]) -> None:
    """Append the module's folder to PYTHONPATH, after all the job's own folders.

    It must be last, because armada's launcher removes its own folder, the first one, from the path again.
    """
    own = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = own + os.pathsep + paths.library if own else paths.library


def use(paths: RunPaths, environment: Dict[str, str]) -> None:
    """Set a job's variables so that Python finds the module, and the module its output file."""
    add_to_path(paths, environment)
    environment["ARMADA_LOG_FILE"] = paths.reported
