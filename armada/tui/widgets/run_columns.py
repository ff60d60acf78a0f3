"""The columns of the Runs screen: the usual ones, and those of the user's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.filters.cells import is_number
from armada.foundation.sanitize import sanitize_line
from armada.tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.filters.keys import Key

PROGRESS = Column("PROGRESS", 17, widest=40)
LOSS_ROOM = 7
SPARK = Column("", 10, rank=5)
"""The curve of the loss; of several runs, the metric that their best is the best by."""
COLUMNS = (
    Column("", 1, rank=-2),
    Column("NAME", 14, grow=3, most=60, rank=-1, widest=110),
    Column("HOST", 8, grow=4, most=20, rank=3),
    Column("GPUS", 5, rank=8),
    PROGRESS,
    Column("LOSS", LOSS_ROOM, right=True, rank=1),
    SPARK,
    Column("TOK/S", 6, right=True, rank=7),
    Column("ETA", 8, right=True, rank=2),
    Column("HOME", 18, grow=1, most=26, rank=6),
    Column("COST", 7, right=True, rank=4),
    Column("SEEN", 10),
)


def column_of(key: Key, place: int) -> Column:
    """A column of the user's choice. If the table is too narrow, the last ones are left out first."""
    title = (key.name.rpartition(".")[2] if key.source == "setting" else key.name).upper()
    known = {"id": 22, "name": 20, "host": 10, "state": 10, "tag": 12, "note": 16, "created": 16, "started": 16}
    width = known.get(key.name, max(8, len(title[:20])))
    right = is_number(key)
    return Column(sanitize_line(title, 20), width, right=right, grow=int(not right), most=60, rank=place)


def fitting(keys: Sequence[Key], width: int) -> int:
    """Return how many columns of the user's choice a table of this width shows."""
    left = width - 2 - (COLUMNS[0].width + 1)
    for place, key in enumerate(keys):
        left -= column_of(key, place).width + 1
        if left < 0:
            return place
    return len(keys)
