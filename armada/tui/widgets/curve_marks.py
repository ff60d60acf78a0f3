"""Where a run's curve has values that are not finite, and where the run was resumed."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from armada.store.transitions import RESUMED
from armada.tui.widgets.chart_plane import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.curves import Curve
    from armada.tui.snapshot import RunDetail
    from armada.tui.x_axis import Placed

MOST_GAPS = 500


def resumes(detail: RunDetail | None) -> tuple[float, ...]:
    """Return when the run was resumed; nothing while that is not read."""
    return tuple(moment for moment, *_, message in detail.transitions if message == RESUMED) if detail else ()


def marks_of(curve: Curve, placed: Placed, resumed: Sequence[float]) -> list[Mark]:
    """Return the marks of a curve, whose points have places on the x axis.

    Args:
        curve: Its points.
        placed: Their places; as many as there are points.
        resumed: When the run was resumed.
    """
    marks = [Mark(placed.xs[place], "gap", place) for place in curve.gaps[:MOST_GAPS]]
    for moment in resumed:
        place = bisect_left(curve.times, moment)
        if 0 < place < len(curve):
            marks.append(Mark(placed.xs[place], "resumed", place))
    return marks
