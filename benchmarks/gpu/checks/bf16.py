"""A training in 16 bits learns what the same one in 32 bits learns, and the same one again does the same."""

from __future__ import annotations

import math

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Ended, Failed, Workbench, differ

_STEPS = 30
_FIRST_DIFFERS, _LAST_DIFFERS = 0.01, 0.1
_LEARNT = 0.9
"""The last loss, as a share of the first, is below it."""
_MODEL = {"hidden_size": 256, "layers": 4, "heads": 4, "kv_heads": 2, "intermediate_size": 704, "vocab_size": 560}
_TINY = {"hidden_size": 64, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate_size": 128, "vocab_size": 320}


def run(bench: Workbench) -> None:
    exact = _train(bench, "fp32", "fp32")
    short = "bf16" if bench.tiny else bench.precision
    half = _train(bench, short, short)
    again = half if bench.tiny else _train(bench, f"{short}-again", short)
    first = differ(half.loss_list[0], exact.loss_list[0])
    last = differ(half.loss_list[-1], exact.loss_list[-1])
    learnt = half.loss_list[-1] / max(half.loss_list[0], 1e-6)
    wrong = []
    if not first <= _FIRST_DIFFERS or not last <= _LAST_DIFFERS:
        wrong.append(f"the losses differ by {first:.2%} in the first step and {last:.2%} in the last")
    if not learnt <= _LEARNT:
        wrong.append(f"the loss is {learnt:.0%} of what it was")
    bench.tell(
        "learns alike",
        FAILED if wrong else PASSED,
        "; ".join(wrong),
        first_loss=half.loss_list[0],
        last_loss=half.loss_list[-1],
        first_differs=first,
        last_differs=last,
        same_again=half.loss_list == again.loss_list,
    )


def _train(bench: Workbench, name: str, precision: str) -> Ended:
    section = bench.section(
        {"tiny": _TINY if bench.tiny else _MODEL},
        bench.short_rows(),
        length=64,
        steps=_STEPS,
        micro=8,
        precision=precision,
        train={"learning_rate": 5e-3},
    )
    ended = bench.train(name, section)
    if ended.code or len(ended.losses) != _STEPS or not all(map(math.isfinite, ended.loss_list)):
        raise Failed(f"{name}: {ended.message or f'{len(ended.losses)} of {_STEPS} losses'}")
    bench.tell(name, seconds=ended.seconds, peak_reserved_bytes=ended.peak.get("reserved_bytes"))
    return ended
