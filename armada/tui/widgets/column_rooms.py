"""Share the width of a table among its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from armada.tui.widgets.table import Column


def places_shown(columns: Sequence[Column], width: int, unused: Collection[int] = ()) -> list[int]:
    """Return which columns a table shows: as long as not all fit, the one with the highest rank is left out."""
    shown = [place for place in range(len(columns)) if place not in unused]
    while sum(columns[i].width + 1 for i in shown) > width - 2 and len(shown) > 1:
        shown.remove(max(shown, key=lambda i: (columns[i].rank, i)))  # the name is on the left and is left out last
    return shown


def rooms_of(columns: Sequence[Column], width: int, shown: Sequence[int]) -> dict[int, int]:
    """Return the width of each shown column, by its place.

    Args:
        columns: From left to right.
        width: The cells of the table.
        shown: The places of the columns that fit.
    """
    over = max(0, width - 2 - sum(columns[i].width + 1 for i in shown))
    least = {i: columns[i].width for i in shown}
    for i in shown:
        wanted = min(over, max(0, columns[i].wants - least[i]))
        least[i], over = least[i] + wanted, over - wanted
    shares = sum(columns[i].grow for i in shown) or 1
    rooms = {i: min(max(columns[i].most, least[i]), least[i] + over * columns[i].grow // shares) for i in shown}
    left = width - 2 - sum(room + 1 for room in rooms.values())
    wider = sorted((columns[i].widest - room, i) for i, room in rooms.items() if columns[i].widest > room)
    for place, (more, i) in enumerate(wider):
        taken = max(0, min(more, left // (len(wider) - place)))
        rooms[i], left = rooms[i] + taken, left - taken
    return rooms
