"""What the comparison of runs shows: figures, settings and axes, without a screen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.compare.metrics import TOKENS, goal_of, in_order
from armada.costs.price import money
from armada.foundation.metric_goals import BestBy
from armada.foundation.sanitize import sanitize_line
from armada.protocol.recorded import recorded_spec
from armada.tui import ticks
from armada.tui.beginnings import alike_by_sweep, short_forms
from armada.tui.curves import nearest
from armada.tui.scales import Scale, pareto_front, scale_of
from armada.tui.widgets.chart import NAMES
from armada.tui.widgets.list_table import Item
from armada.tui.widgets.plot import COLOURS, Drawn
from armada.tui.widgets.run_signs import glyph

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from armada.compare.metrics import Goal
    from armada.compare.settings import Difference
    from armada.tui.curves import Curve
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span
    from armada.tui.x_axis import Placed

COST, HOURS, STEPS = "cost", "hours", "steps"
NO_PRICE = "no run has a known price"
SET_PRICE = f"{NO_PRICE}; set it: armada hosts set NAME --price '12.40 EUR'"
LONGEST = 60


@dataclass(frozen=True, slots=True)
class Compared:
    """One run of the comparison.

    Attributes:
        place: Its letter and colour.
        curve: Of the chosen metric; None: not read yet.
        placed: Where the points of the curve are; None without points.
        lit: The cursor is on it.
        stated: What its experiment says that it is the best by.
    """

    row: RunRow
    place: int
    curve: Curve | None
    placed: Placed | None
    lit: bool
    stated: BestBy | None = None

    @property
    def drawn(self) -> Drawn:
        return Drawn(NAMES[self.place], self.place, self.lit)

    def value(self, goal: Goal | None) -> float | None:
        """The best value of the metric, or the last one if it is not known what is best."""
        if self.curve is None:
            return None
        best = self.curve.best(goal)
        return best[1] if best is not None else self.curve.last

    def cost(self, now: float) -> tuple[float, str] | None:
        """What it cost, and the currency; None if that is not known for all of its time, or in several currencies."""
        found = self.row.costs(now)
        return found.single if found is not None and found.unknown_s < 1 else None


def common_goal(runs: Sequence[Compared], metric: str) -> Goal | None:
    """Return whether the lowest or the highest value is best, as the runs say or else the metric's name; None if unknown."""
    stated = {run.stated.goal for run in runs if run.stated is not None and run.stated.name == metric}
    return (stated.pop() if len(stated) == 1 else None) if stated else goal_of(metric)


def own_metric(stated: Sequence[BestBy | None], metrics: Sequence[Collection[str]]) -> str:
    """Return the metric by which runs are compared if the user chose none.

    It is what the runs say that they are the best by, if all say the same and one of them has it or none has anything.
    Else it is the evaluation loss if all have it, else the loss, and where no run has that, what most of them have, best
    something of which it is known what is good. Runs without any metric, such as cells that wait, change nothing.

    Args:
        stated: What each run says.
        metrics: The metrics that each run has.
    """
    said = {each.name for each in stated if each is not None} if all(stated) else set()
    having = [each for each in metrics if each]
    if len(said) == 1 and (not having or any(said <= {*each} for each in having)):
        return said.pop()
    if having and all(BestBy().name in each for each in having):
        return BestBy().name
    counts = Counter(name for each in metrics for name in each if name != TOKENS)
    if "loss" in counts or not counts:
        return "loss"
    return max(in_order(counts), key=lambda name: (counts[name], goal_of(name) is not None))


def best_first(runs: Sequence[Compared], metric: str, pinned: Collection[str]) -> list[str]:
    """Return the runs in their order: those that the user pinned, then the others by the metric, those without a value last.

    The first one is what others are compared with. Where it is not known what is good, a value is as good as another.

    Args:
        runs: The runs, with curves of the metric.
        metric: What they are compared by.
        pinned: Ids of runs.
    """
    goal = common_goal(runs, metric)

    def place(run: Compared) -> tuple[bool, bool, float]:
        value = run.value(goal)
        rank = BestBy(metric, goal).rank(value) if value is not None and goal is not None else 0.0
        return run.row.id not in pinned, value is None, rank

    return [run.row.id for run in sorted(runs, key=place)]


