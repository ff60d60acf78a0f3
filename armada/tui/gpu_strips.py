"""A host's GPUs as strips of load over time: one line each, or all of them in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.tui.heat import heated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.protocol.recorded import RecordedFacts, RecordedGpu
    from armada.store.telemetry import Point
    from armada.tui.snapshot import HostView
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Span

HOT_C = 88.0
SPAN_S = 900.0
MINUTES = " 15 m"
NO_GPU = "no GPU"
TALLEST = 3
"""Lines of one GPU in a panel with room."""
GAP_S = 120.0
"""A measurement holds so long: a host may be asked less often than a strip has cells."""


def strip(history: Sequence[Point], width: int) -> list[float | None]:
    """Return the mean load of each of `width` equal parts of a time span, between 0 and 1; None where nothing was measured."""
    if not history or width < 1:
        return []
    end = history[-1].time
    sums, counts, last = [0.0] * width, [0] * width, width - 1
    for point in history:  # of all GPUs of all hosts
        used = point.utilization
        place = last - int((end - point.time) / SPAN_S * width)
        if used is None or place < 0:
            continue
        place = min(place, last)
        sums[place] += used / 100 if 0.0 <= used <= 100.0 else min(1.0, max(0.0, used / 100))
        counts[place] += 1
    means: list[float | None] = []
    since = 0
    for total, count in zip(sums, counts, strict=True):
        since = 0 if count else since + 1
        held = means[-1] if means and since * SPAN_S / width <= GAP_S else None
        means.append(total / count if count else held)
    return means


def gpu_names(facts: RecordedFacts) -> str:
    """Format the GPUs: `8×A100-SXM4-80GB`."""
    names: dict[str, int] = {}
    for gpu in facts.gpus or ():
        name = (gpu.name or "").removeprefix("NVIDIA ")
        names[name] = names.get(name, 0) + 1
    return ", ".join(f"{count}×{name}" for name, count in names.items()) or NO_GPU


def gpus_or_queue(facts: RecordedFacts) -> str:
    """Say which GPUs a host has, or how many of a cluster's are free."""
    parts = facts.queue.partitions if facts.queue is not None else ()
    whole = sum(part.gpus or 0 for part in parts)
    if facts.gpus or not whole:
        return gpu_names(facts)
    return f"{sum(part.gpus_free or 0 for part in parts)} of {whole} free"


def points_of(telemetry: Mapping[int, Sequence[Point]], gpu: RecordedGpu) -> Sequence[Point]:
    return telemetry.get(gpu.index, ()) if gpu.index is not None else ()


def gpu_spans(gpu: RecordedGpu, history: Sequence[Point], symbols: Symbols, width: int) -> list[Span]:
    """Return a GPU's line: number, load over time, load now, memory, power, temperature."""
    newest = history[-1] if history else None
    used = newest.utilization if newest is not None else None
    used = used if used is not None else gpu.utilization or 0.0
    memory = newest.memory_used_bytes if newest is not None else None
    memory_used = float(memory) if memory is not None else gpu.memory_used_bytes or 0.0
    total = gpu.memory_total_bytes or 0.0
    spans: list[Span] = [(f"{'' if gpu.index is None else gpu.index:>2} ", "dim")]
    if width > 0:
        spans += [*_strip_of(strip(history, width), symbols, width), (" ", "plain")]
    spans += [(f"{used:>3.0f}%", "plain"), (f"  {memory_used / 2**30:>3.0f}/{total / 2**30:.0f} GiB", "dim")]
    if newest is not None and newest.power_w is not None:
        spans.append((f"  {newest.power_w:>3.0f} W", "dim"))
    if newest is not None and newest.temperature_c is not None:
        spans.append(_heat(newest.temperature_c, symbols))
    return spans


