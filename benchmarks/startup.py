"""How long armada takes to answer, against the bare interpreter that everything at home starts from.

    python benchmarks/startup.py [--rounds 15]

Each round runs every command once, in turn, so that a busy machine slows all of them; the ratios are within a round.
Aims: `--version` ≤ 3× and `ps --cached` of 1,000 runs ≤ 6× `python -c "import json, argparse, sqlite3"`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database

BARE = [sys.executable, "-c", "import json, argparse, sqlite3"]
COMMANDS = {
    "armada --version": ["--version"],
    "armada ps --cached (1,000 runs)": ["ps", "--cached", "--all"],
    "armada ps --cached --json (1,000 runs)": ["ps", "--cached", "--json"],
}


def fill(home: HomePaths, count: int) -> None:
    """Put runs into a store."""
    home.make()
    with Database(home.store) as database:
        for number in range(count):
            runs.insert(
                database,
                run_id=f"run-{number:06}",
                name=f"run {number}",
                host="local",
                task="sft",
                experiment=None,
                spec={"training": {"seed": number}},
            )


def wall_s(argv: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    program = Path(sys.executable).with_name("armada")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "ARMADA_HOME": folder}
        fill(HomePaths(Path(folder) / "config", Path(folder) / "state"), 1000)
        bare: list[float] = []
        taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for number in range(rounds + 1):
            times = {name: wall_s([str(program), *words], env) for name, words in COMMANDS.items()}
            base = wall_s(BARE, env)
            if number:  # the first round warms the caches
                bare.append(base)
                for name, seconds in times.items():
                    taken[name].append(seconds)
    print(f"{'bare python':42} {statistics.median(bare) * 1000:6.0f} ms")
    for name, seconds in taken.items():
        ratios = sorted(mine / base for mine, base in zip(seconds, bare, strict=True))
        middle, low, high = statistics.median(ratios), ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        print(f"{name:42} {statistics.median(seconds) * 1000:6.0f} ms   {middle:.2f}× (80 %: {low:.2f}–{high:.2f})")


if __name__ == "__main__":
    main()
