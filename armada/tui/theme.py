"""Six themes, and which one fits the terminal.

In all of them `accent` is the one colour for data and focus, `warning` is what needs you, `error` is what failed,
and `success` is what is home or done. docs/explanation/visual-language.md says why.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from armada.foundation.sanitize import sanitize_line
from armada.tui import background, heat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App

DARK = Theme(
    name="armada-dark",
    primary="#7aa2f7",
    secondary="#bb9af7",
    accent="#7aa2f7",
    warning="#e0af68",
    error="#f7768e",
    success="#9ece6a",
    foreground="#c8d0f0",
    background="#15161e",
    surface="#1b1d29",
    panel="#1f2231",
    boost="#242838",
    variables={"text-muted": "#7f88b0"},
)
LIGHT = Theme(
    name="armada-light",
    primary="#2a5bd0",
    secondary="#7a3fc0",
    accent="#2a5bd0",
    warning="#8f5600",
    error="#c2263f",
    success="#2f7317",
    foreground="#262b40",
    background="#f6f7fb",
    surface="#eceef5",
    panel="#e4e7f0",
    boost="#dfe3ee",
    dark=False,
    variables={"text-muted": "#626a88"},
)
CONTRAST = Theme(
    name="armada-contrast",
    primary="#00ffff",
    secondary="#ff80ff",
    accent="#00ffff",
    warning="#ffff00",
    error="#ff6060",
    success="#00ff00",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#303030",
    boost="#303030",
    dark=True,
    variables={"text-muted": "#e0e0e0", "frame": "#ffffff"},
)
CHOICES = (DARK.name, LIGHT.name, CONTRAST.name, "nord", "gruvbox", "solarized-light")
FRAME_SHARE = 0.24
"""How much of the foreground is in the lines of a frame that has no focus."""
CURVES = 6
"""How many colours curves have."""
USUAL = {"frame": "#707070"} | dict.fromkeys(
    (*(f"curve-{place}" for place in range(1, CURVES + 1)), *heat.STYLES), "#808080"
)
"""The colours that armada adds, in a theme that lacks them."""
_FORMER = {"textual-dark": DARK.name, "textual-light": LIGHT.name}
"""Names that armada's first release remembered."""
_CHANGED = {
    "nord": {"accent": "#88c0d0", "secondary": "#c6a3c0", "error": "#d98a91", "muted": "#9aa5b8"},
    "gruvbox": {"accent": "#83a598", "secondary": "#d3869b", "muted": "#a89984"},
    "solarized-light": {
        "accent": "#1f6fb0",
        "secondary": "#6c71c4",
        "foreground": "#073642",
        "warning": "#b8400f",
        "success": "#657500",
        "muted": "#586e75",
    },
}
"""Colours instead of those of Textual's own themes: their accents are too near to what means "needs you", and their
red, amber and green could not be read on the row under the cursor (less than 3 to 1)."""


def _ours() -> list[Theme]:
    themes = [DARK, LIGHT, CONTRAST]
    for name, changed in _CHANGED.items():
        found, colours = BUILTIN_THEMES[name], dict(changed)
        variables = {**found.variables, "text-muted": colours.pop("muted")}
        theme = Theme(**{**vars(found), "primary": colours["accent"], **colours, "variables": variables})
        themes.append(theme)
    return themes


def register(app: App[None]) -> None:
    """Register the six themes."""
    for theme in _ours():
        _say_colours(theme)
        app.register_theme(theme)


def _say_colours(theme: Theme) -> None:
    """Give text the theme's own colours: Textual would mix each with white or black, and the six would look alike."""
    roles = {
        "accent": theme.accent,
        "primary": theme.primary,
        "secondary": theme.secondary,
        "warning": theme.warning,
        "error": theme.error,
        "success": theme.success,
    }
    said = {f"text-{role}": colour for role, colour in roles.items() if colour is not None}
    ground, front = Color.parse(theme.background or "black"), Color.parse(theme.foreground or "white")
    said |= {f"curve-{place}": colour for place, colour in enumerate(_curves(theme), 1)}
    said |= dict(zip(heat.STYLES, _loads(theme), strict=True))
    said["frame"] = ground.blend(front, FRAME_SHARE).hex
    said |= {f"scrollbar-{part}": ground.hex for part in ("background", "background-hover", "background-active")}
    theme.variables = {**said, **theme.variables}


def _curves(theme: Theme) -> tuple[str, ...]:
    """Return the colours of curves: none looks like amber, red or green, which are states."""
    others = (
        ("#7dcfff", "#e8ecff", "#ff9ee4", "#a0a8d0") if theme.dark else ("#0b7f8a", "#20263c", "#b1267f", "#6d7590")
    )
    return (theme.accent or theme.primary, theme.secondary or theme.primary, *others)


def _loads(theme: Theme) -> tuple[str, ...]:
    """Return the colours of loads, from grey for idle over the second colour to the accent for full; none is that of a state."""
    idle, half, full = map(
        Color.parse, (theme.variables["text-muted"], theme.secondary or theme.primary, theme.accent or theme.primary)
    )
    return tuple(each.hex for each in (idle, idle.blend(half, 0.5), half, half.blend(full, 0.5), full))


def choose(env: Mapping[str, str], kept: str | None, *, is_light: bool | None = None) -> str:
    """Return the theme to begin with: ARMADA_THEME, else the one chosen last, else what fits the terminal's background.

    Args:
        env: The process's environment. Some terminals say their background in COLORFGBG (konsole, rxvt, iTerm2).
        kept: What was chosen last.
        is_light: What the terminal said when it was asked.
    """
    for name in (env.get("ARMADA_THEME"), kept):
        chosen = _FORMER.get(name or "", name)
        if chosen in CHOICES:
            return chosen
    return LIGHT.name if is_light or _is_light(env.get("COLORFGBG", "")) else DARK.name


def say_unknown(app: App[None]) -> None:
    """Tell the user if ARMADA_THEME is set and names no theme."""
    name = os.environ.get("ARMADA_THEME", "")
    if name and _FORMER.get(name, name) not in CHOICES:
        words = f"ARMADA_THEME={sanitize_line(name, 40)} is no theme; there are {', '.join(CHOICES)}"
        app.notify(words, severity="warning", markup=False)


def after(name: str) -> str:
    """Return the theme that follows one."""
    place = CHOICES.index(name) + 1 if name in CHOICES else 0
    return CHOICES[place % len(CHOICES)]


def _is_light(colours: str) -> bool:
    """Whether COLORFGBG (`15;0`, `0;default;15`) names a light background: of the 16 colours, white and light grey."""
    background = colours.rpartition(";")[2]
    return background in ("7", "15")


def of_terminal(kept: str | None) -> str:
    """Choose by this process's environment and terminal."""
    return choose(os.environ, kept, is_light=background.is_light())
