"""A job sees the GPU that it was given; two jobs never get one GPU; a wrong number of GPUs is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from armada_agent.host import gpu_tickets
from armada_agent.paths import RunPaths
from armada_agent.supervisor.job import compose_environment

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Failed, Workbench

_LOOK = """
import json, torch
seen = [str(getattr(torch.cuda.get_device_properties(number), "uuid", "")) for number in range(torch.cuda.device_count())]
print(json.dumps({"count": torch.cuda.device_count(), "uuids": seen}))
"""
_NOBODY = {"index": 0, "uuid": "GPU-00000000-0000-0000-0000-000000000000"}


def run(bench: Workbench) -> None:
    gpu = _NOBODY if bench.tiny else {name: bench.machine[name] for name in ("index", "uuid")}
    root = str(bench.folder / "root")
    holding = gpu_tickets.take(root, "first", 1, [gpu], set())
    if holding is None:
        raise Failed("the GPU cannot be taken, although nobody holds it")
    second = gpu_tickets.take(root, "second", 1, [gpu], set())
    holding.release()
    third = gpu_tickets.take(root, "third", 1, [gpu], set())
    wrong = second is not None or third is None
    bench.tell("tickets", FAILED if wrong else PASSED, "a GPU was given twice, or not again" if wrong else "")
    if third is not None:
        third.release()

    count, uuids = _look(bench, gpu)
    expected = 0 if bench.tiny else 1
    ours = str(gpu["uuid"]).removeprefix("GPU-")
    is_other = uuids not in ([], [""], [ours]) and not bench.machine.get("slices")
    wrong = count != expected or is_other
    sentence = f"the job of GPU {gpu['index']} ({ours}) sees {count}: {', '.join(uuids)}"
    bench.tell("visible", FAILED if wrong else PASSED, sentence if wrong else "", gpus=count)
    _refuse_none(bench)


def _look(bench: Workbench, gpu: dict[str, object]) -> tuple[int, list[str]]:
    """Ask torch what it sees in the environment that the supervisor composes."""
    spec: dict[str, Any] = {"job": {"env": {}}, "environment": None}
    composed = compose_environment(RunPaths(str(bench.folder / "root"), "placement-1"), spec, 1, [gpu], {})
    if bench.tiny:
        composed["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run([sys.executable, "-c", _LOOK], env=composed, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"torch cannot be asked what it sees: {(done.stderr.strip().splitlines() or ['?'])[-1][:300]}")
    seen = json.loads(done.stdout.splitlines()[-1])
    return seen["count"], seen["uuids"]


def _refuse_none(bench: Workbench) -> None:
    """A training that shall use a GPU, and sees none, is refused before the model is loaded."""
    section = bench.section({"tiny": {}}, bench.short_rows(16), length=64, steps=1, device="cuda", precision="fp32")
    ended = bench.train("none", section, visible="")
    is_right = ended.failure.get("reason") == "env_error" and ended.code == 2
    bench.tell("none visible", PASSED if is_right else FAILED, ended.message or "it was not refused", code=ended.code)
