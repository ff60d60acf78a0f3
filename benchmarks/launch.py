#!/usr/bin/env python3
"""A launch beside what people type today, `ssh host python3 train.py`, and files for four hosts beside files for one, on the test fleet.

    python -m benchmarks.launch [--size-mb 500] [--mbit 100] [--rounds 3] [--only first-step,staging,environment]

Needs what the fleet needs (root, sshd, rsync). Times alternate between the two, and the median counts.

- first-step: from the command to the first step of a script behind a link of 50 ms: a pasted `ssh` line of a new host, and of a
  known one. The hosts share this machine's clock, which the script reads at its first step.
- staging: `files:` of one size to one host and to four at once, each behind a link of its own.
- environment: whether a host has a run's environment, asked over an open session.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from armada.config.hosts import Host
from armada.config.profiles import load_profile
from armada.paths import HomePaths
from armada.protocol.facts import AskFacts
from armada.provision.environment import plan_environment
from armada.rpc.session import HostSession
from benchmarks.sync import long_link, say
from tests.fleet import machines
from tests.fleet.conftest import Fleet

FLEET = ("workstation", "a100-1", "a100-2", "condor")
CLEAN = "(chmod -R u+w ~/.armada; rm -rf ~/.armada) 2>/dev/null || true"  # environments are mounted there
STEP = "import os, time\nopen(os.environ['SEEN'], 'w').write(repr(time.time()))\n"
"""A training as far as its first step. What it imports before takes as long either way."""


@dataclass(frozen=True)
class Wanted:
    size_mb: int
    mbit: int
    rounds: int


@dataclass(frozen=True)
class Home:
    """A home of its own, and armada's commands in it."""

    folder: Path

    def armada(self, *words: str) -> str:
        env = {**os.environ, "ARMADA_HOME": str(self.folder / "home"), "ARMADA_NO_DAEMON": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "armada", *words], env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"armada {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


@contextlib.contextmanager
def new_home() -> Iterator[Home]:
    with tempfile.TemporaryDirectory() as folder:
        yield Home(Path(folder))


def first_step(fleet: Fleet, wanted: Wanted) -> dict[str, float]:
    machine = fleet.host("a100-1")
    ours: dict[str, list[float]] = {"new": [], "known": []}
    theirs = []
    with long_link(machine, "--rtt-ms", "50") as port:
        fleet.run(machine.name, "mkdir -p /tmp/plain && cat > /tmp/plain/train.py", stdin=STEP.encode())
        plain = ["ssh", "-p", str(port), "-i", str(machines.IDENTITY), "-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null",
                 "-oLogLevel=ERROR", f"{machine.user}@127.0.0.1"]  # fmt: skip
        line = f"ssh -p {port} -i {machines.IDENTITY} {machine.user}@127.0.0.1"
        for _ in range(wanted.rounds):
            theirs.append(until_step(fleet, lambda at: run([*plain, f"cd /tmp/plain && SEEN={at} python3 train.py"])))
            with new_home() as home:
                (home.folder / "project").mkdir()
                home.write("project/train.py", STEP)
                for which in ("new", "known"):

                    def launch(at: str, home: Home = home, which: str = which) -> None:
                        argv = ["python3", "train.py"]
                        experiment = {
                            "name": which,
                            "task": "command",
                            "command": argv,
                            "code": "project",
                            "env": {"SEEN": at},
                        }
                        file = home.write(f"{which}.yaml", json.dumps(experiment))
                        home.armada("launch", "--on", line, str(file), "--yes", "--profile", "cpu")

                    ours[which].append(until_step(fleet, launch))
            fleet.run(machine.name, CLEAN)
    usual = statistics.median(theirs)
    found = {}
    for which, title in (("new", "from a pasted line, a new host"), ("known", "from a pasted line, a known host")):
        took = statistics.median(ours[which])
        say(f"first step {title}, 50 ms", f"ssh {usual:.1f} s, armada {took:.1f} s: {took - usual:+.1f} s")
        found[f"first_step_{which}_more_s"] = took - usual
    return found


