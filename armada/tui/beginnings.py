"""What texts that begin alike differ by: the names of a sweep's cells, and long values of a setting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.tui.snapshot import RunRow
    from armada.tui.widgets.table import Span

_ENDS = re.compile(r"""[ ,;:=/"'_(\[]|(?<![0-9][eE])-""")
"""What a word or a value begins after; the sign of an exponent is a part of its number."""
_KEYS = re.compile(r"[^\s=]+=")


def beginning_of(texts: Sequence[str]) -> int:
    """Return how many characters all texts begin with alike; no word is cut, and of each text something is left."""
    if len(set(texts)) < 2:
        return 0
    first, last = min(texts), max(texts)  # what these two begin with alike, so do those between them
    alike = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    most = min(alike, min(map(len, texts)) - 1)
    return max((found.end() for found in _ENDS.finditer(first, 0, max(0, most))), default=0)


def short_forms(name: str, alike: int) -> tuple[str, ...]:
    """Return a name, then without what others begin with alike, and then without the keys before its values, too."""
    rest = name[alike:]
    sign = "…" if alike else ""
    return name, sign + rest, sign + _KEYS.sub("", rest)


def common_form(names: Sequence[str], alike: int, room: int) -> int:
    """Return the place of the first short form in which all names fit into a column, else that of the last."""
    forms = list(zip(*(short_forms(name, alike) for name in names), strict=True))
    fitting = (place for place, all_names in enumerate(forms) if max(map(cell_len, all_names)) <= room)
    return next(fitting, len(forms) - 1)


def alike_by_sweep(sources: Iterable[RunRow]) -> dict[str, int]:
    """Return how many characters the names of each sweep's runs begin with alike."""
    names: dict[str, list[str]] = {}
    for row in sources:
        if row.run.sweep:
            names.setdefault(row.run.sweep, []).append(row.name)
    return {sweep: beginning_of(found) for sweep, found in names.items()}


def first_fitting(forms: Iterable[str], room: int) -> str:
    """Return the first text that fits into a column, else the last one."""
    shown = ""
    for shown in forms:
        if cell_len(shown) <= room:
            break
    return shown


def width_of(spans: Iterable[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)
