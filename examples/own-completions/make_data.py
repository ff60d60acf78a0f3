"""Writes prompts with what the judges need, the same bytes every time: `python make_data.py`."""

from __future__ import annotations

import json
import random
from pathlib import Path

TRAIN_ROWS, EVAL_ROWS = 64, 6
CARGO = ["salt", "oranges", "cotton", "timber", "cork", "marble", "wool", "figs"]


def ask(chance: random.Random) -> dict[str, object]:
    """Make one question, with its answer in a column of its own."""
    cargo, days = chance.choice(CARGO), chance.randint(2, 30)
    question = f"How many days has the {cargo} been at sea after {days} days? Answer with a number."
    return {"prompt": [{"role": "user", "content": question}], "answer": str(days)}


def main() -> None:
    """Write data/train.jsonl and data/eval.jsonl beside this file."""
    folder = Path(__file__).parent / "data"
    chance = random.Random(11)  # noqa: S311 - texts, not a secret
    for name, count in (("train", TRAIN_ROWS), ("eval", EVAL_ROWS)):
        lines = [json.dumps(ask(chance)) + "\n" for _ in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
