"""Writes the puzzles that are evaluated on, the same bytes every time: `python make_eval.py` (needs numpy)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from puzzles import sample

ROWS = 32
SEED = 4242  # the training draws from (seed, position, …): never from this


def main() -> None:
    rows = [sample(index, np.random.default_rng((SEED, index))) for index in range(ROWS)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (Path(__file__).parent / "data" / "eval.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
