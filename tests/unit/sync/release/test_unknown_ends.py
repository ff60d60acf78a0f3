"""Whether a host can be destroyed while nobody knows how a run ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database
from armada.sync.context import HostContext
from armada.sync.release.judge import judge_host, losses, settle_stopped
from tests.answers import Answering


class Session(Answering):
    """A host with one run, all of which is home."""

    host = SimpleNamespace(name="box")

    def __init__(self, evidence: dict[str, Any]) -> None:
        self.evidence = evidence

    def said(self, method: str, _params: dict[str, Any], /, **_: Any) -> Any:
        looked = {"run_id": "q-aaaaaa", "exists": True, "outbox": [], "announced": 0, "outputs": []}
        answers: dict[str, dict[str, Any]] = {
            "run.list": {"runs": [{"run_id": "q-aaaaaa"}]},
            "sync.look": {"root": "r", "runs": [looked]},
            "run.observe": {"root": "r", "runs": [{"run_id": "q-aaaaaa", "exists": True, "evidence": self.evidence}]},
        }
        return answers[method]


# An older agent calls the supervisor of a job that its scheduler no longer lists dead.
@pytest.mark.parametrize("supervisor", ["unknown", "dead"])
def test_a_host_whose_run_is_only_gone_from_the_queue_cannot_be_destroyed(tmp_path: Path, supervisor: str) -> None:
    database = Database(tmp_path / "store.db")
    runs.insert(database, run_id="q-aaaaaa", name="q", host="box", task="sft", experiment=None, spec={})
    home = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    job = {"number": 1, "claimed": True, "job": {"submission": 1, "scheduler": "slurm"}}
    evidence: dict[str, Any] = {
        "supervisor": supervisor,
        "processes": 0,
        "submission": job,
        "scheduler": {"state": "gone"},
    }
    (item,) = losses(judge_host(HostContext(database, Session(evidence), home)))  # type: ignore[arg-type]  # all that is used of a session
    assert "no end was recorded" in item.what
    ended: dict[str, Any] = {**evidence, "supervisor": "dead", "scheduler": {"state": "ended"}}
    assert losses(judge_host(HostContext(database, Session(ended), home))) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(("wished", "processes", "settled"), [(True, 0, True), (False, 0, False), (True, 1, False)])
def test_a_run_that_was_stopped_before_its_scheduler_forgot_it_no_longer_holds_its_host(
    wished: bool, processes: int, settled: bool
) -> None:
    asked: list[str] = []
    waits: list[float] = []

    class Stopping(Session):
        def said(self, method: str, _params: dict[str, Any], /, **_: Any) -> Any:
            if method == "run.stop":
                asked.append(_params["run_id"])
                return {"outcome": "stopping"}
            return super().said(method, _params)

    gone = {"supervisor": "unknown", "processes": processes, "stop_wished": wished, "scheduler": {"state": "gone"}}
    session = Stopping(gone)

    def ends(seconds: float) -> None:
        waits.append(seconds)
        session.evidence = {**gone, "scheduler": {"state": "ended"}}

    found = settle_stopped(session, sleep=ends)  # type: ignore[arg-type]  # all that is used of a session
    assert found == asked == (["q-aaaaaa"] if settled else [])
    assert len(waits) == (1 if settled else 0)


@pytest.mark.parametrize(
    "seen",
    [{"run_id": "q-aaaaaa", "exists": "perhaps"}, {"run_id": "q-aaaaaa", "exists": False}],
    ids=["an answer that does not fit", "its folder was removed meanwhile"],
)
def test_only_a_run_whose_host_shows_it_is_stopped_once_more(seen: dict[str, Any]) -> None:
    gone = {"supervisor": "unknown", "processes": 0, "stop_wished": True, "scheduler": {"state": "gone"}}

    class Odd(Session):
        def said(self, method: str, _params: dict[str, Any], /, **_: Any) -> Any:
            if method != "run.observe":
                return super().said(method, _params)
            return {"root": "r", "runs": [{**seen, "evidence": gone}]}

    assert settle_stopped(Odd(gone), sleep=lambda _: None) == []  # type: ignore[arg-type]  # all that is used of a session
