"""What armada reads from the driver: inventory, telemetry while the GPU works, slices, users; and what the GPU gives."""

from __future__ import annotations

import threading
import time
from typing import Any

from armada_agent.host import gpus
from armada_train.bench.health import _measure_device

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Workbench

_MEMORY_DIFFERS = 0.05
"""The driver counts some memory that CUDA does not give."""
_BUSY_SHARE, _BUSY_S = 0.5, 10.0


def run(bench: Workbench) -> None:
    if bench.tiny:
        _tell_without_gpus(bench)
    else:
        compare_inventory(bench)
    import torch

    told: list[dict[str, Any]] = []
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(told, ended, str(bench.machine.get("uuid"))), daemon=True)
    if not bench.tiny:
        watch.start()
    health = _measure_device(torch, "cpu" if bench.tiny else "cuda:0")
    if not bench.tiny:
        _keep_busy(torch, told)
    ended.set()
    peak = bench.machine.get("peak_flops")
    share = {"of_peak": health["flops"] / peak} if peak else {}
    bench.tell("health", tflops=health["flops"] / 1e12, memory_gb_per_s=health["memory_bytes_per_s"] / 1e9, **share)
    if not bench.tiny:
        watch.join(timeout=60)
        judge_telemetry(bench, told)


def _tell_without_gpus(bench: Workbench) -> None:
    try:
        bench.tell("inventory", gpus=len(gpus.list_gpus()))
    except gpus.GpuError as error:
        bench.tell("inventory", message=str(error), gpus=0)


def compare_inventory(bench: Workbench) -> None:
    """Compare what nvidia-smi says of the GPU with what torch says."""
    import torch

    listed = {gpu["uuid"]: gpu for gpu in gpus.list_gpus()}
    gpu = listed[bench.machine["uuid"]]
    seen = torch.cuda.get_device_properties(0)
    said, has = gpu["memory_total_bytes"], seen.total_memory
    wrong = []
    # A slice of MIG has a name, a UUID and a size of its own.
    if not bench.machine["slices"]:
        if str(getattr(seen, "uuid", "")) not in ("", gpu["uuid"].removeprefix("GPU-")):
            wrong.append(f"nvidia-smi says {gpu['uuid']}, torch {seen.uuid}")
        if said is None or abs(said - has) > _MEMORY_DIFFERS * has:
            wrong.append(f"nvidia-smi says {said} bytes, torch {has}")
        if gpu["compute_capability"] not in (None, f"{seen.major}.{seen.minor}"):
            wrong.append(f"nvidia-smi says {gpu['compute_capability']}, torch {seen.major}.{seen.minor}")
    bench.tell(
        "inventory",
        FAILED if wrong else PASSED,
        "; ".join(wrong),
        gpus=len(listed),
        driver=gpu["driver_version"],
        compute_capability=f"{seen.major}.{seen.minor}",
        memory_bytes=has,
        nvidia_smi_bytes=said,
        slices=", ".join(bench.machine["slices"]) or "none",
        cuda=torch.version.cuda,
    )
    profile, peak = bench.machine.get("profile"), bench.machine.get("peak_flops")
    why = str(bench.machine.get("profile_why") or ("" if peak else "its peak is not known: no MFU is computed"))
    bench.tell("profile", PASSED if profile else FAILED, why, profile=profile, peak_tflops=peak and peak / 1e12)


def _watch(told: list[dict[str, Any]], ended: threading.Event, uuid: str) -> None:
    while not ended.is_set():
        try:
            index = {gpu["uuid"]: gpu["index"] for gpu in gpus.list_gpus()}.get(uuid)
            told += [load for load in gpus.measure() if load["index"] == index]
        except gpus.GpuError as error:
            told.append({"error": str(error)})


def _keep_busy(torch: Any, told: list[dict[str, Any]]) -> None:
    """Let the GPU work until its load was read: the driver averages over up to a second."""
    matrix = torch.randn(4096, 4096, device="cuda")
    until = time.monotonic() + _BUSY_S
    while time.monotonic() < until and not any(
        (load.get("utilization") or 0) >= 100 * _BUSY_SHARE for load in list(told)
    ):
        for _ in range(10):
            torch.mm(matrix, matrix)
        torch.cuda.synchronize()


def judge_telemetry(bench: Workbench, told: list[dict[str, Any]]) -> None:
    errors = [load["error"] for load in told if "error" in load]
    loads = [load for load in told if "error" not in load]
    if errors or not loads:
        bench.tell("telemetry", FAILED, errors[0] if errors else "nothing was read while the GPU worked")
        return

    def most(name: str) -> float | None:
        return max((load[name] for load in loads if load[name] is not None), default=None)

    busy = most("utilization")
    wrong = busy is not None and busy < 100 * _BUSY_SHARE
    bench.tell(
        "telemetry",
        FAILED if wrong else PASSED,
        f"the GPU was at work, and its highest load was read as {busy}" if wrong else "",
        readings=len(loads),
        utilization=busy,
        memory_used_bytes=most("memory_used_bytes"),
        power_w=most("power_w"),
        temperature_c=most("temperature_c"),
    )
    try:
        users = gpus.list_users()
    except gpus.GpuError as error:
        bench.tell("users", FAILED, str(error))
        return
    seen = any(uuid == bench.machine["uuid"] for uuid, _ in users)
    why = "" if seen else "nvidia-smi does not show this process, as in a container with its own process table"
    bench.tell("users", PASSED, why, processes=len(users), shows_this_one=seen)
