"""What follows from not seeing a run's folder."""

from __future__ import annotations

import pytest

from armada.protocol.observation import Remains
from armada.verdicts.presence import There, began_since, presence


@pytest.mark.parametrize(
    ("exists", "seen_root", "known_root", "is_"),
    [
        (True, "a", "a", There.HERE),
        (True, "b", "a", There.HERE),  # copied with its root: what is seen counts
        (True, None, None, There.HERE),
        (False, "a", "a", There.REMOVED),
        (False, "b", "a", There.AWAY),
        (False, None, "a", There.AWAY),
        (False, "a", None, There.UNKNOWN),
        (False, None, None, There.UNKNOWN),
    ],
)
def test_a_folder_is_removed_only_where_its_own_root_shows_none(
    exists: bool, seen_root: str | None, known_root: str | None, is_: There
) -> None:
    assert presence(exists=exists, seen_root=seen_root, known_root=known_root) is is_


def test_a_root_that_says_it_was_wiped_has_removed_what_lay_under_its_former_names() -> None:
    assert presence(exists=False, seen_root="c", known_root="a", wiped=["a", "b"]) is There.REMOVED
    assert presence(exists=False, seen_root="c", known_root="x", wiped=["a", "b"]) is There.AWAY


@pytest.mark.parametrize(
    ("remains", "known", "began"),
    [
        (None, (1, 1), False),
        ({}, (1, 1), False),
        ({"processes": 2}, (1, 1), False),  # an older agent names neither
        ({"processes": 0, "attempt": 2}, (1, 1), False),
        ({"processes": 1, "attempt": 1, "submission": 1}, (1, 1), False),  # left behind by the job that ended
        ({"processes": 1, "attempt": 1}, (2, 2), False),
        ({"processes": 1, "attempt": 2}, (1, 1), True),
        ({"processes": 1, "attempt": 1}, (0, 1), True),
        ({"processes": 1, "submission": 2}, (1, 1), True),  # a supervisor that waits for its GPUs
        ({"processes": 1, "submission": 2}, (1, 0), False),  # an old record without a submission
    ],
)
def test_processes_outweigh_a_recorded_end_where_they_belong_to_something_newer(
    remains: dict[str, int] | None, known: tuple[int, int], began: bool
) -> None:
    seen = Remains.model_validate(remains) if remains is not None else None
    assert began_since(seen, attempt=known[0], submission=known[1]) is began