def best_words(runs: Sequence[Compared], metric: str) -> str:
    """Return what the column of best values shows: `best: lowest eval_loss`."""
    word = {"min": "lowest", "max": "highest", None: ""}[common_goal(runs, metric)]
    return (
        f"best: {word} {sanitize_line(metric, LONGEST)}"
        if word
        else f"best of {sanitize_line(metric, LONGEST)}: not known"
    )


def figure_items(
    runs: Sequence[Compared], metric: str, cross: float | None, symbols: Symbols, now: float
) -> list[Item]:
    """Return a row for each run; the first one is pinned."""
    goal, items = common_goal(runs, metric), []
    values = [run.value(goal) for run in runs]
    known = [value for value in values if value is not None]
    top = (min(known) if goal == "min" else max(known)) if known and goal is not None and len(runs) > 1 else None
    for number, run in enumerate(runs):
        curve, row = run.curve, run.row
        best = curve.best(goal) if curve is not None else None
        at = None
        if cross is not None and curve is not None and run.placed is not None and not run.placed.why:
            at = nearest(run.placed.xs, curve.raw, cross)
        doubt = curve.newest_word if curve is not None else ""
        last = None if curve is None else curve.last
        cost = run.cost(now)
        items.append(
            Item(
                row.id,
                (
                    (
                        (NAMES[run.place], COLOURS[run.place % len(COLOURS)]),
                        (f" {symbols.pin}" if number == 0 else "", "accent"),
                    ),
                    ((sanitize_line(row.name, LONGEST), "strong" if run.lit else "plain"),),
                    ((row.id[-6:], "dim"),),
                    ((doubt, "bad") if doubt else (_figure(last, "reading …" if curve is None else "—"), "plain"),),
                    _best_figure(best[1] if best else None, top),
                    ((f"{best[0]:,.0f}" if best else "", "dim"),),
                    ((_figure(at, ""), "plain"),),
                    ((money(*cost) if cost else "—", "plain"),),
                    (state_of(row, symbols),),
                ),
            )
        )
    return items


def state_of(row: RunRow, symbols: Symbols) -> Span:
    """Return a run's sign, as on Runs, and the word of its state, in its colour."""
    sign, style = glyph(row, symbols)
    return f"{sign} {row.run.state}", style


def name_forms(runs: Sequence[Compared]) -> dict[str, tuple[str, ...]]:
    """Return shorter and shorter forms of the names of sweeps' cells, by run: by what they differ."""
    alike = alike_by_sweep(run.row for run in runs)
    swept = (run.row for run in runs if run.row.run.sweep)
    return {row.id: short_forms(sanitize_line(row.name, LONGEST), alike[row.run.sweep or ""]) for row in swept}


def _best_figure(value: float | None, top: float | None) -> tuple[Span, ...]:
    """The best value of a run; the best of all has a word before it, as its colour alone says nothing to many."""
    if value is None or value != top:
        return ((_figure(value), "plain"),)
    return (("best ", "dim"), (_figure(value), "accent"))


def _figure(value: float | None, none: str = "—") -> str:
    return none if value is None else ticks.figure(value)


def setting_items(runs: Sequence[Compared], found: Sequence[Difference]) -> list[Item]:
    """Return names, ids and a row for each setting that is not equal in all runs."""
    styles = ["accent" if run.lit else "plain" for run in runs]
    names = tuple(((sanitize_line(run.row.name, LONGEST), "accent" if run.lit else "strong"),) for run in runs)
    ids = tuple(((run.row.id[-6:], "dim"),) for run in runs)  # names often begin alike, ids differ at their ends
    items = [Item("name", ((("run", "dim"),), *names)), Item("id", ((("id", "dim"),), *ids))]
    for each in found:
        cells = (((each.key, "plain"),), *(((value, style),) for value, style in zip(each.texts, styles, strict=True)))
        items.append(Item(f"set {each.key}", cells))
    if not found:
        items.append(Item("none", ((("no setting differs", "dim"),), *(((("", "plain"),),) * len(runs)))))
    return items


