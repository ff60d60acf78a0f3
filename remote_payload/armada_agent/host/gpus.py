"""The host's GPUs as nvidia-smi shows them. The parsers are pure; unknown numbers are None."""

import csv
import glob
import math
import os
import re
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from armada_agent.foundation import files

MIB = 1024 * 1024
_NONE = "No devices were found"
"""What nvidia-smi says, and fails, where there is a driver and no GPU."""
_TIMEOUT_S = 20.0  # nvidia-smi hangs if the driver has a problem
_INVENTORY = ("index", "uuid", "name", "memory.total", "memory.used", "utilization.gpu", "driver_version")
_TELEMETRY = ("index", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu")
Row = Dict[str, str]


class GpuError(Exception):
    """nvidia-smi is missing or does not answer."""


def parse_rows(text: str, fields: Sequence[str]) -> List[Row]:
    """Parse `--format=csv,noheader,nounits` output. Lines of another shape, such as warnings, are skipped."""
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, (cell.strip() for cell in row))) for row in rows if len(row) == len(fields)]


def parse_number(text: Optional[str]) -> Optional[float]:
    """Parse a number; return None for `[N/A]`, `[Not Supported]`, `nan` and the like."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def describe(row: Row) -> Dict[str, Any]:
    """Convert an inventory row to a GPU's entry in the answer of `host.facts`."""
    return {
        "index": int(row["index"]),
        "uuid": row["uuid"],
        "name": row["name"],
        "memory_total_bytes": _mebibytes(row["memory.total"]),
        "memory_used_bytes": _mebibytes(row["memory.used"]),
        "utilization": parse_number(row["utilization.gpu"]),
        "compute_capability": row.get("compute_cap") if parse_number(row.get("compute_cap")) else None,
        "driver_version": row["driver_version"],
    }


def describe_load(row: Row) -> Dict[str, Any]:
    """Convert a telemetry row to a GPU's entry in telemetry.jsonl."""
    return {
        "index": int(row["index"]),
        "utilization": parse_number(row["utilization.gpu"]),
        "memory_used_bytes": _mebibytes(row["memory.used"]),
        "power_w": parse_number(row["power.draw"]),
        "temperature_c": parse_number(row["temperature.gpu"]),
    }


def parse_users(text: str) -> List[Tuple[str, int]]:
    """Parse `--query-compute-apps=gpu_uuid,pid` into pairs. A pid of another namespace also occupies its GPU."""
    rows = parse_rows(text, ("gpu_uuid", "pid"))
    return [(row["gpu_uuid"], int(parse_number(row["pid"]) or 0)) for row in rows if row["gpu_uuid"].startswith("GPU-")]


def counted(number: int) -> str:
    """Return a count with its noun: `1 GPU`, `3 GPUs`."""
    return "%d GPU%s" % (number, "" if number == 1 else "s")


def list_gpus() -> List[Dict[str, Any]]:
    """List the GPUs, in the order of the PCI bus.

    Raises:
        GpuError: nvidia-smi is missing or does not answer.
    """
    try:
        rows = _query("gpu", _INVENTORY + ("compute_cap",))
    except GpuError:
        rows = _query("gpu", _INVENTORY)  # drivers before 2021 do not support compute_cap
    return [describe(row) for row in rows if row["index"].isdigit()]


def list_slices() -> Dict[str, List[str]]:
    """List the MIG slices of each GPU by its UUID, such as `MIG 1g.10gb`; a GPU without slices is not in it.

    Raises:
        GpuError: nvidia-smi is missing or does not answer.
    """
    return parse_slices(_run("-L"))


def parse_slices(text: str) -> Dict[str, List[str]]:
    """Parse `nvidia-smi -L`: the line of a GPU, then one for each of its slices."""
    found = {}  # type: Dict[str, List[str]]
    uuid = ""
    for line in text.splitlines():
        gpu = re.match(r"GPU \d+: .*\(UUID: (GPU-[0-9a-fA-F-]+)\)", line)
        part = re.match(r"\s+(MIG \S+)\s", line)
        if gpu:
            uuid = gpu.group(1)
        elif part and uuid:
            found.setdefault(uuid, []).append(part.group(1))
    return found


def count_amd(nodes: str = "/sys/class/kfd/kfd/topology/nodes") -> int:
    """Count the GPUs of AMD that the kernel's compute driver (amdkfd) shows."""
    found = 0
    for path in glob.glob(os.path.join(nodes, "*", "properties")):
        try:
            with open(path, encoding="ascii", errors="replace") as stream:
                words = dict(line.split(None, 1) for line in stream if len(line.split()) == 2)
        except OSError:
            continue  # nodes of other users' containers cannot be read
        # CPUs are nodes too, without SIMD units.
        if words.get("vendor_id", "").strip() == "4098" and words.get("simd_count", "0").strip() not in ("0", ""):
            found += 1
    return found


def may_have_gpus(devices: str = "/sys/bus/pci/devices") -> bool:
    """Return whether the machine has a GPU of NVIDIA, or its devices are not known: many images bring nvidia-smi without one."""
    if not os.path.isdir(devices):
        return True
    for path in glob.glob(os.path.join(devices, "*")):
        vendor, kind = (files.read_text(os.path.join(path, name)).strip() for name in ("vendor", "class"))
        # A display or 3D controller, no network card of the same maker.
        if not vendor or (vendor == "0x10de" and kind.startswith("0x03")):
            return True
    return False


def list_users() -> List[Tuple[str, int]]:
    """List (GPU uuid, pid) of every process that computes on a GPU.

    Raises:
        GpuError: nvidia-smi is missing or does not answer.
    """
    return parse_users(_run("--query-compute-apps=gpu_uuid,pid"))


def measure() -> List[Dict[str, Any]]:
    """Measure the load of every GPU.

    Raises:
        GpuError: nvidia-smi is missing or does not answer.
    """
    return [describe_load(row) for row in _query("gpu", _TELEMETRY) if row["index"].isdigit()]


def is_installed() -> bool:
    return shutil.which("nvidia-smi") is not None


def _query(kind: str, fields: Sequence[str]) -> List[Row]:
    return parse_rows(_run("--query-%s=%s" % (kind, ",".join(fields))), fields)


def _run(question: str) -> str:
    run: Callable[..., subprocess.CompletedProcess[bytes]] = subprocess.run
    style = ["--format=csv,noheader,nounits"] if question.startswith("--query") else []
    try:
        done = run(
            ["nvidia-smi", question] + style,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GpuError("nvidia-smi: %s" % error)
    if done.returncode:
        words = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
        if words.startswith(_NONE):
            return ""
        raise GpuError("nvidia-smi: %s" % (words[:500] or "exit code %d" % done.returncode))
    return done.stdout.decode("utf-8", "replace")


def _mebibytes(text: Optional[str]) -> Optional[int]:
    number = parse_number(text)
    return None if number is None else int(number * MIB)
