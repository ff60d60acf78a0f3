"""What a host may answer of a run, and how it gets into a store."""

from __future__ import annotations

from typing import Any

from armada.monitor.observe import observe
from armada.store import runs
from armada.store.database import Database
from tests.answers import answered

STATE = {"state": "running", "attempt": 1, "seq": 4, "submission": 1, "started_at": 1_795_000_000.0, "gpus": [0]}
LINE = {"kind": "train", "step": 7, "time": 1_795_000_100.0, "loss": 2.5}


class Host:
    """Answers as a host does."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry

    def call_all(self, questions: list[Any]) -> list[Any]:
        return answered(questions, [{"runs": [self.entry]} for _ in questions])


def entry(*, state: dict[str, Any] | None = None, beat: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    evidence = {
        "submission": {"number": 1, "claimed": True, "job": {"submission": 1}},
        "supervisor": "alive",
        "state": {**STATE, **(state or {})},
        "attempt": {"number": 1, "run": {"submission": 1}, "exit": None},
        "heartbeat": {"phase": "training", "step": 7, "total_steps": 90, **(beat or {})},
    }
    return {"run_id": "q-aaaaaa", "exists": True, "evidence": evidence, "log_size_bytes": 10, **more}


def of_slurm(word: str, **state: Any) -> dict[str, Any]:
    seen = entry(state=state)
    scheduler_status = {
        "state": word,
        "seen_at": 1.0,
        "detail": None,
        "reason": None,
        "message": None,
        "node": None,
        "error": None,
    }
    job = {"submission": 1, "scheduler": "slurm", "job_id": "11"}
    seen["evidence"] |= {
        "supervisor": "unknown", "scheduler": scheduler_status, "submission": {"number": 1, "claimed": True, "job": job},
    }  # fmt: skip
    return seen


def ended_by_slurm(**more: Any) -> dict[str, Any]:
    seen = of_slurm("ended")
    seen["evidence"]["scheduler"] |= {"detail": "NODE_FAIL", "reason": "node_failure"}
    seen["evidence"] |= {"supervisor": "dead", **more}
    return seen


def see(database: Database, seen: dict[str, Any]) -> runs.Run:
    observe(database, Host(seen), [runs.find(database, "q-aaaaaa")])  # type: ignore[arg-type]  # all that is used of a session
    return runs.find(database, "q-aaaaaa")
