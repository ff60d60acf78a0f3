"""One run: overview, charts, log, checkpoints, samples, events, config."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import ContentSwitcher, Input, Static

from armada.errors import UsageError
from armada.tui import logs
from armada.tui.bindings import bindings
from armada.tui.gpu_strips import SPAN_S
from armada.tui.log_places import parse_place
from armada.tui.samples import samples_file, why_none
from armada.tui.screens import run_text
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.prompt import Prompt
from armada.tui.screens.run_log import LogPage
from armada.tui.screens.run_overview import Overview, metric_of
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.chart_wall import ChartWall
from armada.tui.widgets.field import Field
from armada.tui.widgets.list_table import ListTable
from armada.tui.widgets.log_view import LogView
from armada.tui.widgets.marked_text import MarkedText
from armada.tui.widgets.sample_reader import SampleReader
from armada.tui.widgets.text_scroll import TextScroll
from armada.tui.widgets.whole import Whole
from armada.tui.widgets.words import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.widget import Widget

    from armada.store.checkpoints import Checkpoint
    from armada.tui.curves import CurveUpdate
    from armada.tui.snapshot import RunDetail, RunRow
    from armada.tui.widgets.table import Table

DIGEST_SHOWN = 16
TABS = ("overview", "charts", "log", "checkpoints", "samples", "events", "config")


class RunScreen(LogPage):
    """Args: the run's id, and the page to begin with. Without an id it shows nothing until it turns over."""

    PLACE = "run"
    BINDINGS = bindings("run")
    DEFAULT_CSS = """
    RunScreen #tabs { height: 1; }
    RunScreen #age { display: none; height: 1; color: $text-muted; }
    RunScreen #age.needs-you { color: $text-warning; height: auto; max-height: 4; }
    RunScreen ContentSwitcher { height: 1fr; }
    RunScreen TextScroll { height: 1fr; }
    RunScreen #find { display: none; height: 1; border: none; padding: 0 1; background: $boost; }
    RunScreen #find.open { display: block; }
    """

    def __init__(self, run_id: str = "", tab: str = "overview") -> None:
        super().__init__()
        self._begin(run_id, tab)

    @classmethod
    def likely(cls, run_id: str | None) -> RunScreen:
        return cls(run_id or "")

    def _begin(self, run_id: str, tab: str) -> None:
        self.run_id = run_id
        self.shown = tab
        self._rank = None
        self._follower: logs.Follower | None = None
        self._asked = "search"
        self._config: object = None
        self._today: tuple[int, ...] = ()
        self._old = ""
        self.other: str | None = None
        """The run whose settings are compared with this one's."""

    def body(self) -> Iterable[Widget]:
        symbols = self.board.symbols
        self.tabs = Words(id="tabs")
        self.tabs.auto_links = False
        self.field = Field(id="find", disabled=True)
        self.age = Static(id="age")
        self.overview, self.config = Overview(symbols), MarkedText()
        self.wall = ChartWall(symbols, self.board.charts["run"], id="charts")
        self.log_view = LogView(symbols, id="log", classes=frame.FRAME)
        self.checkpoints = ListTable(run_text.CHECKPOINT_COLUMNS, symbols, id="checkpoints", classes=frame.FRAME)
        self.events = ListTable(run_text.EVENT_COLUMNS, symbols, id="events", classes=frame.FRAME)
        self.difference = ListTable(run_text.DIFFERENCE_COLUMNS, symbols, id="difference", classes=frame.FRAME)
        self.samples = SampleReader(symbols, id="samples")
        self.settings = TextScroll(self.config, id="config", classes=frame.FRAME)
        named = {"log": self.log_view, "checkpoints": self.checkpoints, "events": self.events}
        for name, page in {**named, "config": self.settings, "differences": self.difference}.items():
            frame.title(page, name.capitalize())
        self.pages = ContentSwitcher(
            self.overview,
            self.wall,
            self.log_view,
            self.checkpoints,
            self.samples,
            self.events,
            self.settings,
            self.difference,
            initial=self.shown,
            id="pages",
        )
        self.event = Whole(symbols, id="event")
        yield from (self.tabs, self.age, self.field, self.pages, self.event)

    def on_mount(self) -> None:
        self._open_tab(self.shown)

    def on_unmount(self) -> None:
        self.leave()

    def leave(self) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None

    def come_back(self) -> None:
        if self.shown == "log":
            self._fetch_log()

    @property
    def shows(self) -> tuple[str, ...]:
        return (self.run_id,)

    def turn_over(self, shows: tuple[str, ...]) -> bool:
        if not self.is_mounted:
            return False  # it was left before it had its widgets
        (run_id,) = shows
        self.leave()
        self._begin(run_id, "overview")
        self.field.remove_class("open")
        self.field.disabled, self.field.value = True, ""
        for each in (self.checkpoints, self.events, self.difference, self.settings):
            each.forget()
        for other in (self.wall, self.log_view, self.overview, self.samples):
            other.forget()
        self._open_tab(self.shown)
        return True

    def turn_to(self, tab: str) -> None:
        """Show a page: at once, or with the first paint."""
        if self.is_mounted and tab != self.shown:
            self._open_tab(tab)

    # Drawing --------------------------------------------------------------------------------------------------------

    @property
    def row(self) -> RunRow | None:
        return self.snapshot.row(self.run_id)

    @property
    def detail(self) -> RunDetail | None:
        return self.snapshot.details.get(self.run_id)

    @property
    def page(self) -> str:
        return self.shown

    def wants(self) -> Subscription:
        names = {"charts": self.wall.wanted, "overview": [metric_of(self.detail)]}.get(self.shown, [])
        curves = frozenset((self.run_id, name) for name in names)
        details = frozenset({self.run_id} | ({self.other} if self.other else set()))
        history = (self.overview.host, SPAN_S) if self.shown == "overview" and self.overview.host is not None else None
        return Subscription(frozenset({self.run_id}), details, curves, history=history)

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        row, detail = self.row, self.detail
        self._say_tabs()
        if row is None:
            gone = (
                self.snapshot.reading
                if not self.snapshot.taken_at or self.snapshot.trouble is not None
                else f"{self.run_id} is no longer in the store (esc goes back)"
            )
            self.overview.say(gone)
            if self.shown != "overview" and gone != self.snapshot.reading:
                self._open_tab("overview")  # the other pages would stay as if something were still to come
                self._say_tabs()
            return
        self.wall.take(row, detail, updates)
        if self.shown == "overview":
            self.overview.show_run(row, detail, self.wall.curves.get(metric_of(detail)))
        elif self.shown == "log":
            self._draw_log(row)
        elif detail is not None and self.shown == "samples":
            sync = self.snapshot.syncs.get(self.run_id)
            all_home = row.run.ended and sync is not None and sync.final_done
            self.samples.show_file(samples_file(self.board.home, self.run_id), why_none(detail.spec, all_home=all_home))
        elif detail is None and self.shown in ("checkpoints", "events", "config"):
            self._say_reading()
        elif detail is not None and self.shown == "checkpoints":
            items = run_text.checkpoint_items(detail, self.snapshot, row.host)
            self.checkpoints.empty = "none" if row.run.ended else "none yet"
            self.checkpoints.show_items(items)
        elif detail is not None and self.shown == "events":
            now = time.time()
            self._today = time.localtime(now)[:3]
            self.events.show_items(run_text.event_items(detail, now))
            self._say_event()
        elif detail is not None and self.shown == "config" and self.other is not None:
            other, names = self.snapshot.details.get(self.other), (self.run_id, self.other)
            self.difference.show_items(run_text.difference_items(detail, other, names))
        elif detail is not None and self.shown == "config" and self._config != detail.spec:
            self._config = detail.spec
            self.config.update(run_text.config(detail, self.board.symbols))

    def on_table_moved(self, event: Table.Moved) -> None:
        if event.table is self.events:
            self._say_event()

    def _say_event(self) -> None:
        """Show the event under the cursor whole."""
        self.event.say(run_text.whole_event(self.detail, self.events.cursor))

    def _say_reading(self) -> None:
        """Say that pages are still being read, so that they do not look empty."""
        for table in (self.checkpoints, self.events):
            table.empty = self.board.symbols.text(self.snapshot.reading)
            table.show_items([])
        self._config = None  # the same settings may come again
        self.config.update(Text(f" {self.snapshot.reading}"))

    def tick(self) -> None:
        super().tick()
        row = self.row
        if row is not None and self.shown == "log":
            self._draw_log(row)
        elif row is not None and self.shown == "overview":
            self.draw()
        elif self.shown == "events" and time.localtime()[:3] != self._today:
            self.draw()  # times of yesterday have a day

    def _say_tabs(self) -> None:
        row, symbols = self.row, self.board.symbols
        name = f" {symbols.text(row.own_name)}" if row is not None and row.own_name else ""
        tabs = sum(len(tab) + 2 for tab in TABS)  # all of them stay visible at 80 columns
        room = max(10, min(self.size.width // 2, self.size.width - tabs - 1))
        words = Text(f"{symbols.shortened(f'{name} {self.run_id}', room)}  ", style="bold", no_wrap=True)
        words.truncate(room, overflow="crop")
        active = self.top.get_component_rich_style("top--active")
        dim = self.top.get_component_rich_style("top--dim")
        for tab in TABS:
            part = Text.assemble(" ", (tab, active if tab == self.shown else dim), " ")
            part.apply_meta({"@click": f"screen.tab('{tab}')"})
            words.append_text(part)
        self.tabs.say(words)

    # Keys -----------------------------------------------------------------------------------------------------------

    def concerned(self) -> list[RunRow]:
        return [self.row] if self.row is not None else []

    def action_tab(self, tab: str) -> None:
        self._open_tab(tab)
        self.take()

    def _open_tab(self, tab: str) -> None:
        self.shown = tab
        self.pages.current = "difference" if tab == "config" and self.other is not None else tab
        if tab == "log":
            self._fetch_log()
        inner = {"overview": self.overview.facts, "samples": self.samples.prompts}
        page = inner.get(tab, self.pages.visible_content)
        self.set_focus(page if page is not None and page.focusable else None)
        self.keys.refresh()
        self.age.display = False  # only the log has an age
        self.event.display = tab == "events"

    def _step_tab(self, by: int) -> None:
        self.action_tab(TABS[(TABS.index(self.shown) + by) % len(TABS)])

    def action_next_tab(self) -> None:
        self._step_tab(1)

    def action_previous_tab(self) -> None:
        self._step_tab(-1)

    def action_metric(self) -> None:
        self._chart(lambda wall: wall.step_metric(1))

    def action_metric_before(self) -> None:
        self._chart(lambda wall: wall.step_metric(-1))

    def action_panels(self) -> None:
        self._chart(ChartWall.next_panels)

    def action_log_scale(self) -> None:
        self._chart(ChartWall.toggle_log)

    def action_smooth(self) -> None:
        self._chart(ChartWall.next_smoothing)

    def action_against(self) -> None:
        self._chart(ChartWall.next_axis)

    def action_zoom(self, factor: float) -> None:
        self._chart(lambda wall: wall.zoom(factor))

    def action_pan(self, share: float) -> None:
        """Move along the curves, or among the steps of samples. On a page with a list or a text, the arrows do not leave it."""
        if self.shown in ("overview", "charts"):
            self._chart(lambda wall: wall.pan(share))
        elif self.shown == "samples":
            self.samples.step(-1 if share < 0 else 1)

    def action_read(self) -> None:
        """Go from the prompts to their answers."""
        if self.shown == "samples":
            self.samples.read()

    def action_cross(self, by: int) -> None:
        self._chart(lambda wall: wall.step_cross(by))

    def action_whole(self) -> None:
        self._chart(ChartWall.reset)

    def _chart(self, do: Callable[[ChartWall], None]) -> None:
        """Run a chart action. On another page, the first key press only opens the charts."""
        if not self._opens("charts"):
            do(self.wall)
            self.board.want(self.wants())

    def on_chart_wall_widened(self) -> None:
        self.board.want(self.wants())

    def _open_field(self, what: str, hint: str, value: str) -> None:
        self._asked = what
        self.field.placeholder = hint
        self.field.value = value
        self.field.disabled = False
        self.field.add_class("open")
        self.set_focus(self.field)  # at once: what is typed next is meant for it

    def action_search(self) -> None:
        """Search in the log, or filter the metrics of the charts."""
        if self.shown == "charts":
            self._open_field(
                "metrics",
                "letters of the metrics, or ^start end$ a|b; Enter keeps, esc clears",
                self.wall.choices.wanted,
            )
        else:
            self._ask_log("search", "search towards the beginning; N and n go on; Enter alone ends it")

    def back(self) -> bool:
        """Close the field, then the filter of the charts or the comparison."""
        if self.field.has_class("open"):
            self._close_field()
            if self._asked == "metrics":
                self._filter_metrics("")
            return True
        if self.shown == "charts" and self.wall.choices.wanted:
            self._filter_metrics("")
            return True
        if self.shown == "config" and self.other is not None:
            self._compare_with(None)
            return True
        if self.focused is self.samples.answers:
            self.set_focus(self.samples.prompts)
            return True
        return False

    def _close_field(self) -> None:
        self.field.remove_class("open")
        self.field.disabled = True
        self.set_focus(None if self._asked == "metrics" else self.log_view)

    def _filter_metrics(self, words: str) -> None:
        self.wall.filter(words)
        self.board.want(self.wants())

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._asked == "metrics" and self.field.has_class("open"):
            self._filter_metrics(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._close_field()
        if not event.value.strip():
            if self._asked == "search":
                self._end_search()
            return
        if self._asked == "metrics":
            return
        if self._asked == "search":
            self.log_view.search(event.value)
            return
        try:
            self.log_view.jump(parse_place(event.value), event.value.strip())
        except UsageError as error:
            self.notify(f"{error.message}; {error.hint}", severity="warning", markup=False)

    # Checkpoints

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint under the cursor."""
        known = self.detail.checkpoints if self.detail is not None else ()
        return next((each for each in known if each.digest == self.checkpoints.cursor), None)

    def _pull(self, folder: str | None) -> None:
        found = self.checkpoint
        if found is None:
            return
        alike = [each for each in self.detail.checkpoints if each.step == found.step] if self.detail else []
        word = str(found.step) if alike[-1:] == [found] else found.digest[:DIGEST_SHOWN]  # a step can be saved twice
        more = [f"--to={folder}"] if folder else []
        title = f"pull checkpoint-{found.step}{f' to {folder}' if folder else ''}"
        self.board.operate(title, ["pull", self.run_id, "--checkpoint", word, *more])

    def _on_checkpoints(self, verb: str) -> bool:
        """Whether an action can use the checkpoint under the cursor. On another page, the first key press only opens the checkpoints."""
        if self._opens("checkpoints"):
            return False
        found = self.checkpoint
        if found is None or not (found.on_host or found.home_path):
            self.notify(f"{verb}: the checkpoint under the cursor no longer exists", severity="warning")
            return False
        return not self.board.refuses(verb)

    def action_pull(self) -> None:
        if self._on_checkpoints("pull"):
            self._pull(None)

    def action_pull_to(self) -> None:
        if self._on_checkpoints("pull") and (found := self.checkpoint) is not None:
            folder = str((self.board.folder or Path()) / f"{self.run_id}-checkpoint-{found.step}")
            note = (
                "armada brings it home first if needed, then copies and verifies each file. The folder must not exist."
            )
            title = f"Copy checkpoint-{found.step} into which folder?"
            prompt = Prompt(title, note, folder, self.board.symbols)
            self.board.push_screen(prompt, lambda chosen: self._pull(chosen) if chosen else None)

    # Config

    def action_difference(self) -> None:
        """Choose another run to compare this one's settings with."""
        row = self.row
        if row is None or self._opens("config"):
            return
        others = [each for each in self.snapshot.runs if each.run.run_id != self.run_id]
        others.sort(key=lambda each: each.name != row.name)  # the most likely first, then the newest
        choices = [
            Choice(each.run.run_id, each.name, f"{each.run.run_id} {each.run.state} on {each.host}") for each in others
        ]
        if not choices:
            self.notify("there is no other run to compare it with", severity="warning")
            return
        chooser = Chooser("Compare its settings with which run?", choices, self.board.symbols)
        self.board.push_screen(chooser, lambda chosen: self._compare_with(chosen) if chosen else None)

    def _compare_with(self, run_id: str | None) -> None:
        self.other = run_id
        self.action_tab("config")

    def action_copy(self) -> None:
        """Copy what is visible: a checkpoint's path or the log's lines, else the run's id."""
        words = self.run_id
        if self.shown == "log":
            words = self.log_view.picture
        elif self.shown == "checkpoints" and (found := self.checkpoint) is not None:
            words = str(found.home_path or f"checkpoint-{found.step}")
        self.app.copy_to_clipboard(words)
        lines = words.count("\n") + 1
        self.notify(f"copied {lines} lines" if lines > 1 else f"copied: {words}", markup=False)
