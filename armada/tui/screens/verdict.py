"""Show whether a host can be destroyed, what would be lost, and what you can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.binding import Binding

from armada.foundation.sanitize import sanitize_line
from armada.sync.release.words import nothing_lost, something_lost
from armada.tui.screens.list_window import SHOWN, ListWindow
from armada.tui.screens.question import Question
from armada.tui.widgets import frame
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.operations import Answer
    from armada.tui.symbols import Symbols


class Verdict(ListWindow[str | None]):
    """Returns `drain`, `release`, `wipe` or None.

    Args:
        host: The host's name.
        answer: The output of `armada hosts release --dry-run --json`.
        symbols: The symbols that the terminal can show.
    """

    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("d", "answer('drain')", "bring home"),
        Binding("y", "answer('release')", "release"),
        Binding("w", "answer('wipe')", "wipe"),
        Binding("n,escape,q,enter", "answer('')", "leave"),
    ]
    ANSWERS = frozenset(("d", "y", "w", "n", "q", "enter"))
    """As those of a question."""

    def __init__(self, host: str, answer: Mapping[str, Any], symbols: Symbols) -> None:
        listed = answer.get("items")
        items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
        lost = [item for item in items if item.get("lost") is not False]
        self.safe = answer.get("safe") is True and not lost
        name, text = sanitize_line(host, 60), symbols.text
        scheduler, is_local = str(answer.get("scheduler", "direct")), answer.get("local") is True
        if self.safe:
            words = nothing_lost(name, scheduler, is_local=is_local)
            note = "Releasing it deletes the secrets of ended runs there. Nothing else on it is changed."
            keys = [("y", "release it"), ("w", "delete all of armada's files there")]
        else:
            words = something_lost(name, scheduler, counted(len(lost), "thing"), is_local=is_local)
            note = "Draining brings home what it can: checkpoints, logs, outputs. Running jobs continue."
            keys = [("d", "drain it now")]
        super().__init__(
            f"{symbols.states['succeeded'] if self.safe else symbols.attention} {text(words)}",
            _list([*lost, *(item for item in items if item not in lost)], name, symbols),
            text(note),
            frame.keys(*keys, ("n, esc", "cancel")),
            short=f"Release {text(name)}?",
            kind="" if self.safe else "asks",
        )

    def action_answer(self, verb: str) -> None:
        if verb in ("", *(("release", "wipe") if self.safe else ("drain",))):
            self.dismiss(verb or None)


def _list(items: Sequence[Mapping[str, Any]], host: str, symbols: Symbols) -> Text:
    """List what is on a host, each with what helps."""
    listed, text = Text(), symbols.text
    for item in items[:SHOWN]:
        sign = symbols.states["failed"] if item.get("lost") is not False else symbols.states["preparing"]
        line = f"{sign} {sanitize_line(item.get('run_id'), 60)}: {sanitize_line(item.get('what'), 300)}"
        listed.append(text(line) + "\n")
        if item.get("hint"):
            listed.append(text(f"    {sanitize_line(item['hint'], 300)}") + "\n", style="dim")
    if len(items) > SHOWN:
        listed.append(f"and {len(items) - SHOWN} more: armada hosts release {host} --dry-run\n")
    listed.rstrip()
    return listed


def ask_release(board: Dashboard, name: str) -> None:
    """Check a host, and show what would be lost before anything is done."""
    from armada.tui.screens.checking import check

    asked = (f"check what {name} holds", ["hosts", "release", "--dry-run", "--json", name])
    check(board, [asked], lambda answers: show_verdict(board, name, answers[0]))


def show_verdict(board: Dashboard, name: str, answer: Answer) -> None:
    """Show the answer of `armada hosts release --dry-run`, and start what the user chooses."""
    if (found := answer.json) is None:
        from armada.tui.screens.unanswered import show_unanswered

        show_unanswered(board, name, answer.said)
        return

    def wipe(yes: bool | None) -> None:
        if yes:
            board.operate(f"wipe {name}", ["hosts", "release", "--wipe", "--yes", name])

    def go(verb: str | None) -> None:
        if verb == "wipe":
            lines = ["its runs' folders, environments, data and models, and the agent"]
            note = (
                "The host is asked again first: if anything would be lost, nothing is deleted. It is then left alone."
            )
            title = f"Delete all of armada's files on {sanitize_line(name, 60)}?"
            board.push_screen(Question(title, lines, note, "delete them", board.symbols, danger=True), wipe)
        elif verb is not None:
            more = ["--drain"] if verb == "drain" else []
            board.operate(f"{verb} {name}", ["hosts", "release", *more, name])

    board.push_screen(Verdict(name, found, board.symbols), go)
