"""Whether a folder at home is there, was removed, or has lost its disk."""

from __future__ import annotations

import pytest

from armada.verdicts.folders import Seen, Standing, judge_folder

THERE, TO_MARK, REMOVED, AWAY = Standing.THERE, Standing.TO_MARK, Standing.REMOVED, Standing.AWAY


@pytest.mark.parametrize("recorded", [None, "a"])
@pytest.mark.parametrize("holds_known", [False, True])
@pytest.mark.parametrize("has_checkpoints", [False, True])
def test_an_error_is_no_absence_and_a_name_that_is_gone_is_one(
    recorded: str | None, holds_known: bool, has_checkpoints: bool
) -> None:
    known = {"holds_known": holds_known, "has_checkpoints": has_checkpoints}
    assert judge_folder(Seen(problem="Input/output error"), recorded, **known) is AWAY
    assert judge_folder(Seen(exists=False), recorded, **known) is REMOVED


@pytest.mark.parametrize("has_checkpoints", [False, True])
@pytest.mark.parametrize(
    ("mark", "is_empty", "holds_known", "judged"),
    [
        ("a", True, False, THERE),
        ("a", False, False, THERE),
        ("b", False, False, AWAY),
        (None, True, False, AWAY),
        (None, False, False, AWAY),
        (None, False, True, TO_MARK),
        ("b", False, True, TO_MARK),
    ],
)
def test_a_folder_that_was_marked_is_known_by_its_mark_or_by_what_is_in_it(
    mark: str | None, is_empty: bool, holds_known: bool, has_checkpoints: bool, judged: Standing
) -> None:
    seen = Seen(mark=mark, is_empty=is_empty)
    assert judge_folder(seen, "a", holds_known=holds_known, has_checkpoints=has_checkpoints) is judged


@pytest.mark.parametrize(
    ("mark", "is_empty", "has_checkpoints", "judged"),
    [
        (None, True, True, AWAY),
        (None, True, False, TO_MARK),
        (None, False, True, TO_MARK),
        ("b", True, True, TO_MARK),
    ],
)
def test_a_folder_of_an_older_armada_is_marked_unless_it_is_empty_and_should_not_be(
    mark: str | None, is_empty: bool, has_checkpoints: bool, judged: Standing
) -> None:
    seen = Seen(mark=mark, is_empty=is_empty)
    assert judge_folder(seen, None, holds_known=False, has_checkpoints=has_checkpoints) is judged
