"""Where a step's time goes on the GPU: its kernels by kind, and how long the GPU waits for work."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Failed, Workbench

_STEPS = 8
"""With the warm-up more than are profiled."""
_CASES = {"7b lora 4096": ("7b", 4096, 2, {}), "1.5b full 4096": ("1.5b", 4096, 4, {"lora": None})}
_KINDS = {
    "attention": r"attention|fmha|flash|sdpa|softmax_(warp|block)",
    "products": r"gemm|nvjet|cutlass|cublas|aten::(mm|addmm|bmm)|wgmma|splitk",
    "optimizer": r"multi_tensor|adam|foreach",
    "copies": r"memcpy|memset|copy|direct_copy|fill|cat",
    "losses": r"forward_kernel|backward_kernel|log_softmax|nll|cross_entropy",
    "sums": r"reduce|norm|welford",
    "elementwise": r"elementwise|triton|aten::",
}
_TOP = 8


def run(bench: Workbench) -> None:
    for label, (shape, length, micro, changes) in _CASES.items():
        _profile(bench, label, shape, 64 if bench.tiny else length, 2 if bench.tiny else micro, changes)


def _profile(bench: Workbench, label: str, shape: str, length: int, micro: int, changes: Mapping[str, Any]) -> None:
    from benchmarks.gpu import profiled

    model = {"path": str(bench.model(shape))}
    section = bench.measured(model, bench.rows(length), length=length, micro=micro, **changes)  # it saves nothing
    section["measurement"]["steps"] = _STEPS
    name = label.replace(" ", "-")
    found = bench.folder / f"{name}.json"
    ended = bench.train(name, section, script=profiled.__file__, more={"ARMADA_GPU_PROFILE": str(found)})
    if ended.code or not found.exists():
        bench.tell(label, ended.status if ended.code else FAILED, ended.message or "it wrote no profile")
        return
    tell(bench, label, json.loads(found.read_text(encoding="utf-8")))


def tell(bench: Workbench, label: str, profile: Mapping[str, Any]) -> None:
    """Tell the share of a step by kind of kernel; what no kernel took is the GPU's waiting.

    Raises:
        Failed: Nothing was recorded.
    """
    kernels: Mapping[str, Mapping[str, float]] = profile["kernels"]
    total = profile["step_s"] * profile["steps"]
    shares = dict.fromkeys([*_KINDS, "others"], 0.0)
    for name, spent in kernels.items():
        shares[kind_of(name)] += spent["seconds"] / total
    if not sum(shares.values()):
        raise Failed("the profiler recorded no kernel")
    longest = sorted(kernels, key=lambda name: -kernels[name]["seconds"])[:_TOP]
    words = "; ".join(f"{kernels[name]['seconds'] / total:.1%} {name[:60]}" for name in longest)
    bench.tell(label, PASSED, words, step_s=profile["step_s"], **shares, waits=max(0.0, 1 - sum(shares.values())))


def kind_of(kernel: str) -> str:
    """Say of which kind a kernel is, by its name."""
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, kernel, re.IGNORECASE)), "others")
