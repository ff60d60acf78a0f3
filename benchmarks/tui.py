#!/usr/bin/env python3
"""How fast the dashboard is on a large store, against Textual itself in the same run: a bare app, and a DataTable with the same rows.

    python -m benchmarks.tui [--runs 10000] [--hosts 50] [--points 10000000] [--log-mb 2000] [--rounds 10] [--only keys,idle]
                             [--folder DIR]

Each part runs in a process of its own; prints a table, with the aims beside it. `host-line` needs what the fleet needs (root, sshd),
and `web` Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from armada.paths import HomePaths
from benchmarks import tui_parts, tui_screens, tui_store, tui_web

AIMS: dict[str, str] = {
    "first paint, bare Textual": "",
    "first paint, dashboard": "≤ 2 × the bare app",
    "first run on the screen": "≤ 1.5 × the bare app",
    "a key to its paint, median": "",
    "a key to its paint, p95": "≤ 33 ms",
    "the same in a DataTable, median": "",
    "the same in a DataTable, p95": "",
    "one row changed, drawn": "",
    "one row changed, drawn by a DataTable": "≥ 8 × ours",
    "CPU while 50 runs change every second": "",
    "written to the terminal meanwhile": "",
    "a switch back to a screen, slowest": "≤ 80 ms",
    "another run opened": "≤ 80 ms",
    "a screen opened for the first time, slowest": "≤ 80 ms",
    "a key to its frame in a browser, median": "",
    "a key to its frame in a browser, p95": "",
    "10^6 points, a key to the frame, median": "≤ 33 ms",
    "10^6 points, a key to the frame, p95": "",
    "CPU when nothing changes": "≤ 0.3 %",
    "memory after that": "≤ 200 MB",
    "memory after a quarter of an hour's updates": "",
    "memory after an hour's updates": "no more",
    "500,000 points drawn": "≤ 30 ms",
    "2 GB log: its end drawn": "",
    "2 GB log: a word that is not in it looked for": "",
    "metric line on a host to the screen, median": "",
    "metric line on a host to the screen, worst": "≤ 2 s",
}
OPENINGS = 3


def first_openings(home: HomePaths, _rounds: int) -> dict[str, str]:
    """Processor time of the first opening of each screen, each in a process of its own."""
    places = tui_screens.PLACES[:-1]
    times = {place: [float(child(f"open-{place}", home, 1)[place]) for _ in range(OPENINGS)] for place in places}
    medians = {place: statistics.median(each) for place, each in times.items()}
    said = ", ".join(f"{place} {tui_parts.ms(median)}" for place, median in medians.items())
    return {"a screen opened for the first time, slowest": f"{tui_parts.ms(max(medians.values()))} of CPU ({said})"}


PARTS: dict[str, Callable[[HomePaths, int], dict[str, str]]] = {
    "paint": tui_parts.first_paint,
    "keys": tui_parts.keys,
    "table": tui_parts.data_table,
    "traffic": tui_parts.traffic,
    "switch": tui_screens.switch,
    "open": first_openings,
    "web": tui_web.web,
    "zoom": tui_screens.zoom,
    "idle": tui_parts.idle,
    "hour": tui_parts.hour,
    "chart": tui_parts.chart,
    "log": tui_parts.log,
    "host-line": tui_parts.host_line,
}
OPENED = {f"open-{place}": partial(tui_screens.open_one, place) for place in tui_screens.PLACES[:-1]}
"""The parts of `open`."""


def child(part: str, home: HomePaths, rounds: int) -> dict[str, str]:
    """Run one part on its own; what it measured, by name."""
    argv = [
        sys.executable,
        "-m",
        "benchmarks.tui",
        "--part",
        part,
        "--folder",
        str(home.state.parent),
        "--rounds",
        str(rounds),
    ]
    env = {**os.environ, "ARMADA_HOME": str(home.state.parent), "ARMADA_NO_DAEMON": "1"}
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--log-mb", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--folder", type=Path, help="keep the store here, or use the one that is there")
    parser.add_argument("--part", choices=[*PARTS, *OPENED], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        home = HomePaths(options.folder / "config", options.folder / "state")
        print(json.dumps({**PARTS, **OPENED}[options.part](home, options.rounds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        base = options.folder or Path(folder)
        home = HomePaths(base / "config", base / "state")
        if not home.store.exists():
            tui_store.fill(home, runs=options.runs, hosts=options.hosts, points=options.points)
            tui_store.write_log(tui_store.log_of(home, tui_store.BUSY), options.log_mb)
        print(f"{statistics.fmean(os.getloadavg()[:1]):.1f} load on {os.cpu_count()} cores before it began\n")
        print("| | measured | aim |\n|---|---|---|")
        for part in options.only.split(","):
            for name, value in child(part, home, options.rounds).items():
                print(f"| {name} | {value} | {AIMS.get(name, '')} |", flush=True)


if __name__ == "__main__":
    main()
