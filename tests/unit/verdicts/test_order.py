"""Which observation is the later one."""

from __future__ import annotations

import pytest

from armada.verdicts.order import LAG_S, Moment, Order, compare

EARLY, LATE, NEXT_BOOT = Moment("a", 5.0), Moment("a", 6.0), Moment("b", 1.0)


@pytest.mark.parametrize(
    ("seen", "known", "seen_at", "known_at", "is_"),
    [
        ((1, 1, 5), (1, 1, 4), EARLY, EARLY, Order.NEWER),
        ((1, 1, 4), (1, 1, 4), EARLY, LATE, Order.NEWER),  # equal places say the same
        ((2, 1, 4), (1, 1, 4), EARLY, LATE, Order.NEWER),
        ((1, 1, 4), (2, 1, 4), LATE, EARLY, Order.WENT_BACK),  # the other submission waited
        ((1, 2, 0), (1, 1, 9), EARLY, LATE, Order.NEWER),
        ((1, 1, 4), (1, 1, 5), EARLY, LATE, Order.STALE),
        ((1, 1, 4), (1, 1, 5), EARLY, EARLY, Order.STALE),
        ((1, 1, 4), (1, 1, 5), LATE, EARLY, Order.WENT_BACK),
        ((1, 1, 9), (1, 2, 0), LATE, EARLY, Order.WENT_BACK),
        ((1, 1, 4), (1, 1, 5), NEXT_BOOT, LATE, Order.DOUBTFUL),
        ((1, 1, 4), (1, 1, 5), None, EARLY, Order.STALE),
        ((1, 1, 4), (1, 1, 5), LATE, None, Order.DOUBTFUL),
        ((1, 1, 4), (1, 1, 5), None, None, Order.STALE),
    ],
)
def test_a_lower_place_is_an_old_answer_unless_it_was_given_later(
    seen: tuple[int, int, int],
    known: tuple[int, int, int],
    seen_at: Moment | None,
    known_at: Moment | None,
    is_: Order,
) -> None:
    assert compare(seen=seen, known=known, seen_at=seen_at, known_at=known_at) is is_


@pytest.mark.parametrize(
    ("seen_at", "less_since", "is_"),
    [
        (Moment("b", 5.0), None, Order.DOUBTFUL),
        (Moment("b", 5.0), Moment("c", 1.0), Order.DOUBTFUL),
        (Moment("b", 5.0), Moment("b", 5.0), Order.STALE),
        (Moment("b", 5.0 + LAG_S), Moment("b", 5.0), Order.STALE),
        (Moment("b", 5.1 + LAG_S), Moment("b", 5.0), Order.WENT_BACK),
        (Moment("b", 1.0), Moment("b", 5.0), Order.STALE),
    ],
)
@pytest.mark.parametrize("known_at", [LATE, None])
def test_who_has_no_order_with_what_is_known_is_believed_when_it_goes_on_to_show_less(
    seen_at: Moment, less_since: Moment | None, is_: Order, known_at: Moment | None
) -> None:
    found = compare(seen=(1, 1, 4), known=(1, 1, 5), seen_at=seen_at, known_at=known_at, less_since=less_since)
    assert found is is_
