"""How long the daemon takes to look at every host, against the slowest host alone.

    python benchmarks/refresh.py [--hosts 5] [--runs 50] [--rtt-ms 100] [--rounds 9]

Real OpenSSH servers of tests/fleet (root, openssh-server), each behind a long link of its own. In a round every host is looked at
alone, then all at once, so that a busy machine slows both. Aims: one round trip for each host and look, and all hosts within 1.3× the
slowest.
"""

from __future__ import annotations

import argparse
import fcntl
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from armada.config.hosts import Host
from armada.daemon.host_status import HostStatusRegistry
from armada.daemon.watcher import Watcher
from armada.paths import HomePaths
from armada.rpc.client import Call
from armada.rpc.session import HostSession
from armada.store import runs
from armada.store.database import Database
from armada.transport.ssh.handshake import scan
from armada.transport.ssh.host_keys import pin
from armada.transport.ssh.resolve import resolve
from tests.fleet import machines

MACHINES = ("workstation", "a100-1", "a100-2")
COMMAND = {"argv": ["true"], "env": {}, "code": None, "secrets": []}


@dataclass
class Watched:
    """A host behind a link of its own, with runs on it."""

    name: str
    link: subprocess.Popen[str]
    count: Path
    watcher: Watcher

    def look_s(self, home: HomePaths) -> tuple[float, int]:
        """Look once; the seconds and the round trips it took."""
        with Database(home.store) as database:
            before, began = self.round_trips(), time.perf_counter()
            self.watcher.look(database)
            return time.perf_counter() - began, self.round_trips() - before

    def round_trips(self) -> int:
        return int(self.count.read_text().split()[-1])


def watch(home: HomePaths, number: int, runs_each: int, rtt_ms: float, folder: Path) -> Watched:
    machine = machines.MACHINES[MACHINES[number % len(MACHINES)]]
    machines.start([machine])
    count = folder / f"count-{number}"
    command = [sys.executable, str(machines.HERE / "wan"), "127.0.0.1:0", f"{machine.address}:{machine.port}"]
    link = subprocess.Popen(
        [*command, "--rtt-ms", str(rtt_ms), "--count", str(count)], stdout=subprocess.PIPE, text=True
    )
    assert link.stdout is not None
    address = f"{machine.user}@127.0.0.1:{link.stdout.readline().split()[1]}"
    root = f"/tmp/refresh-{uuid.uuid4().hex[:8]}"
    host = Host(name=f"host-{number}", ssh=address, identity=machines.IDENTITY, root=root)
    pin(home, host.name, scan(resolve(host), home))
    run_ids = [f"run-{number}-{each:06}" for each in range(runs_each)]
    with HostSession(host, home) as session, Database(home.store) as database:
        session.call_all([Call("run.create", creation(run_id), 300.0) for run_id in run_ids])
        for run_id in run_ids:
            runs.insert(database, run_id=run_id, name=run_id, host=host.name, task="command", experiment=None, spec={})
    return Watched(host.name, link, count, Watcher(host, home, HostStatusRegistry()))


def creation(run_id: str) -> dict[str, object]:
    outbox = {"keep": 3, "disk_floor_bytes": 0}
    spec = {
        "format": 1,
        "run_id": run_id,
        "name": run_id,
        "task": "command",
        "job": COMMAND,
        "gpus": 0,
        "outbox": outbox,
    }
    spec |= {"created_at": "2026-01-01T00:00:00+00:00", "host": "x", "stop_grace_s": 5.0, "experiment": {}}
    return {"run_id": run_id, "spec": spec, "files": {}, "secrets": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rtt-ms", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if reason := machines.why_not():
        raise SystemExit(f"the fleet cannot run here: {reason}")
    machines.CACHE.mkdir(parents=True, exist_ok=True)
    with (
        (machines.CACHE / f"{machines.STATE.name}.users").open("w") as users,
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(options.hosts) as pool,
    ):
        fcntl.flock(users, fcntl.LOCK_SH)  # tests that end meanwhile leave the hosts up
        home = HomePaths(Path(folder) / "config", Path(folder) / "state")
        home.make()
        hosts = [watch(home, each, options.runs, options.rtt_ms, Path(folder)) for each in range(options.hosts)]
        try:
            list(pool.map(lambda each: each.look_s(home), hosts))  # connects
            measure(home, hosts, pool, options.rounds)
        finally:
            for each in hosts:
                each.watcher.close()
                each.link.terminate()
                each.link.wait()


def measure(home: HomePaths, hosts: list[Watched], pool: ThreadPoolExecutor, rounds: int) -> None:
    ratios, slowest, together, trips = [], [], [], set()
    for _ in range(rounds):
        alone = [each.look_s(home) for each in hosts]
        began = time.perf_counter()
        at_once = list(pool.map(lambda each: each.look_s(home), hosts))
        together.append(time.perf_counter() - began)
        slowest.append(max(seconds for seconds, _ in alone))
        ratios.append(together[-1] / slowest[-1])
        trips |= {count for _, count in (*alone, *at_once)}
    ratios.sort()
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    print(f"round trips a look        {', '.join(map(str, sorted(trips)))}")
    print(f"slowest host alone        {statistics.median(slowest) * 1000:6.0f} ms")
    print(
        f"all {len(hosts)} hosts at once      {statistics.median(together) * 1000:6.0f} ms   "
        f"{statistics.median(ratios):.2f}× (80 %: {low:.2f}–{high:.2f})"
    )


if __name__ == "__main__":
    main()
