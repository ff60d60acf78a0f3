"""Writes the quickstart's chats, the same bytes every time: `python make_data.py`.

Sums, reversed words and facts about a fleet that does not exist: short answers with a structure that a model of half a
million weights can pick up in a minute on two CPU cores.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

TRAIN_ROWS, EVAL_ROWS = 400, 50

SHIPS = {
    "Albatross": ("Bergen", "salt", 12),
    "Breeze": ("Cadiz", "oranges", 9),
    "Cormorant": ("Dakar", "cotton", 21),
    "Dolphin": ("Esbjerg", "timber", 16),
    "Egret": ("Faro", "cork", 7),
    "Falcon": ("Genoa", "marble", 24),
    "Gannet": ("Hull", "wool", 14),
    "Heron": ("Izmir", "figs", 11),
}
WORDS = [
    "sail",
    "mast",
    "deck",
    "keel",
    "rope",
    "wave",
    "tide",
    "port",
    "wind",
    "star",
    "moon",
    "fish",
    "gull",
    "sand",
    "reef",
    "bell",
]


def make_chats(random_source: random.Random) -> Iterator[tuple[str, str]]:
    """Yield question and answer without end."""
    while True:
        name = random_source.choice(sorted(SHIPS))
        port, cargo, sailors = SHIPS[name]
        first, second = random_source.randint(0, 20), random_source.randint(0, 20)
        word = random_source.choice(WORDS)
        yield random_source.choice(
            [
                (f"Where is the {name} at home?", f"The {name} is at home in {port}."),
                (f"What does the {name} carry?", f"The {name} carries {cargo} from {port}."),
                (f"How many sailors has the {name}?", f"The {name} sails with {sailors} sailors."),
                (f"What is {first} plus {second}?", f"{first} plus {second} is {first + second}."),
                (f"Write {word} backwards.", f"Backwards, {word} is {word[::-1]}."),
            ]
        )


def write_rows(path: Path, chats: Iterator[tuple[str, str]], rows: int) -> None:
    """Write rows of one question and one answer each."""
    with path.open("w", encoding="utf-8") as file:
        for _ in range(rows):
            question, answer = next(chats)
            turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            file.write(json.dumps({"messages": turns}) + "\n")


def main() -> None:
    """Write data/train.jsonl and data/eval.jsonl beside this file."""
    folder = Path(__file__).parent / "data"
    folder.mkdir(exist_ok=True)
    write_rows(folder / "train.jsonl", make_chats(random.Random(1)), TRAIN_ROWS)  # noqa: S311 - not a secret
    write_rows(folder / "eval.jsonl", make_chats(random.Random(2)), EVAL_ROWS)  # noqa: S311 - not a secret


if __name__ == "__main__":
    main()
