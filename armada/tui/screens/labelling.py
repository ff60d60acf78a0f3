"""Star, tag, note, group and archive the runs that an action concerns, by the commands of the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.out_of_sight import marked_and_unlisted
from armada.tui.screens.prompt import Prompt
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.snapshot import RunRow

CLEAR = "-"
"""Typed instead of a text, it removes what is there."""


class Labelling:
    """One change of labels, from the key to the command.

    Args:
        board: Asks for a text, and shows the results.
        rows: The runs.
        are_marked: They were marked one by one, else they share the row under the cursor.
        unlisted: How many of them the list leaves out.
    """

    def __init__(
        self, board: Dashboard, rows: Sequence[RunRow], *, are_marked: bool = False, unlisted: int = 0
    ) -> None:
        self._board = board
        self._unlisted = unlisted
        self._are_marked = are_marked
        self._rows = list(rows)

    def star(self) -> None:
        """Star the runs; if all have a star, take the stars away."""
        if self._may("star"):
            off = all(row.run.starred_at is not None for row in self._rows)
            self._command("unstar" if off else "star", ["star", *self._ids, *(["--off"] if off else [])])

    def archive(self) -> None:
        """Archive the runs; if all are archived, show them in lists again."""
        if not self._may("archive"):
            return
        undo = all(row.run.is_archived for row in self._rows)
        ended = [row for row in self._rows if row.run.ended]
        if not ended:
            words = f"archive: {self._rows[0].name} is {self._rows[0].run.state}; only ended runs can be archived"
            self._warn(words)
            return
        going = len(self._rows) - len(ended)
        if going:
            has, stays = ("has", "stays") if going == 1 else ("have", "stay")
            self._warn(f"archive: {counted(going, 'run')} of {len(self._rows):,} {has} not ended and {stays} in lists")
        self._rows = ended
        ids = self._ids
        self._command("show in lists" if undo else "archive", ["archive", *ids, *(["--undo"] if undo else [])])

    def tag(self) -> None:
        """Ask for tags to add and to remove."""
        if self._may("tag"):
            has = sorted({tag for row in self._rows for tag in row.run.tags})
            now = f"Now: {' '.join(has)}. " if has else ""
            note = f"{now}Words with blanks between; -word removes a tag. `tag:word` in the filter finds the runs."
            self._ask(f"Tags of {self._named}", note, "", self._change_tags)

    def _change_tags(self, text: str) -> None:
        changes = [f"--remove={word[1:]}" if word.startswith("-") else f"--add={word}" for word in text.split()]
        self._command("tag", ["tag", *self._ids, *changes])

    def group(self) -> None:
        """Ask for a group."""
        if self._may("group"):
            groups = {row.run.group for row in self._rows}
            now = next(iter(groups)) or "" if len(groups) == 1 else ""
            note = (
                f"One name for all; {CLEAR} takes them out. b groups the table, `group:name` in the filter finds them."
            )
            self._ask(f"Group of {self._named}", note, now, self._change_group)

    def _change_group(self, text: str) -> None:
        self._command("group", ["group", *self._ids, *(["--clear"] if text == CLEAR else ["--", text])])

    def note(self) -> None:
        """Ask for the note of one run."""
        if not self._may("note"):
            return
        if len(self._rows) > 1:
            count = f"{len(self._rows):,} runs"
            said = f"{count} are marked" if self._are_marked else f"these are {count}"
            self._warn(f"note: {said}, and a note is for one run")
            return
        before = self._rows[0].run.note or ""
        if "\n" in before:
            self._warn("note: it has several lines; :note --edit opens it in your editor")
            return
        self._ask(f"Note about {self._named}", f"{CLEAR} removes it.", sanitize_line(before, 10_000), self._change_note)

    def _change_note(self, text: str) -> None:
        words = ["--clear"] if text == CLEAR else ["--", text]
        self._command("note", ["note", self._ids[0], *words])

    @property
    def _ids(self) -> list[str]:
        return [row.run.run_id for row in self._rows]

    @property
    def _named(self) -> str:
        return self._rows[0].name if len(self._rows) == 1 else counted(len(self._rows), "run")

    def _may(self, verb: str) -> bool:
        if self._board.refuses(verb):
            return False
        if not self._rows:
            self._warn(f"{verb}: no run under the cursor")
        return bool(self._rows)

    def _warn(self, words: str) -> None:
        self._board.notify(self._board.symbols.text(words), severity="warning", markup=False)

    def _ask(self, title: str, note: str, value: str, then: Callable[[str], None]) -> None:
        note = f"{marked_and_unlisted(self._unlisted)}. {note}" if self._unlisted else note
        prompt = Prompt(title, note, value, self._board.symbols)
        self._board.push_screen(prompt, lambda text: then(text) if text else None)

    def _command(self, title: str, words: Sequence[str]) -> None:
        self._board.operate(f"{title} {self._named}", words)
