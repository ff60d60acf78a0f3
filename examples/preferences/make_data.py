"""Writes pairs of answers, and answers judged one by one, the same bytes every time: `python make_data.py`.

Both answers are right; the preferred one is short, the other one goes on. So a training shows at once in the margins
whether it learns what is preferred.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

TRAIN_ROWS, EVAL_ROWS = 160, 16
CARGO = ["salt", "oranges", "cotton", "timber", "cork", "marble", "wool", "figs"]
PORTS = ["Bergen", "Cadiz", "Dakar", "Esbjerg", "Faro", "Genoa", "Hull", "Izmir"]


def pair(chance: random.Random) -> dict[str, object]:
    """Make one question with two answers, as a chat."""
    cargo, port, days = chance.choice(CARGO), chance.choice(PORTS), chance.randint(2, 30)
    question = f"How long does {cargo} take to {port} if the wind holds for {days} days?"
    short = f"{days} days."
    long = f"Well, that depends on many things, but if the wind holds, then I would say about {days} days."
    return {
        "prompt": [{"role": "user", "content": question}],
        "chosen": [{"role": "assistant", "content": short}],
        "rejected": [{"role": "assistant", "content": long}],
    }


def judge(number: int, row: dict[str, object]) -> dict[str, object]:
    """Make of a pair one of its answers, and whether it is the good one."""
    is_good = number % 2 == 0
    return {"prompt": row["prompt"], "completion": row["chosen" if is_good else "rejected"], "label": is_good}


def main() -> None:
    """Write the pairs (train, eval) and the judged answers (judged, judged-eval) into data/ beside this file."""
    folder = Path(__file__).parent / "data"
    chance = random.Random(7)  # noqa: S311 - texts, not a secret
    for name, count in (("train", TRAIN_ROWS), ("eval", EVAL_ROWS)):
        rows = [pair(chance) for _ in range(count)]
        judged = [judge(number, row) for number, row in enumerate(rows)]
        for file, written in ((name, rows), ("judged" if name == "train" else "judged-eval", judged)):
            lines = [json.dumps(row) + "\n" for row in written]
            (folder / f"{file}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
