"""Grid puzzles in the manner of ARC, made on the spot: `hook: puzzles:sample` in arc.yaml calls this for every sample.

A puzzle shows three pairs of grids that follow one hidden rule, and asks for the output of a fourth input. Put your own
puzzles where RULES is, for example the tasks of a competition's JSON file; `augment` then multiplies them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PAIRS = 3
SMALLEST, LARGEST = 2, 4

Grid = Any  # of numpy, which the host has and home need not
Pair = tuple[Grid, Grid]

RULES = {
    "mirror": np.fliplr,
    "upside down": np.flipud,
    "turn": np.rot90,
    "swap colours": lambda grid: np.where(grid == 1, 2, np.where(grid == 2, 1, grid)),
    "shift": lambda grid: np.roll(grid, 1, axis=1),
    "double": lambda grid: np.hstack([grid, grid]),
    "frame": lambda grid: np.pad(grid, 1, constant_values=5),
}


def sample(index: int, rng: np.random.Generator) -> dict[str, Any]:
    """Make one sample.

    Args:
        index: The sample's position; no other rank or worker is ever asked for the same one.
        rng: Drawn from, and from nothing else, so that a resumed run makes the same sample here.

    Returns:
        A row as a line of a .jsonl file would hold it.
    """
    rules = sorted(RULES)
    return describe(augment(make_pairs(rules[index % len(rules)], rng), rng))  # each rule equally often


def make_pairs(rule: str, rng: np.random.Generator) -> list[Pair]:
    """Draw the grids of one puzzle."""
    pairs = []
    for _ in range(PAIRS + 1):
        shape = rng.integers(SMALLEST, LARGEST + 1, size=2)
        grid = rng.integers(0, 4, size=shape)
        pairs.append((grid, RULES[rule](grid)))
    return pairs


def augment(pairs: list[Pair], rng: np.random.Generator) -> list[Pair]:
    """Turn and mirror all grids alike, give the colours other numbers, and show the pairs in another order."""
    turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
    colours = rng.permutation(10)

    def change(grid: Grid) -> Grid:
        turned = np.rot90(grid, turns)
        return colours[np.fliplr(turned) if mirrored else turned]

    order = rng.permutation(len(pairs))
    return [(change(pairs[place][0]), change(pairs[place][1])) for place in order]


def describe(pairs: list[Pair]) -> dict[str, Any]:
    """Write a puzzle as a chat; the loss is taken on the answer alone."""
    shown = [f"input\n{draw(before)}\noutput\n{draw(after)}" for before, after in pairs[:-1]]
    question = "\n\n".join([*shown, f"input\n{draw(pairs[-1][0])}\noutput"])
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": draw(pairs[-1][1])}]}


def draw(grid: Grid) -> str:
    return "\n".join("".join(str(colour) for colour in row) for row in grid)
