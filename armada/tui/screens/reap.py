"""Show the processes that ended runs left on a host, and end them after a yes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.tui.screens.checking import check
from armada.tui.screens.question import Question
from armada.units import counted, counted_processes, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.operations import Answer

LISTED = 3
"""Processes that are listed of each run."""
NOTE = "The host looks at each run once more: one that was resumed meanwhile is left alone. Results stay as they are."


def ask_reap(board: Dashboard, name: str) -> None:
    """Look for processes without a supervisor on a host, and show them before anything is done."""
    asked = (f"look for what ended runs left on {name}", ["hosts", "reap", "--dry-run", "--json", "--", name])
    check(board, [asked], lambda answers: show_orphans(board, name, answers[0]))


def show_orphans(board: Dashboard, name: str, answer: Answer) -> None:
    """Show the answer of `armada hosts reap --dry-run`, and end what the user agrees to."""
    found = answer.json
    listed = found.get("runs") if found is not None else None
    if not isinstance(listed, list):
        _say(board, f"it is unknown what ended runs left on {name}: {answer.said}", good=False)
        return
    entries = [each for each in listed if isinstance(each, dict)]
    wanted = [each for each in entries if each.get("may_be_ended") is True]
    kept = [each for each in entries if each not in wanted]
    if not wanted:
        words = f"no processes of ended runs on {name}"
        others = "; ".join(f"{each.get('run_id')}: {each.get('what')}" for each in kept[:3])
        _say(board, f"{words}. Left alone: {others}" if kept else words)
        return
    count = counted_processes(sum(_number(each.get("count")) for each in wanted))
    title = f"End {count} of {counted(len(wanted), 'run')} on {name}?"
    question = Question(title, list(_lines(wanted, kept)), NOTE, "end them", board.symbols, danger=True)
    run_ids = [str(each.get("run_id")) for each in wanted]

    def go(yes: bool | None) -> None:
        if yes:
            board.operate(f"reap {name}", ["hosts", "reap", "--yes", "--", name, *run_ids])

    board.push_screen(question, go)


def _lines(wanted: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in wanted:
        yield f"{each.get('run_id')}: {each.get('what')}"
        listed = each.get("processes")
        shown = [process for process in listed if isinstance(process, dict)] if isinstance(listed, list) else []
        for process in shown[:LISTED]:
            age = process.get("age_s")
            held = process.get("gpus")
            gpus = f", GPU {', '.join(map(str, held))}" if isinstance(held, list) and held else ""
            lasts = f", for {span(age)}" if isinstance(age, int | float) else ""
            yield f"    {process.get('pid')} {process.get('name')}{lasts}{gpus}"
        if _number(each.get("count")) > LISTED:
            yield f"    and {_number(each.get('count')) - LISTED:,} more"
    for each in kept:
        yield f"left alone: {each.get('run_id')}: {each.get('what')}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _say(board: Dashboard, words: str, *, good: bool = True) -> None:
    text = board.symbols.text(sanitize_line(words, 500))
    board.notify(text, severity="information" if good else "error", markup=False, timeout=15)
