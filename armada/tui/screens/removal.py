"""Remove runs: check with `armada rm --dry-run`, name what would be lost, ask, then remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.tui import operations
from armada.tui.waiting_acts import Waiting
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from armada.tui.app import Dashboard
    from armada.tui.operations import Answer
    from armada.tui.snapshot import RunRow

NOTE = "There is no undo. Checkpoints that are at home stay in their folders."
ALONE = "If the host does not answer, the run is removed at home only, and its files on the host stay there."


class Removal:
    """One removal, from the key to the commands.

    Args:
        board: Shows the question and the results.
        rows: The runs to remove.
        hidden: Where those are that are not in view, by run id: the question names them first.
    """

    def __init__(self, board: Dashboard, rows: Sequence[RunRow], hidden: Mapping[str, str] | None = None) -> None:
        self._board = board
        self._hidden = hidden or {}
        self._rows = sorted(rows, key=lambda row: row.id not in self._hidden)
        self._lines: list[str] = []
        self._refused: list[str] = []
        self._commands: dict[str, list[str]] = {}
        self._theirs: dict[str, str] = {}

    def begin(self) -> None:
        """Check the runs one after the other, then ask about all of them at once."""
        if self._board.refuses("remove"):
            return
        if not self._rows:
            self._board.notify("remove: no run under the cursor", severity="warning")
            return
        from armada.tui.screens.checking import check

        run_ids = [row.run.run_id for row in self._rows]
        self._theirs = operations.launchers(self._board.home, run_ids)
        asked = [
            (
                f"check what is lost with {each}",
                ["rm", "--dry-run", "--json", *(["--other-home"] if each in self._theirs else []), each],
            )
            for each in run_ids
        ]
        check(self._board, asked, self._ask)

    def _take(self, row: RunRow, answer: Answer) -> None:
        run_id, found = row.run.run_id, answer.json
        if found is None:
            self._refused.append(f"{row.name} stays: {answer.refusal}")
        else:
            alone = found.get("host_error") is not None
            self._commands[run_id] = ["rm", *(["--without-host"] if alone else [])]
            self._commands[run_id] += ["--other-home"] if run_id in self._theirs else []
            head, *more = told(row, found, self._theirs.get(run_id))
            place = self._hidden.get(run_id)
            self._lines += [f"{head}, {place}" if place else head, *more]

    def _ask(self, answers: Sequence[Answer]) -> None:
        from armada.tui.screens.out_of_sight import said_of_hidden
        from armada.tui.screens.question import Question

        for row, answer in zip(self._rows, answers, strict=True):
            self._take(row, answer)
        board = self._board
        if not self._commands:
            for words in self._refused:
                board.notify(board.symbols.text(sanitize_line(words)), severity="error", markup=False, timeout=15)
            return
        alone = any("--without-host" in words for words in self._commands.values())
        count = counted(len(self._commands), "run")
        note = f"{ALONE} {NOTE}" if alone else NOTE
        if theirs := sum(run_id in self._theirs for run_id in self._commands):
            note = f"{counted(theirs, 'run')} of another home, not of this one. {note}"
        note = f"{said_of_hidden([self._hidden[each] for each in self._commands if each in self._hidden])}{note}"
        question = Question(
            f"Remove {count}?", [*self._refused, *self._lines], note, "remove", board.symbols, danger=True
        )
        board.push_screen(question, lambda yes: self._remove() if yes else None)

    def _remove(self) -> None:
        """Start one command for the runs of each host: it removes them one after the other."""
        hosts = {row.id: row.host for row in self._rows}
        together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for run_id, words in self._commands.items():
            together.setdefault((hosts[run_id], tuple(words)), []).append(run_id)
        self._board.waiting.start(
            [
                Waiting(f"remove {ids[0] if len(ids) == 1 else f'{len(ids)} runs on {host}'}", (*words, *ids))
                for (host, words), ids in together.items()
            ]
        )


def told(row: RunRow, found: Mapping[str, Any], launcher: str | None) -> list[str]:
    """List what is removed with a run, as lines.

    Args:
        row: The run.
        found: The output of `armada rm --dry-run --json` for it.
        launcher: The other home that launched it, if one did.
    """
    by = f", launched by {launcher}" if launcher else ""
    head = f"{row.run.run_id} on {row.host}, {row.run.state}{by}"
    kept = found.get("kept_home")
    home = len(kept) if isinstance(kept, list) else 0
    stays = f"; {counted(home, 'checkpoint')} at home {'stays' if home == 1 else 'stay'}" if home else ""
    if found.get("host_error") is None:
        there = _objects(found.get("deleted_host"))
        size = amount(sum(each["size_bytes"] for each in there if isinstance(each.get("size_bytes"), int)))
        gone = f"its folder with {counted(len(there), 'checkpoint')} ({size})" if there else "its folder"
        return [head, f"  {gone} is deleted there{stays}"]
    given_up = found.get("given_up")
    listed = given_up.get("sentences") if isinstance(given_up, dict) else None
    lost = [str(line) for line in listed] if isinstance(listed, list) else []
    lines = [head, f"  nothing is deleted there: {sanitize_line(found['host_error'], 150)}"]
    lines += [f"  given up: {line}" for line in lost or ["nothing: everything that armada knows of it is at home"]]
    return [*lines, f"  {stays.removeprefix('; ')}"] if stays else lines


def _objects(listed: object) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
