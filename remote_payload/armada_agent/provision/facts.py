"""Describe this host: the machine, its tools, and its environments."""

import getpass
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from armada_agent.foundation import process_identity
from armada_agent.foundation.session import Call
from armada_agent.host import gpu_tickets, gpus, job_variables, limits, processes, roots, setup_lines, trust
from armada_agent.provision import environment_folder, uv


def describe(call: Call, _params: Dict[str, Any]) -> Dict[str, Any]:
    """Return everything that home needs to plan a run on this host. Missing items are null or empty.

    Raises:
        AgentError: `environment`: another user could change what is executed here.
    """
    doubts = trust.require_root(call.root)
    setup = setup_lines.find_failure()  # before the search for tools: it may add them to PATH
    disk = os.statvfs(call.root)
    found, trouble = describe_gpus()
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
        "cpu_count": limits.cpu_count(),
        "memory_bytes": limits.memory_bytes(),
        "disk": {"total_bytes": disk.f_blocks * disk.f_frsize, "free_bytes": disk.f_bavail * disk.f_frsize},
        "gpus": found,
        "gpu_trouble": trouble,
        "queue": {"waiting": gpu_tickets.waiting(call.root)},
        "environments": environment_folder.list_all(call.root),
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
        "left_out": job_variables.left_out(os.environ, setup_lines.exported()),
        "amd_gpus": gpus.count_amd(),
        "time": time.time(),
        "identity": process_identity.identify(),
    }


def describe_gpus() -> Tuple[List[Dict[str, Any]], Optional[str]]:
    """Return the GPUs with who uses them; if that cannot be asked, why."""
    if not gpus.is_installed():
        return [], None
    try:
        found, users = gpus.list_gpus(), gpus.list_users()
        # With MIG a GPU has no utilization of its own. The question takes a second where the driver is not loaded.
        slices = gpus.list_slices() if any(gpu["utilization"] is None for gpu in found) else {}
    except gpus.GpuError as error:
        # A broken driver: no new job can use a GPU here, and nobody sees who does.
        return [], str(error) if gpus.may_have_gpus() else None
    table = processes.scan()
    runs = {process.pid: process.run_id for process in table}
    for gpu in found:
        pids = {pid for uuid, pid in users if uuid == gpu["uuid"]}
        pids |= {process.pid for process in table if gpu["uuid"] in process.gpus}
        gpu["processes"] = [{"pid": pid, "run_id": runs.get(pid)} for pid in sorted(pids)]
        gpu["slices"] = slices.get(gpu["uuid"], [])
    return found, None


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


def _version(argv: Sequence[str]) -> Optional[str]:
    """Return a program's version; its path if it prints none, None if it is missing."""
    path = shutil.which(argv[0])
    if path is None:
        return None
    try:
        said = subprocess.check_output(
            [path] + list(argv[1:]), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None  # a shim without a program behind it
    version = re.search(r"\d+(?:\.\d+)+", said.decode("utf-8", "replace"))
    return version.group(0) if version else path
