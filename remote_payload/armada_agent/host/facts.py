"""Describe this machine."""

import getpass
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

from armada_agent.host import gpus, process_identity, processes, roots, trust
from armada_agent.host.telemetry import parse_meminfo
from armada_agent.provision import environment, host_setup, uv
from armada_agent.rpc.session import Call
from armada_agent.supervisor import gpu_tickets, job_variables

_CGROUPS = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60  # version 1 writes a number near 2^63 for "no limit"


def describe(call: Call, _params: Dict[str, Any]) -> Dict[str, Any]:
    """Answer everything home wants to know before it plans a run here. Whatever is not there is null or empty.

    Raises:
        AgentError: `environment` where somebody else could change what is executed here.
    """
    doubts = trust.require_root(call.root)
    setup = host_setup.find_failure()  # before the tools are looked for: it may bring them
    disk = os.statvfs(call.root)
    return {
        "hostname": process_identity.current_host()["hostname"],
        "user": _user(),
        "home": os.path.expanduser("~"),
        "root": call.root,
        "root_id": roots.identify(call.root),
        "python": platform.python_version(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "glibc": _glibc(),
        "cpu_count": cpu_count(),
        "memory_bytes": memory_bytes(),
        "disk": {"total_bytes": disk.f_blocks * disk.f_frsize, "free_bytes": disk.f_bavail * disk.f_frsize},
        "gpus": _gpus(),
        "queue": {"waiting": gpu_tickets.waiting(call.root)},
        "environments": environment.list_all(call.root),
        "tools": {
            "rsync": _version(["rsync", "--version"]),
            "git": _version(["git", "--version"]),
            "uv": uv.find(call.root),
            "nvidia_smi": shutil.which("nvidia-smi"),
            "sbatch": shutil.which("sbatch"),
            "condor_submit": shutil.which("condor_submit"),
        },
        "setup": setup,
        "doubts": doubts,
        "left_out": job_variables.left_out(os.environ, host_setup.exported()),
        "time": time.time(),
        "identity": process_identity.identify(),
    }


def memory_bytes(cgroups: str = _CGROUPS, own: str = "/proc/self/cgroup") -> Optional[int]:
    """Read how much memory this process may have: the machine's, or less when a container's limit is lower.

    Args:
        cgroups: Where the cgroup file systems are mounted.
        own: The file that names the process's cgroups.
    """
    limits = _cgroup_limits(cgroups, own)
    total = parse_meminfo(_read("/proc/meminfo")).get("MemTotal")
    return min(limits + ([total] if total else []), default=None)


def parse_cgroups(text: str) -> Dict[str, str]:
    """Parse /proc/<pid>/cgroup into path by controller; version 2 is the controller without a name."""
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
    """List a cgroup's folders up to the mount; in a container the path may be the host's, and only the mount is there."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    return [os.path.join(mount, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def _gpus() -> List[Dict[str, Any]]:
    if not gpus.is_installed():
        return []
    try:
        found, users = gpus.list_gpus(), gpus.list_users()
    except gpus.GpuError:
        return []  # a driver without a GPU, or one that is broken: no GPU can be used here
    table = processes.scan()
    runs = {process.pid: process.run_id for process in table}
    for gpu in found:
        pids = {pid for uuid, pid in users if uuid == gpu["uuid"]}
        pids |= {process.pid for process in table if gpu["uuid"] in process.gpus}
        gpu["processes"] = [{"pid": pid, "run_id": runs.get(pid)} for pid in sorted(pids)]
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a container's user may have no name


def _glibc() -> Optional[str]:
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return None  # musl
    return said.rpartition(" ")[2] or None


def cpu_count() -> int:
    """Count the cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def _version(argv: Sequence[str]) -> Optional[str]:
    """Ask a program for its version; its path when it says none, None when it is not there."""
    path = shutil.which(argv[0])
    if path is None:
        return None
    try:
        said = subprocess.check_output(
            [path] + list(argv[1:]), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None  # a shim with nothing behind it
    version = re.search(r"\d+(?:\.\d+)+", said.decode("utf-8", "replace"))
    return version.group(0) if version else path


def _read(path: str) -> str:
    try:
        with open(path) as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError):
        return ""
