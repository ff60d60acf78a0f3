"""The table of the Runs screen: what stands in each line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.filters.cells import cell
from armada.foundation.sanitize import sanitize_line
from armada.tui.arrangement import Again, Heading
from armada.tui.beginnings import alike_by_sweep, first_fitting, short_forms, width_of
from armada.tui.best import LOSS, best_of
from armada.tui.filtering import subject_of
from armada.tui.folds import Fold, done
from armada.tui.kept import Kept
from armada.tui.snapshot import EMPTY, RunRow, Snapshot
from armada.tui.widgets.run_columns import COLUMNS, LOSS_ROOM, PROGRESS, SPARK, column_of
from armada.tui.widgets.run_signs import STATE_STYLES, end_of, glyph
from armada.tui.widgets.table import Cells, Entry, Span, Table
from armada.units import brief_span, counted, rough_span, short_number, span
from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.filters.keys import Key
    from armada.tui.arrangement import Line
    from armada.tui.best import Best, Standing
    from armada.tui.symbols import Symbols

GUIDE = 6
"""Cells before a reason."""
DEEPEST = 6
"""Runs that follow more are not indented further."""
BEST = " best"
"""The sign of the best run, behind its value or its name."""
NONE_LIKE_THIS = "no run matches: esc clears the filter"


def lately(seconds: float) -> str:
    """Format an age in steps of ten seconds: `now`, `20 s ago`, `6 m ago`. Forty of them that count are unrest."""
    if seconds < 10:
        return "now"
    return f"{rough_span(seconds // 10 * 10 if seconds < 60 else seconds)} ago"


def figure(number: float | None) -> str:
    """Format a rate in a few characters: `812`, `39.8k`."""
    if number is None:
        return ""
    return f"{number:.0f}" if number < 1000 else f"{number / 1000:.1f}k" if number < 1e6 else f"{number / 1e6:.1f}M"


def meter(share: float, width: int, symbols: Symbols, style: str = "accent") -> tuple[Span, Span]:
    """Return a thin bar: what is done in a colour, the rest faint."""
    done, rest = symbols.meter(share, width)
    return (done, style), (rest, "faint")


class RunTable(Table):
    """Runs; a line under a run says why it needs the user."""

    def __init__(self, symbols: Symbols, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(COLUMNS, symbols, id=id, classes=classes)
        self.empty = NONE_LIKE_THIS
        self.snapshot: Snapshot = EMPTY
        self.now = time.time
        self.folds: dict[str, Fold] = {}
        self.closed: dict[str, Heading] = {}
        """The groups that are folded."""
        self.depths: Mapping[str, int] = {}
        """How deep runs hang under the row of their sweep, or under the run that they follow."""
        self.pins: frozenset[str] = frozenset()
        """The pinned runs."""
        self.tops: frozenset[str] = frozenset()
        """Those of them that stand above all other runs: they hang under nothing there."""
        self.standings: Mapping[str, Standing] = {}
        """How the listed cells of sweeps and the runs of groups stand among each other."""
        self._others: dict[str, list[str]] = {}
        """The further lines of runs that have several tags, by run."""
        self._keys: tuple[Key, ...] = ()
        self._run_count: int | None = None
        self._alike: dict[str, int] | None = None
        """How many characters the names of a sweep's listed cells begin with alike, by sweep; None: not counted yet."""
        self._sparks: Kept[str] = Kept()

    def choose(self, keys: Sequence[Key]) -> None:
        """Show columns of the user's choice after the state's symbol; none means the usual ones."""
        if [key.name for key in keys] == [key.name for key in self._keys]:
            return
        self._keys = tuple(keys)
        chosen = (COLUMNS[0], *(column_of(key, place) for place, key in enumerate(keys)))
        self.set_columns(chosen if keys else COLUMNS)

    def key_of(self, title: str) -> Key | None:
        """Return what the column of the user's choice with this title shows; None if it is not one."""
        return next((key for place, key in enumerate(self._keys) if column_of(key, place).title == title), None)

    def show_runs(self, snapshot: Snapshot, lines: Sequence[Line]) -> None:
        self.snapshot = snapshot
        self.folds = {line.key: line for line in lines if isinstance(line, Fold)}
        self.closed = {line.key: line for line in lines if isinstance(line, Heading) and line.folded}
        self._others = {}
        self.marked &= set(snapshot.by_id) | set(self.folds)  # of a folded group its runs are marked
        entries: list[Entry] = []
        for line in lines:
            if isinstance(line, Heading):
                entries.append(Entry(line.key, line, "row" if line.folded else "heading"))
                if line.trouble is not None:
                    entries.append(Entry(line.key, line, "more"))
                continue
            key = line.run.run_id if isinstance(line, RunRow) else line.key
            source = line.row if isinstance(line, Again) else line
            if isinstance(line, Again):
                self._others.setdefault(line.row.run.run_id, []).append(key)
            entries.append(Entry(key, source))
            if line.trouble is not None and not (isinstance(line, Fold) and line.is_open):
                entries.append(Entry(key, source, "more"))
        self._run_count = self._alike = None
        self.show(entries)

    def replace(self, sources: Mapping[str, object]) -> None:
        others = {key: source for run_id, source in sources.items() for key in self._others.get(run_id, ())}
        super().replace({**sources, **others})

    def mark_of(self, key: str) -> str:
        return key.partition("\t")[0]  # a run is marked in all of its lines

    def is_marked(self, key: str) -> bool:
        if key in self.closed:
            return {row.id for row in self.closed[key].folded} <= self.marked
        return super().is_marked(key)

    def toggle_mark(self, key: str) -> None:
        """Mark or unmark a run or a sweep; of a folded group, all its runs."""
        if key not in self.closed:
            super().toggle_mark(key)
            return
        runs = {row.id for row in self.closed[key].folded}
        self.marked = self.marked - runs if runs <= self.marked else self.marked | runs
        self.refresh()

    @property
    def cursor_mark(self) -> str | None:
        """The run under the cursor, or the key of a sweep."""
        return self.mark_of(self.cursor) if self.cursor is not None else None

    @property
    def run_count(self) -> int:
        """How many runs are listed, those of sweeps included."""
        if self._run_count is None:  # of 10,000 rows: 7 ms
            self._run_count = self._count_runs()
        return self._run_count

    def _count_runs(self) -> int:
        if not (self.folds or self.closed or self._others):
            return self.row_count
        shown = {row.id for fold in self.folds.values() for row in fold.rows}
        shown |= {row.id for heading in self.closed.values() for row in heading.folded}
        rows = {self.mark_of(entry.key) for entry in self.entries if entry.kind == "row"}
        return len(shown | rows - set(self.folds) - set(self.closed))

    def group_of(self, key: str) -> str | None:
        """Return the key of the heading above a row; None if there is none."""
        found = None
        for entry in self.entries:
            found = entry.key if entry.kind == "heading" else found
            if entry.key == key and entry.kind == "row":
                return found
        return None

    def first_under(self, key: str) -> str | None:
        """Return the key of the first row under a heading; None if it has none."""
        keys = [entry.key for entry in self.entries if entry.kind != "more"]
        place = keys.index(key) + 1 if key in keys else len(keys)
        return keys[place] if place < len(keys) else None

    def cells(self, entry: Entry) -> Cells:
        source = entry.source
        if isinstance(source, Heading) and source.folded:
            return self._closed_group(source, entry.kind)
        if isinstance(source, Heading):
            title = self.symbols.text(sanitize_line(source.title, 80))
            best = f"  {self.symbols.text(source.best.words)}" if source.best is not None else ""
            states = f": {source.states}" if source.states else ""
            return (((f"  {title}", "heading"), (f"  {counted(source.size, 'run')}{states}{best}", "dim")),)
        assert isinstance(source, RunRow | Fold)  # noqa: S101  # show_runs adds nothing else
        if entry.kind == "more":
            failed = isinstance(source, RunRow) and source.run.state == "failed"
            reason = self.symbols.text(source.trouble.words if source.trouble is not None else "")
            hints = self._hints(source, reason) if entry.key == self.cursor else ()
            return (((reason, "bad" if failed else "warn"), *hints),)
        if isinstance(source, Fold):
            return self._folded(source, self.now())
        depth = 0 if entry.key in self.tops else self.depths.get(source.id, 0)
        return self._chosen(source, self.now(), depth) if self._keys else self._row(source, self.now(), depth)

    def _hints(self, source: RunRow | Fold, reason: str) -> tuple[Span, ...]:
        """The keys that help, if they fit behind the reason; they act on the row under the cursor."""
        spans: list[Span] = []
        for key, word in _helping(source):
            spans += [("   " if not spans else "  ", "plain"), (self.symbols.text(key), "key"), (f" {word}", "dim")]
        used = width_of(spans) + cell_len(reason) + GUIDE
        return tuple(spans) if used <= self._room else ()

    def _closed_group(self, heading: Heading, kind: str) -> Cells:
        """A folded group: its name, how many runs, how many of them have ended, and the best value of their metric."""
        text = self.symbols.text
        if kind == "more":
            return (((text(heading.trouble.said if heading.trouble is not None else ""), "warn"),),)
        count = f" ({counted(heading.size, 'run')})" if self._keys else ""  # else it stands beside it
        title = ((f"{self.symbols.closed} {text(sanitize_line(heading.title, 80))}{count}", "heading"),)
        sign: Span = (self.symbols.attention, "warn") if heading.trouble is not None else ("", "plain")
        ended = sum(row.run.ended for row in heading.folded)
        value, metric = self._best(heading.best)
        told = {
            "NAME": title,
            "PROGRESS": self._counted(sum(map(done, heading.folded)) / max(1, heading.size), ended, heading.size),
            "LOSS": (value,),
            "": (metric,),
        }
        columns = self.columns[1:]
        if self._keys:
            return ((sign,), title, *(((("", "plain")),),) * (len(columns) - 1))
        return ((sign,), *(told.get(column.title, (("", "plain"),)) for column in columns))

    def _best(self, best: Best | None) -> tuple[Span, Span]:
        """Return a best value for the column LOSS, and its metric for the one beside it.

        Where the latter does not fit, a value that is no loss is left out: the title would name it wrong.
        """
        if best is None:
            return ("", "plain"), ("", "plain")
        if best.value is None:
            return (self.symbols.text(best.why), "dim"), ("", "plain")
        is_named = best.metric.endswith(LOSS) or self._has_beside
        return (short_number(best.value, LOSS_ROOM) if is_named else "", "plain"), (
            self.symbols.text(best.metric),
            "dim",
        )

    def _counted(self, share: float, ended: int, count: int) -> tuple[Span, ...]:
        """How much of several runs is done, and how many have ended: the bar makes room for a long count."""
        words = f" {ended}/{count}"
        return (*meter(share, max(4, self._room_of_progress - len(words)), self.symbols), (words, "plain"))

    def _folded(self, fold: Fold, now: float) -> Cells:
        text, (home, there) = self.symbols.text, fold.kept
        sign = self.symbols.opened if fold.is_open else self.symbols.closed
        state: Span = (self.symbols.states.get(fold.state, "?"), STATE_STYLES.get(fold.state, "accent"))
        if fold.trouble is not None:
            state = (self.symbols.attention, "warn")
        forms = [f"{sign} {text(each)}" for each in (fold.title, fold.name)]
        title: tuple[Span, ...] = ((first_fitting(forms, self._room_of_name), "strong"),)
        states, style = fold.states_span
        costs, blank = fold.costs(now), ("", "plain")
        if self._keys:
            told = {
                "name": title,
                "id": title,
                "state": ((text(states), style),),
                "host": ((text(fold.hosts), "plain"),),
                "loss": ((_number(fold.lowest_loss, LOSS_ROOM), "plain"),),
                "progress": ((f"{fold.share:.0%}", "plain"),),
                "cost": ((costs.text() if costs is not None else "", "plain"),),
            }
            found = [told.pop(key.name, (blank,)) for key in self._keys]
            return ((state,), *(([title, *found[1:]]) if title not in found else found))
        seen, (value, metric) = fold.seen_at, self._best(best_of(fold.cells, self.snapshot.bests))
        return (
            (state,),
            title,
            ((text(fold.hosts), "plain"),),
            ((f"{fold.gpus}×" if fold.gpus else "", "dim"),),
            self._counted(fold.share, fold.ended, len(fold.cells)),
            (value,),
            (metric,),
            ((figure(fold.tokens_per_s) if fold.tokens_per_s else "", "plain"),),
            (blank,),
            ((f"{home} of {there} home" if there else "", "dim" if home == there else "plain"),),
            ((costs.text() if costs is not None else "", "plain"),),
            ((lately(now - seen) if seen is not None else "", "dim"),),
        )

    def _chosen(self, row: RunRow, now: float, depth: int) -> Cells:
        subject = subject_of(row, self.snapshot.facts, now)
        guide, rooms = self._guided(row, depth), dict(self._fit(self._room))
        active = row.run.state not in ENDED
        named = next((key for key in self._keys if key.name in ("id", "name")), self._keys[0])
        cells: list[tuple[Span, ...]] = [(glyph(row, self.symbols),)]
        for place, key in enumerate(self._keys, 1):
            before = guide if key is named else ()
            after = self._sign_of_best(row.id) if key is named else ()
            left = rooms.get(place, 0) - width_of(before) - width_of(after)
            value = self.symbols.text(cell(key, subject, self.columns[place].width))
            if key.name == "name":
                value = self._named(row, left)
            elif before or after:
                value = self.symbols.shortened(value, left)
            cells.append((*before, (value, _style(key, row, active=active)), *after))
        return tuple(cells)

    def _row(self, row: RunRow, now: float, depth: int) -> Cells:
        run, text = row.run, self.symbols.text
        blank: tuple[Span, ...] = (("", "plain"),)
        eta = run.eta_s if run.state == "running" and run.unreachable_since is None else None
        costs = row.costs(now)
        return (
            (glyph(row, self.symbols),),
            self._titled(row, depth),
            ((text(row.host), "plain"),),
            ((_gpus(row), "dim"),),
            self._progress(row, now),
            ((run.loss_not_finite or _number(run.loss, LOSS_ROOM), "bad" if run.loss_not_finite else "plain"),),
            self._beside(run.run_id),
            ((figure(run.tokens_per_s) if run.tokens_per_s else "", "plain"),),
            ((brief_span(eta), "plain"),) if eta is not None else blank,
            self._home(row, now),
            ((costs.text() if costs is not None else "", "plain"),),
            self._seen(row, now),
        )

    @property
    def _has_beside(self) -> bool:
        """Whether the column beside the loss is in sight."""
        return any(self.columns[at] is SPARK for at, _ in self._fit(self._room))

    def _beside(self, run_id: str) -> tuple[Span, ...]:
        """The value of the metric by which a cell of a sweep stands among the others, else the curve; and which is the best."""
        standing = self.standings.get(run_id)
        is_best = standing is not None and standing.is_best
        room = SPARK.width - len(BEST) if is_best else SPARK.width
        sign: tuple[Span, ...] = ((BEST, "accent"),) if is_best else ()
        if standing is not None and standing.value is not None:
            return ((short_number(standing.value, room), "plain"), *sign)
        values = self.snapshot.sparks.get(run_id, ())
        spark = self._sparks.get(run_id, values, lambda: self.symbols.spark(values))
        return ((spark[-room:], "accent"), *sign)

    def _sign_of_best(self, run_id: str) -> tuple[Span, ...]:
        """The sign behind the name of the best run, where it does not stand beside the loss."""
        standing = self.standings.get(run_id)
        is_here = standing is not None and standing.is_best and not self._has_beside
        return ((BEST, "accent"),) if is_here else ()

    def _titled(self, row: RunRow, depth: int) -> tuple[Span, ...]:
        """The pin, the name, the best's sign, the star, the end of the id and, if there is room for them, the tags."""
        run, text = row.run, self.symbols.text
        guide, best = self._guided(row, depth), self._sign_of_best(row.id)
        room = self._room_of_name - width_of(guide) - width_of(best)
        name = (self._named(row, room), "plain" if run.ended else "strong")
        star: tuple[Span, ...] = ((text(f" {self.symbols.star}"), "accent"),) if run.starred_at is not None else ()
        tags: tuple[Span, ...] = ((text(_tags(row)), "dim"),) if run.tags else ()
        return (*guide, name, *best, *star, (f" {run.run_id[-6:]}", "dim"), *tags)

    @property
    def _room_of_name(self) -> int:
        """The width of the column with names; of columns of the user's choice without one, that of the first."""
        places = [place for place, key in enumerate(self._keys, 1) if key.name == "name"]
        return dict(self._fit(self._room)).get(places[0] if places else 1, 0)

    @property
    def _room_of_progress(self) -> int:
        """The width of the usual column with bars."""
        return dict(self._fit(self._room)).get(COLUMNS.index(PROGRESS), PROGRESS.width)

    def _named(self, row: RunRow, room: int) -> str:
        """The name of a run, cut to its room; of a cell whose name does not fit, the part by which it differs from others."""
        name = row.name
        if not row.run.sweep or cell_len(name) <= room:
            return self.symbols.shortened(name, room)
        if self._alike is None:
            self._alike = alike_by_sweep(each.source for each in self.entries if isinstance(each.source, RunRow))
        forms = map(self.symbols.text, short_forms(name, self._alike.get(row.run.sweep, 0)))
        return self.symbols.shortened(first_fitting(forms, room), room)

    def _guided(self, row: RunRow, depth: int) -> tuple[Span, ...]:
        """The guide before a run that hangs under another row, and the sign of a pinned one."""
        guide = ((f"{'  ' * min(depth - 1, DEEPEST)}{self.symbols.guide} ", "faint"),) if depth else ()
        return (*guide, (f"{self.symbols.pin} ", "accent")) if row.id in self.pins else guide

    def _progress(self, row: RunRow, now: float) -> tuple[Span, ...]:
        run = row.run
        if run.state in ("running", "unknown") and run.step is not None and run.total_steps:
            share = run.step / run.total_steps
            done = "dim" if run.unreachable_since is not None or run.state == "unknown" else "accent"
            bar = meter(share, self._room_of_progress - 5, self.symbols, done)
            return (*bar, (f" {min(share, 1):>4.0%}", "plain"))
        if run.state == "running":
            words = sanitize_line(run.phase or "running", 12)
            lasted = f" {rough_span(row.lasted_s(now))}" if run.started_at else ""
            return ((words + lasted, "plain"),)
        if run.ended:
            return (end_of(row, now),)
        if run.state == "unknown":  # how long, nobody knows
            return ((run.state, "warn"),)
        return ((f"{run.state} {rough_span(now - run.created_at)}", "plain"),)

    def _home(self, row: RunRow, now: float) -> tuple[Span, ...]:
        kept = row.kept
        if kept.damaged:
            return ((f"{kept.home} home", "plain"), (f" {kept.damaged} damaged", "bad"))
        if not kept.home:
            waiting = f"{counted(kept.only_host, 'ckpt')} not home" if kept.only_host else ""
            return ((waiting, "warn" if row.run.ended else "dim"),)
        age = f" {rough_span(now - kept.home_at)}" if kept.home_at is not None else ""
        if row.run.ended and not kept.only_host:
            return ((f"all {kept.home} home", "good"), (age, "dim"))
        waiting = f" +{kept.only_host}" if kept.only_host else ""
        return ((f"ckpt-{kept.home_step}", "plain"), (age, "dim"), (waiting, "warn" if row.run.ended else "dim"))

    def _seen(self, row: RunRow, now: float) -> tuple[Span, ...]:
        run = row.run
        if run.ended:
            return (("", "dim"),)
        if run.unreachable_since is not None:
            return ((f"lost {rough_span(now - run.unreachable_since)}", "warn"),)
        if run.observed_at is None:
            return (("not yet", "dim"),)
        age = now - run.observed_at
        return ((lately(age), "dim" if age < 60 else "warn"),)


