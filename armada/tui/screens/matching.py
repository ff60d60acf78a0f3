"""Stop or remove the runs that a typed `--where` finds: find them first, so that the question names them and no other is meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui import operations
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.app import Dashboard
    from armada.tui.commands.typed import Typed, Words
    from armada.tui.operations import Answer
    from armada.tui.snapshot import RunRow

_PLAIN = frozenset({"--where", "--yes", "-y", "--"})
"""Options with which a command does no more than its key."""
VERBS = {"rm": "remove"}
"""Commands whose name is no English word."""


class Matching:
    """A typed command, from its filter to the question.

    Args:
        board: Shows the question and the results.
        typed: `stop` or `rm`, with `--where`.
    """

    def __init__(self, board: Dashboard, typed: Typed) -> None:
        self._board = board
        self._typed = typed
        self._words, self._filter = split_filter(typed.words)
        self._verb = VERBS.get(typed.command.name, typed.command.name)

    def begin(self) -> None:
        """Find the runs as `armada ps` does, which reads the filter as the command does."""
        from armada.tui.screens.checking import check

        if self._typed.given:
            self._refuse("give either runs or --where, not both")
        elif not self._filter.strip():
            self._refuse("the filter is empty, so it would mean every run (--where 'age>0s' is every run)")
        else:
            what = f"{self._verb}: find the runs that match {self._filter}"
            check(self._board, [(what, ["ps", "--cached", "--json", "--", self._filter])], self._ask)

    def _refuse(self, why: str) -> None:
        words = self._board.symbols.text(f"{self._verb}: {sanitize_line(why, 500)}")
        self._board.notify(words, severity="error", markup=False, timeout=15)

    def _ask(self, answers: Sequence[Answer]) -> None:
        found = found_ids(answers[0])
        if found is None:
            self._refuse(answers[0].refusal)
            return
        known = self._board.snapshot.by_id
        if any(run_id not in known for run_id in found):
            self._refuse("the dashboard has not read some of these runs yet: try again")
            return
        active = self._verb == "stop"
        rows = [known[run_id] for run_id in found if not (active and known[run_id].run.ended)]
        if not rows:
            self._refuse(f"no {'active run' if active else 'run'} matches {self._filter}")
        elif self._typed.flags <= _PLAIN:
            self._as_its_key(rows)
        else:
            self._as_typed(rows)

    def _as_its_key(self, rows: Sequence[RunRow]) -> None:
        if self._verb == "remove":
            from armada.tui.screens.removal import Removal

            Removal(self._board, rows).begin()
        else:
            from armada.tui.screens.run_acts import act_on_runs

            act_on_runs(self._board, self._verb, rows)

    def _as_typed(self, rows: Sequence[RunRow]) -> None:
        """Ask, then start the command with its options, and with the runs in place of the filter."""
        import shlex

        from armada.tui.screens.question import Question
        from armada.tui.screens.run_acts import named

        board, count = self._board, counted(len(rows), "run")

        def go(yes: bool | None) -> None:
            if yes:
                board.operate(f"{self._verb} {count}", (*self._words, *(row.id for row in rows)))

        lines = named(rows, operations.launchers(board.home, [row.id for row in rows]))
        note = f"It starts `{shlex.join(['armada', *self._words])}` with the ids of these runs."
        title = f"{self._verb.capitalize()} {count}?"
        board.push_screen(Question(title, lines, note, self._verb, board.symbols, danger=self._verb == "remove"), go)


def split_filter(words: Words) -> tuple[Words, str]:
    """Return the words of a command without `--where`, and its last filter; "" if that is missing."""
    left: list[str] = []
    found = ""
    each = iter(words)
    for word in each:
        if word == "--":
            left += [word, *each]
        elif word == "--where":
            found = next(each, "")
        elif word.startswith("--where="):
            found = word.partition("=")[2]
        else:
            left.append(word)
    return tuple(left), found


def means_any(words: Words) -> bool:
    """Whether a command stops or removes whatever a filter finds when it starts."""
    return words[:1] in (("stop",), ("rm",)) and split_filter(words)[0] != words


def found_ids(answer: Answer) -> list[str] | None:
    """Return the ids of the runs that `armada ps --json` lists; None if it failed."""
    try:
        listed = json.loads(answer.out)
    except ValueError:
        return None
    if answer.exit_code or not isinstance(listed, list):
        return None
    return [str(each["run_id"]) for each in listed if isinstance(each, dict) and "run_id" in each]
