"""A training whose checkpoints are at home, made without a host: its plan, its losses and its published files."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from armada.paths import HomePaths
from armada.store import checkpoints, metrics, runs
from armada.store.database import Database
from armada.verdicts.states import Verdict

BASE = "Qwen/Qwen2.5-0.5B-Instruct"
ON_HOST = "/root/.armada/models/9f2c"
TRAINING_ONLY = {
    "optimizer.pt": b"o" * 5000,
    "scheduler.pt": b"s" * 20,
    "rng_state.pth": b"r" * 30,
    "trainer_state.json": b"{}",
    "training_args.bin": b"t" * 40,
}
"""Files of a checkpoint that only a training needs."""


def adapter(base: str = BASE, **more: bytes) -> dict[str, bytes]:
    """The files of a LoRA checkpoint, as PEFT and the Trainer write them."""
    config = {"base_model_name_or_path": base, "r": 8, "task_type": "CAUSAL_LM", "peft_type": "LORA"}
    return {
        "adapter_config.json": json.dumps(config).encode(),
        "adapter_model.safetensors": b"w" * 3000,
        "tokenizer.json": b"{}",
        "tokenizer_config.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        "README.md": b"PEFT's own card, with " + ON_HOST.encode(),
        **TRAINING_ONLY,
        **more,
    }


def sft_plan(run_id: str, data: Path | str = "/home/me/private/train.jsonl", **training: Any) -> dict[str, Any]:
    """The plan of a LoRA training whose base model lay in a folder of the host."""
    return {
        "format": 1,
        "run_id": run_id,
        "name": "my adapter",
        "task": "sft",
        "training": {
            "model": {"path": ON_HOST, "name": BASE},
            "data": {"train": [{"path": "/root/.armada/data/1/train.jsonl", "weight": 1.0}], "eval": []},
            "batch": {"global": 16, "micro": 4, "accumulation": 4, "processes": 1},
            "train": {"learning_rate": 2e-4, "epochs": 1},
            "lora": {"r": 8, "alpha": 16},
            "precision": "bf16",
            **training,
        },
        "experiment": {
            "model": BASE,
            "data": {"train": [{"path": str(data)}, {"hub": "owner/rows"}], "eval": [{"hub": "owner/held-out"}]},
        },
    }


@contextmanager
def opened(folder: Path) -> Iterator[tuple[HomePaths, Database]]:
    """Open the store of a home below a folder."""
    home = HomePaths(folder / "config", folder / "state")
    home.make()
    with Database(home.store) as database:
        yield home, database


def record(database: Database, run_id: str, plan: Mapping[str, Any], *, host: str = "gpu-1") -> None:
    """Record a run that has ended."""
    name, task = str(plan.get("name", run_id)), str(plan.get("task", "command"))
    runs.insert(database, run_id=run_id, name=name, host=host, task=task, experiment=None, spec=dict(plan))
    runs.record(database, run_id, Verdict("succeeded", None, None, 1, 99), observed_at=time.time())


def record_losses(database: Database, run_id: str, lines: list[dict[str, object]]) -> None:
    metrics.record_metrics(database, run_id, [{"time": 1.0, **line} for line in lines], offset=0, next_offset=1)


def write(place: Path, step: int, files: Mapping[str, bytes], *, absent: tuple[str, ...] = ()) -> str:
    """Write the folder of a checkpoint as a sync does, without the store; return its digest."""
    listed = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in sorted(files.items())
    ]
    text = json.dumps({"format": 1, "step": step, "files": listed})
    for path, data in files.items():
        if path not in absent:
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(data)
            (place / path).chmod(0o444)
    (place / "MANIFEST.json").write_text(text)
    if absent:
        (place / "PARTIAL.json").write_text(json.dumps({"format": 1, "left_out": list(absent)}))
    return hashlib.sha256(text.encode()).hexdigest()


def publish(
    database: Database,
    home: HomePaths,
    run_id: str,
    step: int,
    files: Mapping[str, bytes],
    *,
    absent: tuple[str, ...] = (),
) -> Path:
    """Put a checkpoint at home as a sync does; `absent` are files that `include_optimizer` left out."""
    place = home.checkpoints(run_id) / f"checkpoint-{step}"
    digest = write(place, step, files, absent=absent)
    checkpoints.adopt(
        database,
        run_id,
        digest,
        step=step,
        size_bytes=sum(map(len, files.values())),
        file_count=len(files),
        created_at=float(step),
        home_path=place,
    )
    return place
