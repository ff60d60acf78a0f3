"""Looking after the sweeps of a host: what is wrong with one of them says nothing about the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from armada.errors import ArmadaError, LinkLost
from armada.store import runs, sweeps
from armada.store.database import Database
from armada.sweeps.stopping import TOLD_TO_STOP
from armada.sweeps.tending import Tending
from armada.verdicts.states import Verdict


class Session:
    """Stops cells, but for one."""

    host = SimpleNamespace(name="box")

    def __init__(self, refused: str, error: ArmadaError) -> None:
        self._refused = refused
        self._error = error
        self.stopped: list[str] = []
        self.asked: list[str] = []

    def call(self, request: Any, **_: Any) -> None:
        self.asked.append(request.method)
        raise self._error

    def call_all(self, calls: list[Any]) -> list[Any]:
        told = [call.params["run_id"] for call in calls]
        if self._refused in told and isinstance(self._error, LinkLost):
            raise self._error
        self.stopped += told
        return [self._error if each == self._refused else None for each in told]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "store.db") as found:
        for name in ("a-1", "b-1", "c-1"):
            sweeps.insert(found, name=name, title=name, experiment=None, launch_key=name, settings={})
            spec = {"sweep": {"id": name, "cell": 1}}
            runs.insert(found, run_id=f"{name}-001", name=name, host="box", task="sft", experiment=None, spec=spec)
            runs.record(found, f"{name}-001", Verdict("running", None, None, 1, 3))
            if name != "c-1":
                sweeps.set_state(found, name, "stopped", TOLD_TO_STOP)
            else:
                sweeps.set_state(found, name, "started")
        yield found


def test_a_sweep_of_which_a_cell_cannot_be_stopped_keeps_no_other_from_its_rules(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "has_waiting", lambda *_: True)
    session = Session("a-1-001", ArmadaError("scancel: error: Access denied"))
    Tending(session, dict).look(database)  # type: ignore[arg-type]  # all that is used of a session
    assert (session.stopped, session.asked) == (["a-1-001", "b-1-001"], ["sweep.tend"])


def test_a_link_that_is_lost_ends_the_look(database: Database) -> None:
    session = Session("a-1-001", LinkLost("the link broke"))
    with pytest.raises(LinkLost):
        Tending(session, dict).look(database)  # type: ignore[arg-type]  # all that is used of a session
    assert session.stopped == []
