"""Tell a story to a simulated world, and print what armada answers to each of its questions.

    python -m tests.tools.tell [--scripts] [--scheduler slurm|htcondor] 'launch save tick look=? sync=? release=?'

Whoever writes a story for `tests/simulation/told*.py` compares each answer with what is true in that world.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.simulation.calm import be_calm
from tests.simulation.catalogue import Telling, read
from tests.simulation.world import World


def tell(telling: Telling) -> list[str]:
    """Return each event with what was answered, as a story says it."""
    with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
        teller = telling.teller(world, scripts=telling.scripts)
        told = []
        for what, one, two in telling.story:
            teller.tell([(what, one, two)])
            numbers = f":{one}:{two}" if two else f":{one}" if one else ""
            verb, asked, _ = what.partition("=")
            told.append(f"{verb}{numbers}{asked}{teller.said if asked else ''}")
        be_calm(world)
    return told


def main(arguments: Sequence[str]) -> int:
    """Tell the story of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("story", help="events, such as `launch tick look=?`")
    parser.add_argument(
        "--scripts", action="store_true", help="jobs are scripts, whose checkpoints are found on the disk"
    )
    parser.add_argument("--scheduler", choices=("direct", "slurm", "htcondor"), default="direct")
    given = parser.parse_args(arguments)
    print(" ".join(tell(Telling(read(given.story), given.scripts, given.scheduler))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
