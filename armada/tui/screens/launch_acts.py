"""What Launch does with an experiment: launch, difference, save as, preview, editor."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.foundation.user_folder import expanded_or_same
from armada.paths import bundled
from armada.protocol.recorded import recorded_facts
from armada.tui.gpu_strips import gpus_or_queue
from armada.tui.lending import lend
from armada.tui.screens.output import show_output
from armada.tui.screens.question import Question
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.form import Form
    from armada.tui.operations import Ended
    from armada.tui.screens.experiment_form import ExperimentForm
    from armada.tui.snapshot import HostView, Snapshot

ROW_SHOWN = 2000


def launch(board: Dashboard, title: str, host: str, words: Sequence[str], launched: Callable[[], None]) -> bool:
    """Start a launch. The cursor of Runs goes to the new run, unless the launch fails.

    Args:
        board: The dashboard.
        title: The name of the command for the user.
        host: Where the run will be.
        words: The command, after `armada`.
        launched: Called when the launch has ended well.

    Returns:
        Whether it was started; if not, the user is told why.
    """
    stop_waiting = board.await_run(host)

    def ended(end: Ended) -> None:
        if end.exit_code == 0:
            launched()
        else:
            stop_waiting()

    is_started = board.operate(title, words, ended) is not None
    if not is_started:
        stop_waiting()
    return is_started


def show_difference(board: Dashboard, experiment: str, changes: Sequence[str]) -> None:
    """Show what the changes do to the text of the file."""
    show_output(board, ["config", "edit", *(f"--set={change}" for change in changes), "--", experiment])


def is_faulty(board: Dashboard, form: Form | None) -> bool:
    """Return whether something in an experiment is wrong, and say so."""
    if form is None or not form.faults:
        return False
    _say(board, f"{counted(len(form.faults), 'error')} first: {form.faults[0].words}")
    return True


def may_save(board: Dashboard, shown: ExperimentForm) -> bool:
    """Return whether the experiment is read and nothing in it is wrong; if not, say why there is nothing to save."""
    if shown.form is not None and shown.refusal is None:
        return not is_faulty(board, shown.form)
    why = shown.refusal.words if shown.refusal is not None else "the experiment is not read yet"
    _say(board, f"nothing to save: {why}")
    return False


def save_as(board: Dashboard, experiment: str, changes: Sequence[str], saved: Callable[[str], None]) -> None:
    """Ask for a name and save the file with the changes; a file that exists is replaced only after a question.

    Args:
        board: The dashboard.
        experiment: The file.
        changes: `a.b=c`.
        saved: Called with the name of the new file when it is written.
    """
    if board.refuses("save"):
        return
    options = [f"--set={change}" for change in changes]

    def write(name: str, *more: str) -> None:
        words = ["config", "edit", *options, f"--to={name}", *more, "--", experiment]
        board.operate(f"save {name}", words, lambda ended: saved(name) if ended.exit_code == 0 else None)

    def take(name: str | None) -> None:
        if name is None:
            return
        if not os.path.lexists(expanded_or_same(name)):
            write(name)
            return
        lines = list(changes) or ["nothing is changed"]
        question = Question(
            f"Replace {name}?", lines, "The file exists. Its text is replaced.", "replace", board.symbols
        )
        board.push_screen(question, lambda yes: write(name, "--overwrite") if yes else None)

    note = "Comments and all other lines stay as they are. Paths in the file are relative to its folder."
    board.ask_word("Save as", note, _proposal(experiment), take)


def _proposal(experiment: str) -> str:
    """Return a name that is free: `exp-2.yaml` beside `exp.yaml`."""
    path = Path("quickstart.yaml" if experiment == "quickstart" else experiment)
    for number in range(2, 100):
        proposed = path.with_name(f"{path.stem}-{number}{path.suffix or '.yaml'}")
        if not os.path.lexists(proposed):
            return str(proposed)
    return str(path)


def preview(board: Dashboard, experiment: str, changes: Sequence[str], form: Form | None, host: str) -> None:
    """Show the cells of a sweep, or else the first rows of the data, as the model will see them where it is a training."""
    if form is None:
        board.notify("choose an experiment first", severity="warning")
        return
    if is_faulty(board, form):
        return
    options = [f"--set={change}" for change in changes]
    if form.cells is not None and host and not board.read_only:
        # The hosts say how many cells run at once, and so how long it takes and what it costs.
        show_output(board, ["sweep", "--dry-run", f"--host={host}", *options, "--", experiment])
        return
    from armada.tui.screens.preview_window import PreviewWindow

    if form.cells is not None:
        count = form.cells.count
        kind = (
            f"{counted(count, 'trial')}, chosen one after the other" if form.cells.is_search else counted(count, "cell")
        )
        lines = [f"{number:>4}  {label}" for number, label in enumerate(form.cells.labels, 1)]
        note = "with a host in the field, this shows hours and cost, too"
        board.push_screen(PreviewWindow(f"{kind}   {note}", lines))
        return
    if form.data and form.task not in ("script", "command") and not board.read_only:
        show_output(board, ["data", "show", *([f"--host={host}"] if host else []), *options, "--", experiment])
        return
    board.push_screen(PreviewWindow("The data as it is in the files", list(_data_lines(form))))


def _data_lines(form: Form) -> list[str]:
    lines: list[str] = []
    for data in form.data:
        facts = [amount(data.size_bytes)] if data.size_bytes is not None else []
        facts += [counted(data.rows, "row")] if data.rows is not None else []
        facts += [f"columns {', '.join(data.columns)}"] if data.columns else []
        lines += [f"data.{data.split}  {data.source}", f"    {' · '.join(facts) or 'is read on the host'}"]
        lines += ["", *_wrapped(data.first[:ROW_SHOWN])] if data.first else []
        lines.append("")
    return lines or ["this experiment names no data"]


def _wrapped(text: str, width: int = 100) -> list[str]:
    return [f"    {text[start : start + width]}" for start in range(0, len(text), width)]


def edit_file(board: Dashboard, path: str, line: int | None) -> None:
    """Give the terminal to the user's editor, at a line of a file."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        words = [*shlex.split(editor), *([f"+{line}"] if line is not None else []), path]
    except ValueError:
        words = ["vi", path]
    shown = shlex.join(words)
    if board.refuses("editor"):
        return
    if Path(path).is_relative_to(bundled("quickstart")):
        _say(board, "the bundled experiment belongs to armada: copy its folder to edit it")
        return
    if board.is_web or not board.can_suspend:
        _say(board, f"an editor needs a terminal of its own; in another one: {shown}")
        return
    try:
        code = lend(board, words, shown)
    except OSError as error:
        _say(board, f"{shown}: {error.strerror}; set EDITOR to an editor of this machine")
        return
    if code:
        _say(board, f"{shown} ended with {code}")


def _say(board: Dashboard, words: str) -> None:
    board.notify(board.symbols.text(sanitize_line(words, 700)), severity="warning", markup=False, timeout=15)


def about_host(host: HostView, snapshot: Snapshot) -> str:
    """Return in a line what a host has, what runs there, and its price."""
    record = host.record
    facts = record.facts if record is not None else None
    words = [gpus_or_queue(recorded_facts(facts)) if facts is not None else "not checked yet"]
    words += ["unreachable"] if host.silent is not None else []
    busy = sum(row.run.host == host.name and not row.run.ended for row in snapshot.runs)
    price = host.tariff.price_at(time.time()) if host.tariff is not None else None
    words += [counted(busy, "run") if busy else "idle", price.text if price is not None else ""]
    return " · ".join(word for word in words if word)


def copied(words: Sequence[str] | None) -> str | None:
    """Return the command to copy; None if it is not complete."""
    return shlex.join(["armada", *words]) if words is not None else None
