"""Tell random stories one after another, until stopped; append how many held, and each that broke, to a file.

    nice -n 19 python -m tests.tools.histories --file FILE [--seed N] [--count N]

A story has a number below its seed; half are of clusters. The file says with which number the next call continues: a
process can be stopped at any time. Several processes need a seed and a file each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.catalogue import numbered

_AT_ONCE = 50


def next_number(file: Path, seed: int) -> int:
    """Return the number of the first story that a file does not count for a seed."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    return max((line["told"] for line in lines if line["seed"] == seed and "told" in line), default=0)


def tell(file: Path, seed: int, count: int) -> int:
    """Tell stories up to a number; return how many broke."""
    number, broken = next_number(file, seed), 0
    with file.open("a", encoding="utf-8") as stream:
        while number < count:
            for each in range(number, min(number + _AT_ONCE, count)):
                telling = numbered(seed, each)
                try:
                    words = telling.outcome()
                except Exception as error:  # a defect of armada's, or of the simulator
                    words = f"{type(error).__name__}: {error}"
                if words:
                    broken += 1
                    story = {"scripts": telling.scripts, "scheduler": telling.scheduler, "story": telling.story}
                    stream.write(json.dumps({"seed": seed, "number": each, "broke": words, **story}) + "\n")
            number = min(number + _AT_ONCE, count)
            stream.write(json.dumps({"seed": seed, "told": number}) + "\n")
            stream.flush()
    return broken


def main(arguments: Sequence[str]) -> int:
    """Tell the stories that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", type=Path, required=True, help="JSON lines are appended")
    parser.add_argument("--seed", type=int, default=1, help="of these stories (1)")
    parser.add_argument("--count", type=int, default=100_000, help="up to which number (100000)")
    given = parser.parse_args(arguments)
    return min(1, tell(given.file, given.seed, given.count))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
