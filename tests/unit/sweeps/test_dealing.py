"""Cells go to hosts by their room, in a stable order."""

from __future__ import annotations

from collections import Counter

from armada.sweeps.dealing import deal, share


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
