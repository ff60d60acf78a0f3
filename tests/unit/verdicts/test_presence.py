"""What follows from not seeing a run's folder."""

from __future__ import annotations

import pytest

from armada.verdicts.presence import There, presence


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
