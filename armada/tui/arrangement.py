"""Choose which runs to show, in which order and groups."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from armada.filters.cells import cell
from armada.filters.trouble import of_several
from armada.sweeps.counts import count_states
from armada.tui.best import LOSS, Ranking, best_among, ranking_of
from armada.tui.chains import Chains
from armada.tui.filtering import Query, subject_of
from armada.tui.folds import Fold, done, fold
from armada.tui.snapshot import RunRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from armada.filters.keys import Key, Value
    from armada.filters.trouble import Trouble
    from armada.store.queries.facts import RunBest
    from armada.tui.best import Best, Standing

_STATE_ORDER = {"running": 2, "queued": 3, "submitted": 3, "preparing": 3, "unknown": 1}


def _urgency(row: RunRow) -> tuple[Any, ...]:
    run = row.run
    if row.trouble is not None:
        return (0 if not run.ended else 1, -(run.ended_at or run.created_at))
    return (_STATE_ORDER.get(run.state, 9), -(run.ended_at or run.created_at))


def _dearest(row: RunRow) -> tuple[str, float]:
    """Each currency by itself, the dearest first; what has no cost is last."""
    costs = row.costs(time.time())
    if costs is None:
        return ("~", 0.0)
    currency, amount = max(costs.by_currency.items(), key=lambda each: each[1])
    return (currency, -amount)


def _progress(row: RunRow) -> float:
    run = row.run
    return run.step / run.total_steps if run.step and run.total_steps else 0.0


SORTS: dict[str, Callable[[RunRow], Any]] = {
    "urgency": _urgency,
    "name": lambda row: row.name.casefold(),
    "host": lambda row: row.host.casefold(),
    "progress": lambda row: -_progress(row),
    "loss": lambda row: row.run.loss if row.run.loss is not None else float("inf"),
    "tok/s": lambda row: -(row.run.tokens_per_s or 0.0),
    "cost": _dearest,
    "newest": lambda row: -row.run.created_at,
}
HEADS = {
    "": "urgency",
    "NAME": "name",
    "HOST": "host",
    "PROGRESS": "progress",
    "LOSS": "loss",
    "TOK/S": "tok/s",
    "COST": "cost",
    "SEEN": "newest",
}
"""The sort order for a click on a column's title."""
NO_CHAIN = "no chain"
NO_VALUE = "not set"
PINNED = "pinned"
PINNED_KEY = "pinned:"
"""Of the heading above pinned runs; no group has this key."""
GROUPS = ("nothing", "host", "state", "group", "tag", "chain")


class Heading(NamedTuple):
    """A line above the runs of one group: how many they are, in which states, and the best value of their metric.

    Of a group that is folded it is the only line, and has the runs.
    """

    key: str
    title: str
    size: int
    states: str = ""
    best: Best | None = None
    folded: tuple[RunRow, ...] = ()

    @property
    def trouble(self) -> Trouble | None:
        """Why runs of a folded group need you; None if none does."""
        return of_several([row.trouble for row in self.folded if row.trouble is not None], "runs")


class Again(NamedTuple):
    """A run under another of its tags, or a pinned one in its group; the first of its lines is the run's own."""

    row: RunRow
    group: str

    @property
    def key(self) -> str:
        return f"{self.row.run.run_id}\t{self.group}"  # a run's id has no tab

    @property
    def trouble(self) -> Trouble | None:
        return self.row.trouble


Line: TypeAlias = "RunRow | Heading | Fold | Again"


