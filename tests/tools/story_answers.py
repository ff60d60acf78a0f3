"""What other commands say in the pictures of docs/: the plan of a launch, and what a host's release would lose."""

from __future__ import annotations

import contextlib
import io
import os
from unittest import mock

from armada.cli.data import say_view
from armada.launch.training.data_view import DataView, Example, PartView, Piece, Sample
from tests.tools import story

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
