#!/usr/bin/env python3
"""Sync beside what people use today, `rsync -a` over ssh, in one run on the test fleet: ratios, not absolute numbers, are the result.

    python -m benchmarks.sync [--size-mb 2000] [--rounds 3] [--only short,loopback,wan,hosts,idle,shared]
                              [--cases far-64,far-132,far-1000,far-200-files,near-1000] [--folder DIR]

rsync gets the same connection settings and cipher, and verifies nothing afterwards; armada's time includes every SHA-256 and fsync.
Needs what the fleet needs (root, sshd, rsync). Times alternate between the two, and the median counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from armada.foundation.progress import NullProgress
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store import runs
from armada.sync.context import HostContext, SyncContext
from armada.sync.runs.sync_host import sync_host
from armada.sync.runs.sync_hosts import sync_hosts
from armada.sync.runs.sync_run import sync_run
from armada.transport.ssh.config_file import write_ssh_config
from armada.transport.ssh.resolve import resolve
from armada.verdicts.states import Verdict
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.fleet.remote_run import Remote


@dataclass(frozen=True)
class Wanted:
    """How large and how often."""

    size_mb: int
    rounds: int
    cases: frozenset[str]


def timed(action: Callable[[], object]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


@contextlib.contextmanager
def long_link(machine: machines.Machine, *options: str) -> Iterator[int]:
    """The tests' own bad link in front of a machine; its port."""
    command = [sys.executable, str(machines.HERE / "wan"), "127.0.0.1:0", f"{machine.address}:{machine.port}", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().split()[1])
    finally:
        process.terminate()
        process.wait()


def rsync_once(run: Remote, digest: str, target: Path) -> None:
    """What a user would type, with the very connection settings that armada uses."""
    config = write_ssh_config(resolve(run.host), run.home)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    source = f"armada-{run.host.name}:{run.folder}/outbox/{digest}/"
    subprocess.run(["rsync", "-a", "-e", f"ssh -F {config.name}", source, f"{target}/"], check=True, cwd=config.parent)


def armada_once(run: Remote) -> None:
    """The same checkpoint from nothing, in a conversation of its own."""
    with HostSession(run.host, run.home) as session:
        outcome = sync_run(SyncContext(run.database, session, run.home, run.run_id), insist=True)
    assert len(outcome.published) == 1, outcome


def forget(run: Remote) -> None:
    shutil.rmtree(run.home.checkpoints(run.run_id), ignore_errors=True)
    run.database.connection.execute("DELETE FROM checkpoints")
    run.database.connection.execute("DELETE FROM files_home")
    run.fleet.run(run.machine, f"rm -rf {run.folder}/outbox/*.ack {run.folder}/homes")


def side_by_side(title: str, run: Remote, files: dict[str, int], rounds: int) -> float:
    digest = run.save(1, files)
    size = sum(files.values())
    target = run.home.state / "plain rsync"
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(timed(lambda: rsync_once(run, digest, target)))
        shutil.rmtree(target)
        os.sync()
        forget(run)
        ours.append(timed(lambda: armada_once(run)))
        forget(run)
        os.sync()
    ratio = statistics.median(theirs) / statistics.median(ours)
    say(title, f"rsync -a {size / statistics.median(theirs) / 1e6:.0f} MB/s, armada {size / statistics.median(ours) / 1e6:.0f} MB/s"
        f" verified: {ratio:.2f}×")  # fmt: skip
    return ratio


def say(title: str, text: str) -> None:
    print(f"{title:<46} {text}", flush=True)


def loopback(fleet: Fleet, home: HomePaths, wanted: Wanted) -> dict[str, float]:
    run = Remote(home, fleet, "workstation", root())
    run.create()
    title = f"one file of {wanted.size_mb} MB, loopback"
    return {"loopback": side_by_side(title, run, {"model.safetensors": wanted.size_mb * 1_000_000}, wanted.rounds)}