def whole_value(runs: Sequence[Compared], found: Sequence[Difference], key: str | None) -> str:
    """Return the setting of a row and the value of the run under the cursor, not shortened."""
    if not runs:
        return ""
    number = next((number for number, run in enumerate(runs) if run.lit), 0)
    run, letter = runs[number], NAMES[runs[number].place]
    for each in found:
        if key == f"set {each.key}":
            return f"{letter} · {each.key}: {each.texts[number] or 'not set'}"
    name = "" if run.row.id.startswith(run.row.name) else f"{sanitize_line(run.row.name)} · "
    return f"{letter} · {name}{run.row.id}"


def setting_scales(found: Sequence[Difference], tuned: Collection[str] = ()) -> list[Scale]:
    """Return an axis for each setting that differs.

    Those that a sweep tunes come first, then the others, with names that all runs have for themselves alone behind them,
    and last what armada derived from the settings.

    Args:
        found: The settings.
        tuned: The keys of those that a sweep tunes.
    """
    scales = [scale_of(each.key, each.masked, exact=True) for each in found]

    def place(scale: Scale) -> tuple[bool, bool, bool]:
        is_own = scale.kind == "category" and len(scale.marks) == len(scale.shares) > 2
        return scale.title not in tuned, scale.title.startswith("("), is_own

    return sorted(scales, key=place)


def tuned_in(specs: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the settings by which the cells of sweeps differ."""
    told = (recorded_spec(spec).sweep for spec in specs)
    return frozenset(key for sweep in told if sweep is not None for key in sweep.values or ())


def metric_scale(runs: Sequence[Compared], metric: str, *, log: bool) -> Scale:
    """Return the axis of the metric: its best value, or the last one."""
    goal = common_goal(runs, metric)
    word = {"min": "lowest", "max": "highest", None: "last"}[goal]
    return scale_of(f"{word} {sanitize_line(metric, LONGEST)}", [run.value(goal) for run in runs], log=log)


def most_common(currencies: Iterable[str]) -> str | None:
    """Return the currency of most runs, of two alike that of the first run: an axis has one. None if there is none."""
    counts = Counter(currencies)
    return max(counts, key=counts.__getitem__, default=None)


def cost_scale(runs: Sequence[Compared], now: float) -> tuple[Scale, str]:
    """Return the axis of money, and which runs are left out: other currencies are not converted."""
    costs = [run.cost(now) for run in runs]
    currency = most_common(cost[1] for cost in costs if cost is not None)
    values = [cost[0] if cost is not None and cost[1] == currency else None for cost in costs]
    notes = []
    if others := sum(cost is not None and cost[1] != currency for cost in costs):
        notes.append(f"{others} in another currency left out")
    if unknown := sum(cost is None for cost in costs):
        notes.append(f"{unknown} without a price left out")
    scale = scale_of(COST, values, log=False, write=lambda value: money(value, currency or "USD"))
    return scale, ", ".join(notes)


def says(scale: Scale, metric: Scale) -> bool:
    """Whether runs that have the metric have different values on an axis; if fewer than two have it, whether any runs do."""
    if metric.known < 2:
        return scale.varies
    shares = zip(scale.shares, metric.shares, strict=True)
    return len({share for share, measured in shares if share is not None and measured is not None}) > 1


def variable_scales(runs: Sequence[Compared], settings: Sequence[Scale], metric: Scale, now: float) -> list[Scale]:
    """Return what can be on the horizontal axis of the scatter plot: settings that differ, cost, hours, steps.

    What says nothing of the metric comes last: over a setting with one value, all runs are in one column.
    """
    hours = [run.row.lasted_s(now) / 3600 if run.row.run.started_at is not None else None for run in runs]
    steps: list[Any] = [run.row.run.step for run in runs]
    others = [cost_scale(runs, now)[0], scale_of(HOURS, hours, log=False), scale_of(STEPS, steps, log=False)]
    telling = [each for each in (*settings, *others) if says(each, metric)]
    return [*telling, *(each for each in (*others, *settings) if not says(each, metric))]


def front_of(runs: Sequence[Compared], cost: Scale, metric: str) -> tuple[set[int] | None, str]:
    """Return the runs on the Pareto front of cost and metric, or why there is none."""
    goal = common_goal(runs, metric)
    if not cost.values:
        return None, NO_PRICE
    if goal is None:
        return None, "it is not known whether low values are better"
    return pareto_front(cost.values, [run.value(goal) for run in runs], goal), ""
