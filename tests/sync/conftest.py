"""A run on this machine whose checkpoints and outputs tests write as they like, seen through the real agent."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from armada.config.hosts import Host
from armada.home import own
from armada.paths import HomePaths
from armada.rpc.session import HostSession
from armada.store import checkpoints, runs
from armada.store.database import Database
from armada.sync.context import SyncContext
from armada.sync.runs.report import SyncOutcome
from armada.sync.runs.sync_run import sync_run
from armada.verdicts.states import Verdict

RUN = "tune-1"
OPTIMIZER = {"optimizer.pt": b"o" * 50, "scheduler.pt": b"s", "rng_state_0.pth": b"r"}
"""What only a resume needs of a checkpoint."""


@dataclass
class Place:
    """Home, the host `local` and one run on it."""

    home: HomePaths
    database: Database
    session: HostSession
    settings: dict[str, Any] = field(default_factory=dict)
    run_id: str = RUN
    transfer: str | None = None

    @property
    def remote(self) -> Path:
        """The run's folder on the host."""
        return self.home.local_root / "runs" / self.run_id

    @property
    def published(self) -> Path:
        return self.home.checkpoints(self.run_id)

    @property
    def outputs(self) -> Path:
        return self.home.run(self.run_id) / "outputs"

    def create(self, **sync: Any) -> None:
        """Record the run at home and make it on the host."""
        spec = {
            "format": 1,
            "run_id": self.run_id,
            "name": self.run_id,
            "task": "command",
            "created_at": "2026-01-01T00:00:00+00:00",
            "host": "local",
            "profile": "cpu",
            "job": {"argv": ["true"], "env": {}, "code": None, "secrets": []},
            "gpus": 0,
            "processes": 1,
            "environment": None,
            "stop_grace_s": 5.0,
            "outbox": {"keep": 3, "disk_floor_bytes": 0},
            "training": None,
            "experiment": {},
            "sync": sync if self.transfer is None else {"transfer": self.transfer, **sync},
        }
        runs.insert(
            self.database,
            run_id=self.run_id,
            name=self.run_id,
            host="local",
            task="command",
            experiment=None,
            spec=spec,
        )
        question = {"run_id": self.run_id, "spec": spec, "files": {}, "secrets": {}}
        self.session.call("run.create", question)

    def save(
        self,
        step: int,
        files: Mapping[str, bytes],
        *,
        eval_loss: float | None = None,
        created_at: float | None = None,
        attempt: int = 1,
    ) -> str:
        """Put a finished checkpoint into the outbox; its digest."""
        listed = [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in sorted(files.items())
        ]
        metrics = {} if eval_loss is None else {"eval_loss": eval_loss}
        manifest = {
            "format": 1,
            "run_id": self.run_id,
            "attempt": attempt,
            "step": step,
            "kind": "periodic",
            "created_at": created_at or time.time(),
            "metrics": metrics,
            "files": listed,
        }
        if eval_loss is not None:
            with (self.remote / "metrics.jsonl").open("a") as stream:
                line = {"kind": "eval", "step": step, "time": time.time(), "attempt": 1, "eval_loss": eval_loss}
                stream.write(json.dumps(line) + "\n")
        return self.save_raw(json.dumps(manifest), files)

    def save_raw(self, manifest: str, files: Mapping[str, bytes]) -> str:
        """The same with a manifest of the test's own."""
        digest = hashlib.sha256(manifest.encode()).hexdigest()
        folder = self.remote / "outbox" / digest
        folder.mkdir(parents=True)
        for path, data in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        (folder / "MANIFEST.json").write_text(manifest)
        return digest

    def run_settings(self, **sync: Any) -> None:
        """Change what the run's spec says about its syncs."""
        spec = runs.spec(self.database, self.run_id)
        runs.set_spec(self.database, self.run_id, {**spec, "sync": {**spec["sync"], **sync}})

    @property
    def context(self) -> SyncContext:
        return SyncContext(self.database, self.session, self.home, self.run_id)

    def sync(self, **options: Any) -> SyncOutcome:
        return sync_run(self.context, **options)

    def end(self, state: str = "succeeded") -> None:
        runs.record(self.database, self.run_id, Verdict(state, None, None, 1, 99), observed_at=time.time())

    def home_steps(self) -> list[int]:
        return [c.step for c in checkpoints.of_run(self.database, self.run_id) if c.home_path is not None]

    def host_digests(self) -> set[str]:
        return {path.name for path in (self.remote / "outbox").iterdir() if len(path.name) == 64}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomePaths:
    monkeypatch.setenv("ARMADA_HOME", str(tmp_path / "armada home"))
    paths = HomePaths.from_environment()
    paths.make()
    own(paths)
    return paths


@pytest.fixture
def place(home: HomePaths, request: pytest.FixtureRequest) -> Iterator[Place]:
    """Home and the host `local`; a test of `both_ways` is run for each way in which checkpoints may come."""
    with Database(home.store) as database, HostSession(Host(name="local"), home, patience_s=0.0) as session:
        yield Place(home, database, session, transfer=getattr(request, "param", None))


both_ways = pytest.mark.parametrize("place", ["stream", "rsync"], indirect=True)
"""rsync runs between two folders of this machine; over SSH only the way there is another."""


def random_bytes(size: int) -> bytes:
    return os.urandom(size)


def leftovers(place: Place) -> list[Path]:
    """What a sync should not leave behind."""
    folder = place.published
    return [p for p in folder.rglob("*") if p.name.startswith((".staging", ".trash")) or p.name.endswith(".blocks")]
