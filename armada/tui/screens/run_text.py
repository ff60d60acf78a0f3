"""Format the pages of the Run screen."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.style import Style
from rich.table import Table
from rich.text import Text

from armada.compare.settings import differing, flat, settings
from armada.costs.price import money
from armada.costs.report import cost_at_end
from armada.foundation.sanitize import sanitize_line
from armada.tui.form import UNSET
from armada.tui.widgets.list_table import Item
from armada.tui.widgets.run_table import age, figure, glyph
from armada.tui.widgets.table import Column, Span
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from armada.store.queries.step_times import StepTimes
    from armada.store.run_sync import RunSync
    from armada.tui.snapshot import RunDetail, RunRow, Snapshot
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
_BOLD, _PLAIN = Style(bold=True), Style()
LABEL = 12
"""Cells of a label in the overview."""
FIRST_SAID = ("state", "reason", "message")
EVENT_COLUMNS = (Column("TIME", 19), Column("KIND", 12), Column("WHAT", 30, grow=1))


def stamp(moment: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)) if moment is not None else "—"


class Fact(NamedTuple):
    """A line of the overview."""

    label: str
    value: str
    style: Style


def overview(
    row: RunRow, detail: RunDetail | None, symbols: Symbols, sync: RunSync | None, style: Callable[[str], Style]
) -> list[Fact]:
    """Return the overview: the most important facts, one per line.

    Args:
        row: The run.
        detail: What only its own page shows; None if it is not read yet.
        symbols: What the terminal can show.
        sync: How its sync stands.
        style: Gives a colour by its name in the visual language.
    """
    now = time.time()
    sign, tone = glyph(row, symbols)
    found = [Fact("state", f"{sign} {symbols.text(_state(row))}", Style.combine((style(tone), _BOLD)))]
    if row.run.step and row.run.total_steps and not row.run.ended:
        share = row.run.step / row.run.total_steps
        found.append(Fact("progress", f"{symbols.bar(share, 24)} {min(share, 1):.0%}", style("accent")))
    warn = Style.combine((style("warn"), _BOLD))
    for label, value in _facts(row, detail, sync, now):
        found.append(Fact(label, symbols.text(value), warn if label == "needs you" else _PLAIN))
    return found


def overview_table(facts: Iterable[Fact]) -> Table:
    """Draw the overview; a long fact continues under its beginning."""
    table = Table.grid(padding=(0, 1, 0, 1), expand=True)
    table.add_column(width=LABEL, no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for fact in facts:
        table.add_row(Text(fact.label, "dim"), Text(fact.value, fact.style))
    return table


def _state(row: RunRow) -> str:
    run = row.run
    seen = "" if run.ended else f" · seen {age(run.observed_at, time.time())}"
    return f"{run.state}{f': {sanitize_line(run.reason, 60)}' if run.reason else ''}{seen}"


def _facts(row: RunRow, detail: RunDetail | None, sync: RunSync | None, now: float) -> Iterator[tuple[str, str]]:
    run = row.run
    if row.trouble:
        yield "needs you", row.trouble
    if run.labels_text:
        yield "labels", run.labels_text
    if run.note:
        yield "note", sanitize_line(run.note, 1000)
    if run.follows:
        yield "follows", sanitize_line(run.follows, 200)
    if run.because:
        yield "because", sanitize_line(run.because, 300)
    gpus = f", GPUs {','.join(map(str, run.gpus))}" if run.gpus else ""
    yield "host", f"{row.host}{gpus}"
    if run.step is not None:
        left = f" · {span(run.eta_s)} left" if run.eta_s else ""
        speed = f" · {figure(run.tokens_per_s)} tok/s" if run.tokens_per_s else ""
        loss = f" · loss {run.loss_text}" if run.loss_text is not None else ""
        yield "step", f"{run.step:,} of {f'{run.total_steps:,}' if run.total_steps else '?'}{loss}{speed}{left}"
    if run.phase and not run.ended:
        yield "phase", sanitize_line(run.phase, 40)
    yield "made", f"{stamp(run.created_at)} ({age(run.created_at, now)})"
    if run.started_at:
        yield "started", f"{stamp(run.started_at)} · {'lasted' if run.ended else 'for'} {span(row.lasted_s(now))}"
    costs, rate = row.costs(now), row.rate(now)
    if costs is not None:
        later = cost_at_end(costs, rate, run.eta_s) if not run.ended else None
        hourly = f" at {money(*rate)}/h" if rate is not None else ""
        yield (
            "cost",
            f"{costs.text()}{hourly}{f' · about {later.text()} at its last step' if later is not None else ''}",
        )
    kept = row.kept
    parts = [f"{kept.home} home", f"{kept.damaged} damaged at home" if kept.damaged else ""]
    parts += [f"{kept.only_host} only on the host" if kept.only_host else ""]
    yield "checkpoints", ", ".join(part for part in parts if part)
    if sync is not None:
        due = f" · next in {span(sync.next_due_at - now)}" if sync.next_due_at and sync.next_due_at > now else ""
        due = " · all home" if run.ended and sync.final_done and not (kept.only_host or kept.damaged) else due
        failing = (
            f" · failing since {stamp(sync.failing_since)}: {sanitize_line(sync.reason, 200)}"
            if sync.failing_since
            else ""
        )
        yield "sync", f"{age(sync.last_at, now)}{due}{failing}"
    yield "attempt", f"{run.attempt} of submission {run.submission}"
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if detail is None:
        return
    if detail.times is not None and detail.times.total_s > 0:
        yield "a step", step_words(detail.times)
    yield from _spec_facts(detail.spec)
    yield "", ""
    for when, state, reason, message in detail.transitions[-30:]:
        said = f" ({sanitize_line(message, 160)})" if message else ""
        yield "", f"{stamp(when)}  {state}{f': {sanitize_line(reason, 60)}' if reason else ''}{said}"


def step_words(times: StepTimes) -> str:
    """Say where the time of the newest steps goes, the most first: `0.42 s: backward 51% · forward 27% · data 12%`."""
    shares = sorted(((seconds / times.total_s, part) for part, seconds in times.parts_s.items()), reverse=True)
    parts = " · ".join(f"{part} {share:.0%}" for share, part in shares if share >= 0.005)
    return f"{times.total_s / times.steps:.3g} s: {parts}"


def _spec_facts(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    training = spec.get("training") or {}
    batch = training.get("batch") if isinstance(training, dict) else None
    if isinstance(batch, dict):
        parts = [batch.get(key, "?") for key in ("global", "micro", "accumulation", "processes")]
        whole, micro, accumulation, processes = (sanitize_line(part, 12) for part in parts)
        ranks = f"{processes} process{'' if processes == '1' else 'es'}"
        yield "batch", f"{whole} samples a step = micro {micro} × accumulate {accumulation} × {ranks}"
    environment = spec.get("environment")
    if isinstance(environment, dict):
        # One that the user made is known by its path.
        yield (
            "environment",
            sanitize_line(environment.get("path" if environment.get("existing") is True else "key"), 120),
        )
    container = spec.get("container")
    if isinstance(container, dict):
        yield "container", sanitize_line(container.get("digest") or container.get("image"), 200)
    if spec.get("profile"):
        yield "profile", sanitize_line(spec["profile"], 60)
    project = spec.get("project")
    if isinstance(project, dict) and project.get("revision"):
        dirty = ", with uncommitted changes" if project.get("dirty") else ""
        yield "git revision", f"{sanitize_line(project['revision'], 60)}{dirty}"
    job = spec.get("job")
    if isinstance(job, dict) and isinstance(job.get("argv"), list):
        yield "command", sanitize_line(" ".join(map(str, job["argv"][:100])), 600)


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
        elif transfer is not None and transfer.state == "running" and transfer.total_bytes:
            rate = f", {amount(transfer.rate)}/s" if transfer.rate else ""
            where = (f"{transfer.done_bytes / transfer.total_bytes:.0%} on its way{rate}", "accent")
        elif transfer is not None:
            where = (f"{transfer.state}: {sanitize_line(transfer.reason or '', 160)}", "warn")
        else:
            where = (checkpoint.nowhere or "not yet", "warn")
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


def kept_lines(detail: RunDetail | None, snapshot: Snapshot, symbols: Symbols) -> list[list[Span]]:
    """Return a line for each checkpoint, newest first: step, size, age, and whether it is at home."""
    if detail is None or not detail.checkpoints:
        return [[("reading …" if detail is None else "none yet", "dim")]]
    now = time.time()
    moving = {each.digest: each for each in snapshot.transfers if each.run_id == detail.run_id}
    lines: list[list[Span]] = []
    for each in reversed(detail.checkpoints[-20:]):
        line: list[Span] = [(f"{each.step:>9,}  ", "strong"), (f"{amount(each.size_bytes):>8}  ", "dim")]
        transfer = moving.get(each.digest)
        if each.home_path is not None:
            word = "damaged" if each.trouble else "home"
            sign = symbols.states["failed" if each.trouble else "succeeded"]
            line += [(f"{sign} {word}", "bad" if each.trouble else "good"), (f"  {age(each.created_at, now)}", "dim")]
        elif transfer is not None and transfer.state == "running" and transfer.total_bytes:
            done, rest = symbols.meter(transfer.done_bytes / transfer.total_bytes, 12)
            rate = f"  {amount(transfer.rate)}/s" if transfer.rate else ""
            line += [(done, "accent"), (rest, "faint"), (rate, "dim")]
        else:
            line += [
                (f"{symbols.attention} {each.nowhere or 'only on the host'}", "warn"),
                (f"  {age(each.created_at, now)}", "dim"),
            ]
        lines.append(line)
    return lines


def _event_words(event: Mapping[str, Any]) -> str:
    """Format an event, the most important first: `running · attempt 2 · gpus 0, 1`.

    A digest, of which nobody reads more than the beginning, comes last.
    """
    said = [sanitize_line(event[key], 400) for key in FIRST_SAID if event.get(key) is not None]
    rest = sorted((key for key in event if key not in FIRST_SAID), key=lambda key: (key == "digest") - (key == "step"))
    for name, value in flat({key: event[key] for key in rest}):
        if value in ("null", "", "{}", "[]"):
            continue
        size = value.isdecimal() and name.endswith("_bytes")
        count = value.isdecimal() and name in ("step", "steps")
        shown = amount(int(value)) if size else f"{int(value):,}" if count else value[:8] if name == "digest" else value
        said.append(f"{name.removesuffix('_bytes').replace('_', ' ')} {shown}")
    return sanitize_line(" · ".join(said), 1000)


def event_items(detail: RunDetail) -> list[Item]:
    """List events, newest first."""
    items = []
    for place, event in enumerate(reversed(detail.events)):
        rest = {key: value for key, value in event.items() if key not in ("seq", "time", "kind", "attempt")}
        moment = event.get("time")
        cells: tuple[tuple[Span, ...], ...] = (
            ((stamp(moment) if isinstance(moment, int | float) else "—", "dim"),),
            ((sanitize_line(event.get("kind"), 40), "strong"),),
            ((_event_words(rest), "plain"),),
        )
        items.append(Item(f"{event.get('seq')}-{place}", cells))
    return items or [Item("none", ((("", "plain"),), (("none yet", "dim"),), (("", "plain"),)))]
