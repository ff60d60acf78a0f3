"""The attentions that transformers offers, each with the same weights and rows: equal losses, and tokens a second.

Models are loaded by the payload's own function. What `train.attention: auto` would choose here is a case of its own.
"""

from __future__ import annotations

import math
import time
from typing import Any

from armada_train.model.attention import ATTEMPTS, choose_attention
from armada_train.model.loading import load_model
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from benchmarks.gpu.catalogue import FAILED, OOM, PASSED, SKIPPED
from benchmarks.gpu.check import is_out_of_memory
from benchmarks.gpu.workbench import Workbench, differ

_DIFFERS = 5e-3
"""Of the loss and of the gradients' norm, against SDPA, in 16 bits."""
_GRADIENTS_DIFFER = 0.05
_TIMES = 5
_NAMES = ("sdpa", "eager", "flex_attention", "flash_attention_2", "flash_attention_3")


def run(bench: Workbench) -> None:
    import torch

    model = {"path": str(bench.model("0.5b"))}
    rows, length = (2, 64) if bench.tiny else (2, 2048)
    training = parse_training(Section(bench.section(model, bench.rows(256), length=length, steps=1), "training"))
    chosen = choose_attention(training, None if bench.tiny else bench.capability, ATTEMPTS, lambda mine: mine)
    bench.tell("auto", PASSED, f"{chosen.name}: {chosen.why}")

    torch.manual_seed(5)
    batch = torch.randint(3, 500, (rows, length), device=bench.device)
    base: tuple[float, float] | None = None
    for name in _NAMES:
        if (why := _why_not(bench, name)) is not None:
            bench.tell(name, SKIPPED, why)
            continue
        try:
            loss, norm, seconds = _measure(bench, training, model["path"], name, batch)
        except Exception as error:  # a kernel that does not load or compile hides no other one
            message = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:300]}"
            bench.tell(name, OOM if is_out_of_memory(error) else FAILED, message)
            _free(torch, bench)
            continue
        base = base or (loss, norm)
        loss_differs, norm_differs = differ(loss, base[0]), differ(norm, base[1])
        is_equal = loss_differs <= _DIFFERS and norm_differs <= _GRADIENTS_DIFFER
        wrong = (
            ""
            if is_equal
            else f"its loss differs from SDPA's by {loss_differs:.2%}, its gradients by {norm_differs:.2%}"
        )
        bench.tell(
            name,
            FAILED if wrong else PASSED,
            wrong,
            loss=loss,
            loss_differs=loss_differs,
            gradients_differ=norm_differs,
            tokens_per_s=rows * length / seconds,
        )
        _free(torch, bench)


def _why_not(bench: Workbench, name: str) -> str | None:
    from transformers.utils import import_utils

    if name == "flex_attention":
        if bench.tiny:
            return "flex attention is compiled for GPUs"
        return None if import_utils.is_torch_flex_attn_available() else "this torch has no flex attention"
    if name == "flash_attention_2":
        return None if import_utils.is_flash_attn_2_available() else "flash-attn is not installed"
    if name == "flash_attention_3":
        return None if import_utils.is_flash_attn_3_available() else "flash-attn 3 is not installed"
    return None


def _measure(bench: Workbench, training: Any, path: str, name: str, batch: Any) -> tuple[float, float, float]:
    """Return the loss, the norm of the gradients, and the seconds of a step forward and backward."""
    import torch

    dtype = torch.float32 if bench.tiny else torch.float16 if bench.precision == "fp16" else torch.bfloat16
    model = load_model(training, path, dtype, name, 0).to(bench.device)
    model.train()
    loss = norm = math.nan
    seconds = []
    for _ in range(2 if bench.tiny else 2 + _TIMES):
        model.zero_grad(set_to_none=True)
        _wait(torch, bench)
        began = time.perf_counter()
        result = model(input_ids=batch, labels=batch, use_cache=False).loss
        result.backward()
        _wait(torch, bench)
        seconds.append(time.perf_counter() - began)
        if len(seconds) == 1:
            loss = float(result.detach())
            norms = [weight.grad.float().norm() for weight in model.parameters() if weight.grad is not None]
            norm = float(torch.stack(norms).norm())
    if not math.isfinite(loss) or not math.isfinite(norm):
        raise FloatingPointError(f"the loss is {loss}, and the norm of the gradients {norm}")
    return loss, norm, min(seconds[1:])


def _wait(torch: Any, bench: Workbench) -> None:
    if not bench.tiny:
        torch.cuda.synchronize()


def _free(torch: Any, bench: Workbench) -> None:
    import gc

    gc.collect()
    if not bench.tiny:
        torch.cuda.empty_cache()
