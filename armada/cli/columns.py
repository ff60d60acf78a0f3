"""The columns of `armada ps --columns`, which the dashboard shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.cli.table import table
from armada.errors import UsageError
from armada.filters.cells import MOST_COLUMNS, cell
from armada.filters.keys import UnknownKey
from armada.tui import remembered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.filters.keys import Key
    from armada.filters.run_facts import RunFacts
    from armada.paths import HomePaths
    from armada.store.runs import Run

DEFAULT = "default"
"""Stands for the table that `ps` has without any choice."""


def columns_of(text: str, facts: RunFacts) -> list[Key] | None:
    """Find the columns that a text names; None for the default ones.

    Raises:
        UsageError: One does not exist, or there are none or too many.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == [DEFAULT]:
        return None
    if not 0 < len(words) <= MOST_COLUMNS:
        raise UsageError(f"{len(words)} columns; give 1 to {MOST_COLUMNS}", hint="--columns id,state,lr,eval_loss,cost")
    found = []
    for word in words:
        try:
            found.append(facts.key(word))
        except UnknownKey as error:
            raise UsageError(f"column {word!r}: {error.sentence}", hint=error.hint) from None
    return found


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """A table of runs with columns of the user's choice."""

    keys: Sequence[Key]
    facts: RunFacts

    def draw(self, shown: Sequence[Run]) -> str:
        """Return the table as text."""
        header = ["RUN" if key.name == "id" else heading(key) for key in self.keys]
        subjects = self.facts.subjects(shown, self.keys)
        return table(header, [[cell(key, subject) or "—" for key in self.keys] for subject in subjects])


def chosen_columns(text: str | None, facts: RunFacts, home: HomePaths, *, remember: bool) -> ColumnTable | None:
    """Find the columns to show: those of the command line, else the remembered ones, else None for the default.

    Remembered columns that no run has any more are left out.

    Raises:
        UsageError: A column of the command line does not exist.
    """
    if text is not None:
        found = columns_of(text, facts)
        if remember:
            remembered.keep_columns(home, [key.name for key in found or ()])
        return ColumnTable(found, facts) if found is not None else None
    if remember:
        raise UsageError("--remember is for columns, and goes with --columns", hint="--columns id,state,lr --remember")
    keys = []
    for word in remembered.columns(home)[:MOST_COLUMNS]:
        try:
            keys.append(facts.key(word))
        except UnknownKey:
            continue
    return ColumnTable(keys, facts) if keys else None


def heading(key: Key) -> str:
    """The title of a column: capitals, and of a setting only its last part."""
    return (key.name.rpartition(".")[2] if key.source == "setting" else key.name).upper()
