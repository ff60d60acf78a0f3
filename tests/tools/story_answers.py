"""What other commands say in the pictures of docs/: the plan of a launch, what a host's release or a removal would lose."""

from __future__ import annotations

import contextlib
import io
import os
import time
from typing import TYPE_CHECKING
from unittest import mock

from armada.cli.data import say_view
from armada.launch.training.data_view import DataView, Example, PartView, Piece, Sample
from armada.store import runs
from armada.store.database import Database
from armada.sync.release.only_on_host import find_only_on_host
from armada.verdicts.orphans import Left, words
from tests.tools import story

if TYPE_CHECKING:
    from armada.paths import HomePaths

ITEMS = [
    {
        "run_id": story.HUNG,
        "what": "checkpoint-11500 (2.1 GB) is only there",
        "hint": "armada sync now",
        "lost": True,
    },
    {"run_id": story.HUNG, "what": "it runs; its work since checkpoint-11500 would be lost", "lost": True},
    {"run_id": story.SPENT, "what": "2 checkpoints are verified at home", "lost": False},
]
VERDICT = {"safe": False, "items": ITEMS}


def _estimate(hours: float, price: float, said: str) -> dict[str, object]:
    names = ("low", "middle", "high")
    return {
        "seconds": {name: 3600 * hours * factor for name, factor in zip(names, (0.9, 1, 1.2), strict=True)},
        "cost": {name: hours * price * factor for name, factor in zip(names, (0.9, 1, 1.2), strict=True)},
        "price_per_hour": price,
        "currency": "USD",
        "wait": "starts at once",
        "said": said,
        "disk_needed_bytes": 30e9,
        "disk_free_bytes": 412e9,
    }


def _plan(name: str, hours: float, said: str) -> dict[str, object]:
    checks = [
        {
            "code": "ARM014",
            "outcome": "warn",
            "message": "4.1 % of samples are longer than max_length",
            "hint": "max_length: 8192",
        },
        {"code": "ARM003", "outcome": "ok", "message": "precision bf16", "hint": None},
        {"code": "ARM007", "outcome": "ok", "message": "clocks agree", "hint": None},
    ]
    return {
        "name": name,
        "outcome": "possible",
        "gpus": 8,
        "gpu": "NVIDIA A100-SXM4-80GB",
        "command": ["accelerate", "launch", "-m", "armada_train", "spec.json"],
        "batch": {"global": 16, "micro": 1, "accumulation": 2, "processes": 8},
        "memory": {"total_bytes": 61e9, "low_bytes": 55e9, "high_bytes": 68e9},
        "estimate": _estimate(hours, 12.4, said),
        "send_bytes": 3_100_000,
        "checks": checks,
    }


PLANS = {
    "fastest": "a100-1",
    "hosts": [
        _plan("a100-1", 11.0, "3 earlier runs of this model"),
        _plan("a100-2", 11.4, "3 earlier runs of this model elsewhere"),
        {
            "name": "workstation",
            "outcome": "unreachable",
            "error": {"message": "no answer within 5 s", "hint": "armada hosts check workstation"},
        },
    ],
}
EXPERIMENT = """\
name: arc-1.5b
task: sft
model: Qwen/Qwen2.5-1.5B
data:
  train: [{path: puzzles.jsonl}]
train:
  global_batch_size: 16   # of all ranks
  max_steps: 20000
  learning_rate: 1.0e-4
lora: {r: 128}
"""

SWEEP = """\
name: lr-rank
task: sft
model: Qwen/Qwen2.5-1.5B
data:
  train: [{path: puzzles.jsonl}]
train:
  global_batch_size: 16
  max_steps: 2000
  learning_rate: 1.0e-4
lora: {r: 16}
sweep:
  grid:
    train.learning_rate: [5.0e-5, 1.0e-4, 2.0e-4, 4.0e-4]
    lora.r: [16, 64]
"""

FAULTY = """\
name: arc-4b
task: sft
model: Qwen/Qwen3-4B
data:
  train: [{path: puzzles.jsonl}]
train:
  global_batch_size: 16
  max_steps: soon
  learning_rte: 2.0e-4    # from the paper
lora: {r: 0}
"""
CELL = "lr-rank-3-dd3x3q"
"""A cell of the sweep that runs on two GPUs of a host."""
KEY = {
    "alias": "a100-3",
    "algorithm": "ssh-ed25519",
    "fingerprint": "SHA256:9pXq2mVd0cZr4tLbYw7KfHs1NgEoJuA3iR6vTzQeB5k",
}
NEW_HOST = {"ssh": "root@203.0.113.21:50318", "offered": [KEY], "pinned_before": []}


