"""Format the pages of the Run screen."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from armada.compare.settings import differing, flat, settings
from armada.foundation.sanitize import sanitize_line
from armada.tui.form import UNSET
from armada.tui.widgets.host_safety import may_stay, no_progress
from armada.tui.widgets.list_table import Item
from armada.tui.widgets.run_table import age
from armada.tui.widgets.table import Column, Span
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.tui.snapshot import RunDetail, Snapshot
    from armada.tui.symbols import Symbols

CHECKPOINT_COLUMNS = (
    Column("CHECKPOINT", 17),
    Column("SIZE", 8, right=True),
    Column("MADE", 16, rank=3),
    Column("HOST", 11, grow=1, most=24, rank=1),
    Column("HOME", 20, grow=4),
    Column("VERIFIED", 12, grow=1, most=16, rank=2),
)
DIFFERENCE_COLUMNS = (Column("SETTING", 20, grow=1, most=50), Column("THIS", 12, grow=2), Column("OTHER", 12, grow=2))
LISTED = 50
"""The newest checkpoints and events, which the overview lists."""
PLANNED = 200
"""Resolved settings that the overview lists at most."""
EMPTY = ("null", "{}", "[]", "")
"""Values of settings that say nothing."""
WHOLE = 4000
"""Characters of the event under the cursor."""
FIRST_SAID = ("state", "reason", "message")
EVENT_COLUMNS = (Column("TIME", 12), Column("KIND", 12), Column("WHAT", 30, grow=1))


def stamp(moment: object) -> str:
    """Format a time, unix seconds, with its date; what is no time is a dash."""
    then = _local(moment)
    return time.strftime("%Y-%m-%d %H:%M:%S", then) if then is not None else "—"


def when(moment: object, now: float) -> str:
    """Format a time in at most 12 cells: `12:43:20` today, before that with the day of the week, the date, or the year."""
    then = _local(moment)
    if then is None or not isinstance(moment, int | float):
        return "—"
    days = (now - moment) / 86_400
    if then[:3] == time.localtime(now)[:3]:
        return time.strftime("%H:%M:%S", then)
    if 0 <= days < 6:
        return time.strftime("%a %H:%M:%S", then)
    return time.strftime("%d %b %H:%M" if 0 <= days < 300 else "%Y-%m-%d", then)


def _local(moment: object) -> time.struct_time | None:
    """Return the local time of what a host said; None if it is no time that this machine can show."""
    if not isinstance(moment, int | float):
        return None
    try:
        return time.localtime(moment)
    except (OverflowError, ValueError, OSError):
        return None


def _short(path: Path) -> str:
    """Return a path with `~` for the user's folder."""
    own = Path.home()
    return f"~/{path.relative_to(own)}" if path.is_relative_to(own) else str(path)


def config(detail: RunDetail, symbols: Symbols) -> Text:
    """Return the settings as resolved, then the rest of the spec."""
    chosen = settings(detail.spec)
    rest = flat({key: value for key, value in detail.spec.items() if key != "experiment"})
    resolved = list(rest) if detail.spec.get("experiment") else []
    width = min(50, max((len(name) for name in (*chosen, *(name for name, _ in resolved))), default=0))
    lines = [("", f" {name:<{width}}  ", _said(value)) for name, value in chosen.items()]
    if resolved:
        lines += [("", "", ""), (" the resolved settings", "", ""), ("", "", "")]
        lines += [("", f" {name:<{width}}  ", _said(value)) for name, value in resolved]
    shown = Text()
    for heading, name, value in lines[:3000]:
        shown.append(symbols.text(heading), "bold").append(symbols.text(name), "dim")
        shown.append(f"{symbols.text(value)}\n", "dim" if value == UNSET else "")
    return shown


def setting_lines(detail: RunDetail | None) -> list[list[Span]]:
    """Return a line for each setting that is set."""
    resolved = settings(detail.spec) if detail is not None and detail.spec.get("experiment") else {}
    chosen = {name: value for name, value in resolved.items() if value not in EMPTY}
    width = min(40, max(map(len, chosen), default=0))
    return [[(f"{name:<{width}}  ", "dim"), (value, "plain")] for name, value in chosen.items()]