def together(
    gpus: Sequence[RecordedGpu],
    telemetry: Mapping[int, Sequence[Point]],
    symbols: Symbols,
    width: int,
    *,
    places: int = 0,
) -> list[Span]:
    """Return all GPUs in one line: the load of each now, their mean over time, memory, power, the hottest.

    Args:
        gpus: The GPUs of a host.
        telemetry: The last minutes of each.
        symbols: What the terminal can show.
        width: Cells for the mean over time.
        places: Cells for the loads now, at least; lines of several hosts stand below each other.
    """
    newest = [(gpu, points[-1] if (points := points_of(telemetry, gpu)) else None) for gpu in gpus]
    loads = [_load(gpu, point) for gpu, point in newest]
    memory = sum(_memory(gpu, point) for gpu, point in newest)
    total = sum(gpu.memory_total_bytes or 0.0 for gpu in gpus)
    mean = _over_time(gpus, telemetry, width)
    spans = _strip_of([load / 100 for load in loads], symbols, places)
    spans.append((f" {sum(loads) / max(1, len(loads)):>3.0f}%", "plain"))
    if width > 0 and mean:
        spans += [("  ", "plain"), *_strip_of(mean, symbols, width), (MINUTES, "dim")]
    spans.append((f"  {memory / 2**30:.0f}/{total / 2**30:.0f} GiB", "dim"))
    watts = [point.power_w for _, point in newest if point is not None and point.power_w is not None]
    if watts:
        power = sum(watts)
        spans.append((f"  {power / 1000:.1f} kW" if power >= 1000 else f"  {power:.0f} W", "dim"))
    heat = [point.temperature_c for _, point in newest if point is not None and point.temperature_c is not None]
    if heat:
        spans.append(_heat(max(heat), symbols))
    return spans


def _heat(temperature_c: float, symbols: Symbols) -> Span:
    return symbols.text(f"  {temperature_c:.0f} °C"), "bad" if temperature_c >= HOT_C else "dim"


def loads(
    gpus: Sequence[RecordedGpu],
    telemetry: Mapping[int, Sequence[Point]],
    symbols: Symbols,
    places: int,
    width: int,
) -> list[Span]:
    """Return what all GPUs do in few cells: the load of each now in `places`, their mean, and it over time in `width`."""
    now = [_load(gpu, points[-1] if (points := points_of(telemetry, gpu)) else None) / 100 for gpu in gpus]
    share = -(-len(now) // places)  # GPUs to a cell
    shown = [sum(part) / len(part) for part in (now[at : at + share] for at in range(0, len(now), share))]
    spans = [*_strip_of(shown, symbols, places), (f" {sum(now) / len(now):>4.0%}", "plain")]
    mean = _over_time(gpus, telemetry, width)
    return [*spans, ("  ", "plain"), *_strip_of(mean, symbols)] if mean else spans


def faded(spans: Iterable[Span]) -> list[Span]:
    """Return what GPUs did in grey: it is of an earlier time, and nobody knows what they do now."""
    return [(words, "faint" if style.startswith("load-") else "dim") for words, style in spans]


def _strip_of(shares: Sequence[float | None], symbols: Symbols, width: int = 0) -> list[Span]:
    """Return loads as a strip in their colours, with blanks up to a width."""
    spans = heated(symbols.strip(shares), shares)
    return [*spans, (" " * (width - len(shares)), "plain")] if len(shares) < width else spans


def _over_time(gpus: Sequence[RecordedGpu], telemetry: Mapping[int, Sequence[Point]], width: int) -> list[float | None]:
    strips = [strip(points_of(telemetry, gpu), width) for gpu in gpus]
    return [_mean(column) for column in zip(*(each for each in strips if each), strict=False)]


def _load(gpu: RecordedGpu, point: Point | None) -> float:
    found = point.utilization if point is not None else None
    return found if found is not None else gpu.utilization or 0.0


def _memory(gpu: RecordedGpu, point: Point | None) -> float:
    found = point.memory_used_bytes if point is not None else None
    return float(found) if found is not None else gpu.memory_used_bytes or 0.0


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def gpus_of(host: HostView, of: Sequence[int]) -> list[RecordedGpu]:
    """Return the GPUs of a run, by their numbers; all of the host while it has none."""
    return [gpu for gpu in host.gpus if gpu.index in of] or list(host.gpus)


def panel_lines(
    host: HostView | None, of: Sequence[int], symbols: Symbols, width: int, height: int = 0
) -> list[list[Span]]:
    """Return the GPUs of a host, or those of a run: a line each, or where they fit in `height`, several."""
    if host is None or host.record is None:
        return [[("this host was not checked yet", "dim")]]
    chosen = gpus_of(host, of)
    history = host.history or host.telemetry
    room = max(0, width - 36)
    rows = min(TALLEST, (height + 1) // len(chosen) - 1) if chosen and room else 1
    lines: list[list[Span]] = []
    for gpu in chosen:
        points = points_of(history, gpu)
        loads = strip(points, room) if rows > 1 else []
        if not loads:
            lines.append(gpu_spans(gpu, points, symbols, room))
            continue
        number, *facts = gpu_spans(gpu, points, symbols, 0)
        lines += [[]] if lines else []
        first, *others = symbols.strips(loads, rows)
        lines.append([number, *heated(first, loads), (" ", "plain"), *facts])
        lines += [[("   ", "plain"), *heated(line, loads)] for line in others]
    return lines or [[(NO_GPU, "dim")]]
