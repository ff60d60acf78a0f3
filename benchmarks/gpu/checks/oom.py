"""A batch that does not fit: how the payload ends, what it says, and whether the next training has the whole GPU."""

from __future__ import annotations

import re

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.workbench import Workbench

_MICRO, _LENGTH = 64, 8192
_TINY = {"hidden_size": 128, "layers": 1, "heads": 32, "kv_heads": 32, "intermediate_size": 64, "vocab_size": 320}
_TINY_MICRO, _TINY_LENGTH = 4, 2048
_TINY_BYTES = 6_000_000_000
"""Of address space, of which torch and its libraries take about half."""


def run(bench: Workbench) -> None:
    model = {"tiny": _TINY} if bench.tiny else {"path": str(bench.model("0.5b"))}
    micro, length = (_TINY_MICRO, _TINY_LENGTH) if bench.tiny else (_MICRO, _LENGTH)
    rows = bench.rows(length)
    # Eager attention on a CPU asks for all of its scores at once, which a limit refuses at once.
    changes = {"attention": "eager"} if bench.tiny else {}
    section = bench.section(model, rows, length=length, steps=2, micro=micro, **changes)
    ended = bench.train("too-large", section, memory_bytes=_TINY_BYTES if bench.tiny else None)
    expected = "host_oom" if bench.tiny else "oom"
    reason = ended.failure.get("reason")
    advice = re.search(r"train\.micro_batch_size: (\d+) with accumulation (\d+)", ended.message)
    wrong = []
    if ended.code != 1 or reason != expected:
        wrong.append(f"it ended with exit code {ended.code} and {reason!r}, not with 1 and {expected!r}")
    if advice is None or int(advice[1]) * int(advice[2]) != micro:
        wrong.append("no smaller micro batch with the same global batch is named")
    sentence = f"{'; '.join(wrong)}{': ' if wrong else ''}{ended.message}"
    figures = {"micro": micro, "length": length, "peak_reserved_bytes": ended.peak.get("reserved_bytes")}
    bench.tell("does not fit", FAILED if wrong else PASSED, sentence, seconds=ended.seconds, **figures)

    small = bench.section(model, rows, length=64 if bench.tiny else 512, steps=2, micro=1)
    after = bench.train("next", small)
    bench.tell("next training", PASSED if after.code == 0 else FAILED, after.message)