def plan_lines(detail: RunDetail | None) -> list[list[Span]]:
    """Return a line for each resolved setting that is set; nothing where the page of settings has nothing else."""
    if detail is None or not detail.spec.get("experiment"):
        return []
    rest = flat({key: value for key, value in detail.spec.items() if key != "experiment"})
    said = [(name, value) for name, value in rest if value not in EMPTY][:PLANNED]
    width = min(40, max((len(name) for name, _ in said), default=0))
    return [[(f"{name:<{width}}  ", "dim"), (value, "plain")] for name, value in said]


def _said(value: str) -> str:
    return UNSET if value == "null" else value


def difference_items(detail: RunDetail, other: RunDetail | None, names: tuple[str, str]) -> list[Item]:
    """List the settings that differ, after a line that names the two runs."""
    head = Item("runs", ((("run", "dim"),), *(((sanitize_line(name, 80), "strong"),) for name in names)))
    if other is None:
        return [head, Item("none", ((("reading …", "dim"),), (("", "plain"),), (("", "plain"),)))]
    found = differing([detail.spec, other.spec])
    items = [
        Item(f"set {name}", (((name, "plain"),), *(((value or "—", "plain" if value else "dim"),) for value in values)))
        for name, values in found
    ]
    return [head, *(items or [Item("none", ((("nothing differs", "good"),), (("", "plain"),), (("", "plain"),)))])]


def checkpoint_items(detail: RunDetail, snapshot: Snapshot, host: str) -> list[Item]:
    """List checkpoints, newest first, with the progress of transfers."""
    now = time.time()
    moving = {each.digest: each for each in snapshot.transfers if each.run_id == detail.run_id}
    needs = _may_stay(detail, snapshot)
    items = []
    for checkpoint in reversed(detail.checkpoints):
        where: Span
        path: Span = ("", "dim")
        transfer = moving.get(checkpoint.digest)
        if checkpoint.home_path is not None:
            where = ("damaged", "bad") if checkpoint.trouble else ("home", "good")
            if checkpoint.is_unread:
                where = ("home, not read", "warn")
            path = (f"  {sanitize_line(_short(checkpoint.home_path), 400)}", "dim")
        elif transfer is not None and (silent := no_progress(transfer, now)):
            where = (silent, "warn")
        elif transfer is not None and transfer.state == "running" and transfer.total_bytes:
            rate = f", {amount(transfer.rate)}/s" if transfer.rate else ""
            where = (f"{transfer.done_bytes / transfer.total_bytes:.0%} on its way{rate}", "accent")
        elif transfer is not None:
            where = (f"{transfer.state}: {sanitize_line(transfer.reason or '', 160)}", "warn")
        else:
            where = (checkpoint.nowhere or "not yet", "warn" if checkpoint.nowhere or needs else "plain")
        more: tuple[tuple[tuple[Span, ...], ...], ...] = ()
        if checkpoint.trouble and checkpoint.trouble != checkpoint.nowhere:
            more = ((((sanitize_line(checkpoint.trouble, 300), "warn"),),),)
        files = f" ({counted(checkpoint.file_count, 'file')})"
        cells: tuple[tuple[Span, ...], ...] = (
            ((f"checkpoint-{checkpoint.step}", "strong"),),
            ((amount(checkpoint.size_bytes), "plain"),),
            ((age(checkpoint.created_at, now), "dim"), (files, "dim")),
            ((host if checkpoint.on_host else "—", "plain"),),
            (where, path),
            ((age(checkpoint.verified_at, now) if checkpoint.verified_at else "—", "dim"),),
        )
        items.append(Item(checkpoint.digest, cells, more))
    if not items:
        items = [Item("none", ((("none yet", "dim"),), *(((("", "plain"),),) * 5)))]
    return items


def _may_stay(detail: RunDetail, snapshot: Snapshot) -> bool:
    row = snapshot.row(detail.run_id)
    return row is not None and may_stay(row, snapshot)


