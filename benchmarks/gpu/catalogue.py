"""The checks of the GPU kit, cheapest first."""

from __future__ import annotations

from dataclasses import dataclass

PASSED, FAILED, OOM, SKIPPED, TIMEOUT, NOT_RUN = "passed", "failed", "oom", "skipped", "timeout", "not run"
FINAL = (PASSED, OOM)
"""What is not measured again unless it is asked for."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: On the command line and in the results.
        module: Has `run(bench)`.
        what: What it shows, for the table.
        needs_s: How long it takes on a large GPU; with less left of the budget it is not started.
        limit_s: After it the check is ended.
    """

    name: str
    module: str
    what: str
    needs_s: float
    limit_s: float


def _check(name: str, what: str, needs_s: float, limit_s: float, module: str | None = None) -> Check:
    return Check(name, f"benchmarks.gpu.checks.{module or name}", what, needs_s, limit_s)


CHECKS = (
    _check("facts", "Driver, inventory, telemetry under load, and the profile that armada chooses", 15, 120),
    _check("placement", "A job sees the GPU that armada gave it, and a wrong number of GPUs is refused", 20, 120),
    _check("bf16", "A training in 16 bits learns what one in 32 bits learns", 40, 180),
    _check("attention", "The attentions of transformers: equal losses, and their speed", 40, 240),
    _check("kernels", "SDPA's kernels: their speed, and what each new length costs", 30, 180),
    _check("lengths", "Rows of many lengths: no step waits until a kernel is prepared for its length", 30, 120),
    _check("padding", "Padded rows with masks and without: equal losses, and their speed", 80, 300),
    _check("oom", "A batch that does not fit: the sentence, and the GPU is free again", 50, 240),
    _check(
        "launch", "`armada launch --host local`, killed and resumed, against a run that was not disturbed", 120, 300
    ),
    _check("bench", "`armada bench`, of an experiment and of the machine", 90, 300, "measuring"),
    _check("fp8", "Products of matrices in 8 bits, and torchao's float8 training", 30, 240),
    _check("qlora", "A base in 4 bits (bitsandbytes)", 40, 240),
    _check("liger", "Liger's kernels: equal losses, and their speed", 50, 240),
    _check("compile", "`train.compile`: speed after the warm-up, and how long that takes", 60, 300, "compiling"),
    _check("speed-0.5b", "A shape of 0.5B: speed, MFU, memory against the estimate", 100, 400, "speed"),
    _check("speed-1.5b", "A shape of 1.5B, all weights at 4096 tokens", 50, 240, "speed"),
    _check("trl-0.5b", "The payload against TRL's own script, in turn, 0.5B", 120, 400, "against_trl"),
    _check("speed-7b", "A shape of 7B: LoRA at 4096 tokens", 60, 300, "speed"),
    _check("profile", "Where a step's time goes: kernels by kind", 120, 400, "profiling"),
    _check("speed-7b-more", "A shape of 7B: other lengths, and all weights", 200, 540, "speed"),
    _check("trl-7b", "The payload against TRL's own script, in turn, 7B", 150, 480, "against_trl"),
)


def find(names: list[str]) -> list[Check]:
    """Return the checks of these names, in the order of the catalogue; all without names.

    Raises:
        ValueError: There is no check of that name; the message names all.
    """
    known = {check.name for check in CHECKS}
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(check.name for check in CHECKS)
        raise ValueError(f"there is no check {' and no check '.join(unknown)}; there are {listed}")
    return [check for check in CHECKS if not names or check.name in names]
