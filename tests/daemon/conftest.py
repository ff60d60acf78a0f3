"""Homes with a daemon, whose processes are all gone after the test."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.paths import HomePaths
from armada.store.database import Database
from tests.conftest import Armada, eventually

SAVER = """
import json, os, sys, time
count, size, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
waits = "when-told" in sys.argv
outbox = os.path.join(os.environ["ARMADA_RUN_DIR"], "outbox")
for step in range(1, count + 1):
    while waits and not os.path.exists("save-%d" % step):
        time.sleep(0.05)
    part = os.path.join(outbox, ".part-%d" % step)
    os.makedirs(os.path.join(part, "sub"))
    open(os.path.join(part, "weights.bin"), "wb").write(os.urandom(size))
    open(os.path.join(part, "sub", "same.json"), "w").write("the same in all of them" * 1000)
    announcement = {"step": step, "kind": "periodic", "time": time.time(), "metrics": {}}
    open(os.path.join(part, ".announce.json"), "w").write(json.dumps(announcement))
    os.rename(part, os.path.join(outbox, ".new-%d" % step))
    time.sleep(pause)
"""


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """A daemon that ran in this process answers to its signals no longer."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def home(armada: Armada) -> HomePaths:
    base = armada.folder / "home"
    paths = HomePaths(config=base / "config", state=base / "state")
    paths.make()
    return paths


@pytest.fixture
def database(home: HomePaths) -> Iterator[Database]:
    with Database(home.store) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_daemon_stays(armada: Armada) -> Iterator[None]:
    """Kill what daemons a test left behind, those that only just begin and have no lock yet among them."""
    yield
    own = b"ARMADA_HOME=" + os.fsencode(armada.folder / "home") + b"\0"
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            if b"\0daemon\0run\0" in (folder / "cmdline").read_bytes() and own in (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGKILL)


def saver(
    armada: Armada, *, count: int, size: int = 20_000, pause_s: float = 0.1, when_told: bool = False, **more: Any
) -> str:
    """An experiment that saves so many checkpoints; if asked to, each only once there is a `save-STEP` in its folder."""
    told = ["when-told"] if when_told else []
    script = armada.folder / "save.py"
    script.write_text(SAVER)
    return armada.command(sys.executable, str(script), str(count), str(size), str(pause_s), *told, name="saver", **more)


def published(home: HomePaths, run_id: str) -> list[int]:
    """Steps of the checkpoints at home, every byte of each held against its manifest."""
    steps = []
    for folder in home.checkpoints(run_id).glob("checkpoint-*"):
        manifest = json.loads((folder / "MANIFEST.json").read_text())
        for file in manifest["files"]:
            content = (folder / file["path"]).read_bytes()
            assert (len(content), hashlib.sha256(content).hexdigest()) == (file["size"], file["sha256"])
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        assert names == {file["path"] for file in manifest["files"]} | {"MANIFEST.json"}
        steps.append(manifest["step"])
    return sorted(steps)


def all_home(armada: Armada, home: HomePaths, run_id: str) -> None:
    """Wait until the last sync of an ended run is done."""

    def so() -> bool:
        with Database(home.store) as database:
            row = database.connection.execute("SELECT final_done FROM run_sync WHERE run_id = ?", (run_id,)).fetchone()
            return bool(row and row[0])

    eventually(so)


def condition(armada: Armada) -> dict[str, Any]:
    answer: dict[str, Any] = armada.json("daemon", "status", rc=None)
    return answer
