"""A run's folder with one of every record that the payload reads, and what may be thrown into their places."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from armada_train.bench import turns
from armada_train.checkpoints import manifest, shards, whole
from armada_train.data import prepared
from armada_train.runfolder import RunFolder
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Training

from tests import hostile
from tests.agent.watched_run import RECORDINGS
from tests.payload.payload_run import make_training
from tests.payload.test_payload_model_files import write_model, write_tensors

INGREDIENTS = {"tokens": {"what": "tokens", "data": "abc"}, "rows": {"what": "rows", "data": "abc"}}
FACTS: dict[str, dict[str, Any]] = {
    "tokens": {"rows": 1, "tokens": 5, "trained": 3, "lost_prompts": 0, "kind": "messages", "ignored_keys": {"id": 2}},
    "rows": dict.fromkeys(("too_long", "truncated", "split", "untrainable", "cut_tokens", "kept", "tokens", "trained"), 1),
}  # fmt: skip
TURN = turns.Turn(1.0, (0.5, 0.5), 100.0, 10.0, (0.1,), 0.0, 1.0, 3.0, 1 << 30, None)
ADAPTER = {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "modules_to_save": None, "task_type": "CAUSAL_LM"}
GOOD = {"kind": "train", "step": 3, "time": 1.0, "attempt": 1, "loss": 2.5, "num_tokens": 300.0}


def training_of(top: Path, **changes: Any) -> Training:
    return parse_training(Section(make_training(top / "rows.jsonl", **changes), "training"))


def settings_of(training: Training) -> dict[str, Any]:
    data = [{"sha256": "a" * 64, "weight": 1.0}]
    return {"model": "m", "data.train": data, "batch.processes": training.batch.processes, "lora.r": 8}


def write_checkpoint(run: Path, step: int, *, mark: bool = True) -> Path:
    """Write a checkpoint of an adapter, as one process leaves it."""
    checkpoint = run / "checkpoints" / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    state = json.loads((RECORDINGS / "trainer_state-10.json").read_bytes())
    (checkpoint / "trainer_state.json").write_text(json.dumps({**state, "global_step": step}))
    write_tensors(checkpoint / "adapter_model.safetensors", ["a", "b"])
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        write_zip(checkpoint / name)
    manifest.write_manifest(checkpoint, settings_of(training_of(run)))
    if mark:
        whole.mark(checkpoint)
    return checkpoint


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", "x" * 100)


def write_resumable(run: Path) -> None:
    """Write the checkpoints 8 and 12 of four kinds of training."""
    for kind in ("plain", "index", "shards", "deepspeed"):
        for step in (8, 12):
            checkpoint = write_checkpoint(run / kind, step, mark=False)
            if kind == "index":
                (checkpoint / "adapter_model.safetensors").rename(checkpoint / "a.safetensors")
                index = {"metadata": {}, "weight_map": {"a": "a.safetensors", "b": "a.safetensors"}}
                (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
            elif kind == "shards":
                for part in (shards.MODEL, shards.OPTIMIZER):
                    (checkpoint / part).mkdir()
                    (checkpoint / part / "__0_0.distcp").write_bytes(b"shard" * 20)
                shards.write_listing(checkpoint, 1)
            elif kind == "deepspeed":
                (checkpoint / f"step{step}").mkdir()
                (checkpoint / "latest").write_text(f"step{step}")
                for number in (0, 1):
                    write_zip(checkpoint / f"step{step}" / f"{number}_{('model', 'optim')[number]}_states.pt")
            whole.mark(checkpoint)


def write_run(tmp_path: Path) -> Path:
    """Write a run's folder with one of every record that the payload reads."""
    top = tmp_path / "run"
    write_resumable(top)
    write_model(top / "model")
    write_checkpoint(top / "made", 4).rename(top / "start")
    (top / "start" / "adapter_config.json").write_text(json.dumps(ADAPTER))
    manifest.write_manifest(top / "start", {"model": str(top / "model")})
    shutil.copytree(top / "model", top / "whole")
    manifest.write_manifest(top / "whole", {"model": str(top / "model")})
    for what, ingredients in INGREDIENTS.items():
        prepared.Cache(top / "prepared", lambda: None, lambda _: None).obtain(ingredients, _make_rows(what))
    (top / "outbox").mkdir()
    (top / "again").mkdir()
    (top / "attempts" / "2").mkdir(parents=True)
    (top / "attempts" / "2" / "failure.json").write_text(
        json.dumps({"reason": "exception", "message": "NCCL", "rank": 0})
    )
    (top / "heartbeat-0.json").write_text(json.dumps({"rank": 0, "phase": "saving", "step": 4, "time": 1.0}))
    bench = {
        "kind": "bench",
        "step": 1,
        "status": "measured",
        "reason": "",
        "message": "",
        "turns": 1,
        "turns_asked": 2,
    }
    lines = [GOOD, {**GOOD, "kind": "eval", "step": 0, "eval_loss": 7.0}, bench]
    (top / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    (top / "result.json").write_text(json.dumps({"steps_s": [0.5], "tokens": 5}))
    turns.write_turns(RunFolder(top), 1, turns.Turns(2, (TURN,)))
    spec = {"format": 1, "stop_grace_s": 30.0, "gpus": 0, "training": make_training(top / "rows.jsonl")}
    (top / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text('{"step": 5, "format": 1, "files": {"../x": 1}}')
    return top


def _make_rows(what: str) -> Callable[[Path], dict[str, Any]]:
    def make(folder: Path) -> dict[str, Any]:
        (folder / prepared.ROWS).write_bytes(b"rows")
        return dict(FACTS[what])

    return make


class Records:
    """The records that one reader reads, and how to make them right again."""

    def __init__(self, run: Path, names: tuple[str, ...]) -> None:
        self._run = run
        self._names = names
        self._tops = sorted({name.partition("/")[0] for name in names})
        self._right = run.with_name("right")
        shutil.copytree(run, self._right)

    def again(self) -> None:
        for name in self._tops:
            place, right = self._run / name, self._right / name
            hostile.remove(place)
            if right.is_dir():
                shutil.copytree(right, place)
            elif right.exists():
                shutil.copyfile(right, place)
        for left in self._run.glob("*.set-aside-*"):
            hostile.remove(left)

    def throw(self, chance: random.Random) -> str:
        """Put something else in the place of one of them; says what."""
        name = chance.choice(self._names)
        place = self._run / name
        outside = self._run.with_name("outside")
        if not place.parent.is_dir() or place.parent.resolve() != place.parent.absolute():
            return f"{name}: its folder is away"
        return f"{name}: {hostile.replace(chance, place, [outside / 'file', outside, outside / 'none', place.parent])}"
