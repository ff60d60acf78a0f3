"""What home records of cells that are handed over, while the daemon watches them and somebody may stop some."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.errors import ArmadaError, Conflict, LinkLost, OutcomeUnknown, ProvisionFailed
from armada.store import runs, sweeps
from armada.store.database import Database
from armada.sweeps import hand_over as handing
from armada.sweeps import service
from armada.sweeps.planning import HostShare
from armada.verdicts.states import Verdict

if TYPE_CHECKING:
    from armada.launch.plans.plan import Plan
    from armada.rpc.session import HostSession
    from armada.sweeps.planning import Asked

STOPPED = Verdict("cancelled", "killed_by_user", None, 0, 0, runs.OWN_WORD)
SEEN = {
    "g-1-001": None,
    "g-1-002": Verdict("running", None, None, 1, 3),
    "g-1-003": Verdict("succeeded", None, None, 1, 5),
    "g-1-004": STOPPED,
}
"""What somebody else records of each cell while the request is on its way."""


class Host:
    """Takes all cells, or answers with an error."""

    host = SimpleNamespace(name="box", batch=None)

    def __init__(self, database: Database, error: ArmadaError | None) -> None:
        self._database = database
        self._error = error
        self.is_asked = False
        self.stopped: list[str] = []
        self.refusal: ArmadaError | None = None

    def call(self, *_: Any, **__: Any) -> Any:
        self.is_asked = True
        for run_id, seen in SEEN.items():
            if seen is not None:
                runs.record(self._database, run_id, seen)
        if self._error is not None:
            raise self._error
        return SimpleNamespace(cells=[SimpleNamespace(run_id=each, outcome="claimed") for each in SEEN], arrays=())

    def call_all(self, calls: list[Any]) -> list[Any]:
        self.stopped += [call.params["run_id"] for call in calls]
        return [self.refusal for _ in calls]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "store.db") as found:
        sweeps.insert(found, name="g-1", title="g", experiment=None, launch_key="k", settings={})
        for number, run_id in enumerate(SEEN, 1):
            spec = {"sweep": {"id": "g-1", "cell": number}}
            runs.insert(found, run_id=run_id, name="g", host="box", task="sft", experiment=None, spec=spec)
        yield found


def share_of(session: object) -> HostShare:
    plans = [cast("Plan", SimpleNamespace(run_id=run_id)) for run_id in SEEN]
    return HostShare(cast("HostSession", session), 2, plans)


def known(database: Database) -> list[tuple[str, str | None]]:
    return [(run.state, run.reason) for run in (runs.find(database, each) for each in SEEN)]


@pytest.mark.parametrize(
    ("error", "first", "stopped"),
    [
        (None, ("submitted", None), ("cancelled", "killed_by_user")),
        (ProvisionFailed("no space"), ("failed", "submit_refused"), ("cancelled", "killed_by_user")),
        (Conflict("all is being deleted"), ("failed", "submit_refused"), ("cancelled", "killed_by_user")),
        (LinkLost("the link broke"), ("unknown", "link_lost"), ("unknown", "link_lost")),
        (OutcomeUnknown("nobody can tell"), ("unknown", "outcome_unknown"), ("unknown", "outcome_unknown")),
    ],
)
def test_what_was_seen_of_a_cell_meanwhile_is_kept(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    error: ArmadaError | None,
    first: tuple[str, str | None],
    stopped: tuple[str, str | None],
) -> None:
    monkeypatch.setattr(handing, "_request", lambda *_: None)
    host = Host(database, error)
    if error is None:
        taken = handing.hand_over(database, "g-1", share_of(host))
        assert (taken.cells, host.stopped) == (3, ["g-1-004"])
    else:
        with pytest.raises(ArmadaError):
            handing.hand_over(database, "g-1", share_of(host))
    assert known(database) == [first, ("running", None), ("succeeded", None), stopped]


def test_a_cell_whose_stop_its_host_refuses_may_go_on(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing, "_request", lambda *_: None)
    host = Host(database, None)
    host.refusal = ArmadaError("No space left on device")
    with pytest.raises(OutcomeUnknown, match=r"g-1-004 .* may run nevertheless: No space left on device"):
        handing.hand_over(database, "g-1", share_of(host))
    assert known(database)[3] == ("unknown", "outcome_unknown")


def test_a_cell_that_was_stopped_and_never_sent_stays_stopped(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request with the cells before it failed."""
    monkeypatch.setattr(handing, "_request", lambda *_: None)
    monkeypatch.setattr(handing, "CELLS_PER_REQUEST", 2)
    with pytest.raises(OutcomeUnknown, match="whether 2 cells"):
        handing.hand_over(database, "g-1", share_of(Host(database, LinkLost("the link broke"))))
    assert known(database)[0] == ("unknown", "link_lost")
    assert known(database)[3] == ("cancelled", "killed_by_user")


def test_a_cell_that_is_stopped_just_before_it_is_recorded_is_stopped_on_its_host(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a look at the store and a write in another transaction, another process may write."""
    find, stops = runs.find, list[bool]()

    def overtaken(of: Database, prefix: str) -> runs.Run:
        found = find(of, prefix)
        if host.is_asked and not of.connection.in_transaction:
            stops.append(runs.set_state(of, "g-1-001", "cancelled", over={"preparing"}))
        return found

    monkeypatch.setattr(runs, "find", overtaken)
    monkeypatch.setattr(handing, "_request", lambda *_: None)
    host = Host(database, None)
    handing.hand_over(database, "g-1", share_of(host))
    assert any(stops) is ("g-1-001" in host.stopped)
    assert (find(database, "g-1-001").state == "cancelled") is any(stops)


def test_cells_of_a_host_that_fails_are_given_up_but_for_those_that_were_stopped_meanwhile(database: Database) -> None:
    runs.record(database, "g-1-004", STOPPED)
    service._give_up(database, share_of(None), ProvisionFailed("no space"))  # noqa: SLF001  # the launch around it needs hosts
    assert known(database) == [("failed", "provision_failed")] * 3 + [("cancelled", "killed_by_user")]


def test_a_stopped_cell_does_not_move_to_another_host(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(each: Any, **changes: Any) -> Any:
        return dataclasses.replace(each, **changes) if isinstance(each, HostShare) else each

    recorded: list[str] = []
    monkeypatch.setattr(service, "_record_plans", lambda _, plans: recorded.extend(plan.run_id for plan in plans))
    monkeypatch.setattr(service, "plan_sweep", lambda *_: SimpleNamespace(shares={"other": share_of(None)}))
    monkeypatch.setattr(service, "dataclasses", SimpleNamespace(replace=replace))
    runs.record(database, "g-1-004", STOPPED)
    asked = SimpleNamespace(name="g-1", cells=[], sessions={"other": None}, database=database)
    (left,) = service._move(cast("Asked", asked), share_of(None), {"other": share_of(None)})  # noqa: SLF001  # as above
    assert [plan.run_id for plan in left.plans] == recorded == ["g-1-001", "g-1-002", "g-1-003"]
    assert [run.run_id for run in runs.of_sweep(database, "g-1")] == ["g-1-004"]