def data_shown() -> str:
    """What `armada data show` prints of the story's puzzles where colours are asked for."""
    examples = []
    for prompt, (answer, _) in story.PROMPTS.items():
        asked = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        pieces = (Piece("", asked, False), Piece("", f"{answer}<|im_end|>", True), Piece("", "\n", False))
        examples.append(Example(pieces, 31 + len(prompt) % 7, 6))
    train = Sample("train", "messages", (), 41_200, "chats")
    part = PartView(train, 500, tuple(examples), 24, 812, 3_544, 5_120, 20, 583_310, 96_412, 0)
    said = io.StringIO()
    with mock.patch.dict(os.environ, {"FORCE_COLOR": "1"}), contextlib.redirect_stdout(said):
        say_view(DataView("tokens", (part,), host="a100-1"), "drop", 4096)
    return said.getvalue()


def _left(run_id: str, left: Left, count: int, *processes: tuple[int, str, int, list[int]]) -> dict[str, object]:
    listed = [dict(zip(("pid", "name", "age_s", "gpus"), each, strict=True)) for each in processes]
    what, _ = words(left, run_id=run_id, host="a100-1")
    may = left.may_be_ended
    return {"run_id": run_id, "what": what, "may_be_ended": may, "count": count, "processes": listed}


LEFT = {
    "runs": [
        _left(
            story.OOM,
            Left.ENDED,
            5,
            (88_412, "python3.11", 5_740, [6]),
            (88_413, "python3.11", 5_740, [7]),
            (88_431, "pt_data_worker", 5_702, []),
        ),
        _left("bert-base-k2v8wd", Left.ANOTHERS, 1, (90_117, "python3.11", 91_000, [])),
    ]
}
"""What `armada hosts reap --dry-run --json` says of a host."""


def removals(home: HomePaths) -> dict[str, dict[str, object]]:
    """What `armada rm --dry-run --json` says of three runs that may go, and of one that may not; by their ids."""
    with Database(home.store, existing=True) as database:
        away = runs.find(database, story.AWAY)._replace(observed_at=story.NOW - 372)  # as its host
        lost = find_only_on_host(database, away, price=None, now=story.NOW)
    there = [{"step": step, "size_bytes": int(2.1 * story.GB)} for step in (5_000, 5_220)]
    silent = "workstation (kim@workstation.example) cannot be reached: No route to host"
    runs_on = {"message": f"{story.HUNG} is running", "hint": f"armada stop {story.HUNG}"}
    return {
        story.OOM: {"kept_home": [], "host_error": None, "deleted_host": []},
        story.SPENT: {"kept_home": ["5000", "5220"], "host_error": None, "deleted_host": there},
        story.AWAY: {
            "kept_home": [],
            "host_error": silent,
            "given_up": {"sentences": lost.sentences("workstation")},
        },
        story.HUNG: {"error": runs_on},
    }


def ranks_log() -> str:
    """The log of a cell of the sweep, in which both ranks name themselves."""
    lines = []
    for at in range(60):
        moment = time.strftime("%H:%M:%S", time.gmtime(story.NOW - 2 - 27 * (59 - at)))
        step, loss = 2_650 - 10 * (59 - at), 0.523 + 0.0013 * (59 - at) + 0.004 * (at % 3)
        lines.append(
            f"{moment}  step {step:,}  loss {loss:.4f}  grad_norm 0.{58 + at % 9}  lr 1.3e-05  9,9{at % 10}2 tok/s"
        )
        if at % 6 == 2:
            left = [1_204 - 37 * (at % 11) - 19 * rank for rank in (0, 1)]
            lines += [f"[rank{rank}] data: shard {at // 3 + rank} of 64, {left[rank]:,} rows left" for rank in (0, 1)]
        if at % 8 == 5:
            lines.append(f"\x1b[33m[rank{at // 8 % 2}] WARNING\x1b[0m  a batch of {8_192 + 64 * at:,} tokens was cut")
    return "".join(f"{line}\n" for line in lines)
