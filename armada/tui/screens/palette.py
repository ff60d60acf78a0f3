"""The palette (`^p`): every action that works here, by its name, in a frame as everything else."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.await_complete import AwaitComplete
from textual.command import CommandInput, CommandPalette
from textual.errors import NoWidget

from armada.tui import theme as themes
from armada.tui.bindings import SCREENS, of
from armada.tui.screens.view import View
from armada.tui.widgets import frame
from armada.tui.widgets.lines import TABS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.app import App
    from textual.screen import Screen

    from armada.tui.app import Dashboard
    from armada.tui.bindings import Key


class Palette(CommandPalette):
    """Textual's own, with its list under the line, as wide as other windows."""

    DEFAULT_CSS = """
    Palette > Vertical {
        margin: 1 0; width: 90%; max-width: 110; height: auto; max-height: 90%; background: $panel; visibility: visible;
    }
    Palette #--input, Palette #--input.--list-visible { height: 1; border: none; background: $boost; }
    Palette SearchIcon { display: none; }
    Palette CommandInput, Palette CommandInput:focus { height: 1; border: none; padding: 0 1; background: $accent 20%; }
    Palette #--results { overlay: none; height: auto; }
    Palette CommandList { max-height: 22; border: none; background: $panel; scrollbar-size-vertical: 1; }
    Palette CommandList:focus { border: none; }
    Palette LoadingIndicator { display: none; }
    """

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close it, once (see `dialog.py`, whose class cannot be mixed into Textual's own)."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def look_again(self) -> None:
        """Look once more for what was typed: the commands were read meanwhile."""
        field = self.query_one(CommandInput)
        field.post_message(CommandInput.Changed(field, field.value))

    def _on_click(self, event: events.Click) -> None:  # type: ignore[override]  # as in Textual's own, which comes after this
        """Leave out a click where nothing is any more: the terminal became smaller meanwhile."""
        try:
            self.get_widget_at(event.screen_x, event.screen_y)
        except NoWidget:
            event.prevent_default()

    def on_mount(self) -> None:
        box = self.query_one("#--container")
        box.add_class(frame.DIALOG)
        frame.title(box, "Find an action")
        frame.facts(box, frame.keys(("enter", "does it"), ("esc", "closes")))


def commands(board: Dashboard, screen: Screen[object]) -> Iterable[SystemCommand]:
    """Return every action that works here, by its name; and, where it is searched for, the screens of the others."""

    def do(action: str, node: Screen[object] | App[None]) -> None:
        board.call_later(board.run_action, action, node)

    place = screen.PLACE if isinstance(screen, View) else ""
    for key in (*of(place), *of("everywhere")):
        if key.action == "command_palette":
            continue
        node = board if key.where == "everywhere" else screen
        title = _title(key) if key.where != "everywhere" or "go(" not in key.action else f"Go to {key.help}"
        yield SystemCommand(f"{title} ({key.shown})", SCREENS[key.where], partial(do, key.action, node))
    for other in TABS:
        if other == place:
            continue
        for key in of(other):
            title = f"{SCREENS[other]}: {_title(key)} ({key.shown})"
            go = partial(do, f"go('{other}')", board)
            yield SystemCommand(title, f"Goes to {SCREENS[other]}, where {key.shown} does it", go, discover=False)
    registry = board.commander.registry
    for command in registry.commands.values() if registry is not None else ():
        for each in command.verbs.values() or [command]:
            about = f"{each.about} (types it, for you to complete)"
            types = partial(board.call_later, board.action_command, f"{each.name} ")
            yield SystemCommand(f":{each.name}", about, types, discover=False)
    for name in themes.CHOICES:
        yield SystemCommand(f"Theme {name}", "Colours", partial(board.choose_theme, name))


def _title(key: Key) -> str:
    """What a key does, with the word of the key line before it: it is what people look for."""
    word = key.text.rstrip("?")
    return key.help if word.casefold() in key.help.casefold() else f"{word}: {key.help}"
