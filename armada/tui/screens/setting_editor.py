"""Edit one setting of an experiment: text with what it may be, and the loader's sentence if it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Input, Static

from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.tui.form import UNSET
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.field import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from armada.tui.form import Setting
    from armada.tui.symbols import Symbols

    Take = Callable[[str, Callable[[str | None], None]], Callable[[], None]]

LONGEST = 4000
_UNITS = {"_s": ", in seconds", "_minutes": ", in minutes", "_steps": ", in steps", "_bytes": ", in bytes"}
"""By the end of a key."""


class SettingEditor(Dialog[None]):
    """Enter takes the value if the loader accepts it, Escape leaves it as it was.

    Args:
        setting: What is edited.
        take: Checks a value and takes it; then calls its second argument with None, or with why it is refused. Returns what
            forgets the value before that.
        symbols: The symbols that the terminal can show.
    """

    BINDINGS = [Binding("escape", "leave", "leave", priority=True)]  # noqa: RUF012  # Textual declares it so
    DEFAULT_CSS = """
    SettingEditor { align: center middle; }
    SettingEditor Vertical { width: 90%; max-width: 100; height: auto; max-height: 95%; }
    SettingEditor Input { height: 1; border: none; padding: 0 1; margin: 1 0; background: $boost; }
    SettingEditor Input:focus { border: none; background: $accent 20%; }
    SettingEditor .said { height: auto; max-height: 8; }
    """

    def __init__(self, setting: Setting, take: Take, symbols: Symbols) -> None:
        super().__init__()
        self._setting = setting
        self._take = take
        self._symbols = symbols
        self._is_waiting = False
        self._forget: Callable[[], None] | None = None

    def compose(self) -> ComposeResult:
        setting, text = self._setting, self._symbols.text
        empty = ("empty", "is refused: it is required" if setting.is_required else UNSET)
        keys = (("enter", "takes it"), ("esc", "cancels"), empty)
        with frame.dialog(text(sanitize_line(setting.key, 200)), *keys):
            yield Static(Text(text(describe(setting)), style="dim"))
            if setting.meaning:
                yield Static(Text(text(sanitize_line(setting.meaning, 600))))
            # Control characters would be drawn as they are.
            yield Field(sanitize_line(_text_of(setting), LONGEST))
            self.said = Static(classes="said")
            yield self.said

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.said.update("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._is_waiting:
            return
        self._is_waiting = True
        self.said.update(Text("checking …", style="dim"))
        typed = event.value
        self._forget = self._take(self._setting.written(typed) if typed.strip() else "null", self._answer)

    def _answer(self, refusal: str | None) -> None:
        if not self.is_attached:
            return
        self._is_waiting = False
        if refusal is None:
            self.dismiss(None)
            return
        colour = self.app.theme_variables.get("text-error", "")
        self.said.update(Text(self._symbols.text(sanitize_text(refusal, 3000)), style=colour))

    def action_leave(self) -> None:
        if self._forget is not None:
            self._forget()
        self.dismiss(None)


def describe(setting: Setting) -> str:
    """Return what a setting may be, and its default, in a line."""
    unit = next((unit for ending, unit in _UNITS.items() if setting.name.endswith(ending)), "")
    parts = [f"{setting.kind}{unit}"] if setting.kind else []
    if setting.is_required:
        parts.append("required")
    elif setting.default is not None:
        parts.append(f"default: {UNSET}" if setting.default == "null" else f"default {setting.default}")
    return sanitize_line("   ".join(parts), 300) or ("section" if setting.value is None else "value")


def why_not_here(setting: Setting) -> str | None:
    """Return why the editor cannot show the whole value, so that Enter would cut it; None if it can."""
    value = _text_of(setting)
    if len(value) > LONGEST:
        return f"{setting.key} has {len(value):,} characters, and at most {LONGEST:,} can be edited here"
    return None


def _text_of(setting: Setting) -> str:
    value = setting.value if setting.value not in (None, "null") else ""
    return _unquoted(value) if setting.takes_text and value.startswith('"') else value


def _unquoted(value: str) -> str:
    """Return text without the quotes that YAML needs; with them if it has anything to escape."""
    inside = value[1:-1]
    return value if "\\" in inside or '"' in inside else inside
