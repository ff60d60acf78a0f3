"""armada's own themes with high contrast, in addition to Textual's."""

from __future__ import annotations

from textual.theme import Theme

CONTRAST = Theme(
    name="armada-contrast",
    primary="#ffff00",
    secondary="#00ffff",
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
    variables={"text-muted": "#e0e0e0"},
)
CHOICES = ("textual-dark", "textual-light", CONTRAST.name, "nord", "gruvbox", "solarized-light")
