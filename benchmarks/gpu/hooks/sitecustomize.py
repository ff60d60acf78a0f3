"""Write a process's peak memory when it ends, of the payload and of TRL's script alike; limit its memory where a check asks."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any


def _write(folder: str) -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    peak: dict[str, Any] = {"rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    with contextlib.suppress(Exception):  # a figure that cannot be had ends nothing
        if torch.cuda.is_initialized():
            free, total = torch.cuda.mem_get_info()
            peak |= {
                "allocated_bytes": torch.cuda.max_memory_allocated(),
                "reserved_bytes": torch.cuda.max_memory_reserved(),
                "device_bytes": total - free,
            }
    with contextlib.suppress(OSError):
        (Path(folder) / f"peak-{os.getpid()}.json").write_text(json.dumps(peak), encoding="utf-8")


if _folder := os.environ.get("ARMADA_GPU_PEAKS"):
    atexit.register(_write, _folder)
if _limit := os.environ.get("ARMADA_GPU_ADDRESS_SPACE"):
    resource.setrlimit(resource.RLIMIT_AS, (int(_limit), int(_limit)))
