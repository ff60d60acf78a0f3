"""Help (`?`): the table of keys, those of what is under the cursor and of the current screen first."""

from __future__ import annotations

import functools
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text
from textual.binding import Binding
from textual.widgets import Input

from armada.tui.bindings import SCREENS, Key, of, on_page
from armada.tui.screens.dialog import Dialog
from armada.tui.widgets import frame
from armada.tui.widgets.marked_text import MarkedText
from armada.tui.widgets.text_scroll import TextScroll

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult

    from armada.tui.screens.view import View
    from armada.tui.symbols import Symbols

FAILED = ("logs", "tab('log')", "resume", "compare", "web", "remove")
ACTIVE = ("logs", "tab('log')", "stop", "sync", "shell", "web")
DONE = ("open", "tab('checkpoints')", "sync", "compare", "pin", "label('archive')")
CHECKPOINT = ("pull", "pull_to", "copy")
HOST = ("check", "release", "runs", "shell")
CHARTS = ("charts", "curves")
"""Pages with curves."""
GENERAL = ("lists", "find", "text")
"""Places of keys that work on several screens."""
WIDEST = 100
KEYS_SHOWN = 2
"""Of the keys of a window that do the same."""
INDENT = 11
"""Where the words begin, after the keys."""


class Here(NamedTuple):
    """What is under the cursor, with the actions that it needs most, and the page of the screen."""

    name: str
    actions: Sequence[str]
    page: str = ""


class HelpScreen(Dialog[None]):
    """Generated from `armada.tui.bindings`, like everything that shows keys.

    Args:
        place: Whose keys come first, by its name in the table of keys; empty for those of a window that are not there.
        symbols: The symbols that the terminal can show.
        read_only: Keys that change something are off.
        here: What is under the cursor.
        window: The keys of that window.
    """

    BINDINGS = [Binding("escape,q,question_mark,f1,enter", "close", "close")]  # noqa: RUF012  # Textual declares it so
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen Vertical { width: 90%; max-width: 100; height: 90%; }
    """

    def __init__(
        self,
        place: str,
        symbols: Symbols,
        *,
        read_only: bool,
        here: Here | None = None,
        window: Sequence[Key] = (),
    ) -> None:
        super().__init__()
        self._words = functools.partial(words, place, symbols, read_only=read_only, here=here, window=window)

    def compose(self) -> ComposeResult:
        self.listed = MarkedText()
        self._write()
        with frame.dialog("Keys", ("esc", "closes")):
            self.scroll = TextScroll(self.listed)
            yield self.scroll

    def _write(self) -> None:
        """Write the keys as wide as the window is, less its frame and its scrollbar."""
        room = min(WIDEST, self.app.size.width * 9 // 10) - 5
        self.words = self._words(accent=self.app.theme_variables["text-accent"], width=room)
        self.listed.update(self.words)

    def on_resize(self) -> None:
        self._write()

    def on_mount(self) -> None:
        self.scroll.focus()

    def action_close(self) -> None:
        self.dismiss(None)


def keys_of_window(window: Dialog[Any]) -> list[Key]:
    """Return the keys that a window binds, as rows of the table; Enter, too, where a text is typed."""
    found = [Key("", "enter", "enter", "", "", "Take what is typed")] if isinstance(window.focused, Input) else []
    by_action: dict[str, list[Binding]] = {}
    for each in type(window).__mro__:
        for binding in Binding.make_bindings(each.__dict__.get("BINDINGS", ())) if issubclass(each, Dialog) else ():
            by_action.setdefault(binding.action, []).append(binding)
    for action, same in by_action.items():
        shown = " ".join(window.app.get_key_display(binding) for binding in same[:KEYS_SHOWN])
        about = same[0].description
        found.append(Key("", same[0].key, shown, action, "", f"{about[:1].upper()}{about[1:]}"))
    return found


def what_is_here(view: View) -> Here:
    """Return what is under the cursor of a screen."""
    page, host = view.page, view.host_meant
    if host is not None:
        return Here(host, HOST, page)
    if page == "checkpoints":
        return Here("the checkpoint under the cursor", CHECKPOINT, page)
    rows = view.concerned()
    if len(rows) != 1:
        return Here(
            f"{len(rows)} runs" if rows else "",
            ("stop", "resume", "compare", "sync", "pin", "label('tag')") if rows else (),
            page,
        )
    run = rows[0].run
    actions = DONE if run.state == "succeeded" else FAILED if run.ended else ACTIVE
    silent = ", unreachable" if run.unreachable_since is not None and not run.ended else ""
    return Here(f"{run.run_id}, {run.state}{silent}", actions, page)


def words(
    place: str,
    symbols: Symbols,
    *,
    read_only: bool,
    here: Here | None = None,
    window: Sequence[Key] = (),
    accent: str = "",
    width: int = 1000,
) -> Text:
    """Return all keys: of what is under the cursor, of the page, of the screen, of everywhere and of lists, then the others.

    In a window, its own keys come first.
    """
    text = Text()
    add = functools.partial(_append, text, symbols=symbols, read_only=read_only, accent=accent, width=width)
    said: list[Key] = []
    if window:
        add("This window", window)
    if here is not None and here.name:
        said = [key for action in here.actions for key in of(place) if key.action == action]
        add(here.name, said)
    if here is not None and here.page and (mine := [key for key in of(place) if key.page and on_page(key, here.page)]):
        add(f"{SCREENS[place]}: {here.page}", mine)
        said += mine
    left = [key for key in of(place) if key not in said]
    elsewhere = [key for key in left if key.page and here is not None and here.page]
    if place:
        add(SCREENS[place], [key for key in left if key not in elsewhere])
    if elsewhere:
        add(f"{SCREENS[place]}: other pages", elsewhere)
    for each in dict.fromkeys(("everywhere", *GENERAL, *SCREENS)):
        if each == place:
            continue
        add(SCREENS[each], of(each))
    text.append("Signs: ", style="bold")
    signs = [f"{sign} {state}" for state, sign in symbols.states.items()]
    signs += [f"{symbols.attention} needs you", f"{symbols.unreachable} unreachable", f"{symbols.marked} marked"]
    signs += [f"{symbols.pin} pinned", f"{symbols.star} starred"]
    text.append(" · ".join(signs) if symbols.utf8 else "  ".join(signs))
    if here is not None and here.page in CHARTS:
        text.append("\nOn curves: ", style="bold")
        text.append(symbols.text(f"{symbols.marks['gap']} NaN begins · {symbols.marks['resumed']} the run was resumed"))
        text.append("; of several runs, after the letter of the run and in its colour")
    return text


def _append(
    text: Text, title: str, keys: Iterable[Key], *, symbols: Symbols, read_only: bool, accent: str, width: int
) -> None:
    text.append(f"{symbols.text(title)}\n", style="bold")
    for key in keys:
        off = key.changes and read_only
        text.append(f"  {symbols.text(key.shown):<8} ", style="dim" if off else f"bold {accent}")
        said = f"{symbols.text(key.help)}{'  (off: --read-only)' if off else ''}"
        lines = textwrap.wrap(said, max(20, width - INDENT))
        text.append(f"\n{' ' * INDENT}".join(lines) + "\n", style="dim" if off else "")
    text.append("\n")
