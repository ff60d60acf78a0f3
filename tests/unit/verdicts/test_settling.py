"""Whether all of a run is home, row by row of the table."""

from __future__ import annotations

import dataclasses

import pytest

from armada.verdicts.settling import Seen, what_is_missing

ALL = Seen(ended=True, pending=0, unsettled=0, finishing=0, troubles=0)


def test_nothing_is_missing_of_a_run_that_ended_and_of_which_all_came() -> None:
    assert what_is_missing("q-1", ALL) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ended": False}, "q-1 has not ended"),
        ({"pending": 2}, "2 things of q-1 are still to come"),
        ({"pending": 1, "unsettled": 2}, "3 things of q-1 are still to come"),
        ({"unsettled": 2, "finishing": 1}, "2 things of q-1 are still to come"),
        ({"finishing": 1}, "1 checkpoint of q-1 still being hashed"),
        ({"untaken": 2}, "2 checkpoints of q-1 that its host could not read (armada why says why)"),
        ({"unreadable": 1}, "1 checkpoint of q-1 on its host whose MANIFEST.json cannot be read there"),
        ({"troubles": 2}, "2 things of q-1 could not be brought"),
        ({"partial": True}, "only a part of q-1 was asked for"),
    ],
)
def test_each_thing_that_is_missing_is_said(change: dict[str, object], words: str) -> None:
    assert (what_is_missing("q-1", dataclasses.replace(ALL, **change)) or "").startswith(words)  # type: ignore[arg-type]
