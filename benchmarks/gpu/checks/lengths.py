"""Rows of many lengths, each batch padded to its longest: the steps of a new length are no slower than the others.

cuDNN's attention builds a plan for each new shape of a batch. The payload leaves that kernel to rows of full length.
"""

from __future__ import annotations

import json
import statistics

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.rows import write_rows
from benchmarks.gpu.workbench import Failed, Workbench

_STEPS, _FIRST = 60, 5
_MOST = 2.0
"""How long all steps may take, against as many of the median one; kernels that are loaded once are in it."""
_MODEL = {"hidden_size": 256, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate_size": 704, "vocab_size": 560}


def run(bench: Workbench) -> None:
    bench.need_gpu("a kernel that is prepared for each length")
    rows = write_rows(bench.folder / "rows.jsonl", 4 * _STEPS, 20, 400)
    section = bench.section({"tiny": _MODEL}, rows, length=2048, steps=_STEPS, micro=4, attention="sdpa")
    ended = bench.train("varied", section)
    if ended.code:
        raise Failed(ended.message)
    seconds = []
    for line in (ended.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry.get("kind") == "train" and entry["step"] > _FIRST:
            seconds.append(entry["step_time_s"])
    median = statistics.median(seconds)
    share = statistics.fmean(seconds) / median
    slow = sum(each > 5 * median for each in seconds)
    wrong = f"the steps took {share:.1f} times as long as the median one" if share > _MOST else ""
    bench.tell(
        "varied lengths",
        FAILED if wrong else PASSED,
        wrong,
        mean_of_median=share,
        slow_steps=slow,
        steps=len(seconds),
        median_step_s=median,
    )
