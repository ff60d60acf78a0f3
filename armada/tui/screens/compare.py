"""Compare runs: curves, settings, parallel coordinates, scatter, Pareto front and samples."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import Static

from armada.compare.metrics import TOKENS
from armada.compare.settings import differences
from armada.tui.bindings import bindings
from armada.tui.scales import both
from armada.tui.screens import compare_text as pages
from armada.tui.screens.compare_actions import Exports
from armada.tui.screens.compare_curves import CurvesPage
from armada.tui.screens.compare_samples import SamplePage
from armada.tui.screens.compare_text import Compared
from armada.tui.watcher import Subscription
from armada.tui.widgets import frame
from armada.tui.widgets.chart import NAMES
from armada.tui.widgets.curve_wall import CurveWall
from armada.tui.widgets.difference_table import DifferenceTable
from armada.tui.widgets.list_table import Item
from armada.tui.widgets.parallel import Parallel
from armada.tui.widgets.run_figures import RunFigures
from armada.tui.widgets.scatter import Scatter
from armada.tui.widgets.whole import Whole
from armada.tui.x_axis import XAxis
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from armada.compare.settings import Difference
    from armada.tui.best import Wanted
    from armada.tui.curves import Curve, CurveUpdate
    from armada.tui.scales import Scale
    from armada.tui.snapshot import RunRow
    from armada.tui.widgets.table import Table

TABS = ("curves", "settings", "parallel", "scatter", "pareto", "samples")
LOW = 30
"""With fewer rows, the table of runs has less of them."""


class CompareScreen(Exports, CurvesPage):
    """Compares the runs that were marked when it was opened."""

    PLACE = "compare"
    BINDINGS = bindings("compare")
    DEFAULT_CSS = """
    CompareScreen #tabs { height: 1; }
    CompareScreen #find { display: none; height: 1; border: none; padding: 0 1; background: $boost; }
    CompareScreen #find.open { display: block; }
    CompareScreen #none { height: 1fr; padding: 1 2; display: none; }
    CompareScreen.empty #none { display: block; }
    CompareScreen CurveWall, CompareScreen Parallel, CompareScreen Scatter, CompareScreen SamplePage { display: none; }
    CompareScreen CurveWall { height: 2fr; }
    CompareScreen SamplePage { height: 1fr; }
    CompareScreen #settings { display: none; height: 1fr; min-height: 4; }
    CompareScreen #value { display: none; }
    CompareScreen.settings #value { display: block; }
    CompareScreen RunFigures { height: 5; }
    CompareScreen.curves CurveWall, CompareScreen.parallel Parallel, CompareScreen.scatter Scatter,
    CompareScreen.pareto Scatter, CompareScreen.samples SamplePage, CompareScreen.settings #settings { display: block; }
    CompareScreen.-tall.curves #settings, CompareScreen.-grand.curves #settings { display: block; }
    CompareScreen.settings RunFigures, CompareScreen.-tiny RunFigures { display: none; }
    CompareScreen.empty Widget.frame, CompareScreen.empty #tabs, CompareScreen.empty #settings,
    CompareScreen.empty #value { display: none !important; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.shown = "curves"
        self._variable = 0
        self._named: list[str] = []
        """The runs that have a column in the table of settings."""
        self._curves: dict[tuple[str, str], Curve] = {}
        self._axis = XAxis()
        self._tuned: frozenset[str] = frozenset()
        """The settings that a sweep tunes; they come first."""
        self._settings: tuple[object, tuple[Difference, ...]] = ((), ())

    def body(self) -> Iterable[Widget]:
        symbols = self.board.symbols
        self.choices = self.board.charts["compare"]
        if not self.is_ahead:  # a run that nobody compares gets no letter
            self.take_marked()
        self.update_classes(self._classes_wanted, update=False)  # with widgets in it, each change styles all of them
        self.tabs = Static(id="tabs")
        self.tabs.auto_links = False
        yield from (self.tabs, self.find)
        yield Static("No runs are marked. Press 1, mark some with space, then c.", id="none", markup=False)
        self.wall = CurveWall(symbols)
        self.chart = self.wall.lead
        self.parallel, self.scatter = Parallel(symbols), Scatter(symbols)
        self.sample_page = SamplePage(symbols, self.board.home)
        self.figures = RunFigures(symbols)
        self.table = DifferenceTable(symbols, id="settings")
        self.value = Whole(symbols, id="value")
        self._show_marked()
        self.figures.add_class(frame.FRAME)
        frame.title(self.figures, "Runs")
        yield from (self.wall, self.parallel, self.scatter, self.sample_page, self.figures, self.table, self.value)

    def _show_marked(self) -> None:
        self._name_columns(self.run_ids)
        self.on_resize()

    def turn_over(self, shows: tuple[str, ...]) -> bool:
        del shows
        if not (self.is_ahead and self.is_mounted):
            return False  # charts are zoomed, runs are pinned: a new screen is simpler
        self.take_marked()
        self._show_marked()
        self.update_classes(self._classes_wanted | {"empty": not self.run_ids})
        return True

    def _name_columns(self, run_ids: list[str]) -> None:
        self._named = list(run_ids)
        chosen = run_ids.index(self.figures.cursor) if self.figures.cursor in run_ids else 0
        self.table.show_runs([NAMES[self.places[run_id]] for run_id in run_ids], chosen)

    def on_mount(self) -> None:
        self.action_tab(self.shown)

    @property
    def _classes_wanted(self) -> dict[str, bool]:
        # A screen that is made ahead has no runs yet: styled as if it had some, it needs no other styles when it is opened.
        return {"empty": not (self.run_ids or self.is_ahead), **{each: each == self.shown for each in TABS}}

    def on_resize(self) -> None:
        """Give the runs the room they need, at most two fifths; on a low terminal a third, as the plot needs the rows."""
        height = self.app.size.height
        self.figures.styles.height = max(
            4, min(len(self.run_ids) + 3, height * 2 // 5 if height >= LOW else height // 3)
        )

    @property
    def shows(self) -> tuple[str, ...]:
        return self.marked

    @property
    def page(self) -> str:
        return self.shown

    def wants(self) -> Subscription:
        ids = frozenset(self.run_ids)
        bests: Wanted = "" if self.are_stated else "sweeps"
        if not self.is_settled:
            return Subscription(ids, ids, bests=bests)  # then it is known which metric the runs are compared by
        names = self._names_read | {*self.metrics_shown}
        return Subscription(ids, ids, frozenset((run_id, name) for run_id in ids for name in names), bests=bests)

    @property
    def _names_read(self) -> set[str]:
        """The metrics without which there is nothing to show; charts of others come when they are read."""
        return {self.choices.metric} | ({TOKENS} if self.choices.against == "tokens" else set())

    @property
    def rows(self) -> list[RunRow]:
        by_id = self.snapshot.by_id
        return [by_id[run_id] for run_id in self.run_ids if run_id in by_id]

    def concerned(self) -> list[RunRow]:
        return self.rows

    @property
    def runs(self) -> list[Compared]:
        """The runs with their curves, the pinned one first."""
        return [self._compared(row) for row in self.rows]

    @property
    def lit(self) -> Compared | None:
        """The run under the cursor."""
        runs = self.runs
        return next((run for run in runs if run.lit), runs[0] if runs else None)

    @property
    def cursor_run(self) -> str | None:
        return self.lit.row.id if self.lit is not None else None

    @property
    def found(self) -> tuple[Difference, ...]:
        """The settings that differ, compared again only if one changed; none until all are read."""
        if not self.is_read:
            return ()
        specs = [self.snapshot.details[row.id].spec for row in self.rows]
        if specs != self._settings[0]:
            found = (each for each in differences(specs) if each.key != "name")  # each run's name is above its column
            self._tuned = pages.tuned_in(specs)
            self._settings = (specs, tuple(sorted(found, key=lambda each: each.key not in self._tuned)))
        return self._settings[1]

    @property
    def is_read(self) -> bool:
        """Whether everything is known of each run, apart from curves."""
        return all(row.id in self.snapshot.details for row in self.rows)

    # Drawing --------------------------------------------------------------------------------------------------------

    def draw(self, updates: Sequence[CurveUpdate] = ()) -> None:
        for update in updates:
            key = (update.run_id, update.name)
            if update.fresh is not None:
                self._curves[key] = update.fresh
            elif key in self._curves:
                self._curves[key].extend(update.added)
        if self.is_read:
            self.choose_own_metric()
        first = self.run_ids[0] if self.order_runs() else None
        self._say_tabs()
        self._draw_figures()
        if first is not None:
            self.figures.place(first)
        self._draw_page()

    def _draw_page(self) -> None:
        smoothed = self.shown == "curves" and self.choices.smoothing
        words = (
            f"Runs · {pages.best_words(self.runs, self.choices.metric)}{' · values not smoothed' if smoothed else ''}"
        )
        frame.title(self.figures, self.board.symbols.text(words))
        if self.shown == "curves":
            self._draw_curves()
        if self.shown in ("curves", "settings"):
            self._draw_settings()
        elif self.shown == "parallel":
            self._draw_parallel()
        elif self.shown == "scatter":
            self._draw_scatter()
        elif self.shown == "pareto":
            self._draw_pareto()
        elif self.shown == "samples":
            self._draw_samples()

    def _draw_figures(self) -> None:
        items = pages.figure_items(self.runs, self.choices.metric, self.chart.cross, self.board.symbols, time.time())
        self.figures.forms = pages.name_forms(self.runs)
        self.figures.show_items(items)

    @property
    def reading(self) -> str:
        """What is still being read; empty if nothing is."""
        names = self._names_read
        keys = [(run_id, name) for run_id in self.run_ids for name in names]
        unread = [key for key in keys if key not in self._curves] if self.is_settled else self.run_ids
        return f" · reading {counted(len(unread), 'curve')} …" if unread else ""

    def _draw_settings(self) -> None:
        self._name_columns([row.id for row in self.rows])
        self._say_value()
        if not self.is_read:
            blank = ((("", "plain"),),) * len(self._named)
            self.table.show_items([Item("none", ((("reading …", "dim"),), *blank))])
            return
        self.table.show_items(pages.setting_items(self.runs, self.found))

    def _say_value(self) -> None:
        """Show the value under the cursor whole."""
        words = pages.whole_value(self.runs, self.found, self.table.cursor)
        hidden = "" if frame.is_drawn(self.table) else self.table.hidden
        self.value.say(" · ".join(each for each in (words, hidden) if each))

    def axes(self) -> list[Scale]:
        """Return the axes of the parallel coordinates."""
        metric = pages.metric_scale(self.runs, self.choices.metric, log=self.choices.logarithmic)
        return [*(each for each in self._setting_scales() if pages.says(each, metric)), metric]

    def _setting_scales(self) -> list[Scale]:
        return pages.setting_scales(self.found, self._tuned)

    def _draw_parallel(self) -> None:
        axes, runs = self.axes() if self.is_read else [], [run.drawn for run in self.runs]
        self.parallel.show(axes, runs, "reading …" if not self.is_read else "no runs")
        more = self.parallel.left_out(self.parallel.size.width or 1000)
        frame.title(self.parallel, self._title(f"settings and {axes[-1].title}{more}" if axes else "reading …"))

    def _title(self, words: str) -> str:
        return self.board.symbols.text(f"{words}{self.metric_words}")

    def scatter_axes(self) -> tuple[Scale, Scale, set[int] | None, str]:
        """Return both axes of the scatter or Pareto plot, the front, and what is left out."""
        runs, metric = self.runs, self.choices.metric
        y = pages.metric_scale(runs, metric, log=self.choices.logarithmic)
        if self.shown == "pareto":
            cost, notes = pages.cost_scale(runs, time.time())
            return *both(cost, y), pages.front_of(runs, cost, metric)[0], notes
        variables = pages.variable_scales(runs, self._setting_scales(), y, time.time())
        x, y = both(variables[self._variable % len(variables)], y)
        return x, y, None, pages.cost_scale(runs, time.time())[1] if x.title == pages.COST else ""

    def _draw_scatter(self) -> None:
        x, y, _, notes = self.scatter_axes()
        drawn = [run.drawn for run in self.runs]
        empty = "reading …" if self.reading else f"no run has both{': ' if notes else ''}{notes}"
        self.scatter.show(x, y, drawn, empty)
        title = f"{y.title} against {x.title if x is not None else ''}{' · ' if notes else ''}{notes}"
        frame.title(self.scatter, self._title(f"{title} · v: another setting"))

    def _draw_pareto(self) -> None:
        x, y, front, notes = self.scatter_axes()
        runs = self.runs
        why = pages.front_of(runs, pages.cost_scale(runs, time.time())[0], self.choices.metric)[1]
        empty, notes = (pages.SET_PRICE, "") if why == pages.NO_PRICE else (f"no run has both: {notes}", notes)
        self.scatter.show(x, y, [run.drawn for run in runs], "reading …" if self.reading else empty, front)
        on = " ".join(NAMES[runs[place].place] for place in sorted(front or ()))
        best = f" · front: {on}" if on else f" · no front: {why}" if why else ""
        frame.title(self.scatter, self._title(f"{y.title} against cost{best}{' · ' if notes else ''}{notes}"))

    def _draw_samples(self) -> None:
        """Show those of the pinned run and the one under the cursor."""
        runs, lit = self.runs, self.lit
        pair = [*runs[:1], *([lit] if lit is not None and runs and lit.row.id != runs[0].row.id else runs[1:2])]
        self.sample_page.show_runs({run.row.id: f"{NAMES[run.place]} {run.row.name} {run.row.id[-6:]}" for run in pair})

    def _say_tabs(self) -> None:
        active, dim = (self.top.get_component_rich_style(f"top--{name}") for name in ("active", "dim"))
        words = Text(f" {counted(len(self.rows), 'run')}  ", style="bold", no_wrap=True)
        for tab in TABS:
            part = Text.assemble(" ", (tab, active if tab == self.shown else dim), " ")
            part.apply_meta({"@click": f"screen.tab('{tab}')"})
            words.append_text(part)
        self.tabs.update(words)

    # Keys -----------------------------------------------------------------------------------------------------------

    def on_table_moved(self, event: Table.Moved) -> None:
        """Light the run under the cursor."""
        if event.table is self.figures:
            self._draw_figures()
            self._draw_page()
        elif self.shown == "settings":
            self._say_value()

    def on_difference_table_fitted(self) -> None:
        """Say how many runs are out of sight: when the page was opened, the table had no size yet."""
        if self.shown == "settings":
            self._say_value()

    def action_tab(self, tab: str) -> None:
        self.shown = tab
        self.update_classes(self._classes_wanted)
        self.sample_page.read_again()
        self.set_focus(self.home_of_focus)
        self.keys.refresh()
        self.take()

    @property
    def home_of_focus(self) -> Widget:
        return self.table if self.shown == "settings" else self.figures

    def _step_tab(self, by: int) -> None:
        self.action_tab(TABS[(TABS.index(self.shown) + by) % len(TABS)])

    def action_next_tab(self) -> None:
        self._step_tab(1)

    def action_previous_tab(self) -> None:
        self._step_tab(-1)

    def action_metric(self, by: int = 1) -> None:
        if self.shown == "samples":
            self.sample_page.step_prompt(by)
        else:
            self.step_metric(by)

    def back(self) -> bool:
        return self.close_filter()

    def action_variable(self, by: int) -> None:
        if self.shown == "curves" and by > 0:
            self.action_panels()
            return
        if self.shown != "scatter":
            self.action_tab("scatter")
            return
        self._variable += by
        self._draw_scatter()

    def action_pan(self, share: float) -> None:
        """Move along the curves, or to another run's settings; scroll samples, since up and down choose the run."""
        if self.shown == "settings" or self.table.has_focus:
            self.figures.action_move(-1 if share < 0 else 1)
        elif self.shown == "samples":
            self.sample_page.action_page(-1 if share < 0 else 1)
        else:
            self.wall.pan(share)

    def action_open(self) -> None:
        if (lit := self.lit) is not None:
            self.board.open_run(lit.row.id)

    def folder(self) -> Path:
        """Where files are offered to be written."""
        return self.board.folder or Path()
