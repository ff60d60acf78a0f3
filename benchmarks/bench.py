#!/usr/bin/env python3
"""What `armada bench` promises of itself: little time besides measured steps, and a spread that a second bench keeps.

    python -m benchmarks.bench --python .venv-payload/bin/python [--seconds 30] [--pairs 1]

Six cells of a small model on this machine, without GPUs, measured in benches that follow each other: each is compared
with the one before. Aims: at least 80 % of the time after the first cell's start is measured steps; the second speed of
a cell differs from the first by no more than its stated spread in 19 of 20 cases, whatever else the machine does; no
cell that the first calls faster than another is slower in the second. The spread's width, and how many pairs of cells
are told apart, are part of the result: on a machine that others use the one may be wide and the other few.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conftest import Armada
from tests.payload.payload_run import chats, write_jsonl
from tests.payload.prepared import prepare_environment

EXPERIMENT = """\
task: sft
name: speed
model: {tiny: {hidden_size: 192, layers: 4, heads: 4, kv_heads: 2, intermediate_size: 512, vocab_size: 560}}
data: {train: [{path: train.jsonl}]}
train: {global_batch_size: 8, max_length: 256, epochs: 1}
"""
GRID = ("--grid", "train.micro_batch_size=1,2,4", "--grid", "train.max_length=128,256")


class Home(Armada):
    """A home of its own, whose commands are processes of their own."""

    def run(self, *arguments: str, timeout_s: float = 3600.0, process: bool = True) -> subprocess.CompletedProcess[str]:
        return super().run(*arguments, timeout_s=timeout_s, process=process)


def measure(home: Home, seconds: float) -> list[dict[str, Any]]:
    """Run the bench once; its rows."""
    words = ("bench", "speed.yaml", "--host", "local", "--no-daemon", "--seconds", str(seconds), *GRID)
    found: list[dict[str, Any]] = home.json(*words)["cells"]
    return found


def share_of_steps(rows: list[dict[str, Any]]) -> float:
    """Measured seconds as a share of all seconds of the cells after the first."""
    later = rows[1:]
    return float(sum(row["measured_s"] for row in later) / sum(row["cell_s"] for row in later))


def told_apart(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Pairs of cells, by their places, of which the first is called faster than the second."""
    low = [row["tokens_per_s"] * (1 - row["spread_beside"]) for row in rows]
    high = [row["tokens_per_s"] * (1 + row["spread_beside"]) for row in rows]
    places = range(len(rows))
    return [(one, two) for one in places for two in places if low[one] > high[two]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="A Python with the payload's libraries")
    parser.add_argument("--seconds", type=float, default=30.0, help="Of each cell")
    parser.add_argument("--pairs", type=int, default=1, help="How many benches follow the first")
    options = parser.parse_args()
    kept: list[bool] = []
    widths: list[float] = []
    pairs: list[bool] = []
    with tempfile.TemporaryDirectory(prefix="armada-bench-") as folder:
        env = {**os.environ, "ARMADA_HOME": str(Path(folder) / "home"), "PYTHONPATH": str(Path(__file__).parents[1])}
        home = Home(Path(folder), env)
        write_jsonl(Path(folder) / "train.jsonl", chats(64))
        (Path(folder) / "speed.yaml").write_text(EXPERIMENT)
        prepare_environment(home, str(Path(options.python).absolute()))
        first = measure(home, options.seconds)
        shares = [share_of_steps(first)]
        for _ in range(options.pairs):
            second = measure(home, options.seconds)
            shares.append(share_of_steps(second))
            print(f"measured steps: {shares[-1]:.0%} of the time after the first cell (aim: 80 %)")
            for one, two in zip(first, second, strict=True):
                differs = abs(two["tokens_per_s"] / one["tokens_per_s"] - 1)
                kept.append(differs <= one["spread"])
                widths.append(one["spread"])
                speeds = f"{one['tokens_per_s']:,.0f} and {two['tokens_per_s']:,.0f} tokens/s"
                words = f"{differs:.1%} apart; stated ±{one['spread']:.1%}, of {one['turns']:.0f} turns"
                print(
                    f"  {one['label']}: {speeds}, {words}; the machine varied by {one['machine_varied']:.0%}",
                    flush=True,
                )
            speeds_then = [row["tokens_per_s"] for row in second]
            pairs += [speeds_then[faster] > speeds_then[slower] for faster, slower in told_apart(first)]
            first = second
    told = {"within_spread": sum(kept), "of": len(kept), "median_spread": round(statistics.median(widths), 3)}
    told |= {
        "pairs_told_apart": len(pairs),
        "kept_their_order": sum(pairs),
        "pairs": math.comb(len(first), 2) * options.pairs,
    }
    print(json.dumps({**told, "measured_steps": [round(share, 3) for share in shares]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
