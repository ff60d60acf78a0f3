"""A screen as text that can be read, compared and reviewed: what stands in each cell, and under it in which style.

Not Textual's SVG: that changes with releases in ways nobody sees (ids, fonts, a colour by one step), and its difference cannot be read.
Colours are named by the theme's own nearest one, so a shade does not count, and red instead of green does.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.style import Style
from textual.app import App
from textual.color import Color, ColorParseError
from textual.pilot import Pilot

from tests.tui.conftest import strips, until

FOLDER = Path(__file__).parent / "pictures"
UPDATE = "ARMADA_UPDATE_PICTURES"
UPDATING = os.environ.get(UPDATE) == "1"  # read here, because tests begin without any ARMADA_ variable
NAMED = ("foreground", "background", "panel", "primary", "accent", "warning", "error", "success")
WORDS = ("bold", "italic", "underline", "reverse", "strike")


def _palette(app: App[None]) -> dict[str, list[Color]]:
    """The theme's colours by what they mean; text in a colour is a tint of it."""
    found: dict[str, list[Color]] = {}
    for name in NAMED:
        for variable in (name, f"text-{name}"):
            with contextlib.suppress(KeyError, ColorParseError):
                found.setdefault(name, []).append(Color.parse(app.theme_variables[variable]))
    background, foreground = found["background"][0], found["foreground"][0]
    found["muted"] = [background.blend(foreground, 0.6)]
    found["cursor"] = [background.blend(found["primary"][0], 0.25)]
    return found


def _nearest(colour: RichColor | None, palette: dict[str, list[Color]], usual: str) -> str:
    if colour is None or colour.triplet is None:
        return usual
    given = tuple(colour.triplet)

    def distance(name: str) -> int:
        return min(sum((a - b) ** 2 for a, b in zip(each.rgb, given, strict=True)) for each in palette[name])

    return min(palette, key=distance)


def _describe(text: str, style: Style | None, palette: dict[str, list[Color]]) -> str:
    """Words for a style; of empty cells only what is behind them is seen."""
    if style is None:
        return ""
    behind = _nearest(style.bgcolor, palette, "background")
    words = [f"on {behind}"] if behind != "background" else []
    if text.strip():
        front = _nearest(style.color, palette, "foreground")
        words = [word for word in WORDS if getattr(style, word)] + ([front] if front != "foreground" else []) + words
    return " ".join(words)


def take(app: App[None]) -> str:
    """The screen now: its lines, and under them, by line and column, what is not drawn plainly."""
    palette = _palette(app)
    lines, styles = [], []
    for number, strip in enumerate(strips(app)):
        lines.append(strip.text.rstrip())
        runs: list[tuple[int, str]] = []
        column = 0
        for text, style, _ in strip:
            named = _describe(text, style, palette)
            if not runs or runs[-1][1] != named:
                runs.append((column, named))
            column += cell_len(text)
        said = [f"{start} {named or 'plain'}" for start, named in runs]
        if any(named for _, named in runs):
            styles.append(f"{number:>3}: " + ", ".join(said))
    return "\n".join([*lines, "-- styles, from column to column", *styles, ""])


async def looks_like(pilot: Pilot[None], name: str) -> None:
    """Wait until the screen is the kept picture; fails with the difference, and how to keep the new one."""
    width, height = pilot.app.size
    path = FOLDER / f"{name}-{width}x{height}.txt"
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    if UPDATING:
        await _settle(pilot)
        FOLDER.mkdir(exist_ok=True)
        path.write_text(take(pilot.app), encoding="utf-8")
        return
    for _ in range(200):
        if (seen := take(pilot.app)) == kept:
            return
        await pilot.pause(0.05)
    difference = "\n".join(
        difflib.unified_diff(kept.splitlines(), seen.splitlines(), str(path), "the screen now", lineterm="")
    )
    pytest.fail(
        f"{path.name} is not what the screen shows:\n{difference}\nIf it is right so: {UPDATE}=1 pytest tests/tui/test_pictures.py"
    )


async def _settle(pilot: Pilot[None]) -> None:
    """Until nothing has changed for a second."""
    last, since = "", time.monotonic()

    def still() -> bool:
        nonlocal last, since
        if (seen := take(pilot.app)) != last:
            last, since = seen, time.monotonic()
        return time.monotonic() - since > 1

    await until(pilot, still)
