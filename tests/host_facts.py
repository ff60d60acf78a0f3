"""What a host answers to `host.facts`, whole, for tests that change a field of it."""

from __future__ import annotations

import copy
from typing import Any

from armada.protocol.facts import AskFacts, Facts
from armada.protocol.message import parse

GPU: dict[str, Any] = {
    "index": 0, "uuid": "GPU-0", "name": "NVIDIA A100-SXM4-80GB", "memory_total_bytes": 81_920 << 20, "memory_used_bytes": 0,
    "utilization": 0.0, "compute_capability": "8.0", "driver_version": "550.54", "processes": [],
}  # fmt: skip
IDENTITY = {"hostname": "box", "boot_id": "b", "pid_namespace": "p", "init_start": "1", "pid": 7, "start_time": "2"}
TOOLS = {"rsync": "3.2.7", "git": None, "uv": None, "nvidia_smi": None, "sbatch": None, "condor_submit": None}
ANSWER: dict[str, Any] = {
    "hostname": "box", "user": "me", "home": "/home/me", "root": "/home/me/.armada", "root_id": "r-1", "python": "3.9.2",
    "platform": "linux", "machine": "x86_64", "glibc": "2.39", "cpu_count": 8, "memory_bytes": 64_000_000_000,
    "disk": {"total_bytes": 2 * 10**12, "free_bytes": 10**12}, "gpus": [], "queue": {"waiting": []}, "environments": {},
    "tools": TOOLS, "setup": None, "doubts": [], "left_out": [], "time": 0.0, "identity": IDENTITY,
}  # fmt: skip


def answer(**changes: Any) -> dict[str, Any]:
    """The answer as JSON; GPUs are completed."""
    made = copy.deepcopy(ANSWER | changes)
    return made | {"gpus": [GPU | {"index": index} | gpu for index, gpu in enumerate(made["gpus"])]}


def facts(**changes: Any) -> Facts:
    """The answer as home parses it."""
    return parse(Facts, answer(**changes), host="box", method=AskFacts.method)
