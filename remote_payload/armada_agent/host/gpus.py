"""The host's GPUs as nvidia-smi shows them. The parsers are pure; unknown numbers are None."""

import csv
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

MIB = 1024 * 1024
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
    """Parse a number; return None for `[N/A]`, `[Not Supported]` and the like."""
    try:
        return float(text or "")
    except ValueError:
        return None


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
    try:
        done = run(
            ["nvidia-smi", question, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GpuError("nvidia-smi: %s" % error)
    if done.returncode:
        words = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
        raise GpuError("nvidia-smi: %s" % (words[:500] or "exit code %d" % done.returncode))
    return done.stdout.decode("utf-8", "replace")


def _mebibytes(text: Optional[str]) -> Optional[int]:
    number = parse_number(text)
    return None if number is None else int(number * MIB)
