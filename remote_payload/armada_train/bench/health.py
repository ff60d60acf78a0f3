"""`python -m armada_train.bench.health --spec …`: measure what the machine gives: GPUs, what is between them, its disk.

Each figure is a line of kind `health` in metrics.jsonl; the step is the GPU's number, or 0. What cannot be measured is
said in the log, and the rest is measured all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from armada_train.failure import GENERIC, PayloadFailure, recorded
from armada_train.reporting.heartbeat import Heartbeat
from armada_train.reporting.metrics import History, Metrics
from armada_train.runfolder import RunFolder

_DISK_BYTES = 1 << 30
_DISK_SHARE = 20
"""At most this part of what is free is written."""
_BLOCK_BYTES = 4 << 20
_MEASURE_S = 1.0
_MATRIX = {True: 8192, False: 1024}
"""Rows of a GPU's matrices, and of a CPU's."""
_COPY_BYTES = {True: 1 << 30, False: 128 << 20}
_REDUCE_BYTES = 256 << 20


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="armada_train.bench.health", description="Measure this machine.")
    parser.add_argument("--spec", type=Path, required=True, help="spec.json in the run's folder")
    spec = parser.parse_args(words).spec.absolute()
    run = RunFolder.from_environment(spec.parent, os.environ)
    return recorded(run.attempt_folder, lambda: _measure(run))


def _measure(run: RunFolder) -> int:
    heartbeat = Heartbeat(run)
    heartbeat.beat("loading")
    metrics = Metrics(run.metrics, run.attempt)
    metrics.begin(History())
    told = 0

    def tell(number: int, what: str, measure: Callable[[], dict[str, float]]) -> None:
        nonlocal told
        heartbeat.beat("training", told)
        try:
            values = measure()
        except Exception as error:  # one figure that cannot be had hides no other
            print(f"finding: {what} cannot be measured: {type(error).__name__}: {error}", flush=True)
            return
        told += 1
        metrics.append("health", number, values)
        print(f"{what}: " + ", ".join(f"{name} {value:,.4g}" for name, value in values.items()), flush=True)

    tell(0, "disk", lambda: measure_disk(run.path))

    import torch

    gpus = torch.cuda.device_count()
    for number in range(gpus):
        tell(number, f"GPU {number}", lambda number=number: _measure_device(torch, f"cuda:{number}"))  # type: ignore[misc]
    if not gpus:
        tell(0, "CPU", lambda: {f"cpu_{name}": value for name, value in _measure_device(torch, "cpu").items()})
    if gpus > 1:
        tell(0, "all-reduce", lambda: _measure_all_reduce(torch, gpus))
    heartbeat.beat("ended", told)
    if not told:
        raise PayloadFailure(GENERIC, "nothing could be measured; the log says why")
    return 0


def measure_disk(folder: Path, most_bytes: int = _DISK_BYTES) -> dict[str, float]:
    """Write a file and read it again: bytes a second, to the disk itself as far as the system tells."""
    stat = os.statvfs(folder)
    size = min(most_bytes, stat.f_bavail * stat.f_frsize // _DISK_SHARE) // _BLOCK_BYTES * _BLOCK_BYTES
    if size <= 0:
        message = "the disk is full"
        raise OSError(message)
    file, block = folder / "health.bin", os.urandom(_BLOCK_BYTES)
    try:
        began = time.perf_counter()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            for _ in range(size // _BLOCK_BYTES):
                os.write(descriptor, block)
            os.fsync(descriptor)
            wrote_s = time.perf_counter() - began
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)  # or the memory would be measured
        finally:
            os.close(descriptor)
        began = time.perf_counter()
        with file.open("rb", buffering=0) as stream:
            while stream.read(_BLOCK_BYTES):
                pass
        read_s = time.perf_counter() - began
    finally:
        file.unlink(missing_ok=True)
    return {"disk_write_bytes_per_s": size / max(wrote_s, 1e-9), "disk_read_bytes_per_s": size / max(read_s, 1e-9)}


def _measure_device(torch: Any, device: str) -> dict[str, float]:
    """Measure products of matrices in 16 bits (32 on a CPU) and copies within its memory."""
    is_gpu = device != "cpu"
    wait = (lambda: torch.cuda.synchronize(device)) if is_gpu else (lambda: None)
    dtype = torch.float32
    if is_gpu:
        dtype = torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16
    flops = _measure_products(torch, device, dtype, _MATRIX[is_gpu], wait)
    size = _COPY_BYTES[is_gpu]
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copies_s = _per_call(lambda: target.copy_(source), wait)
    # Each byte is read once and written once.
    return {"flops": flops, "memory_bytes_per_s": 2 * size / copies_s}


def _measure_products(torch: Any, device: str, dtype: Any, side: int, wait: Callable[[], object]) -> float:
    left = torch.randn(side, side, device=device).to(dtype)
    right, product = left.clone(), torch.empty_like(left)
    return 2 * side**3 / _per_call(lambda: torch.mm(left, right, out=product), wait)


def _measure_all_reduce(torch: Any, gpus: int) -> dict[str, float]:
    """Measure NCCL's all-reduce within this process, as the bus bandwidth that nccl-tests names."""
    from torch.cuda import nccl

    numbers = [torch.ones(_REDUCE_BYTES // 4, device=f"cuda:{number}") for number in range(gpus)]

    def wait() -> None:
        for number in range(gpus):
            torch.cuda.synchronize(number)

    seconds = _per_call(lambda: nccl.all_reduce(numbers), wait)
    return {"all_reduce_bytes_per_s": _REDUCE_BYTES / seconds * 2 * (gpus - 1) / gpus}


def _per_call(call: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the seconds of one call, in the fastest of three series: other work on the machine only adds."""
    for _ in range(3):
        call()
    wait()
    began = time.perf_counter()
    call()
    wait()
    count = max(3, int(_MEASURE_S / 3 / max(time.perf_counter() - began, 1e-6)))
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        best = min(best, (time.perf_counter() - began) / count)
    return best


if __name__ == "__main__":
    sys.exit(main())