def height_of_few(entries: Sequence[Entry], height: int) -> int | None:
    """Return the lines of a table and its frame, if they are at most two fifths of the terminal's; else None.

    A terminal of less than 20 lines has no preview that could take the others. The table grows by several lines at once:
    not everything moves with each new run.
    """
    step = 4 if height >= 34 else 2
    lines = -(-(len(entries) + 1) // step) * step + 2
    return lines if lines * 5 <= height * 2 and height >= 20 else None


def _helping(source: RunRow | Fold) -> tuple[tuple[str, str], ...]:
    """Return the keys that help a run that needs you, with what they do."""
    if isinstance(source, Fold):
        return (("→", "lists its cells"),)
    kind = source.trouble.kind if source.trouble is not None else None
    if kind == "damaged":
        return (("y", "sync now"), ("z", "archive"))
    if kind == "sync":
        return (("y", "sync now"), ("l", "log"))
    if source.run.state in ("failed", "cancelled"):
        return (("u", "resume"), ("R", "relaunch"))
    if source.run.state == "succeeded":
        return (("l", "log"), ("R", "relaunch"))
    if source.run.unreachable_since is not None or source.run.state == "unknown":
        return (("r", "check again"),)
    return (("l", "log"), ("x", "stop"))


def _tags(row: RunRow) -> str:
    return sanitize_line("".join(f" #{tag}" for tag in row.run.tags), 60)


def _number(value: float | None, room: int) -> str:
    return "" if value is None else short_number(value, room)


def _gpus(row: RunRow) -> str:
    return f"{len(row.run.gpus)}×" if row.run.gpus else "cpu" if row.run.started_at else ""


def _style(key: Key, row: RunRow, *, active: bool) -> str:
    if key.name == "loss" and row.run.loss_not_finite is not None:
        return "bad"
    return "strong" if active and key.name in ("id", "name") else "plain"


def age(moment: float | None, now: float) -> str:
    return f"{span(now - moment)} ago" if moment is not None else "never"
