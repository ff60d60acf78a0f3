"""Cells go to hosts by their room, in a stable order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from armada.store import runs
from armada.store.database import Database
from armada.sweeps.dealing import deal, share
from armada.sweeps.planning import cells_at_once
from armada.verdicts.states import Verdict


def test_hosts_get_cells_in_proportion_to_their_room_from_the_first_cell_on() -> None:
    dealt = deal(12, {"big": 8, "small": 4})
    assert Counter(dealt) == {"big": 8, "small": 4}
    assert Counter(dealt[:3]) == {"big": 2, "small": 1}
    assert dealt == deal(12, {"big": 8, "small": 4})


def test_cells_that_a_host_has_already_count() -> None:
    assert Counter(deal(4, {"a": 1, "b": 1}, {"a": 4})) == {"b": 4}


def test_a_limit_is_for_all_hosts_together_and_may_leave_some_out() -> None:
    assert share(None, {"a": 8, "b": 1}) == {"a": 8, "b": 1}
    assert share(3, {"a": 8, "b": 4}) == {"a": 2, "b": 1}
    assert share(1, {"a": 1, "b": 1}) == {"a": 1}
    assert share(2**31 - 1, {"a": 1}) == {"a": 10_000}


def test_the_cells_that_run_at_once_share_the_cores_with_those_of_earlier_rounds(tmp_path: Path) -> None:
    with Database(tmp_path / "store.db") as database:
        for number, (host, state) in enumerate([("box", "running"), ("box", "succeeded"), ("far", "running")], 1):
            spec = {"sweep": {"id": "s-aaaaaa", "cell": number}}
            run_id = f"s-aaaaaa-{number:03}"
            runs.insert(database, run_id=run_id, name="s", host=host, task="sft", experiment=None, spec=spec)
            runs.record(database, run_id, Verdict(state, None, None, 1, 1), observed_at=1.0)
        assert cells_at_once(database, "s-aaaaaa", "box", 2, 16) == 3
        assert cells_at_once(database, "s-aaaaaa", "box", 20, 16) == 16
        assert cells_at_once(database, "s-bbbbbb", "box", 2, 16) == 2