def short(fleet: Fleet, home: HomePaths, wanted: Wanted) -> dict[str, float]:
    """What a home far away brings: an adapter, a larger one, a model, many small files; and a model from next door."""
    found = {}
    with long_link(fleet.host("a100-1"), "--rtt-ms", "100") as port:
        for name, title, files in FAR:
            if name not in wanted.cases:
                continue
            run = Remote(home, fleet, "a100-1", root(), port, name=name)
            run.create()
            found[name] = side_by_side(f"{title}, 100 ms round trip", run, files, wanted.rounds)
            drop(run)
    if "near-1000" in wanted.cases:
        run = Remote(home, fleet, "workstation", root(), name="near")
        run.create()
        found["near-1000"] = side_by_side("1 GB, loopback", run, {"model.safetensors": 1_000_000_000}, wanted.rounds)
        drop(run)
    return found


def drop(run: Remote) -> None:
    """Make room on the host for what is measured next."""
    run.session.disconnect()
    run.fleet.run(run.machine, f"rm -rf {run.folder}/outbox")


def wan(fleet: Fleet, home: HomePaths, wanted: Wanted) -> dict[str, float]:
    part = max(64, wanted.size_mb * 3 // 10)  # rsync takes half a minute for 600 MB
    found = {}
    with long_link(fleet.host("a100-1"), "--rtt-ms", "100") as port:
        for count in (1, 8):
            run = Remote(home, fleet, "a100-1", root(), port, name=f"far-{count}")
            run.create()
            files = {f"shard-{number}": part * 1_000_000 // count for number in range(count)}
            found[f"wan-{count}"] = side_by_side(
                f"{part} MB in {count} files, 100 ms round trip", run, files, max(1, wanted.rounds - 1)
            )
            forget(run)
    return found


def hosts(fleet: Fleet, home: HomePaths, wanted: Wanted) -> dict[str, float]:
    part = wanted.size_mb * 1_000_000 // 10
    with contextlib.ExitStack() as stack:
        everything = []
        for name, machine, speed in (
            ("one", "workstation", 400),
            ("two", "a100-1", 200),
            ("three", "a100-2", 400),
            ("dead", "a100-2", 400),
        ):
            port = stack.enter_context(long_link(fleet.host(machine), "--mbit", str(speed)))
            run = Remote(home, fleet, machine, root(), port, name=name)
            run.create()
            run.save(1, {"model": part})
            run.session.disconnect()
            everything.append(run)
        slowest = max(timed(lambda run=run: armada_once(run)) for run in everything[:3])  # type: ignore[misc]  # a default binds it
        for run in everything:
            run.database.connection.execute("DELETE FROM checkpoints")
            run.database.connection.execute("DELETE FROM files_home")
            shutil.rmtree(run.home.run(run.run_id), ignore_errors=True)
        configured = {run.host.name: run.host for run in everything}
        configured["dead"] = configured["dead"].model_copy(update={"ssh": f"root@127.0.0.1:{silent_port(stack)}"})
        chosen = [runs.find(run.database, run.run_id) for run in everything]
        began = time.monotonic()
        watch = Finished(len(everything) - 1)
        thread = threading.Thread(target=lambda: sync_hosts(home, configured, chosen, progress=watch, patience_s=0))
        thread.start()
        watch.all_home.wait()
        together = time.monotonic() - began
        thread.join()
    ratio = together / slowest
    say(
        "three hosts and a dead one at once",
        f"{together:.1f} s until all is home, the slowest alone {slowest:.1f} s: {ratio:.2f}×",
    )
    return {"hosts": ratio}


def silent_port(stack: contextlib.ExitStack) -> int:
    """A port that takes connections and never says a word: the slow way of being dead."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return int(server.getsockname()[1])


class Finished(NullProgress):
    """Notes when so many checkpoints have come home."""

    def __init__(self, count: int) -> None:
        self.all_home = threading.Event()
        self._left = count

    def stage(self, _name: str, _message: str) -> None:
        self._left -= 1
        if not self._left:
            self.all_home.set()


def idle(fleet: Fleet, home: HomePaths, wanted: Wanted) -> dict[str, float]:
    count = 200 if wanted.rounds else 1
    everything = []
    folder = root()
    for number in range(5):
        run = Remote(home, fleet, "workstation", folder, name=f"idle-{number}")
        run.create(keep_remote=count)
        for step in range(count):
            run.save(step, {"adapter": 100})
        runs.record(run.database, run.run_id, Verdict("succeeded", attempt=1, seq=1), observed_at=time.time())
        run.sync()
        everything.append(run)
    first = everything[0]
    asked = []
    original = HostSession.call

    def counting(self: HostSession, asking: object, *arguments: object, **options: object) -> object:
        asked.append(asking)
        return original(self, asking, *arguments, **options)  # type: ignore[call-overload]

    HostSession.call = counting  # type: ignore[method-assign, assignment]
    began, cpu = time.monotonic(), time.process_time()
    sync_host(HostContext(first.database, first.session, home), [run.run_id for run in everything])
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    HostSession.call = original  # type: ignore[method-assign]
    say(f"nothing new, 5 runs with {count} checkpoints each", f"{len(asked)} questions, {took:.2f} s, {cpu:.2f} s CPU")
    return {"idle_questions": float(len(asked)), "idle_cpu_s": cpu}


SECOND = """
import hashlib, json, os, sys
outbox, first = sys.argv[1:]
old, part = os.path.join(outbox, first), os.path.join(outbox, ".part-2")
manifest = json.load(open(os.path.join(old, "MANIFEST.json")))
os.mkdir(part)
os.link(os.path.join(old, "base.safetensors"), os.path.join(part, "base.safetensors"))
adapter = os.urandom(1000000)
open(os.path.join(part, "adapter"), "wb").write(adapter)
manifest["step"] = 2
for file in manifest["files"]:
    if file["path"] == "adapter":
        file["sha256"] = hashlib.sha256(adapter).hexdigest()
text = json.dumps(manifest)
open(os.path.join(part, "MANIFEST.json"), "w").write(text)
os.rename(part, os.path.join(outbox, hashlib.sha256(text.encode()).hexdigest()))
"""
"""A later checkpoint of the same run, as LoRA with a merged base or a frozen part makes them: one file is the same."""


def shared(fleet: Fleet, home: HomePaths, wanted: Wanted) -> dict[str, float]:
    run = Remote(home, fleet, "workstation", root(), name="shared")
    run.create()
    first = run.save(1, {"base.safetensors": wanted.size_mb * 500_000, "adapter": 1_000_000})
    before = timed(run.sync)
    argv = ["python3", "-", f"{run.folder}/outbox", first]
    machines.execute(machines.MACHINES["workstation"], argv, stdin=SECOND.encode())
    took = timed(run.sync)
    folder = run.home.checkpoints(run.run_id)
    inodes = {(folder / f"checkpoint-{step}" / "base.safetensors").stat().st_ino for step in (1, 2)}
    say(
        f"a second checkpoint, {wanted.size_mb // 2} MB of it the same",
        f"{took:.1f} s after {before:.1f} s, {'no byte of them moved' if len(inodes) == 1 else 'moved again'}",
    )
    return {"shared_s": took, "shared_inodes": float(len(inodes))}


def root() -> str:
    """A folder on a host that nobody else has; it is deleted when the benchmark ends."""
    return f"{ROOTS}-{uuid.uuid4().hex[:8]}"


ROOTS = "/tmp/armada-benchmark"
FAR: list[tuple[str, str, dict[str, int]]] = [
    ("far-64", "64 MB", {"adapter_model.safetensors": 64_000_000}),
    ("far-132", "132 MB", {"adapter_model.safetensors": 132_000_000}),
    ("far-1000", "1 GB", {"model.safetensors": 1_000_000_000}),
    ("far-200-files", "200 files of 100 kB", {f"part-{number:03}": 100_000 for number in range(200)}),
]
CASES = [*(name for name, _, _ in FAR), "near-1000"]
PARTS = {"short": short, "loopback": loopback, "wan": wan, "hosts": hosts, "idle": idle, "shared": shared}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--cases", default=",".join(CASES), help="of the part `short`")
    parser.add_argument("--folder", type=Path, default=None, help="where home is (a disk that counts)")
    options = parser.parse_args()
    if reason := machines.why_not():
        print(f"the fleet cannot run here: {reason}", file=sys.stderr)
        return 2
    found: dict[str, float] = {}
    wanted = Wanted(options.size_mb, options.rounds, frozenset(options.cases.split(",")))
    fleet = Fleet()
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            os.environ["ARMADA_HOME"] = folder
            home = HomePaths.from_environment()
            home.make()
            found |= PARTS[name](fleet, home, wanted)
        for machine in ("workstation", "a100-1", "a100-2"):
            fleet.run(machine, f"rm -rf {ROOTS}-*")
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
