"""What the row of a run says of its state: a sign, a word, a time; and the sign of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.sweeps.counts import word_of
from armada.units import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.snapshot import HostView, RunRow
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

STATE_STYLES = {"running": "good", "succeeded": "good", "failed": "bad", "unknown": "warn", "cancelled": "dim"}


def glyph(row: RunRow, symbols: Symbols) -> Span:
    """Return a state's symbol. The colour only repeats what the shape says."""
    run = row.run
    if not run.ended and run.unreachable_since is not None:
        return symbols.unreachable, "warn"
    if row.trouble is not None and not run.ended and run.state != "unknown":
        return symbols.attention, "warn"
    if row.is_no_number:
        return (symbols.attention, "warn") if row.trouble is not None else (symbols.states["failed"], "bad")
    if row.trouble is not None and run.state in ("succeeded", "cancelled"):
        return symbols.attention, "warn"
    return symbols.states.get(run.state, "?"), STATE_STYLES.get(run.state, "accent")


def host_sign(host: HostView, active: Sequence[RunRow], symbols: Symbols) -> Span:
    """Return the sign of a host: it does not answer, a run on it needs you, it runs something, or nothing."""
    if host.silent is not None:
        return symbols.unreachable, "warn"
    if any(row.trouble is not None for row in active):
        return symbols.attention, "warn"
    return (symbols.states["running"], "good") if active else (symbols.states["cancelled"], "dim")


def end_of(row: RunRow, now: float) -> Span:
    """Return how a run ended, and when; what succeeded with a loss that is no number is not simply done."""
    run = row.run
    ended = clock(run.ended_at, now) if run.ended_at else ""
    if row.is_no_number:
        return f"{run.loss_not_finite} {ended}", "bad"
    done = "done" if run.state == "succeeded" else word_of(run)
    return f"{done} {ended}", STATE_STYLES[run.state]
