"""How much memory and how many cores this process may use, also in a container."""

import os
from typing import Dict, List, Optional

from armada_agent.host.telemetry import parse_meminfo

_CGROUPS = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60  # version 1 writes a number near 2^63 for "no limit"


def memory_bytes(cgroups: str = _CGROUPS, own: str = "/proc/self/cgroup") -> Optional[int]:
    """Return how many bytes of memory this process may use: the machine's, or a container's lower limit.

    Args:
        cgroups: Where the cgroup file systems are mounted.
        own: The file that names the process's cgroups.
    """
    limits = _cgroup_limits(cgroups, own)
    total = parse_meminfo(_read("/proc/meminfo")).get("MemTotal")
    return min(limits + ([total] if total else []), default=None)


def parse_cgroups(text: str) -> Dict[str, str]:
    """Parse /proc/<pid>/cgroup into paths by controller. The controller of version 2 has an empty name."""
    found = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and path.startswith("/"):
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _cgroup_limits(cgroups: str, own: str) -> List[int]:
    paths = parse_cgroups(_read(own))
    files = [os.path.join(folder, "memory.max") for folder in _ancestors(cgroups, paths.get("", "/"))]
    version_1 = os.path.join(cgroups, "memory")
    files += [os.path.join(f, "memory.limit_in_bytes") for f in _ancestors(version_1, paths.get("memory", "/"))]
    texts = (_read(file).strip() for file in files)
    return [int(text) for text in texts if text.isdigit() and 0 < int(text) < _UNLIMITED]


def _ancestors(mount: str, path: str) -> List[str]:
    """List a cgroup's folders up to the mount. In a container, the path may be the host's, and only the mount exists."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return [os.path.join(mount, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def cpu_count() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _read(path: str) -> str:
    try:
        with open(path) as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return ""
