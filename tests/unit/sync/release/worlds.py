"""A home, and a host that shows what a test says, for what a release would lose."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from armada.paths import HomePaths
from armada.store import run_sync, runs
from armada.store.database import Database
from armada.sync.context import HostContext
from armada.sync.release.judge import judge_host, losses
from armada.verdicts.release import Item
from armada.verdicts.states import Verdict
from tests.answers import Answering

RUN = "q-aaaaaa"
DIGEST = "d" * 64
CHECKPOINT = {"digest": DIGEST, "step": 5, "size_bytes": 7, "file_count": 1, "created_at": 1.0}
OTHER = {"id": "b" * 32, "label": "ann@desktop", "path": "/home/ann", "held": [DIGEST], "unwanted": [], "settled": True}
CLAIMED = {"number": 1, "claimed": True, "job": None}


class World(Answering):
    """This home, and a host that shows what a test says."""

    host = SimpleNamespace(name="box")

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder / "store.db")
        self.paths = HomePaths(config=folder / "config", state=folder)
        self.listed = [RUN]
        self.look: dict[str, Any] = {}
        self.evidence: dict[str, Any] | None = {"supervisor": "dead", "processes": 0}
        self.root = "r"
        self.vanished: dict[str, Any] = {}
        self.to_come: list[str] = []
        self.submission, self.resumed = 1, 0

    def insert(self, **spec: Any) -> None:
        runs.insert(self.database, run_id=RUN, name="q", host="box", task="sft", experiment=None, spec=spec)

    def settle(self, left_there: int | None = 0) -> None:
        """A run of which all has come home; its host has so many things that do not come."""
        runs.record(self.database, RUN, Verdict("succeeded", None, None, 1, 1), submission=1)
        assert run_sync.succeeded(self.database, RUN, began=1.0, next_due_at=None, final_of=1, left_there=left_there)

    shows: bool | None = None
    """Whether it shows the run's folder, whatever it lists."""
    remains: dict[str, Any] | None = None
    strange: tuple[str, ...] = ()

    def said(self, method: str, _params: dict[str, Any], /, **_: Any) -> Any:
        looked = {"run_id": RUN, "exists": True, "outbox": [], "announced": 0, "outputs": [], **self.look}
        exists = RUN in self.listed if self.shows is None else self.shows
        observed = {"run_id": RUN, "exists": exists, "evidence": self.evidence, "remains": self.remains}
        answers: dict[str, dict[str, Any]] = {
            "run.list": {
                "runs": [{"run_id": run_id, "submission": self.submission} for run_id in self.listed],
                "strange": list(self.strange),
            },
            "sync.look": {"root": self.root, "runs": [looked]},
            "run.observe": {"root": self.root, "runs": [observed]},
            "host.forget_secrets": {"removed": [], "kept": []},
        }
        if method == "run.list":
            self.listed = [*self.listed, *self.to_come]
            self.submission += self.resumed
        if method in self.vanished:
            return {**answers[method], "runs": self.vanished[method]}
        return answers[method]

    def judge(self, **options: Any) -> list[Item]:
        return judge_host(HostContext(self.database, self, self.paths), **options)  # type: ignore[arg-type]  # all that is used of a session

    def lost(self) -> list[str]:
        return [item.what for item in losses(self.judge())]
