#!/usr/bin/env python3
"""A sweep of 200 cells beside a shell loop that starts them by `ssh`, over a link of 50 ms.

    python -m benchmarks.sweep [--cells 200] [--loop 5] [--rtt-ms 50] [--rounds 3]

Needs sshd. The host is this machine behind a link whose round trips are counted; its agent is there already. The loop is
what people type: `for x in …; do ssh host "cd run && X=$x nohup true &"; done`. Some of its turns are measured, and their
median is multiplied by the number of cells. Rounds alternate between the two, and the median counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sync import say
from tests.ssh_server import SshServer, ssh_server, why_not

WAN = Path(__file__).parents[1] / "tests" / "fleet" / "wan"
MOST_S = 15.0
"""In which 200 cells at 50 ms are to be handed over."""
MOST_ROUND_TRIPS = 12


@dataclass(frozen=True)
class Home:
    """A home of its own with one host, `box`, behind a link."""

    folder: Path
    server: SshServer
    port: int
    count: Path

    def armada(self, *words: str) -> str:
        env = {**os.environ, "ARMADA_HOME": str(self.folder / "home"), "ARMADA_NO_DAEMON": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "armada", *words], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"armada {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def ssh(self, command: str) -> None:
        """One turn of the loop: a connection of its own, as a plain `ssh` makes it."""
        options = ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
        target = self.server.target.rpartition(":")[0]
        words = ["ssh", "-p", str(self.port), "-i", str(self.server.identity), *options, target, command]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def far_box(rtt_ms: float) -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as name, ssh_server(Path(name) / "box") as server:
        folder = Path(name)
        (server.bin / "python3").symlink_to(Path(sys.executable).resolve())
        count = folder / "count"
        words = [sys.executable, str(WAN), "127.0.0.1:0", f"127.0.0.1:{server.port}", "--rtt-ms", f"{rtt_ms:g}"]
        with subprocess.Popen([*words, "--count", str(count)], stdout=subprocess.PIPE, text=True) as link:
            assert link.stdout is not None
            home = Home(folder, server, int(link.stdout.readline().split()[1]), count)
            target = f"{server.target.rpartition(':')[0]}:{home.port}"
            home.armada("hosts", "add", "box", target, "--identity", str(server.identity), "--yes", "--profile", "cpu")
            yield home
            link.terminate()


def used_s() -> float:
    """Seconds of CPU that the children of this process have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def sweep(home: Home, cells: int, number: int) -> tuple[float, float, int]:
    """Return the seconds and the seconds of CPU of a hand-over, and its round trips."""
    file = home.folder / f"e{number}.yaml"
    file.write_text(json.dumps({"name": f"far {number}", "task": "command", "command": ["true"]}))
    grid = f"env.X={','.join(map(str, range(cells)))}"
    began, used = time.monotonic(), used_s()
    told = json.loads(
        home.armada("sweep", str(file), "--host", "box", "--grid", grid, "--parallel", "1", "--yes", "--json")
    )
    took, used = time.monotonic() - began, used_s() - used
    trips = int(home.count.read_text().split()[-1])
    if told["taken"] != {"box": cells}:
        raise SystemExit(f"the box has taken {told['taken']}, not {cells} cells")
    home.armada("sweep", "stop", told["sweep"], "--grace", "0")
    return took, used, trips


def loop(home: Home, turns: int) -> list[float]:
    times = []
    for turn in range(turns):
        began = time.monotonic()
        home.ssh(f"mkdir -p run-{turn} && cd run-{turn} && X={turn} nohup true > log 2>&1 < /dev/null &")
        times.append(time.monotonic() - began)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--loop", type=int, default=5)
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if reason := why_not():
        print(f"no box can run here: {reason}", file=sys.stderr)
        return 2
    ours: list[tuple[float, float, int]] = []
    theirs: list[float] = []
    with far_box(options.rtt_ms) as home:
        for number in range(options.rounds):
            theirs += loop(home, options.loop)
            ours.append(sweep(home, options.cells, number))
    took, used = (statistics.median(each[column] for each in ours) for column in (0, 1))
    trips, turn = max(each[2] for each in ours), statistics.median(theirs)
    whole = turn * options.cells
    title = f"{options.cells} cells handed over at {options.rtt_ms:g} ms"
    say(
        title,
        f"{took:.1f} s ({used:.1f} s of CPU), at most {trips} round trips; to be at most {MOST_S:g} s and {MOST_ROUND_TRIPS}",
    )
    say("the same by a loop of ssh", f"{turn:.2f} s a turn, so {whole:.0f} s: {whole / took:.0f}× as long")
    print(
        json.dumps(
            {"sweep_s": round(took, 2), "sweep_cpu_s": round(used, 2), "round_trips": trips, "loop_s": round(whole, 1)}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
