"""What 8 bits would gain: products of matrices against 16 bits, and torchao's float8 training of a whole model.

The payload itself has no FP8 yet: these are the figures that decide whether it is worth it on a GPU.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any

from armada_train.bench.health import _measure_products, _per_call
from armada_train.model.loading import load_model
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from benchmarks.gpu.catalogue import FAILED, PASSED, SKIPPED
from benchmarks.gpu.workbench import Skipped, Workbench, differ

_OLDEST = (8, 9)
_SIDE = 8192
_LENGTH, _ROWS, _STEPS = 2048, 4, 8
_DIFFERS = 0.02


def run(bench: Workbench) -> None:
    if not bench.tiny and bench.capability < _OLDEST:
        major, minor = bench.capability
        raise Skipped(f"FP8 needs compute capability 8.9, and this GPU has {major}.{minor}")
    _measure_matrices(bench)
    if importlib.util.find_spec("torchao") is None:
        bench.tell("float8 training", SKIPPED, "torchao is not installed")
        return
    _train_float8(bench)


def _measure_matrices(bench: Workbench) -> None:
    import torch

    side, device, wait = (64 if bench.tiny else _SIDE), bench.device, _waiting(torch, bench)
    exact = _measure_products(torch, device, torch.bfloat16, side, wait)
    left, right = torch.randn(side, side, device=device), torch.randn(side, side, device=device)
    eight_left, eight_right = left.to(torch.float8_e4m3fn), right.to(torch.float8_e4m3fn)
    one = torch.ones((), device=device)

    def multiply() -> Any:
        # cuBLASLt wants the second matrix by columns.
        return torch._scaled_mm(eight_left, eight_right.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    expected = eight_left[:64].float() @ eight_right.t().float()
    differs = float((multiply()[:64].float() - expected).norm() / expected.norm())
    seconds = _per_call(multiply, wait)
    flops = 2 * side**3 / seconds
    wrong = f"the product differs by {differs:.2%}" if not differs <= _DIFFERS else ""
    figures = {"bf16_tflops": exact / 1e12, "fp8_tflops": flops / 1e12, "speedup": flops / exact, "differs": differs}
    bench.tell("matrices", FAILED if wrong else PASSED, wrong, **figures)


def _train_float8(bench: Workbench) -> None:
    import torch
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    path = str(bench.model("1.5b"))
    section = bench.section({"path": path}, bench.rows(256), length=64, steps=1)
    training = parse_training(Section(section, "training"))
    torch.manual_seed(5)
    length = 64 if bench.tiny else _LENGTH
    batch = torch.randint(3, 500, (_ROWS, length), device=bench.device)
    found: dict[str, tuple[float, float]] = {}
    for name in ("bf16", "fp8"):
        model = load_model(training, path, torch.bfloat16, "sdpa", 0).to(bench.device)
        if name == "fp8":
            convert_to_float8_training(model, config=Float8LinearConfig(), module_filter_fn=_is_converted)
        if not bench.tiny:
            model.compile()  # without it float8's scaling costs more than the products gain
        found[name] = _measure_steps(model, batch, _waiting(torch, bench))
        del model
        if not bench.tiny:
            torch.cuda.empty_cache()
    loss, seconds = found["fp8"]
    differs, speedup = differ(loss, found["bf16"][0]), found["bf16"][1] / seconds
    wrong = f"the loss differs by {differs:.2%}" if not differs <= _DIFFERS else ""
    tokens = batch.numel() / seconds
    bench.tell(
        "float8 training", FAILED if wrong else PASSED, wrong, tokens_per_s=tokens, speedup=speedup, differs=differs
    )


def _is_converted(module: Any, name: str) -> bool:
    """Convert the layers' products, whose sides are multiples of 16; not the output head."""
    return "lm_head" not in name and module.in_features % 16 == 0 and module.out_features % 16 == 0


def _waiting(torch: Any, bench: Workbench) -> Callable[[], object]:
    return (lambda: None) if bench.tiny else torch.cuda.synchronize


def _measure_steps(model: Any, batch: Any, wait: Callable[[], object]) -> tuple[float, float]:
    """Return the first loss, and the seconds of a step."""
    losses, seconds = [], []
    for _ in range(_STEPS):
        model.zero_grad(set_to_none=True)
        wait()
        began = time.perf_counter()
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        wait()
        seconds.append(time.perf_counter() - began)
        losses.append(float(loss.detach()))
    if not all(map(math.isfinite, losses)):
        raise FloatingPointError(f"the losses are {losses}")
    return losses[0], min(seconds[3:])
