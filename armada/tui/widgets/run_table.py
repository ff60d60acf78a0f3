"""The table of the Runs screen: what stands in each line."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from rich.cells import cell_len

from armada.filters.cells import cell
from armada.foundation.sanitize import sanitize_line
from armada.tui.arrangement import Again, Heading
from armada.tui.beginnings import alike_by_sweep, common_form, first_fitting, short_forms, width_of
from armada.tui.best import EVAL_LOSS, LOSS, best_of
from armada.tui.filtering import subject_of
from armada.tui.folds import Fold, done
from armada.tui.kept import Kept
from armada.tui.snapshot import EMPTY, RunRow, Snapshot
from armada.tui.widgets.run_cells import (
    BLANK,
    eta_of,
    figure,
    gpus_of,
    home_of,
    lately,
    loss_of,
    meter,
    progress_of,
    seen_of,
)
from armada.tui.widgets.run_columns import (
    BESIDE,
    COLUMNS,
    LOSS_ROOM,
    PROGRESS,
    SPARK,
    USUAL,
    columns_of,
    is_usual,
    with_room_for_costs,
)
from armada.tui.widgets.run_signs import STATE_STYLES, glyph
from armada.tui.widgets.table import Cells, Entry, Span, Table
from armada.units import counted, short_number, span
from armada.verdicts.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
SHORTEST = 4
"""Cells of a name beside which the end of an id may stand."""
NOT_LISTED, FOLDED = "not listed", "in a folded row"
"""Where a marked run is that has no line of its own."""
NONE_LIKE_THIS = "no run matches: esc clears the filter"


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
        self._keys: dict[str, Key] = {}
        """The columns of the user's choice, by name; none for the usual ones."""
        self._names = tuple(USUAL)
        """What stands in the columns behind the state's symbol."""
        self._run_count: int | None = None
        self._alike: dict[str, int] | None = None
        """How many characters the names of a sweep's listed cells begin with alike, by sweep; None: not counted yet."""
        self._levels: dict[tuple[str, int], int] = {}
        """The first short form in which the names of a sweep's listed cells all fit, by sweep and room."""
        self._twins: frozenset[str] | None = None
        """The names that several listed runs have; None: not counted yet."""
        self._sparks: Kept[str] = Kept()

    def choose(self, keys: Sequence[Key]) -> None:
        """Show columns of the user's choice after the state's symbol; none means the usual ones."""
        if [key.name for key in keys] == list(self._keys):
            return
        self._keys = {key.name: key for key in keys}
        self._names, columns = columns_of(keys) if keys else (tuple(USUAL), COLUMNS[1:])
        tariffs = (host.tariff for host in self.snapshot.hosts)
        self.set_columns(with_room_for_costs((COLUMNS[0], *columns), tariffs))

    def key_of(self, place: int) -> Key | None:
        """Return what the column of the user's choice at a place shows; None if it is not one."""
        return self._keys.get(("", *self._names)[place])

    def show_runs(self, snapshot: Snapshot, lines: Sequence[Line]) -> None:
        self.snapshot = snapshot
        self.folds = {line.key: line for line in lines if isinstance(line, Fold)}
        self.closed = {line.key: line for line in lines if isinstance(line, Heading) and line.folded}
        self._others = {}
        self.marked &= set(snapshot.by_id)  # of a sweep and of a folded group the runs are marked
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
        self._run_count = self._alike = self._twins = None
        columns = with_room_for_costs(self.columns, (host.tariff for host in snapshot.hosts))
        if columns != self.columns:
            self.set_columns(columns)
        self.show(entries)

    def replace(self, sources: Mapping[str, object]) -> None:
        others = {key: source for run_id, source in sources.items() for key in self._others.get(run_id, ())}
        super().replace({**sources, **others})

    def mark_of(self, key: str) -> str:
        return key.partition("\t")[0]  # a run is marked in all of its lines

    def runs_of(self, key: str) -> set[str]:
        """Return the ids of the runs that a row stands for: the newest of each cell of a sweep, all of a folded group."""
        if key in self.closed:
            return {row.id for row in self.closed[key].folded}
        return {row.id for row in self.folds[key].cells} if key in self.folds else {self.mark_of(key)}

    def is_marked(self, key: str) -> bool:
        return bool(self.marked) and self.runs_of(key) <= self.marked

    @property
    def unlisted(self) -> set[str]:
        """The marked runs that no line stands for: a filter hides them, or they are archived."""
        left = {run_id for run_id in self.marked if not self.shows(run_id)}
        if left:
            left -= {row.id for fold in self.folds.values() for row in fold.rows}
            left -= {row.id for heading in self.closed.values() for row in heading.folded}
        return left

    @property
    def out_of_view(self) -> dict[str, str]:
        """The marked runs without a line of their own, each with where it is."""
        unlisted = self.unlisted
        hidden = (run_id for run_id in sorted(self.marked) if not self.shows(run_id))
        return {run_id: NOT_LISTED if run_id in unlisted else FOLDED for run_id in hidden}

    def toggle_mark(self, key: str) -> None:
        """Mark or unmark the runs that a row stands for."""
        runs = self.runs_of(key)
        self.marked = self.marked - runs if runs <= self.marked else self.marked | runs
        self.refresh()  # a run may have several rows

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

    def fold_of(self, key: str) -> str | None:
        """Return the key of the sweep whose row this is, or under whose row its line hangs; None if there is none."""
        for entry in reversed(self.entries[: self._lines.get(key, -1) + 1]):
            if entry.kind == "heading":
                return None
            if (fold := self.folds.get(entry.key)) is not None:
                is_under = fold.is_open and any(row.id == self.mark_of(key) for row in fold.rows)
                return entry.key if entry.key == key or is_under else None
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
        return self._row(source, self.now(), depth)

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
        count = "" if "progress" in self._names else f" ({counted(heading.size, 'run')})"  # else it stands beside it
        title = ((f"{self.symbols.closed} {text(sanitize_line(heading.title, 80))}{count}", "heading"),)
        sign: Span = (self.symbols.attention, "warn") if heading.trouble is not None else ("", "plain")
        ended = sum(row.run.ended for row in heading.folded)
        value, metric = self._best(heading.best)
        told = {
            "name": title,
            "progress": self._counted(sum(map(done, heading.folded)) / max(1, heading.size), ended, heading.size),
            "loss": (value,),
            BESIDE: (metric,),
        }
        return self._laid(sign, title, told)

    def _best(self, best: Best | None) -> tuple[Span, Span]:
        """Return a best value for the column LOSS, and its metric for the one beside it.

        Where the latter does not fit, a value that is no loss is left out: the title would name it wrong.
        """
        if best is None:
            return ("", "plain"), ("", "plain")
        if best.value is None:
            return (self.symbols.text(best.why), "dim"), ("", "plain")
        is_named = best.metric.endswith(LOSS) or self._has_beside
        value = short_number(best.value, LOSS_ROOM) if is_named else ""
        return (value, "plain"), (self.symbols.text(best.metric), "dim")

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
        costs, seen = fold.costs(now), fold.seen_at
        value, metric = self._best(best_of(fold.cells, self.snapshot.bests))
        told: dict[str, tuple[Span, ...]] = {
            "name": title,
            "id": title,
            "state": ((text(states), style),),
            "host": ((text(fold.hosts), "plain"),),
            "gpus": ((f"{fold.gpus}×" if fold.gpus else "", "dim"),),
            "progress": self._counted(fold.share, fold.ended, len(fold.cells)),
            "loss": (value,),
            BESIDE: (metric,),
            "speed": ((figure(fold.tokens_per_s) if fold.tokens_per_s else "", "plain"),),
            "checkpoints": ((f"{home} of {there} home" if there else "", "dim" if home == there else "plain"),),
            "cost": ((costs.text() if costs is not None else "", "plain"),),
            "seen": ((lately(now - seen) if seen is not None else "", "dim"),),
        }
        return self._laid(state, title, told)

    def _laid(self, sign: Span, title: tuple[Span, ...], told: Mapping[str, tuple[Span, ...]]) -> Cells:
        """Return the cells of a row for several runs: its title stands once, in the first column if none is for names."""
        named = next((name for name in self._names if name in ("name", "id")), self._names[0])
        rest = ((BLANK,) if name in ("name", "id") else told.get(name, (BLANK,)) for name in self._names)
        found = zip(self._names, rest, strict=True)
        return ((sign,), *(title if name == named else cell for name, cell in found))

    def _row(self, row: RunRow, now: float, depth: int) -> Cells:
        """The cells of a run: what the usual table has looks as it does there, whatever else was chosen."""
        run, text = row.run, self.symbols.text
        costs = row.costs(now)
        usual: dict[str, tuple[Span, ...]] = {
            "host": ((text(row.host), "plain"),),
            "gpus": (gpus_of(row),),
            "progress": progress_of(row, now, self._room_of_progress, self.symbols),
            "loss": (self._loss_of(row, depth),),
            BESIDE: self._beside(run.run_id),
            "speed": ((figure(run.tokens_per_s) if run.tokens_per_s else "", "plain"),),
            "eta": (eta_of(row),),
            "checkpoints": home_of(row, now),
            "cost": ((text(costs.text() if costs is not None else ""), "plain"),),
            "seen": (seen_of(row, now),),
        }
        if not self._keys:
            return ((glyph(row, self.symbols),), self._titled(row, depth), *usual.values())
        return ((glyph(row, self.symbols),), *self._chosen(row, now, depth, usual))

    def _chosen(
        self, row: RunRow, now: float, depth: int, usual: Mapping[str, tuple[Span, ...]]
    ) -> Iterator[tuple[Span, ...]]:
        subject = subject_of(row, self.snapshot.facts, now)
        guide, rooms = self._guided(row, depth), dict(self._fit(self._room))
        named = next((name for name in self._names if name in ("id", "name")), self._names[0])
        for place, name in enumerate(self._names, 1):
            key = self._keys.get(name)
            if name == "name" and name == named:
                yield self._titled(row, depth)
            elif key is None or (name in usual and name != named and is_usual(key)):
                yield usual[name]
            else:
                before, after = (guide, self._sign_of_best(row.id)) if name == named else ((), ())
                value = self.symbols.text(cell(key, subject, self.columns[place].width))
                if before or after:
                    value = self.symbols.shortened(value, rooms.get(place, 0) - width_of(before) - width_of(after))
                yield (*before, (value, _style(key, row)), *after)

    @property
    def _has_beside(self) -> bool:
        """Whether the column beside the loss is in sight."""
        return any(self.columns[at] is SPARK for at, _ in self._fit(self._room))

    def _loss_of(self, row: RunRow, depth: int) -> Span:
        """The newest loss; of a sweep's cell the one by which cells are ranked, as in their sweep's row, if it is only there."""
        standing, found = self.standings.get(row.id), self.snapshot.bests.get(row.id)
        if not (depth and row.run.sweep) or self._has_beside or standing is None or standing.value is None:
            return loss_of(row)
        metric = found.stated.name if found is not None and found.stated is not None else EVAL_LOSS.name
        return (short_number(standing.value, LOSS_ROOM), "plain") if metric.endswith(LOSS) else loss_of(row)

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
        star: tuple[Span, ...] = ((text(f" {self.symbols.star}"), "accent"),) if run.starred_at is not None else ()
        end: tuple[Span, ...] = ((f" {run.run_id[-6:]}", "dim"),) if "id" not in self._keys else ()
        room = self._room_of_name - width_of(guide) - width_of(best)
        left = room - width_of(star) - width_of(end)
        if SHORTEST <= left < cell_len(row.name) and self._is_twin(row):
            room = left  # the end of its id is all that tells it from the others
        name = (self._named(row, room), "plain" if run.ended else "strong")
        tags: tuple[Span, ...] = ((text(_tags(row)), "dim"),) if run.tags and "tag" not in self._keys else ()
        return (*guide, name, *best, *star, *end, *tags)

    def _is_twin(self, row: RunRow) -> bool:
        """Whether another listed run has the same name."""
        if self._twins is None:
            runs = {each.source.id: each.source.name for each in self.entries if isinstance(each.source, RunRow)}
            self._twins = frozenset(name for name, count in Counter(runs.values()).items() if count > 1)
        return row.name in self._twins

    @property
    def _room_of_name(self) -> int:
        """The width of the column with names; of columns of the user's choice without one, that of the first."""
        place = self._names.index("name") if "name" in self._names else 0
        return dict(self._fit(self._room)).get(place + 1, 0)

    @property
    def _room_of_progress(self) -> int:
        """The width of the column with bars, if it is in sight."""
        place = self._names.index("progress") + 1 if "progress" in self._names else 0
        return dict(self._fit(self._room)).get(place, PROGRESS.width) if place else PROGRESS.width

    def _named(self, row: RunRow, room: int) -> str:
        """The name of a run, cut to its room; of a cell whose name does not fit, the part by which it differs from others."""
        name, sweep = row.name, row.run.sweep
        if not sweep:
            return self.symbols.shortened(name, room)
        if self._alike is None:
            self._alike, self._levels = alike_by_sweep(self._listed), {}
        # All cells of a sweep leave out the same, also beside the sign of the best one: a lone `1` would be its rank.
        least = room if self._sign_of_best(row.id) or row.id not in self.standings else room - self._room_of_best
        if (sweep, least) not in self._levels:
            names = [each.name for each in self._listed if each.run.sweep == sweep]
            self._levels[sweep, least] = common_form(names, self._alike.get(sweep, 0), least)
        form = short_forms(name, self._alike.get(sweep, 0))[self._levels[sweep, least]]
        return self.symbols.shortened(self.symbols.text(form), room)

    @property
    def _listed(self) -> Iterator[RunRow]:
        return (each.source for each in self.entries if isinstance(each.source, RunRow))

    @property
    def _room_of_best(self) -> int:
        """The cells that the sign of the best run takes from its name."""
        return 0 if self._has_beside else len(BEST)

    def _guided(self, row: RunRow, depth: int) -> tuple[Span, ...]:
        """The guide before a run that hangs under another row, and the sign of a pinned one."""
        guide = ((f"{'  ' * min(depth - 1, DEEPEST)}{self.symbols.guide} ", "faint"),) if depth else ()
        return (*guide, (f"{self.symbols.pin} ", "accent")) if row.id in self.pins else guide


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


def _style(key: Key, row: RunRow) -> str:
    if key.name == "loss" and row.run.loss_not_finite is not None:
        return "bad"
    return "strong" if key.name in ("id", "name") and row.run.state not in ENDED else "plain"


def age(moment: float | None, now: float) -> str:
    return f"{span(now - moment)} ago" if moment is not None else "never"
