"""Too much of everything on one host: a log that floods, hundreds of runs at once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.errors import ArmadaError
from armada.monitor.observe import observe
from armada.paths import HomePaths
from armada.rpc.client import Call
from armada.rpc.session import HostSession
from armada.store import runs
from armada.store.database import Database
from tests.agent.conversation import spec_of
from tests.conftest import Armada, eventually

LONG = "ARMADA_FAULT_KILLS" in os.environ
LOG_MB = 500 if LONG else 40
RUNS = 200 if LONG else 12
SPARE_KIB = 24_000
"""What a program may take for a flood beyond what it takes for one line; a tenth of the short flood would be over it."""

FLOOD = """
import sys
line = "%09d " + "x" * 90 + "\\n"
for number in range(0, int(sys.argv[1]), 1000):
    sys.stdout.write("".join(line % each for each in range(number, number + 1000)))
"""


def peak_kib(armada: Armada, *words: str, into: Path) -> int:
    """Run a command to its end with its words in a file; the most memory it held."""
    with into.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "armada", *words],
            cwd=armada.folder,
            env=armada.env,
            stdin=subprocess.DEVNULL,
            stdout=out,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


def supervisor_peak_kib(folder: Path) -> int:
    pid = json.loads((folder / "attempts/1/run.json").read_text())["supervisor"]["pid"]
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1])


@pytest.mark.fault("a log that floods", "its tail is right, all of it can be read, memory stays flat on both sides")
def test_a_flood_of_log_costs_no_memory_and_its_tail_is_right(
    armada: Armada, record_property: Callable[[str, object], None]
) -> None:
    (armada.folder / "flood.py").write_text(FLOOD)
    lines = LOG_MB * 10_000  # of 101 bytes
    flood = f"python3 {armada.folder / 'flood.py'} {lines}; touch flooded; while [ ! -e go ]; do sleep 0.1; done"
    run_id = armada.json("launch", "--host", "local", armada.command("sh", "-c", f"echo first; {flood}"))["run_id"]
    folder = armada.local_runs / run_id
    quiet_id = armada.json(
        "launch", "--host", "local", armada.command("sh", "-c", "echo first; sleep 1000", name="quiet")
    )["run_id"]
    eventually((folder / "work" / "flooded").exists, within_s=300)
    eventually((armada.local_runs / quiet_id / "attempts/1/run.json").exists)
    tail = armada.run("logs", run_id, "--tail", "3").stdout.splitlines()
    assert [line.split()[0] for line in tail] == [f"{number:09d}" for number in range(lines - 3, lines)]
    assert {len(line) for line in tail} == {100}
    quiet = supervisor_peak_kib(armada.local_runs / quiet_id)
    assert supervisor_peak_kib(folder) - quiet < SPARE_KIB
    (folder / "work" / "go").touch()
    eventually(lambda: {run["run_id"]: run["state"] for run in armada.json("ps")}[run_id] == "succeeded")
    little = peak_kib(armada, "logs", quiet_id, into=armada.folder / "little")
    much = peak_kib(armada, "logs", run_id, "--from", "0", into=armada.folder / "much")
    assert much - little < SPARE_KIB
    assert (armada.folder / "much").read_bytes() == (folder / "output.log").read_bytes()
    record_property("seen", f"{LOG_MB} MB; {(much - little) / 1024:.0f} MiB more than for one line to read it all")


@pytest.mark.fault("hundreds of runs on one host at once", "each is started once, seen in one look, and ended")
def test_hundreds_of_runs_on_one_host_are_started_seen_and_ended(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    home.make()
    host = Host(name="local", local=True, root=str(tmp_path / "root"))
    run_ids = [f"many-{number:06}" for number in range(RUNS)]
    with HostSession(host, home) as session, Database(home.store) as database:
        for run_id in run_ids:
            runs.insert(database, run_id=run_id, name="many", host="local", task="command", experiment=None, spec={})
        script = "echo start >> starts; exec sleep 1000"
        started = session.call_all(
            [Call("run.create", creation(run_id, "sh", "-c", script), timeout_s=600.0) for run_id in run_ids]
        )
        try:
            assert [str(answer) for answer in started if isinstance(answer, ArmadaError)] == []

            def states() -> dict[str, int]:
                observe(database, session, runs.every(database))
                words = [run.state for run in runs.every(database)]
                return {word: words.count(word) for word in words}

            eventually(lambda: states() == {"running": RUNS}, within_s=300)
            again = session.call_all([Call("run.create", creation(run_id, "sh", "-c", script)) for run_id in run_ids])
            assert {answer["submitted"]["outcome"] for answer in again if isinstance(answer, dict)} == {"already"}
        finally:
            session.call_all([Call("run.stop", {"run_id": run_id, "grace_s": 1.0}, 600.0) for run_id in run_ids])
        eventually(lambda: states() == {"cancelled": RUNS}, within_s=300)
    counts = {(tmp_path / "root" / "runs" / run_id / "work" / "starts").read_text() for run_id in run_ids}
    assert counts == {"start\n"}
    record_property("seen", f"{RUNS} runs, each started once")


def creation(run_id: str, *argv: str) -> dict[str, Any]:
    return {"run_id": run_id, "spec": spec_of(run_id, *argv), "files": {}, "secrets": {}, "submission": 1}