def kept_lines(detail: RunDetail | None, snapshot: Snapshot, symbols: Symbols) -> list[list[Span]]:
    """Return a line for each checkpoint, newest first: step, size, age, and whether it is at home."""
    if detail is None or not detail.checkpoints:
        return [[(snapshot.reading if detail is None else "none yet", "dim")]]
    now = time.time()
    moving = {each.digest: each for each in snapshot.transfers if each.run_id == detail.run_id}
    needs = _may_stay(detail, snapshot)
    lines: list[list[Span]] = []
    for each in reversed(detail.checkpoints[-LISTED:]):
        line: list[Span] = [(f"{each.step:>9,}  ", "strong"), (f"{amount(each.size_bytes):>8}  ", "dim")]
        transfer = moving.get(each.digest)
        if each.home_path is not None:
            word = "damaged" if each.trouble else "home"
            sign = symbols.states["failed" if each.trouble else "succeeded"]
            line += [(f"{sign} {word}", "bad" if each.trouble else "good"), (f"  {age(each.created_at, now)}", "dim")]
        elif transfer is not None and (silent := no_progress(transfer, now)):
            line.append((f"{symbols.attention} {silent}", "warn"))
        elif transfer is not None and transfer.state == "running" and transfer.total_bytes:
            done, rest = symbols.meter(transfer.done_bytes / transfer.total_bytes, 12)
            rate = f"  {amount(transfer.rate)}/s" if transfer.rate else ""
            line += [(done, "accent"), (rest, "faint"), (rate, "dim")]
        else:
            is_amber = bool(each.nowhere) or needs
            sign = symbols.attention if is_amber else symbols.states["queued"]
            line.append((f"{sign} {each.nowhere or 'only on the host'}", "warn" if is_amber else "plain"))
            line.append((f"  {age(each.created_at, now)}", "dim"))
        lines.append(line)
    return lines


def _event_words(event: Mapping[str, Any], *, whole: bool = False) -> str:
    """Format an event, the most important first: `running · attempt 2 · gpus 0, 1`.

    A digest comes last; of it a line has only the beginning.
    """
    longest = WHOLE if whole else 400
    said = [sanitize_line(event[key], longest) for key in FIRST_SAID if event.get(key) is not None]
    rest = sorted((key for key in event if key not in FIRST_SAID), key=lambda key: (key == "digest") - (key == "step"))
    for name, value in flat({key: event[key] for key in rest}):
        if value in ("null", "", "{}", "[]"):
            continue
        size = value.isdecimal() and name.endswith("_bytes")
        count = value.isdecimal() and name in ("step", "steps")
        brief = name == "digest" and not whole
        shown = amount(int(value)) if size else f"{int(value):,}" if count else value[:8] if brief else value
        said.append(f"{name.removesuffix('_bytes').replace('_', ' ')} {shown}")
    return sanitize_line(" · ".join(said), WHOLE if whole else 1000)


def _event_spans(event: Mapping[str, Any], now: float | None) -> tuple[Span, Span, Span]:
    """Return when an event was, its kind, and what it says; all of it if no present time is given."""
    rest = {key: value for key, value in event.items() if key not in ("seq", "time", "kind", "attempt")}
    moment = event.get("time")
    told = when(moment, now) if now is not None else stamp(moment)
    words = _event_words(rest, whole=now is None)
    return (told, "dim"), (sanitize_line(event.get("kind"), 40), "strong"), (words, "plain")


def whole_event(detail: RunDetail | None, key: str | None) -> str:
    """Return the event of a row of `event_items`, not shortened; empty if there is none."""
    for each, event in _keyed(detail.events if detail is not None else ()):
        if key == each:
            return "  ".join(text for text, _ in _event_spans(event, None))
    return ""


def _keyed(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return events, newest first, with keys that stay the same when newer ones come."""
    found, times = [], Counter[str]()
    for event in events:
        seq = sanitize_line(event.get("seq"), 40)
        found.append((f"{seq}-{times[seq]}", event))
        times[seq] += 1
    return found[::-1]


def event_lines(detail: RunDetail | None, now: float) -> list[list[Span]]:
    """Return a line for each event, newest first."""
    listed = reversed(detail.events[-LISTED:] if detail is not None else ())
    found = [_event_spans(event, now) for event in listed]
    longest = max((len(moment) for (moment, _), *_ in found), default=0)
    gap: Span = ("  ", "plain")
    return [[(f"{moment:<{longest}}", style), gap, kind, gap, words] for (moment, style), kind, words in found]


def event_items(detail: RunDetail, now: float) -> list[Item]:
    """List events, newest first."""
    items = []
    for key, event in _keyed(detail.events):
        cells = tuple((each,) for each in _event_spans(event, now))
        items.append(Item(key, cells))
    return items or [Item("none", ((("", "plain"),), (("none yet", "dim"),), (("", "plain"),)))]
