#!/usr/bin/env python3
"""The estimate of memory beside the peak of real trainings on CPUs.

    python -m benchmarks.memory --python VENV/bin/python [--only dpo,fsdp]

VENV has the payload's packages (`make payload`). Each training has two steps with full rows. Its peak is the most that any
one of its processes held (`ru_maxrss`), which the estimate gives for each process. What a training of next to nothing holds
is measured first: `own` compares what a training adds to that, the part that models and batches decide. The estimate is to
be within 15 % of the peak.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from armada.config.training import TinyModel
from armada.launch.estimates.memory import TrainingShape, estimate_memory
from armada.launch.estimates.shape import ModelShape
from armada.launch.training.model_facts import tiny_model
from armada.launch.training.sharding import divided_parts
from tests.payload.payload_run import ACCELERATE, FSDP, make_training

ROOT = Path(__file__).parents[1]
SMALLEST = {"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate_size": 64, "vocab_size": 320}
SMALL = {"hidden_size": 384, "layers": 6, "heads": 6, "kv_heads": 2, "intermediate_size": 1024, "vocab_size": 16_000}
WIDE = {"hidden_size": 768, "layers": 4, "heads": 12, "kv_heads": 12, "intermediate_size": 2048, "vocab_size": 2000}
WORDS = {"hidden_size": 256, "layers": 2, "heads": 4, "kv_heads": 4, "intermediate_size": 512, "vocab_size": 64_000}
TEACHER = {"hidden_size": 512, "layers": 8, "heads": 8, "kv_heads": 4, "intermediate_size": 1536}
"""It has the student's words."""
LORA = {"r": 16, "alpha": 32, "dropout": 0.0, "dora": False, "rslora": True, "target_modules": "all-linear"}
MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(done.stdout[-3000:] if done.returncode else "", file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(done.returncode)
"""


@dataclass(frozen=True)
class Case:
    """One training: what differs from the others."""

    name: str
    tiny: dict[str, int]
    task: str = "sft"
    lora: bool = False
    micro: int = 2
    length: int = 512
    accumulation: int = 1
    processes: int = 1
    train: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("nothing", SMALLEST, micro=1, length=64),
    Case("nothing, lora", SMALLEST, lora=True, micro=1, length=64),
    Case("sft full", SMALL),
    Case("sft full, recomputed", SMALL, train={"activation_checkpointing": True}),
    Case("sft full, accumulates", SMALL, accumulation=2),
    Case("sft lora", SMALL, lora=True),
    Case("sft full, wide", WIDE),
    Case("sft full, many words", WORDS),
    Case("sft full, one long row", SMALL, micro=1, length=2048),
    Case("sft lora, eight short rows", WIDE, lora=True, micro=8, length=128),
    Case("sft adafactor", WIDE, train={"optimizer": {"name": "adafactor"}}),
    Case("pretrain full", SMALL, task="pretrain"),
    Case("dpo full", SMALL, task="dpo", micro=1),
    Case("dpo lora", SMALL, task="dpo", lora=True, micro=1),
    Case("reward full", SMALL, task="reward", micro=1),
    Case("kto full", SMALL, task="kto"),
    Case("sft full, two processes", SMALL, processes=2),
    Case("sft fsdp, two processes", SMALL, processes=2, train={"sharding": "fsdp"}),
    Case("dpo full, two processes", SMALL, task="dpo", micro=1, processes=2),
    Case("dpo fsdp, two processes", SMALL, task="dpo", micro=1, processes=2, train={"sharding": "fsdp"}),
    Case("distill full, two processes", SMALL, task="distill", processes=2),
    Case("distill fsdp, two processes", SMALL, task="distill", processes=2, train={"sharding": "fsdp"}),
)


def rows(case: Case) -> list[dict[str, Any]]:
    """Rows that are longer than the case's length and are cut there."""
    dice = random.Random(5)
    found = []
    for number in range(32):
        text, other = (" ".join(f"{dice.getrandbits(40):x}" for _ in range(case.length)) for _ in range(2))
        asked = [{"role": "user", "content": "Tell me."}]
        row: dict[str, Any] = {
            "sft": {"messages": [*asked, {"role": "assistant", "content": text}]},
            "distill": {"messages": [*asked, {"role": "assistant", "content": text}]},
            "pretrain": {"text": text},
            "dpo": {"prompt": "Tell me. ", "chosen": text, "rejected": other},
            "reward": {"prompt": "Tell me. ", "chosen": text, "rejected": other},
            "kto": {"prompt": "Tell me. ", "completion": text, "label": number % 2 == 0},
        }[case.task]
        found.append(row)
    return found


def section_of(case: Case, folder: Path) -> dict[str, Any]:
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows(case)))
    train = {"max_steps": 2, "max_length": case.length, "long_samples": "truncate", **case.train}
    if case.task == "pretrain":
        train |= {"packing": True, "long_samples": "split"}
    batch = {"micro": case.micro, "accumulation": case.accumulation, "processes": case.processes}
    batch["global"] = case.micro * case.accumulation * case.processes
    section = make_training(data, train=train, batch=batch, checkpoint={"every_steps": 1_000_000, "keep_last": 1})
    section |= {"model": {"tiny": case.tiny}, "lora": LORA if case.lora else None}
    teacher = {"teacher": {"tiny": TEACHER}} if case.task == "distill" else {}
    return section if case.task == "sft" else section | {"objective": {"name": case.task, **teacher}}


