"""Writes short documents, the same bytes every time: `python make_data.py`."""

from __future__ import annotations

import json
import random
from pathlib import Path

TRAIN_ROWS, EVAL_ROWS = 100, 12
SHIPS = ["Albatross", "Breeze", "Cormorant", "Dolphin", "Egret", "Falcon"]
PORTS = ["Bergen", "Cadiz", "Dakar", "Esbjerg", "Faro", "Genoa", "Hull", "Izmir"]
DEEDS = ["took on water", "unloaded", "waited for the tide", "lost an anchor", "repaired a sail", "changed the watch"]


def document(number: int, chance: random.Random) -> str:
    """Make one page of a log, of a few sentences or of many."""
    ship = chance.choice(SHIPS)
    days = (
        f"Day {day}: the {ship} {chance.choice(DEEDS)} near {chance.choice(PORTS)}."
        for day in range(1, chance.randint(2, 20))
    )
    return f"Log {number} of the {ship}. " + " ".join(days)


def main() -> None:
    """Write data/train.jsonl and data/eval.jsonl beside this file."""
    folder = Path(__file__).parent / "data"
    chance = random.Random(7)  # noqa: S311 - texts, not a secret
    for name, count in (("train", TRAIN_ROWS), ("eval", EVAL_ROWS)):
        lines = [json.dumps({"text": document(number, chance)}) + "\n" for number in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
