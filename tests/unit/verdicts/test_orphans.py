"""Which processes without a supervisor may be ended: the whole table."""

from __future__ import annotations

import itertools

import pytest

from armada.verdicts.orphans import Left, Seen, judge, words
from armada.verdicts.presence import There


@pytest.mark.parametrize(
    ("there", "has_ended", "known", "named"),
    itertools.product(There, (True, False, None), (True, False), (True, False)),
)
def test_only_what_is_over_for_certain_may_be_ended(
    there: There, has_ended: bool | None, known: bool, named: bool
) -> None:
    left = judge(Seen(there, has_ended, known, named))
    is_over = has_ended is True and (known or named) if there is There.HERE else there is There.REMOVED and known
    assert left.may_be_ended is is_over


def test_what_is_left_alone_has_a_reason_and_a_way_on() -> None:
    for left in Left:
        what, hint = words(left, run_id="q-1", host="box")
        assert what
        assert (hint is None) is left.may_be_ended


@pytest.mark.parametrize(
    ("seen", "left"),
    [
        (Seen(There.HERE, None, True, True), Left.UNREADABLE),
        (Seen(There.HERE, False, False, True), Left.LIVES),
        (Seen(There.HERE, True, False, False), Left.ANOTHERS),
        (Seen(There.AWAY, None, True, True), Left.AWAY),
        (Seen(There.UNKNOWN, None, True, True), Left.AWAY),
        (Seen(There.REMOVED, None, False, True), Left.UNKNOWN),
    ],
)
def test_the_reason_is_the_true_one(seen: Seen, left: Left) -> None:
    assert judge(seen) is left
