"""Decide where the parts of a run's overview are: each has as much room as it can use, at any size of the terminal.

The facts are always there. What has no place of its own (GPUs, times of a step, checkpoints) is a line of the facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import Region

from armada.tui.gpu_strips import TALLEST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

WIDE = 106
"""From so many columns on, facts and curve are beside each other."""
VAST = 200
"""From so many columns on, the log is beside the curve."""
NARROW = 60
"""With fewer columns, the log is below the curve."""
LEFT = (48, 96)
"""The fewest and the most columns of the facts beside a curve."""
CHART = 6
"""Lines inside the frame of the lowest curve."""
TAIL = 3
"""Lines inside the frame of the lowest log."""
LISTED = 8
"""Checkpoints that are listed before others get more room."""
SLACK = 2
"""Lines that long facts may take before a part gets a place of its own."""
FEW = 4
"""Those in one column of everything."""


class Needs(NamedTuple):
    """How many lines each part can fill; 0 for what a run does not have.

    Attributes:
        facts: Returns the lines of all facts at a width.
        keys: Returns the lines of those that must be in sight, without those that may have a place of their own.
        times: The parts of a step.
        gpus: The GPUs, one line each.
        kept: The checkpoints.
        log: The lines of the log.
        curve: Whether there is a curve.
        settings: The settings that were chosen; they take the place of a curve, or room that nothing else needs.
        events: The events; they take room that nothing else needs.
        plan: The resolved settings; without a curve they take room that settings and log leave.
    """

    facts: Callable[[int], int]
    keys: Callable[[int], int]
    times: int = 0
    gpus: int = 0
    kept: int = 0
    log: int = 1
    curve: bool = True
    settings: int = 0
    events: int = 0
    plan: int = 0


Places = dict[str, Region]
"""Where each part is, by its name: facts, times, kept, happened, settings, plan, chart, gpus, tail. What has no room is not in it."""
OWN = ("times", "gpus", "kept")
"""Parts that are a line of the facts while they have no place."""


def place(width: int, height: int, needs: Needs, edge: int = 2) -> Places:
    """Return the places.

    Args:
        width: Columns.
        height: Lines.
        needs: What there is to show.
        edge: Lines that the frame of a part takes.
    """
    if width < 1 or height < 1:
        return {}
    left = min(max(LEFT[0], width * 45 // 100), LEFT[1])
    if width >= WIDE and height >= _least(needs, left, edge) + TAIL + edge:
        return _beside(width, height, left, needs, edge)
    return _below(width, height, needs, edge)


# One column of everything -----------------------------------------------------------------------------------------------


def _below(width: int, height: int, needs: Needs, edge: int) -> Places:
    facts = _least(needs, width, edge)
    if height < facts + TAIL + edge:
        return {"facts": Region(0, 0, width, height)}
    foot = min(height - facts, 2 * (CHART + edge) if width < NARROW and needs.curve else CHART + 2 + edge)
    spare = height - facts - foot
    # Each needs its title, and without frames there is none.
    lines = {"kept": min(needs.kept, FEW), "times": needs.times, "gpus": needs.gpus} if edge else {}
    own: dict[str, int] = {}
    for name, wanted in lines.items():
        if wanted and wanted + edge - 1 + SLACK <= spare:
            own[name] = wanted + edge
            spare -= wanted + edge - 1
            facts -= 1
    more = max(0, min(spare, _all_facts(needs, width, own) + edge - facts))
    places: Places = {}
    top = 0
    for name, lines_high in {"facts": facts + more, **own}.items():
        places[name] = Region(0, top, width, lines_high)
        top += lines_high
    return places | _foot(width, top, height - top, needs, edge)


def _foot(width: int, top: int, height: int, needs: Needs, edge: int) -> Places:
    """Return the places of curve and log, beside each other or below."""
    if not needs.curve or height < CHART + edge or (width < NARROW and height < 2 * (CHART + edge)):
        return {"tail": Region(0, top, width, height)}
    if width < NARROW or height >= 3 * (CHART + edge):
        low = max(height // 3, min(needs.log + edge, height // 2))
        low = min(low, height - CHART - edge)
        return {"chart": Region(0, top, width, height - low), "tail": Region(0, top + height - low, width, low)}
    half = width // 2
    return {"chart": Region(0, top, half, height), "tail": Region(half, top, width - half, height)}


# Two columns, and the log below -----------------------------------------------------------------------------------------


def _beside(width: int, height: int, left: int, needs: Needs, edge: int) -> Places:
    heights = _left_heights(left, needs, edge)
    wanted = sum(heights.values())
    if not needs.curve:
        return _without_curve(width, height, left, needs, edge)
    if width >= VAST and height - wanted >= 2 * (TAIL + edge):
        return _all_beside(width, height, left, needs, edge)
    gpus = needs.gpus + edge if needs.gpus else 0
    high = min(max(wanted, height * 55 // 100), height * 3 // 4)
    tail = max(TAIL + edge, min(needs.log + edge, height - high))
    high = height - tail
    on_the_left = bool(gpus) and wanted + gpus <= high
    if on_the_left:
        heights["gpus"] = _tallest(needs.gpus, high - wanted - edge) + edge
    spare = high - sum(heights.values())
    if spare < 0:
        _shrink(heights, -spare, _least(needs, left, edge), edge)
    elif spare:
        spare -= _grow(heights, spare, needs, edge)
        more = max(0, min(spare, needs.log + edge - tail, high - height // 2))
        tail, high, spare = tail + more, high - more, spare - more
        heights["facts"] += spare - _fill(heights, spare, needs, edge)
    right = width - left
    places = _stacked(0, 0, left, heights)
    if not on_the_left and gpus and gpus + CHART + 2 + edge <= high:
        tall = _tallest(needs.gpus, high // 3 - edge) + edge
        places["gpus"] = Region(left, high - tall, right, tall)
        places["chart"] = Region(left, 0, right, high - tall)
    else:
        places["chart"] = Region(left, 0, right, high)
    places["tail"] = Region(0, high, width, tail)
    return places


def _all_beside(width: int, height: int, left: int, needs: Needs, edge: int) -> Places:
    """Put the log below the facts, and the curve beside all of them: lines of a log are shorter than such a screen is wide."""
    heights, right = _left_heights(left, needs, edge), width - left
    gpus = needs.gpus + edge if needs.gpus else 0
    spare = height - sum(heights.values()) - max(TAIL, needs.log) - edge
    tall = _tallest(needs.gpus, spare - edge) + edge if gpus and gpus <= spare else 0
    if tall:
        heights["gpus"] = tall
        spare -= tall
    spare = max(0, spare)
    spare -= _grow(heights, spare, needs, edge)
    _fill(heights, spare, needs, edge)
    heights["tail"] = height - sum(heights.values())
    places = _stacked(0, 0, left, heights)
    over = _tallest(needs.gpus, height * 2 // 5 - edge) + edge if gpus and not tall else 0
    if over > height - CHART - 2 - edge:
        over = 0
    if over:
        places["gpus"] = Region(left, height - over, right, over)
    places["chart"] = Region(left, 0, right, height - over)
    return places


def _without_curve(width: int, height: int, left: int, needs: Needs, edge: int) -> Places:
    """Give the place of the curve to the settings and the log."""
    heights = _left_heights(left, needs, edge)
    spare = height - sum(heights.values())
    gpus = needs.gpus + edge if needs.gpus else 0
    on_the_left = bool(gpus) and gpus <= spare
    if on_the_left:
        heights["gpus"] = _tallest(needs.gpus, spare - edge) + edge
        spare = height - sum(heights.values())
    if spare < 0:
        _shrink(heights, -spare, _least(needs, left, edge), edge)
    else:
        spare -= _grow(heights, spare, needs, edge)
        heights["facts"] += spare - _fill(heights, spare, needs._replace(settings=0), edge)
    places, right = _stacked(0, 0, left, heights), width - left
    column = {"gpus": gpus} if gpus and not on_the_left and gpus + TAIL + edge <= height else {}
    room = height - sum(column.values()) - max(TAIL, min(needs.log, height * 2 // 3)) - edge
    if needs.settings and room >= TAIL + edge:
        column["settings"] = min(needs.settings + edge, room)
        room -= column["settings"]
    if needs.plan and room >= TAIL + edge:
        column["plan"] = min(needs.plan + edge, room)
    column["tail"] = height - sum(column.values())
    return places | _stacked(left, 0, right, column)


def _left_heights(width: int, needs: Needs, edge: int) -> dict[str, int]:
    own = {"times": needs.times, "kept": min(needs.kept, LISTED)}
    own = {name: lines + edge for name, lines in own.items() if lines}
    taken = {*own, *(["gpus"] if needs.gpus else [])}
    return {"facts": _all_facts(needs, width, taken) + edge, **own}


def _all_facts(needs: Needs, width: int, own: Collection[str]) -> int:
    """Return the lines of all facts, with a line for each part that has no place of its own."""
    return needs.facts(width) + len(OWN) - len(own)


def _least(needs: Needs, width: int, edge: int) -> int:
    """Return the lines of the facts that must be in sight, with their frame, while no part has a place of its own."""
    return needs.keys(width) + len(OWN) + edge


def _shrink(heights: dict[str, int], by: int, least: int, edge: int) -> None:
    """Take lines away: first of the facts that need not be in sight, then of the list, then whole parts."""
    less = min(by, max(0, heights["facts"] - least))
    heights["facts"] -= less
    by -= less
    if by > 0 and "kept" in heights:
        less = min(by, max(0, heights["kept"] - 1 - edge))
        heights["kept"] -= less
        by -= less
    for name in ("times", "kept"):
        if by > 0 and name in heights:
            freed = heights.pop(name)
            heights["facts"] += max(0, freed - by)
            by = max(0, by - freed)
    heights["facts"] -= by


def _grow(heights: dict[str, int], spare: int, needs: Needs, edge: int) -> int:
    """Give the list of checkpoints more lines; return how many."""
    if "kept" not in heights:
        return 0
    more = min(spare, max(0, needs.kept + edge - heights["kept"]))
    heights["kept"] += more
    return more


def _fill(heights: dict[str, int], spare: int, needs: Needs, edge: int) -> int:
    """Give events and settings the lines that nothing else needs; return how many."""
    used = 0
    for name, lines in (("happened", needs.events), ("settings", needs.settings)):
        if lines and spare - used >= TAIL + edge:
            heights[name] = min(lines + edge, spare - used)
            used += heights[name]
    return used


def _tallest(gpus: int, room: int) -> int:
    """Return how many lines GPUs take of a room: each as many as all can have, with a gap between them."""
    each = max(1, min(TALLEST, (room + 1) // gpus - 1))
    return gpus * each + gpus - 1 if each > 1 else gpus


def _stacked(x: int, y: int, width: int, heights: dict[str, int]) -> Places:
    places: Places = {}
    for name, lines in heights.items():
        places[name] = Region(x, y, width, lines)
        y += lines
    return places
