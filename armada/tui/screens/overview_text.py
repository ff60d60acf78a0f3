"""The facts of a run's overview, the most important first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from armada.costs.price import money
from armada.costs.report import cost_at_end
from armada.foundation.sanitize import sanitize_line
from armada.tui.gpu_strips import NO_GPU, faded, gpus_of, gpus_or_queue, points_of, together
from armada.tui.screens.run_text import stamp, when
from armada.tui.widgets.fact_lines import Fact
from armada.tui.widgets.run_cells import figure
from armada.tui.widgets.run_signs import glyph
from armada.tui.widgets.run_table import age
from armada.units import clock, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.store.queries.step_times import StepTimes
    from armada.store.run_sync import RunSync
    from armada.tui.snapshot import HostView, RunDetail, RunRow
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

BAR = 12
"""Cells of the bar of progress."""
LEAST_SHARE = 0.005
"""Parts of a step that take less are not named."""


def overview(
    row: RunRow,
    detail: RunDetail | None,
    symbols: Symbols,
    sync: RunSync | None,
    host: HostView | None,
    no_curve: str = "",
    *,
    is_watched: bool = True,
) -> list[Fact]:
    """Return the overview: the most important facts first. Those that must be in sight are keys.

    Args:
        row: The run.
        detail: What only its own page shows; None if it is not read yet.
        symbols: What the terminal can show.
        sync: How its sync stands.
        host: The host that it is on, with the last minutes of its GPUs.
        no_curve: Why no curve is shown.
        is_watched: A daemon does what is planned.
    """
    now = time.time()
    sign, tone = glyph(row, symbols)
    found = [Fact("state", ((f"{sign} {_state(row)}", f"{tone} strong"),), is_key=True)]
    trouble: Span = (row.trouble.said, "warn strong") if row.trouble else ("nothing", "dim")
    found.append(Fact("needs you", (trouble,), is_key=True, is_long=True))
    if row.run.step is not None:
        found.append(Fact("step", _step(row, symbols), is_key=True))
    if no_curve:
        found.append(Fact("curve", ((no_curve, "dim"),), is_key=True))
    found += [
        Fact("a step", (_times(row, detail),), part="times", is_key=True),
        Fact("GPUs", _gpus(row, host, symbols), part="gpus", is_key=True),
        Fact("cost", (_cost(row, now),), is_key=True),
        Fact("checkpoints", (_kept(row),), part="kept", is_key=True),
    ]
    if sync is not None:
        found.append(Fact("sync", ((_sync(row, sync, now, is_watched=is_watched), "plain"),), is_key=True))
    return [*found, *(Fact(label, ((value, "plain"),)) for label, value in _rest(row, detail, now))]


def _state(row: RunRow) -> str:
    run = row.run
    seen = "" if run.ended else f" · seen {age(run.observed_at, time.time())}"
    return f"{run.state}{f': {sanitize_line(run.reason, 60)}' if run.reason else ''}{seen}"


def _step(row: RunRow, symbols: Symbols) -> tuple[Span, ...]:
    run = row.run
    bar: tuple[Span, ...] = ()
    if run.step and run.total_steps and not run.ended:
        share = run.step / run.total_steps
        done, rest = symbols.meter(share, BAR)
        bar = ((done, "accent"), (rest, "faint"), (f" {min(share, 1):.0%}  ", "accent"))
    left = f" · {span(run.eta_s)} left" if run.eta_s else ""
    speed = f" · {figure(run.tokens_per_s)} tok/s" if run.tokens_per_s else ""
    loss = f" · loss {run.loss_text}" if run.loss_text is not None else ""
    total = f"{run.total_steps:,}" if run.total_steps else "?"
    return (*bar, (f"{run.step:,} of {total}{loss}{left}{speed}", "plain"))


def _times(row: RunRow, detail: RunDetail | None) -> Span:
    if detail is None:
        return ("reading …", "dim")
    if detail.times is not None and detail.times.total_s > 0:
        return (step_words(detail.times), "plain")
    return ("not measured" if row.run.step is not None or row.run.ended else "no step yet", "dim")


def shares_of(times: StepTimes) -> list[tuple[str, float]]:
    """Return the parts of a step that take time worth naming, with their shares, the most first."""
    shares = sorted(((seconds / times.total_s, part) for part, seconds in times.parts_s.items()), reverse=True)
    return [(part, share) for share, part in shares if share >= LEAST_SHARE]


def step_words(times: StepTimes) -> str:
    """Say where the time of the newest steps goes, the most first: `0.42 s: backward 51% · forward 27% · data 12%`."""
    parts = " · ".join(f"{part} {share:.0%}" for part, share in shares_of(times))
    return f"{times.total_s / times.steps:.3g} s: {parts}"


def times_lines(times: StepTimes | None, symbols: Symbols, width: int) -> list[list[Span]]:
    """Return a line for each part of a step: name, bar, share, seconds."""
    if times is None or times.total_s <= 0:
        return []
    lines: list[list[Span]] = []
    for part, share in shares_of(times):
        done, rest = symbols.meter(share, max(4, width - 32))
        seconds = f"{times.parts_s[part] / times.steps:.3g} s"
        lines.append(
            [(f"{part:<14}", "dim"), (done, "accent"), (rest, "faint"), (f" {share:>4.0%}{seconds:>9}", "plain")]
        )
    return lines


def _gpus(row: RunRow, host: HostView | None, symbols: Symbols) -> tuple[Span, ...]:
    """Return the run's GPUs in one line."""
    if host is None or host.record is None:
        return ((f"{row.host} was not checked yet", "dim"),)
    gpus = gpus_of(host, row.run.gpus or ())
    if not gpus:
        whole = gpus_or_queue(host.facts) if host.facts is not None else NO_GPU
        return ((f"{row.host} reports no GPU" if whole == NO_GPU else f"{row.host}: {whole}", "dim"),)
    history = host.history or host.telemetry
    is_measured = any(points_of(history, gpu) for gpu in gpus)
    count: Span = (f"{len(gpus)} ", "plain")
    spans = together(gpus, history, symbols, BAR if is_measured else 0)
    return (count, *(faded(spans) if host.is_stale(time.time()) else spans))