def shape_of(case: Case) -> TrainingShape:
    sharding = case.train.get("sharding")
    return TrainingShape(
        method="lora" if case.lora else "full",
        micro_batch=case.micro,
        length=case.length,
        precision="fp32",
        activation_checkpointing=bool(case.train.get("activation_checkpointing")),
        rank=int(LORA["r"]),
        accumulates=case.accumulation > 1,
        processes=case.processes,
        sharded=divided_parts(sharding) if sharding else frozenset(),
        device="cpu",
        sequences=2 if case.task in ("dpo", "reward") else 1,
        teacher=shape_of_teacher(case) if case.task == "distill" else None,
        has_reference=case.task in ("dpo", "kto") and not case.lora,
        scores=case.task == "reward",
        optimizer=case.train.get("optimizer", {}).get("name", "adamw"),
    )


def shape_of_teacher(case: Case) -> ModelShape | None:
    return tiny_model(TinyModel.model_validate({**TEACHER, "vocab_size": case.tiny["vocab_size"]})).shape


def measure(case: Case, python: str, folder: Path) -> int:
    """Train, and return the peak in bytes."""
    (folder / "work").mkdir()
    section = section_of(case, folder)
    sharded = "sharding" in case.train
    kind = "FSDP" if sharded else "MULTI_GPU" if case.processes > 1 else "NO"
    accelerate = ACCELERATE.format(distributed_type=kind, processes=case.processes)
    (folder / "accelerate.yaml").write_text(accelerate + (FSDP.format(recomputes="false") if sharded else ""))
    (folder / "spec.json").write_text(json.dumps({"format": 1, "run_id": "memory", "training": section}))
    launched = ["armada_train.launch", "--config_file", str(folder / "accelerate.yaml")]
    words = [python, "-m", *(launched if case.processes > 1 else ["armada_train"]), "--spec", str(folder / "spec.json")]
    environment = {"PYTHONPATH": str(ROOT / "remote_payload"), "ARMADA_ATTEMPT": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *words],
        cwd=folder / "work",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{case.name} ended with {done.returncode}:\n{done.stderr}")
    return int(done.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--only", default="", help="Words of the cases to measure")
    options = parser.parse_args()
    only = [word for word in options.only.split(",") if word]
    base = base_estimate = 0
    for case in CASES:
        if case.name != "nothing" and only and not any(word in case.name for word in only):
            continue
        with tempfile.TemporaryDirectory() as name:
            peak = measure(case, str(Path(options.python).absolute()), Path(name))
        facts = tiny_model(TinyModel.model_validate(case.tiny))
        assert facts.shape is not None
        estimate = estimate_memory(facts.shape, shape_of(case))
        if not base:
            base, base_estimate = peak, estimate.total_bytes
        whole = estimate.total_bytes / peak - 1
        own = f"{(estimate.total_bytes - base_estimate) / (peak - base) - 1:+.0%}" if peak > base else "—"
        mark = " " if abs(whole) <= 0.15 else "!"
        terms = ", ".join(f"{term.name} {term.size_bytes / 1e6:.0f}" for term in estimate.terms)
        sizes = f"peak {peak / 1e6:6.0f} MB, estimate {estimate.total_bytes / 1e6:6.0f} MB: {whole:+4.0%}{mark}"
        print(f"{case.name:<28} {sizes} (own {own}; {terms})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