def add(home: Home, name: str, target: str) -> None:
    home.armada("hosts", "add", name, target, "--identity", str(machines.IDENTITY), "--yes", "--profile", "cpu")


def until_step(fleet: Fleet, start: Callable[[str], object]) -> float:
    """Return the seconds from a command's start to the script's first step."""
    at = f"/tmp/seen-{uuid.uuid4().hex[:8]}"
    began = time.time()
    start(at)
    while not (seen := fleet.run("a100-1", f"cat {at} 2>/dev/null || true").strip()):
        time.sleep(0.05)
    return float(seen) - began


def run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def staging(fleet: Fleet, wanted: Wanted) -> dict[str, float]:
    names = FLEET
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(new_home())
        for name in names:
            machine = fleet.host(name)
            port = stack.enter_context(long_link(machine, "--rtt-ms", "50", "--mbit", str(wanted.mbit)))
            add(home, name, f"{machine.user}@127.0.0.1:{port}")
        one: list[float] = []
        all_: list[float] = []
        for _ in range(wanted.rounds):
            for times, among in ((one, names[:1]), (all_, names)):
                data = home.folder / f"data-{uuid.uuid4().hex[:8]}"
                write_random(data, wanted.size_mb)
                experiment = {"name": data.name, "task": "command", "command": ["true"], "files": {"data": str(data)}}
                file = home.write(f"{data.name}.yaml", json.dumps(experiment))
                began = time.monotonic()
                with ThreadPoolExecutor(len(among)) as pool:
                    list(pool.map(lambda name, file=file: home.armada("launch", "--host", name, str(file)), among))
                times.append(time.monotonic() - began)
                data.unlink()
    ratio = statistics.median(all_) / statistics.median(one)
    title = f"{wanted.size_mb} MB of files, {wanted.mbit} Mbit/s to each host"
    say(
        title,
        f"one host {statistics.median(one):.1f} s, {len(names)} at once {statistics.median(all_):.1f} s: {ratio:.2f}×",
    )
    for name in names:
        fleet.run(name, CLEAN, user=fleet.host(name).user)
    return {f"staging_{len(names)}_hosts": ratio}


def write_random(path: Path, size_mb: int) -> None:
    with path.open("wb") as stream:
        for _ in range(size_mb):
            stream.write(os.urandom(1_000_000))


def environment(fleet: Fleet, wanted: Wanted) -> dict[str, float]:
    machine = fleet.host("workstation")
    with new_home() as home:
        add(home, "near", machine.target)
        os.environ["ARMADA_HOME"] = str(home.folder / "home")
        paths = HomePaths.from_environment()
        profile = load_profile("cpu", paths)
        with HostSession(Host(name="near", ssh=machine.target, identity=machines.IDENTITY), paths) as session:
            facts = session.call(AskFacts())
            times = []
            for _ in range(10 * wanted.rounds):
                began = time.monotonic()
                plan_environment(session, profile, facts)
                times.append(time.monotonic() - began)
        fleet.run("workstation", CLEAN, user="researcher")
    say(
        "is the environment there, over an open session",
        f"{statistics.median(times):.3f} s, at most {max(times):.3f} s",
    )
    return {"environment_s": statistics.median(times)}


PARTS = {"first-step": first_step, "staging": staging, "environment": environment}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=int, default=500)
    parser.add_argument("--mbit", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    options = parser.parse_args()
    if reason := machines.why_not():
        print(f"the fleet cannot run here: {reason}", file=sys.stderr)
        return 2
    wanted = Wanted(options.size_mb, options.mbit, options.rounds)
    fleet = Fleet()
    found: dict[str, float] = {}
    for name in options.only.split(","):
        found |= PARTS[name](fleet, wanted)
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
