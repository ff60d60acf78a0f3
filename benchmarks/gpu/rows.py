"""Rows to train on, made on the spot: texts with some order in them, so that there is something to learn."""

from __future__ import annotations

import json
import random
from pathlib import Path

_WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "ne", "su", "ta") for b in ("ra", "pe", "shi", "do", "gu")]


def write_rows(path: Path, count: int, shortest: int, longest: int) -> Path:
    """Write chats whose answers have from `shortest` to `longest` words; a tokenizer learnt from them takes about one token a word."""
    rng = random.Random(1)
    part = path.with_name(f".{path.name}-part")
    with part.open("w", encoding="utf-8") as file:
        for _ in range(count):
            turns = [
                {"role": "user", "content": _sentence(rng, 4)},
                {"role": "assistant", "content": _sentence(rng, rng.randint(shortest, longest))},
            ]
            file.write(json.dumps({"messages": turns}) + "\n")
    part.replace(path)
    return path


def _sentence(rng: random.Random, words: int) -> str:
    at = rng.randrange(len(_WORDS))
    said = []
    for _ in range(words):
        at = (3 * at + 7 + rng.randrange(3)) % len(_WORDS)
        said.append(_WORDS[at])
    return " ".join(said)
