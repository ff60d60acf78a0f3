"""The columns of the Runs screen: the usual ones, and those of the user's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.costs.price import DOLLARS
from armada.filters.cells import is_number
from armada.foundation.sanitize import sanitize_line
from armada.tui.widgets.column_rooms import places_shown
from armada.tui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.costs.tariff import Tariff
    from armada.filters.keys import Key

PROGRESS = Column("PROGRESS", 17, widest=40)
LOSS_ROOM = 7
BESIDE = "beside the loss"
"""What stands in that column; no key has this name."""
SPARK = Column("", 10, rank=5)
"""The curve of the loss; of several runs, the metric that their best is the best by."""
USUAL = {
    "name": Column("NAME", 14, grow=3, most=60, rank=-999, widest=110),
    "host": Column("HOST", 8, grow=4, most=20, rank=3),
    "gpus": Column("GPUS", 5, rank=8),
    "progress": PROGRESS,
    "loss": Column("LOSS", LOSS_ROOM, right=True, rank=1),
    BESIDE: SPARK,
    "speed": Column("TOK/S", 6, right=True, rank=7),
    "eta": Column("ETA", 8, right=True, rank=2),
    "checkpoints": Column("HOME", 18, grow=1, most=26, rank=6),
    "cost": Column("COST", 7, right=True, rank=4),
    "seen": Column("SEEN", 10),
}
"""The usual columns, by the keys of what they show."""
LONG_COST = 10
"""Cells for `123.45 EUR`: a currency without a sign needs more than dollars."""
STATE = Column("", 1, rank=-1000)
COLUMNS = (STATE, *USUAL.values())


def columns_of(keys: Sequence[Key]) -> tuple[tuple[str, ...], tuple[Column, ...]]:
    """Return what stands behind the state's symbol if these keys are chosen, and its columns.

    A key of the usual table looks as it does there, and yields its room before one that only the user's choice has.
    """
    columns: dict[str, Column] = {}
    for place, key in enumerate(keys):
        columns[key.name] = USUAL[key.name] if is_usual(key) else _own(key, place - len(keys) - 1)
        if is_usual(key) and key.name == "loss":
            columns[BESIDE] = SPARK
    return tuple(columns), tuple(columns.values())


def with_room_for_costs(columns: Sequence[Column], tariffs: Iterable[Tariff | None]) -> tuple[Column, ...]:
    """Return the columns, of which that of costs has room for the currencies of the prices."""
    is_long = any(price.currency != DOLLARS for each in tariffs if each is not None for price in each.prices)
    cost = USUAL["cost"]
    wanted = cost._replace(wants=LONG_COST if is_long else 0)
    return tuple(wanted if column._replace(wants=0) == cost else column for column in columns)


def is_usual(key: Key) -> bool:
    return key.source == "run" and key.name in USUAL


def _own(key: Key, rank: int) -> Column:
    title = (key.name.rpartition(".")[2] if key.source == "setting" else key.name).upper()
    known = {"id": 22, "state": 10, "tag": 12, "note": 16, "created": 16, "started": 16}
    width = known.get(key.name, max(8, len(title[:20])))
    right = is_number(key)
    return Column(sanitize_line(title, 20), width, right=right, grow=int(not right), most=60, rank=rank)


def left_out(keys: Sequence[Key], width: int) -> list[Key]:
    """Return which columns of the user's choice a table of this width has no room for."""
    names, columns = columns_of(keys)
    shown = {("", *names)[place] for place in places_shown((STATE, *columns), width)}
    return [key for key in keys if key.name not in shown]
