"""The plane of a chart: which part of the x axis is visible, where the crosshair is, and what the mouse does to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.strip import Strip

    from armada.tui.curves import Levels

LABEL = 8
"""The columns of the labels on the y axis."""


class Line(NamedTuple):
    """One curve as drawn: values already transformed, `xs` never decreasing, `name` sanitized.

    `sign` is the character that marks it among several; by default, its index determines it. `doubt` describes its
    newest value if that cannot be drawn. `behind` are values that are drawn dimmed behind it, such as those before
    smoothing. `colour` counts the colours of curves; by default, the index determines it. `marks` are places on it.
    `measured` are the values of a logarithmic scale before they became exponents: it has none for those that are not
    above zero. `newest` is the place of its newest finite value; by default, the last point has it.
    """

    name: str
    xs: Sequence[float]
    levels: Levels
    sign: str = ""
    doubt: str = ""
    behind: Levels | None = None
    colour: int | None = None
    lit: bool = False
    marks: Sequence[Mark] = ()
    measured: Levels | None = None
    newest: int | None = None

    @property
    def is_not_finite(self) -> bool:
        """Whether `doubt` is that the newest value is NaN or infinite, and not that this scale cannot show it."""
        return self.doubt.startswith(("NaN", "inf", "-inf"))


class Mark(NamedTuple):
    """A point of a curve, by its place on the x axis and its number: `gap`, where values that are not finite begin, or `resumed`."""

    x: float
    kind: Literal["gap", "resumed"]
    point: int


class Crossed(Message, namespace="chart"):
    """The mouse moved the crosshair."""

    def __init__(self, chart: Plane) -> None:
        super().__init__()
        self.chart = chart

    @property
    def control(self) -> Plane:
        return self.chart


class Looked(Message, namespace="chart"):
    """The mouse selected another part of the x axis."""

    def __init__(self, chart: Plane) -> None:
        super().__init__()
        self.chart = chart

    @property
    def control(self) -> Plane:
        return self.chart


class Plane(Widget):
    """A part of the x axis, a crosshair and the mouse; subclasses draw."""

    ALLOW_SELECT = False  # dragging selects a part of the curve, not text

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.lines: tuple[Line, ...] = ()
        self._view: tuple[float, float] | None = None
        self._common: tuple[float, float] | None = None
        """What the charts beside this one show, if they share their x axis."""
        self._strips: list[Strip] = []
        self._held: tuple[int, int] | None = None
        """The pressed mouse button, and where it was pressed."""
        self._at = 0
        self._cross: float | None = None
        """Where the crosshair is, on the x axis."""

    def forget(self) -> None:
        """Be as a new one: nothing is shown, zoomed or under a crosshair."""
        self.lines, self._view, self._held, self._cross = (), None, None, None
        self._common = None
        self._redraw()

    def _redraw(self) -> None:
        self._strips = []
        self.refresh()

    # The visible range ----------------------------------------------------------------------------------------------

    @property
    def has_points(self) -> bool:
        return any(len(line.xs) for line in self.lines)

    @property
    def own(self) -> tuple[float, float] | None:
        """From the first point to the last one; None without points."""
        starts = [line.xs[0] for line in self.lines if len(line.xs)]
        ends = [line.xs[-1] for line in self.lines if len(line.xs)]
        return (min(starts), max(ends)) if starts else None

    @property
    def whole(self) -> tuple[float, float]:
        """What is shown without zoom: all points, and those of the charts beside this one."""
        return self._common or self.own or (0.0, 1.0)

    def share(self, common: tuple[float, float] | None) -> None:
        """Show this range while not zoomed, as the charts beside this one do; None: that of the own points."""
        if common != self._common:
            self._common = common
            self._redraw()

    @property
    def chosen(self) -> tuple[float, float] | None:
        """The zoomed range; None if everything is shown, also when new points arrive."""
        return self._view

    @property
    def view(self) -> tuple[float, float]:
        return self._view or self.whole

    def zoom(self, factor: float, *, at: float = 0.5) -> None:
        """Show `factor` times as much, at most everything. The point at the fraction `at` of the width stays in place."""
        if not self.has_points:
            return  # a part of nothing would hide the points that come
        (low, high), (x0, x1) = self.whole, self.view
        wide = (x1 - x0) * factor
        if wide >= high - low:
            self.reset()
        elif wide > 0:
            start = max(low, min(high - wide, x0 + (x1 - x0 - wide) * at))
            self._look(start, start + wide)

    def pan(self, share: float) -> None:
        """Move by a fraction of the visible range."""
        (low, high), (x0, x1) = self.whole, self.view
        by = max(low - x0, min(high - x1, (x1 - x0) * share))
        if self._view is not None:
            self._look(x0 + by, x1 + by)

    def reset(self) -> None:
        self.look(None)

    def look(self, view: tuple[float, float] | None) -> None:
        """Show this part of the x axis, or all of it."""
        self._view = view
        self._redraw()

    def _look(self, x0: float, x1: float) -> None:
        low, high = self.whole
        self._view = (max(low, x0), min(high, x1))
        self._redraw()

    # The crosshair ------------------------------------------------------------------------------------------------------

    @property
    def cross(self) -> float | None:
        """The place of the crosshair on the x axis; None if there is none."""
        return self._cross

    def put_cross(self, place: float | None) -> None:
        """Put the crosshair at a place on the x axis, or take it away."""
        if place != self._cross:
            self._cross = place
            self.refresh()  # it is drawn over the kept lines

    def step_cross(self, by: int) -> float | None:
        """Return the place so many columns from the crosshair, or from the newest point; None if there are no points."""
        x0, x1 = self.view
        column = (x1 - x0) / max(1, self.size.width - LABEL - 1)
        at = self._cross if self._cross is not None and x0 <= self._cross <= x1 else x1 + (column if by < 0 else 0)
        return min(x1, max(x0, at + by * column)) if self.has_points else None

    # The mouse ------------------------------------------------------------------------------------------------------

    def _x_of(self, event: events.MouseEvent) -> int:
        """Return the column of an event inside the frame."""
        return event.x - self.content_offset.x

    def _share(self, x: int) -> float:
        """Return the position of a screen column in the plot, as a fraction from left to right."""
        return min(1.0, max(0.0, (x - LABEL) / max(1, self.size.width - LABEL - 1)))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if (x := self._x_of(event)) >= LABEL and self.has_points:
            self._held, self._at = (event.button, x), x
            self.capture_mouse()
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        x = self._x_of(event)
        if self._held is None:
            if self.has_points and x >= LABEL:
                self._move_cross(x)
            return
        button, start = self._held
        if button == 1:
            self._at = x
            self.refresh()
        elif self._view is not None and x != start:
            self.pan((start - x) / max(1, self.size.width - LABEL))
            self._held = (button, x)
        event.stop()

    def _move_cross(self, x: int) -> None:
        x0, x1 = self.view
        self.put_cross(x0 + (x1 - x0) * self._share(x))
        self.post_message(Crossed(self))

    def on_leave(self) -> None:
        if self._cross is not None:
            self.put_cross(None)
            self.post_message(Crossed(self))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Zoom to the range that was dragged with the left button."""
        if self._held is None:
            return
        (button, start), self._held = self._held, None
        self.release_mouse()
        self.refresh()
        event.stop()
        left, right = sorted((self._share(start), self._share(self._x_of(event))))
        if button == 1 and right > left:
            x0, x1 = self.view
            self.look((x0 + (x1 - x0) * left, x0 + (x1 - x0) * right))
        if button != 1 or right > left:
            self.post_message(Looked(self))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self._view is not None:
            self.reset()
            self.post_message(Looked(self))

    def _scroll(self, event: events.MouseScrollUp | events.MouseScrollDown, factor: float, share: float) -> None:
        if event.shift or event.ctrl:
            self.pan(share)
        else:
            self.zoom(factor, at=self._share(self._x_of(event)))
        event.stop()
        self.post_message(Looked(self))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, 0.8, -0.1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, 1.25, 0.1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self.pan(-0.1)
        event.stop()
        self.post_message(Looked(self))

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self.pan(0.1)
        event.stop()
        self.post_message(Looked(self))
