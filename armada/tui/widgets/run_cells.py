"""What stands in single cells of the Runs screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui.widgets.run_columns import LOSS_ROOM
from armada.tui.widgets.run_signs import end_of
from armada.units import brief_span, counted, rough_span, short_number

if TYPE_CHECKING:
    from armada.tui.snapshot import RunRow
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

BLANK: Span = ("", "plain")


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


def loss_of(row: RunRow) -> Span:
    """The newest loss, or how it is not finite."""
    if row.run.loss_not_finite:
        return (row.run.loss_not_finite, "bad")
    return ("" if row.run.loss is None else short_number(row.run.loss, LOSS_ROOM), "plain")


def gpus_of(row: RunRow) -> Span:
    count = len(row.run.gpus)
    return (f"{count}×" if count else "cpu" if row.run.started_at else "", "dim")


def eta_of(row: RunRow) -> Span:
    is_known = row.run.state == "running" and row.run.unreachable_since is None and row.run.eta_s is not None
    return (brief_span(row.run.eta_s or 0), "plain") if is_known else BLANK


def progress_of(row: RunRow, now: float, room: int, symbols: Symbols) -> tuple[Span, ...]:
    """A bar of a run that gets on, else how long it has been what it is."""
    run = row.run
    if run.state in ("running", "unknown") and run.step is not None and run.total_steps:
        share = run.step / run.total_steps
        done = "dim" if run.unreachable_since is not None or run.state == "unknown" else "accent"
        return (*meter(share, room - 5, symbols, done), (f" {min(share, 1):>4.0%}", "plain"))
    if run.state == "running":
        words = sanitize_line(run.phase or "running", 12)
        lasted = f" {rough_span(row.lasted_s(now))}" if run.started_at else ""
        return ((words + lasted, "plain"),)
    if run.ended:
        return (end_of(row, now),)
    if run.state == "unknown":  # how long, nobody knows
        return ((run.state, "warn"),)
    return ((f"{run.state} {rough_span(now - run.created_at)}", "plain"),)


def home_of(row: RunRow, now: float) -> tuple[Span, ...]:
    """What is at home of a run's checkpoints, and what is not."""
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


def seen_of(row: RunRow, now: float) -> Span:
    """How long ago armada saw a run that has not ended."""
    run = row.run
    if run.ended:
        return ("", "dim")
    if run.unreachable_since is not None:
        return (f"lost {rough_span(now - run.unreachable_since)}", "warn")
    if run.observed_at is None:
        return ("not yet", "dim")
    age = now - run.observed_at
    return (lately(age), "dim" if age < 60 else "warn")
