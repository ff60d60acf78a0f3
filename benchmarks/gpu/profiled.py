"""Run the payload with torch's profiler over a few of its steps: `profiled.py --spec SPEC`, started by its own launcher.

What each kernel took on the GPU goes into the file that ARMADA_GPU_PROFILE names.
"""

from __future__ import annotations

import json
import os
import runpy
import time
from pathlib import Path
from typing import Any

_WAIT, _WARM_UP, _STEPS = 3, 1, 3


def main() -> None:
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
    from transformers import Trainer

    target = Path(os.environ["ARMADA_GPU_PROFILE"])
    device = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU
    moments: list[float] = []

    def write(found: Any) -> None:
        took_s = moments[-1] - moments[-1 - _STEPS]
        target.write_text(json.dumps({"step_s": took_s / _STEPS, "steps": _STEPS, "kernels": _kernels(found)}))

    profiler = profile(
        activities=[device],
        schedule=schedule(wait=_WAIT, warmup=_WARM_UP, active=_STEPS, repeat=1),
        on_trace_ready=write,
        acc_events=True,
    )
    step = Trainer.training_step

    def counted(*given: Any, **options: Any) -> Any:
        done = step(*given, **options)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        moments.append(time.perf_counter())
        profiler.step()
        return done

    Trainer.training_step = counted
    with profiler:
        runpy.run_module("armada_train", run_name="__main__", alter_sys=True)


def _kernels(found: Any) -> dict[str, dict[str, float]]:
    """Return the seconds and calls of each kernel, or on a CPU of each operation, in the profiled steps together."""
    kernels = {}
    for each in found.key_averages():
        seconds = max(getattr(each, "self_device_time_total", 0), 0) or each.self_cpu_time_total
        kernels[str(each.key)[:300]] = {"seconds": seconds / 1e6, "calls": each.count}
    return kernels


if __name__ == "__main__":
    main()