def _cost(row: RunRow, now: float) -> Span:
    costs, rate = row.costs(now), row.rate(now)
    hourly = f"{money(*rate)}/h" if rate is not None else ""
    if costs is None:
        if row.run.started_at is None and hourly:
            return (f"nothing yet; {hourly} once it runs", "dim")
        return ("not known: its host has no price", "dim")
    later = cost_at_end(costs, rate, row.run.eta_s) if not row.run.ended else None
    at_end = f" · about {later.text()} at its last step" if later is not None else ""
    return (f"{costs.text()}{f' at {hourly}' if hourly else ''}{at_end}", "plain")


def _kept(row: RunRow) -> Span:
    return (kept_words(row), "warn" if row.kept.damaged else "plain")


def kept_words(row: RunRow) -> str:
    """Say how many checkpoints are where: `2 home, 1 only on the host`."""
    kept = row.kept
    parts = [f"{kept.home} home", f"{kept.damaged} damaged at home" if kept.damaged else ""]
    parts += [f"{kept.only_host} only on the host" if kept.only_host else ""]
    return ", ".join(part for part in parts if part)


def _sync(row: RunRow, sync: RunSync, now: float, *, is_watched: bool) -> str:
    kept, due = row.kept, ""
    if not is_watched:
        due = " · no daemon"
    elif sync.next_due_at and sync.next_due_at > now:
        due = f" · next in {span(sync.next_due_at - now)}"
    due = " · all home" if row.run.ended and sync.final_done and not (kept.only_host or kept.damaged) else due
    failing = (
        f" · failing since {clock(sync.failing_since, now)}: {sanitize_line(sync.reason, 200)}"
        if sync.failing_since
        else ""
    )
    return f"{age(sync.last_at, now)}{due}{failing}"


def _rest(row: RunRow, detail: RunDetail | None, now: float) -> Iterator[tuple[str, str]]:
    run = row.run
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
    if run.phase and not run.ended:
        yield "phase", sanitize_line(run.phase, 40)
    yield "made", f"{stamp(run.created_at)} ({age(run.created_at, now)})"
    if run.started_at:
        yield "started", f"{stamp(run.started_at)} · {'lasted' if run.ended else 'for'} {span(row.lasted_s(now))}"
    yield "attempt", f"{run.attempt} of submission {run.submission}"
    if run.exit_code is not None:
        yield "exit code", str(run.exit_code)
    if detail is None:
        return
    yield from _spec_facts(detail.spec)
    yield "", ""
    moments = [when(moment, now) for moment, *_ in detail.transitions[-30:]]
    longest = max(map(len, moments), default=0)
    for told, (_, state, reason, message) in zip(moments, detail.transitions[-30:], strict=True):
        said = f" ({sanitize_line(message, 160)})" if message else ""
        yield "", f"{told:<{longest}}  {state}{f': {sanitize_line(reason, 60)}' if reason else ''}{said}"


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
