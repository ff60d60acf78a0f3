"""A base in 4 bits: it trains, its loss is near that of the base in 16 bits, and what it needs."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Skipped, Workbench, differ

_STEPS = 10
_DIFFERS = 0.05
"""4 bits round the base's weights: the first loss may differ by so much."""
WAYS: dict[str, dict[str, Any]] = {"lora": {}, "qlora": {"lora": {"quantize": "nf4"}}}


def sections(bench: Workbench, model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the trainings by their names."""
    rows = bench.rows(2048)
    return {
        name: bench.section(model, rows, length=1024, steps=_STEPS, micro=2, **changes)
        for name, changes in WAYS.items()
    } | {
        f"{name}-speed": bench.measured(model, rows, length=2048, micro=4, **changes) for name, changes in WAYS.items()
    }


def run(bench: Workbench) -> None:
    bench.need_gpu("a base in 4 bits")
    bench.need_package("bitsandbytes", "bitsandbytes")
    if bench.precision != "bf16":
        raise Skipped("the payload trains a base in 4 bits with bf16 alone, which this GPU lacks")
    ended = {}
    for name, section in sections(bench, {"path": str(bench.model("0.5b"))}).items():
        ended[name] = one = bench.train(name, section)
        figures = {each: one.result[each] for each in ("tokens_per_s",) if each in one.result}
        bench.tell(name, one.status, one.message, **figures, peak_reserved_bytes=one.peak.get("reserved_bytes"))
    base, other = ended["lora"].loss_list, ended["qlora"].loss_list
    if base and other:
        differs = differ(other[0], base[0])
        wrong = (
            f"the first loss differs by {differs:.1%} from that of a base in 16 bits" if not differs <= _DIFFERS else ""
        )
        bench.tell(
            "loss", FAILED if wrong else PASSED, wrong, first_loss=other[0], last_loss=other[-1], differs=differs
        )
