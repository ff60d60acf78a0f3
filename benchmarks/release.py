"""How long `armada hosts release` takes to prove that everything is at home, against sha256sum of the same files.

    PYTHONPATH=. python benchmarks/release.py [--checkpoints 200] [--megabytes 8] [--rounds 5]

One run on the host `local` has checkpoints at home, put there by a real sync. In a round the same question is answered in
three ways, in turn, so that a busy machine slows all: by the command with every copy proven (nothing was touched since it was
read), by the command after every file at home was touched (all bytes are read again), and by `sha256sum` of every copy, the least
that a person must do to know the same. Aims: 200 proven checkpoints in at most 1 s; touched ones at the speed of sha256sum.
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

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from armada.config.hosts import Host
from armada.home import own
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store.database import Database
from tests.sync.conftest import Place

PROGRAM = [sys.executable, "-P", "-m", "armada"]


def fill(home: HomePaths, count: int, size_bytes: int) -> None:
    """Bring checkpoints home and end their run.

    Args:
        home: An empty home.
        count: How many checkpoints.
        size_bytes: Of the only file of each; no two are alike, so that nothing is linked instead of read.
    """
    home.make()
    own(home)
    with Database(home.store) as database, HostSession(Host(name="local"), home, patience_s=0.0) as session:
        place = Place(home, database, session)
        place.create(keep_home={"last": count}, keep_remote=count)
        for step in range(1, count + 1):
            place.save(step, {"model.safetensors": os.urandom(size_bytes)})
        place.sync()
        session.call("run.stop", {"run_id": place.run_id, "grace_s": 0.0})
        place.end("cancelled")
        place.sync()
        if (home_now := len(place.home_steps())) != count:
            raise SystemExit(f"{home_now} of {count} checkpoints are at home: nothing to measure")


def seconds(argv: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    taken = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}")
    return taken


def touch(folder: Path) -> None:
    """Change the time of every file, so that what was known of its bytes counts no more."""
    for path in folder.rglob("*.safetensors"):
        os.utime(path)


def middle(values: list[float]) -> str:
    return f"{statistics.median(values):6.2f} s ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=8, help="of each checkpoint")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ARMADA_HOME"] = folder
        home = HomePaths.from_environment()
        fill(home, given.checkpoints, given.megabytes << 20)
        copies = home.checkpoints("tune-1")
        release = [*PROGRAM, "hosts", "release", "local"]
        compare = ["sha256sum", *map(str, sorted(copies.rglob("*.safetensors")))]
        taken: dict[str, list[float]] = {"proven": [], "touched": [], "sha256sum": []}
        seconds(release)  # warms the caches, and is refused unless all is home
        for _ in range(given.rounds):
            taken["proven"].append(seconds(release))
            touch(copies)
            taken["touched"].append(seconds(release))
            taken["sha256sum"].append(seconds(compare))
    print(f"{given.checkpoints} checkpoints of {given.megabytes} MB, {given.rounds} rounds")
    for name, values in taken.items():
        ratio = statistics.median(mine / theirs for mine, theirs in zip(values, taken["sha256sum"], strict=True))
        print(f"{name:12} {middle(values)}   {ratio:.2f}×")


if __name__ == "__main__":
    main()
