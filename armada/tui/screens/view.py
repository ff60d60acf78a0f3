"""The base of every screen: the top line, the key line, and the newest snapshot."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.screen import Screen
from textual.widget import Widget

from armada.tui.widgets.field import Field
from armada.tui.widgets.lines import KeyLine, TopLine
from armada.tui.widgets.operations_bar import Going, Notice

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunRow, Snapshot
    from armada.tui.watcher import Subscription


HELD_S = 0.1
"""A new screen is painted after so many seconds even if what it asked for has not come."""


class View(Screen[None]):
    """A screen, identified by its name in the table of keys."""

    PLACE: ClassVar[str]
    AUTO_FOCUS = ""  # Textual would focus the first field, hidden or not
    # Frames go first, then what stands beside the main thing.
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-low"), (20, "-high"), (34, "-tall"), (44, "-grand")]  # noqa: RUF012  # Textual declares it so
    HORIZONTAL_BREAKPOINTS = [(0, "-slim"), (50, "-narrow"), (110, "-normal"), (150, "-wide"), (220, "-vast")]  # noqa: RUF012

    @property
    def board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    @property
    def snapshot(self) -> Snapshot:
        return self.board.snapshot

    def compose(self) -> ComposeResult:
        # Textual sets these classes after the first layout, and would lay out and paint everything a second time.
        self.fit()
        self.top = TopLine(self.board.symbols, self.PLACE)
        yield self.top
        self.notice = Notice(self.board.symbols)
        yield self.notice
        yield from self.body()
        self.going = Going(self.board.symbols)
        yield self.going
        self.keys = KeyLine(self.board.symbols, (self.PLACE, "everywhere"), read_only=self.board.read_only)
        yield self.keys

    def fit(self) -> None:
        """Set the classes for the terminal's size; Textual sets those of the window on top alone."""
        width, height = self.app.size
        classes: dict[str, bool] = {}
        for size, breaks in ((width, self.HORIZONTAL_BREAKPOINTS), (height, self.VERTICAL_BREAKPOINTS)):
            wanted = max(each for each in breaks if each[0] <= size)[1]
            classes |= {name: name == wanted for _, name in breaks}
        self.update_classes(classes)

    _is_left = False
    _is_held = False
    """It is new, and paints nothing until what it asked for has come: half of its frames are empty before."""
    is_new = True
    """Nobody has opened it yet, or it shows something else since."""
    visits = 0
    """How often it was opened again after it was left (`left_screens.py`): what was read for it may have come meanwhile."""
    is_ahead = False
    """It was made before anyone opened it (`left_screens.py`), and nobody has yet."""
    is_outdated = False
    """It was left, and colours or the terminal's size changed since."""

    @classmethod
    def likely(cls, run_id: str | None) -> View:
        """Return the screen that will be opened first, before anybody asks; `run_id` is the run under the cursor."""
        del run_id
        return cls()

    @property
    def shows(self) -> tuple[str, ...]:
        """What the screen is about: another screen of the same place with the same is as good as this one."""
        return ()

    def turn_over(self, shows: tuple[str, ...]) -> bool:
        """Show something else from now on, as a new screen would; called while it is left.

        Returns:
            Whether it can: else a new screen is made.
        """
        del shows
        return False

    @property
    def page(self) -> str:
        """The visible page of a screen with several pages; the key line shows its keys."""
        return ""

    @property
    def offers(self) -> frozenset[str] | None:
        """The actions of this screen that have something to act on, for the key line; None for all."""
        return None

    def body(self) -> Iterable[Widget]:
        """Return the widgets between the two lines."""
        raise NotImplementedError

    def wants(self) -> Subscription:
        """Return what the watcher must read for this screen."""
        raise NotImplementedError

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        """Draw the newest snapshot; `updates` came with it."""
        raise NotImplementedError

    def take(self, updates: Sequence[CurveUpdate] = ()) -> None:
        """Take a new snapshot; called for each one while the screen is visible."""
        self.top.take(self.snapshot)
        self.notice.take(self.snapshot)
        self.going.take(self.snapshot, time.time())
        self.draw(updates)
        wants = self.wants()
        self.board.want(wants)
        if self._is_held and self.snapshot.answers == (wants, self.asks_as):
            self._release()

    def _lay_out_twice(self) -> None:
        """Lay out everything: what turns out to need a scroll bar gets it the second time."""
        for _ in range(2):
            self._refresh_layout(self.app.size)

    @property
    def asks_as(self) -> object:
        """For whom the watcher reads what this screen wants: it has no curves yet when it is opened again."""
        return self, self.visits

    def _release(self) -> None:
        """Paint from now on: what a new screen asked for has come, or takes long."""
        if self._is_held:
            self._lay_out_twice()  # else it would be painted before and after
            self._is_held = False
            self.refresh(repaint=False, layout=True)  # laying out paints what changed meanwhile

    def _compositor_refresh(self) -> None:
        """Paint. Textual calls this; what is not painted now stays to be painted."""
        if not self._is_held:
            super()._compositor_refresh()

    def tick(self) -> None:
        """Update ages; called each second."""
        self.top.tick()
        self.going.take(self.snapshot, time.time())

    def on_mount(self) -> None:
        """Draw for the first time. Textual calls this after the `on_mount` of the screen's own class."""
        self._drawn_for = self.app.size
        self._mounted_with: Snapshot | None = self.snapshot
        if self not in self.app.screen_stack:
            self._is_left, self._mounted_with = True, None
            if self.app.is_running:  # else it has no widgets: the dashboard ends
                self.draw()
                self.call_later(self._draw_ahead)  # Textual lays out no widget before its `on_mount` has ended
            return
        if self.is_ahead:  # it was opened while it was made
            self.come_back()
            self.is_ahead = False
        self.take()

    def _draw_ahead(self) -> None:
        """Lay out and draw a screen that nobody has opened yet: what has not changed by then need not be done again."""
        if self.is_ahead and self.is_attached:
            self._lay_out_twice()
            for widget in self.walk_children(Widget):
                if widget.size:
                    widget.render_lines(widget.size.region)  # Textual keeps them

    @on(events.Resize)
    def _renew_at_new_size(self, event: events.Resize) -> None:
        """Ask for what is in sight only now, and lay it out anew: the next snapshot may come late."""
        if event.size != self._drawn_for:
            self._drawn_for = event.size
            self.call_after_refresh(self.renew)

    def renew(self) -> None:
        """Take the snapshot again, unless another screen is visible by now, for which other things are read."""
        if self.is_current:
            self.take()

    def on_descendant_focus(self) -> None:
        """Update the key line: other keys work while a field has the focus."""
        self.keys.refresh()

    def on_descendant_blur(self) -> None:
        self.keys.refresh()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        self._is_held = self.is_new and bool(self.snapshot.taken_at)  # else the dashboard itself has just started
        self.is_new = False
        self.board.left.go_on()
        if self._is_held:
            self.set_timer(HELD_S, self._release)
        if self.is_mounted:
            drawn, self._mounted_with = self._mounted_with, None
            # Textual would style all widgets anew: those of a new screen a moment after it styled them.
            event.refresh_styles, self.is_outdated = self.is_outdated, False
            if event.refresh_styles:
                self.fit()
                self.call_after_refresh(self.renew)
            if self._is_left:
                self._is_left = False
                self.come_back()
                self.is_ahead = False
            if drawn is not self.snapshot:  # a new screen has drawn it already
                self.take()
            if isinstance(self.focused, Field):
                self.focused.blink()

    def on_screen_suspend(self) -> None:
        if self not in self.app.screen_stack:  # a window over it is no reason
            self._is_left = True
            self.leave()

    def leave(self) -> None:
        """End what only a visible screen needs: another one takes its place."""

    def come_back(self) -> None:
        """Begin again what `leave` ended."""

    def back(self) -> bool:
        """Handle Escape; return whether there was something here to close first."""
        return False

    def undo(self) -> bool:
        """Undo what was changed on this screen last, if that was no command; return whether there was something."""
        return False

    def concerned(self) -> list[RunRow]:
        """Return the runs that an action concerns."""
        return []

    @property
    def has_marks(self) -> bool:
        """Whether these are runs that were marked."""
        return False

    @property
    def unlisted(self) -> Collection[str]:
        """The ids of marked runs that the list leaves out."""
        return ()

    @property
    def out_of_view(self) -> Mapping[str, str]:
        """The marked runs without a line of their own, each with where it is: not listed, or in a folded row."""
        return {}

    @property
    def cursor_run(self) -> str | None:
        """The run under the cursor."""
        return None

    @property
    def host_meant(self) -> str | None:
        """The host under the cursor."""
        return None

    def action_web(self) -> None:
        from armada.tui.screens.outside import open_page

        open_page(self.board, self.concerned())

    def action_relaunch(self) -> None:
        """Open Launch, filled with the experiment and the settings of the first run that an action concerns."""
        rows = self.concerned()
        if self.board.refuses("relaunch"):
            return
        if rows:
            self.board.open_launch(rows[0].run.run_id)
        else:
            self.notify("relaunch: no run under the cursor", severity="warning")

    def action_shell(self) -> None:
        """Open a shell in the folder of the first run that an action concerns."""
        from armada.tui.screens.outside import open_shell

        if rows := self.concerned():
            open_shell(self.board, ["ssh", rows[0].run.run_id])
        else:
            self.notify("shell: no run under the cursor", severity="warning")

    def action_sync(self) -> None:
        self._act("sync")

    def action_stop(self) -> None:
        self._act("stop")

    def action_resume(self) -> None:
        self._act("resume")

    def _act(self, verb: str, rows: Sequence[RunRow] | None = None) -> None:
        from armada.tui.screens.run_acts import act_on_runs

        act_on_runs(self.board, verb, self.concerned() if rows is None else rows, self.out_of_view)

    def action_remove(self) -> None:
        from armada.tui.screens.removal import Removal

        Removal(self.board, self.concerned(), self.out_of_view).begin()

    def action_label(self, what: str) -> None:
        """Change the labels of the runs: `star`, `tag`, `note`, `group` or `archive`."""
        self._label(what, self.concerned())

    def _label(self, what: str, rows: Sequence[RunRow]) -> None:
        from armada.tui.screens.labelling import Labelling

        labelling = Labelling(self.board, rows, are_marked=self.has_marks, unlisted=len(self.unlisted))
        {
            "star": labelling.star,
            "tag": labelling.tag,
            "note": labelling.note,
            "group": labelling.group,
            "archive": labelling.archive,
        }[what]()

    def action_copy(self) -> None:
        ids = " ".join(row.run.run_id for row in self.concerned())
        if ids:
            self.app.copy_to_clipboard(ids)
            self.notify(f"copied: {ids}", markup=False)