class Arrangement:
    """The chosen order, filter and grouping. `arrange` caches its result for each row, since most rows do not change.

    Attributes:
        sort: One of `SORTS`, or the name of `sort_key`.
        sort_key: What a column of the user's choice sorts by.
        group: One of `GROUPS`, or the name of `group_key`.
        group_key: The setting that runs are grouped by.
        opened: Keys of the sweeps whose cells are listed while there is no filter.
        shut: Keys of the sweeps whose cells are not listed although the filter finds them.
        closed: Keys of the groups that are folded.
        pins: Ids of the runs that stand above all others. In its group and in the list of its sweep's cells, such a run
            is listed again.
        tops: Those of them that stand there now: the filter may exclude some, and their heading may be folded.
        depths: How deep runs hang in the list: under the row of their sweep, or under the run that they follow in a
            chain.
        facts_version: Of the facts that the filter asks: another one means that each row has to be asked again.
        bests: How good the runs are, each by its own metric.
        standings: How listed runs stand: each cell of a sweep, and the best one of a group.
    """

    def __init__(self, *, group: str = "nothing", sort: str = "urgency") -> None:
        self.query = Query()
        self.sort = sort
        self.sort_key: Key | None = None
        self.reverse = False
        self.group = group
        self.group_key: Key | None = None
        self.opened: set[str] = set()
        self.shut: set[str] = set()
        self.closed: set[str] = set()
        self.pins: frozenset[str] = frozenset()
        self.tops: frozenset[str] = frozenset()
        self.depths: dict[str, int] = {}
        self.facts_version = 0
        self._memory: dict[str, tuple[RunRow, bool, Any]] = {}
        self._memory_of: tuple[object, ...] = ()
        self._chains = Chains(())
        self._sweeps: dict[str, list[RunRow]] = {}
        """All runs of each sweep, while there is a filter."""
        self.bests: Mapping[str, RunBest] = {}
        self._bests_of: Mapping[str, RunBest] = {}
        self._bests: dict[str, Best | None] = {}  # of each group
        self.standings: dict[str, Standing] = {}

    @property
    def token(self) -> tuple[object, ...]:
        """What the remembered results depend on, besides the rows."""
        return (self.query.text, self.query.words, self.query.moment, self.facts_version, self.sort, self.sort_key)

    @property
    def grouping(self) -> str:
        """By what runs are grouped now: a setting of which nothing is known groups nothing."""
        return self.group if self.group in GROUPS or self.group_key is not None else "nothing"

    @property
    def _key_of(self) -> Callable[[RunRow], Any]:
        key = self.sort_key
        if self.sort in SORTS or key is None:
            return SORTS.get(self.sort, _urgency)
        now, facts = time.time(), self.query.facts
        return lambda row: _ordered(key.read(subject_of(row, facts, now)))

    @property
    def is_usual(self) -> bool:
        """Whether the list begins with the runs that are read first."""
        return not self.query and self.sort == "urgency" and not self.reverse and self.grouping == "nothing"

    def stays(self, rows: Sequence[RunRow]) -> bool:
        """Whether the lines and their order stay the same with the new versions of these rows."""
        if self._memory_of != self.token:
            return False
        for row in rows:
            known = self._memory.get(row.run.run_id)
            if row.run.sweep:
                return False  # the row of its sweep changes, too
            if known is None or (known[0].trouble is None) != (row.trouble is None):
                return False
            if self.grouping != "nothing" and self._moves_heading(known[0], row):
                return False
            made = (row, self.query.matches(row), self._key_of(row))
            if made[1:] != known[1:]:
                return False
            self._memory[row.run.run_id] = made
        return True

    def _moves_heading(self, old: RunRow, new: RunRow) -> bool:
        """Whether a new version of a row changes the heading above it, or its place under headings."""
        if old.run.state != new.run.state or self._groups_of(old) != self._groups_of(new):
            return True
        if (old.trouble != new.trouble or done(old) != done(new)) and self._is_folded(new):
            return True  # a folded group says why a run of it needs you, and how much is done
        if self.bests.get(new.id) != self._bests_of.get(new.id):
            return True
        before, now = old.run.loss, new.run.loss
        if before == now:
            return False
        return any(_moves(self._bests.get(title), before, now) for title in self._groups_of(new))

    def _is_folded(self, row: RunRow) -> bool:
        """Whether the row of a folded group stands for a run, too."""
        if not self.closed:
            return False
        keys = {f"{self.group}:{title}" for title in self._groups_of(row)}
        return not keys.isdisjoint(self.closed) or (row.id in self.pins and PINNED_KEY in self.closed)

    def groupings(self, rows: Sequence[RunRow]) -> list[str]:
        """Return what runs can be grouped by: where no run has a group, a tag or a chain, not by that."""
        chains = Chains(rows)
        has: dict[str, Callable[[RunRow], object]] = {
            "group": lambda row: row.run.group,
            "tag": lambda row: row.run.tags,
            "chain": lambda row: chains.root(row.id),
        }
        return [name for name in GROUPS if name not in has or any(map(has[name], rows))]

    def arrange(self, rows: Sequence[RunRow]) -> list[Line]:
        """Arrange the table's rows and headings, without the detail lines of a run.

        The runs of a sweep share a row. Under a filter those that it finds are listed below it: you look for certain runs.
        """
        if self._memory_of != self.token:
            self._memory, self._memory_of = {}, self.token
        if self.group == "chain":
            self._chains = Chains(rows)
        self._sweeps = {}
        if not self.query:
            self.shut.clear()
        found = []
        key_of, memory, is_filtered = self._key_of, self._memory, bool(self.query)
        for row in rows:
            known = memory.get(row.run.run_id)
            if known is None or known[0] is not row:
                known = memory[row.run.run_id] = (row, self.query.matches(row), key_of(row))
            if is_filtered and row.run.sweep:
                self._sweeps.setdefault(row.run.sweep, []).append(row)
            if known[1]:
                found.append((known[2], row))
        found.sort(key=lambda pair: pair[0], reverse=self.reverse)
        ordered = [row for _, row in found]
        self.depths, self.standings = {}, {}
        top = [row for row in ordered if row.id in self.pins] if self.pins else []
        self.tops = frozenset(row.id for row in top)
        if self.grouping != "nothing":
            return self._grouped(ordered, top)
        return [*top, *self._below(ordered)] if top else self._folded(ordered)

    def _below(self, rows: list[RunRow]) -> list[Line]:
        """Return the lines under the pinned runs: a sweep has all of its cells."""
        lines = self._folded([row for row in rows if row.id not in self.tops or row.run.sweep])
        return [
            Again(line, line.run.sweep or "") if isinstance(line, RunRow) and line.id in self.tops else line
            for line in lines
        ]

    def _folded(self, rows: list[RunRow], within: str = "") -> list[Line]:
        lines = fold(self._ranked(rows) if self.sort == LOSS else rows, self._is_open, within)
        for place, line in enumerate(lines):
            if not isinstance(line, Fold):
                continue
            whole = line._replace(rows=tuple(self._sweeps.get(line.rows[0].run.sweep or "", line.rows)))
            if self.query:
                lines[place] = line._replace(whole=len(whole.cells))
            if line.is_open:
                self.depths |= {row.id: max(1, self.depths.get(row.id, 0)) for row in line.rows}
                found = ranking_of(whole.cells, self.bests)
                self.standings |= found.standings() if isinstance(found, Ranking) else {}
        return [*lines]

    def _is_open(self, key: str) -> bool:
        return key not in self.shut if self.query else key in self.opened

    def unfold(self, key: str, *, opens: bool) -> None:
        """List the cells of a sweep, or put them back into its row; what is folded under a filter is so until it ends."""
        keys, adds = (self.shut, not opens) if self.query else (self.opened, opens)
        (keys.add if adds else keys.discard)(key)

    def _ranked(self, rows: list[RunRow]) -> list[RunRow]:
        """Put the cells of each sweep into the order of its metric, at the places that they have together."""
        sweeps: dict[str, list[RunRow]] = {}
        for row in rows:
            if row.run.sweep:
                sweeps.setdefault(row.run.sweep, []).append(row)
        ordered: dict[str, Iterator[RunRow]] = {}
        for name, cells in sweeps.items():
            found = ranking_of(cells, self.bests)
            if isinstance(found, Ranking):
                cells.sort(key=lambda row, ranking=found: ranking.rank(row.id), reverse=self.reverse)  # type: ignore[misc]
            ordered[name] = iter(cells)
        return [next(ordered[row.run.sweep]) if row.run.sweep else row for row in rows]

    def _groups_of(self, row: RunRow) -> tuple[str, ...]:
        if self.group == "tag":
            return row.run.tags or ("no tag",)
        if self.group == "group":
            return (row.run.group or "no group",)
        if self.group == "chain":
            return (self._chains.root(row.id) or NO_CHAIN,)
        if (key := self.group_key) is not None and key.name == self.group:
            return (f"{key.name} {cell(key, subject_of(row, self.query.facts, time.time())) or NO_VALUE}",)
        return (row.host if self.group == "host" else row.run.state,)

    def _in_chain(self, rows: list[RunRow]) -> list[RunRow]:
        """Put each run of a chain under the one that it follows."""
        self.depths |= {row.id: self._chains.depth(row.id) for row in rows}
        return self._chains.in_order(rows)

    def _grouped(self, rows: list[RunRow], top: list[RunRow]) -> list[Line]:
        groups: dict[str, list[RunRow]] = {}
        for row in rows:
            for title in dict.fromkeys(self._groups_of(row)):
                groups.setdefault(title, []).append(row)
        lines: list[Line] = []
        self._bests, self._bests_of, self.depths = {}, self.bests, {}
        seen: set[str] = set()
        if top:
            is_folded = PINNED_KEY in self.closed
            lines.append(Heading(PINNED_KEY, PINNED, len(top), folded=tuple(top) if is_folded else ()))
            self.tops = frozenset() if is_folded else self.tops
            lines += () if is_folded else top
            seen |= self.tops
        for title, found in groups.items():
            members = self._in_chain(found) if self.group == "chain" and title != NO_CHAIN else found
            ranking = ranking_of(members, self.bests)
            best = self._bests[title] = best_among(ranking)
            states = "" if self.group == "state" else count_states(each.run for each in members)
            key = f"{self.group}:{title}"
            folded = tuple(members) if key in self.closed else ()
            lines.append(Heading(key, title, len(members), states, best, folded))
            if folded:
                continue
            if isinstance(ranking, Ranking) and len(members) > 1:
                self.standings |= {each: told for each, told in ranking.standings().items() if told.is_best}
            for line in self._folded(members, title):
                is_again = isinstance(line, RunRow) and line.run.run_id in seen
                lines.append(Again(line, title) if is_again and isinstance(line, RunRow) else line)
                if isinstance(line, RunRow):
                    seen.add(line.run.run_id)
        return lines


def _ordered(value: Value) -> tuple[Any, ...]:
    """Return what values of all kinds are sorted by: numbers, then texts, then what is not known; of several the first."""
    if isinstance(value, tuple):
        value = value[0] if value else None
    if isinstance(value, str):
        return (1, value.casefold())
    if value is None or not math.isfinite(value):
        return (2,)
    return (0, value)


def _moves(best: Best | None, before: float | None, now: float | None) -> bool:
    """Whether another newest loss of one run may change the best value of its group."""
    if best is None or best.value is None:
        return (before is None) != (now is None)  # a run without any value says nothing about the metric
    return best.metric == LOSS and (before == best.value or (now is not None and now < best.value))
