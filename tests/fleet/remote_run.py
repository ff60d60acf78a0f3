"""A run on a host of the fleet with checkpoints made on the spot, for tests and benchmarks of sync."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path
from typing import Any

from armada.config.hosts import Host
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store import runs
from armada.store.database import Database
from armada.sync.context import SyncContext
from armada.sync.runs.report import SyncOutcome
from armada.sync.runs.sync_run import sync_run
from armada.transport.ssh.host_keys import pin, scan
from armada.transport.ssh.resolve import resolve
from tests.fleet import machines
from tests.fleet.conftest import Fleet

MAKE = r"""
import hashlib, json, os, sys, time
folder, step = sys.argv[1], int(sys.argv[2])
files = json.loads(sys.argv[3])
part = os.path.join(folder, "outbox", ".part-%d" % step)
os.makedirs(part)
listed = []
for name, size in sorted(files.items()):
    digest = hashlib.sha256()
    with open(os.path.join(part, name), "wb") as out:
        left = size
        while left:
            block = os.urandom(min(left, 1 << 20))
            digest.update(block); out.write(block); left -= len(block)
    listed.append({"path": name, "size": size, "sha256": digest.hexdigest()})
text = json.dumps({"format": 1, "run_id": "r", "attempt": 1, "step": step, "kind": "periodic", "created_at": time.time(),
                   "metrics": {}, "files": listed})
open(os.path.join(part, "MANIFEST.json"), "w").write(text)
digest = hashlib.sha256(text.encode()).hexdigest()
os.rename(part, os.path.join(folder, "outbox", digest))
print(digest)
"""


class Remote:
    """One run on one host of the fleet, seen from a home of the test's own."""

    def __init__(
        self,
        home: HomePaths,
        fleet: Fleet,
        machine: str,
        root: str,
        port: int | None = None,
        name: str | None = None,
        *,
        patience_s: float = 600.0,  # a test that is about a link that stays down says less
        transport: str = "fabric",
    ) -> None:
        up = fleet.host(machine)
        address = f"{up.user}@127.0.0.1:{port}" if port else up.target
        self.host = Host.model_validate(
            {
                "name": name or machine,
                "ssh": address,
                "identity": machines.IDENTITY,
                "root": root,
                "transport": transport,
            }
        )
        self.home, self.fleet, self.user = home, fleet, up.user
        self.machine = machine
        self.run_id = f"run-{name or machine}"
        self.folder = f"{root}/runs/{self.run_id}"
        pin(home, self.host.name, scan(resolve(self.host), home))
        self.database = Database(home.store)
        self.session = HostSession(self.host, home, patience_s=patience_s)

    def reach(self, port: int) -> None:
        """Go to the same machine by another way, as one does once a link is down."""
        self.session.close()
        self.host = self.host.model_copy(update={"ssh": f"{self.user}@127.0.0.1:{port}"})
        self.session = HostSession(self.host, self.home)

    def create(self, **sync: Any) -> None:
        spec: dict[str, Any] = {
            "format": 1, "run_id": self.run_id, "name": "r", "task": "command", "created_at": "2026-01-01T00:00:00+00:00",
            "host": self.host.name, "profile": "cpu", "job": {"argv": ["true"], "env": {}, "code": None, "secrets": []},
            "gpus": 0, "processes": 1, "environment": None, "stop_grace_s": 5.0,
            "outbox": {"keep": 3, "disk_floor_bytes": 0}, "training": None, "experiment": {}, "sync": sync,
        }  # fmt: skip
        runs.insert(
            self.database, run_id=self.run_id, name="r", host=self.host.name, task="command", experiment=None, spec=spec
        )
        self.session.call("run.create", {"run_id": self.run_id, "spec": spec, "files": {}, "secrets": {}})

    def save(self, step: int, files: dict[str, int]) -> str:
        """Make a checkpoint of random files of these sizes; its digest."""
        argv = ["python3", "-", self.folder, str(step), json.dumps(files)]
        machine = machines.MACHINES[self.machine]
        said = machines.execute(
            machine, ["su", "-s", "/bin/sh", self.user, "-c", shlex.join(argv)], stdin=MAKE.encode()
        )
        return said.decode().strip()

    @property
    def context(self) -> SyncContext:
        return SyncContext(self.database, self.session, self.home, self.run_id)

    def sync(self, **options: Any) -> SyncOutcome:
        return sync_run(self.context, **options)

    def is_right(self, place: Path) -> bool:
        manifest = json.loads((place / "MANIFEST.json").read_text())
        return all(
            hashlib.sha256((place / file["path"]).read_bytes()).hexdigest() == file["sha256"]
            for file in manifest["files"]
        )

    def leftovers(self) -> list[Path]:
        folder = self.home.checkpoints(self.run_id)
        return [p for p in folder.rglob("*") if p.name.startswith((".staging", ".trash")) or p.name.endswith(".blocks")]

    def close(self) -> None:
        self.session.close()
        self.database.close()
