"""The experiment of Launch as a form: a tree of settings, and what the schema says of the one under the cursor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.foundation.user_folder import expanded_or_same
from armada.tui import changes, form
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.screens.question import Question
from armada.tui.screens.setting_editor import SettingEditor, describe, why_not_here
from armada.tui.widgets import frame
from armada.tui.widgets.setting_table import SettingTable
from armada.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from armada.tui.app import Dashboard
    from armada.tui.form import Fault, Form, Refusal, Setting
    from armada.tui.operations import Answer
    from armada.tui.screens.setting_editor import Take
    from armada.tui.symbols import Symbols
    from armada.tui.widgets.table import Table

EMPTY = "the settings of the experiment appear here"
CLOSED = "no settings can be read; the reason is below"


@dataclass(eq=False, slots=True)
class _Given:
    """A new value of a setting, and who is told whether it is taken."""

    setting: Setting
    value: str
    then: Callable[[str | None], None]

    @property
    def key(self) -> str:
        return self.setting.override or self.setting.key


class ExperimentForm(Vertical):
    """Reads an experiment in a process of its own, and shows and edits its settings."""

    DEFAULT_CSS = """
    ExperimentForm SettingTable { height: 1fr; }
    ExperimentForm #about { height: auto; min-height: 3; max-height: 6; padding: 0 2; color: $text-muted; }
    .-tiny ExperimentForm #about, .-low ExperimentForm #about { height: 1; min-height: 1; }
    """

    class Wanted(Message):
        """The changes that the loader has accepted."""

        def __init__(self, wanted: list[str]) -> None:
            super().__init__()
            self.wanted = wanted

    class Loaded(Message):
        """An experiment was read; `is_run` if it was asked for by a run."""

        def __init__(self, found: Form, *, is_run: bool) -> None:
            super().__init__()
            self.found = found
            self.is_run = is_run

    def __init__(self, symbols: Symbols, *, id: str) -> None:  # noqa: A002
        self.table = SettingTable(symbols, id="settings")
        self._about = Static(id="about")
        super().__init__(self.table, self._about, id=id, classes=frame.FRAME)
        self._symbols = symbols
        self._asked = ""
        self._shown = ""
        """The experiment whose settings are shown, as it was typed."""
        self._seen: tuple[str, object] | None = None
        self._given: list[_Given] = []
        """Values that are not taken yet; the first one is being checked."""
        self.experiment = ""
        self.changes: list[str] = []
        self.form: Form | None = None
        self.refusal: Refusal | None = None

    def on_mount(self) -> None:
        self._draw()

    # Reading --------------------------------------------------------------------------------------------------------

    def mean(self, experiment: str, wanted: Sequence[str]) -> None:
        """Say which experiment and changes are meant; `read` then reads them."""
        self.experiment, self.changes = experiment, list(wanted)

    def read(self) -> None:
        """Read the experiment that is meant, unless it is already shown or on its way."""
        if not self.experiment:
            self.form = self.refusal = self._seen = None
            self._asked = ""
            self._draw()
        elif (asked := self._question(self.changes)) != self._asked:
            self._ask(asked, self._take)

    def read_run(self, run_id: str) -> None:
        """Read the experiment of a run, with the changes that make it the same."""
        self._ask(json.dumps({"run": run_id}), self._take)

    def has_changed_on_disk(self) -> bool:
        """Return whether the file is another one than was read, and say so; it is read again by the next `read`."""
        if self._seen is None or self._seen[1] == (now := _state(self._seen[0])):
            return False
        self._seen = (self._seen[0], now)
        self._asked = ""
        name = Path(self._seen[0]).name
        self._tell(f"{name} is gone; your changes are kept" if now is None else f"{name} has changed on disk")
        return True

    @property
    def file(self) -> tuple[str, int | None] | None:
        """The file, and the line of the setting under the cursor or of what is wrong; None if there is none."""
        path = self.form.path if self.form is not None else self.experiment
        if not path:
            return None
        if self.refusal is not None:
            return path, self.refusal.line
        if faults := self.table.faults:
            return path, faults[0].line
        setting = self.table.setting
        line = setting.origin.rpartition(":")[2] if setting is not None else ""
        return path, int(line) if line.isdecimal() else None

    @property
    def is_told(self) -> bool:
        """Whether the settings are known, or why they are not."""
        return self.form is not None or self.refusal is not None

    def _question(self, wanted: Sequence[str]) -> str:
        return json.dumps({"experiment": self.experiment, "changes": list(wanted)})

    def _ask(self, asked: str, then: Callable[[str, Form | Refusal], None]) -> None:
        self._asked = asked

        def take(answer: Answer) -> None:
            if asked == self._asked and self.is_attached:
                then(asked, form.parse(answer))

        self._board.read(["__complete", "form", asked], take)

    def _take(self, asked: str, found: Form | Refusal) -> None:
        if isinstance(found, form.Form):
            if "run" in json.loads(asked):
                self._asked = ""
                self.post_message(self.Loaded(found, is_run=True))
            else:
                self._shown = self.experiment
                self._show(found)
            return
        self.refusal = found
        question = json.loads(asked)
        if "run" in question:
            self._tell(found.words)
        else:
            if question["experiment"] != self._shown:
                self.form = None  # its settings are those of another file
            path = str((self._board.folder or Path()) / expanded_or_same(self.experiment))
            self._seen = (path, _state(path))  # it is read again when somebody has corrected it
        self._draw()

    def _show(self, found: Form) -> None:
        is_new = self.form is None or self.form.path != found.path
        self.form, self.refusal = found, None
        self._seen = (found.path, _state(found.path))
        self._draw()
        if is_new:
            self.table.place_at_fault()
        self.post_message(self.Loaded(found, is_run=False))

    # Drawing --------------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        shown, text = self.form, self._symbols.text
        self.table.empty = CLOSED if shown is None and self.refusal is not None else EMPTY
        self.table.show_form(shown, self.changes)
        if shown is None:
            self.table.refresh()  # its only line is another one
        path = shown.path if shown is not None else self.experiment if self.refusal is not None else ""
        name = sanitize_line(Path(path).name, 60)
        frame.title(self, text(f"Experiment {name}".strip()))
        facts = [counted(len(shown.faults), "error")] if shown is not None and shown.faults else []
        facts += [counted(len(self.changes), "change")] if self.changes else []
        if shown is not None and shown.cells is not None:
            facts.append(f"a sweep of {counted(shown.cells.count, 'cell')}")
        frame.facts(self, text(" · ".join(facts)))
        self._draw_about()

    def _draw_about(self) -> None:
        """Show what the schema says of the setting under the cursor; first of all what is wrong."""
        text = self._symbols.text
        if wrong := self._wrong:
            colour = self.app.theme_variables.get("text-error", "")
            self._about.update(Text(text(sanitize_text(wrong, 2000)), style=colour))
            return
        setting = self.table.setting
        if setting is None:
            self._about.update("")
            return
        self._about.update(
            Text.assemble((text(describe(setting)), "bold"), "\n", text(sanitize_line(setting.meaning, 600)))
        )

    @property
    def _wrong(self) -> str:
        """What is wrong with the file, or with the setting under the cursor."""
        if self.refusal is not None:
            editor = ". In this frame, e opens the file there" if self.refusal.line is not None else ""
            return f"{self.refusal.words}{editor}"
        return "\n".join(fault.words for fault in self.table.faults)

    def on_table_moved(self, event: Table.Moved) -> None:
        event.stop()
        self._draw_about()

    # Editing --------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Edit the setting under the cursor, or open and close its section."""
        setting = self.table.setting
        if setting is None:
            return
        if self.table.is_section(setting.key) and setting.value in (None, "null"):
            self.table.fold(setting.key, is_open=setting.key not in self.table.opened)
        elif self.form is not None and (unknown := self.form.unknown_at(setting.key)) is not None:
            self._take_out(unknown)
        elif setting.override is None:
            why = next((each.words for each in self.table.faults), f"{setting.key} cannot be changed here")
            self._tell(f"{why}: e opens the file")
        elif setting.choices:
            self._choose(setting)
        elif (unfit := why_not_here(setting)) is not None:
            self._tell(f"{unfit}: e opens the file")
        else:
            self.app.push_screen(SettingEditor(setting, self._taker(setting), self._symbols))

    def unfold(self, *, is_open: bool) -> None:
        """Open or close the section under the cursor; on a setting, closing goes to its section."""
        key = self.table.cursor
        if key is None:
            return
        if self.table.is_section(key) and (key in self.table.opened) is not is_open:
            self.table.fold(key, is_open=is_open)
        elif not is_open and (above := self.table.above(key)) is not None:
            self.table.place(above)

    def undo(self) -> None:
        """Take the change of the setting under the cursor away."""
        setting = self.table.setting
        key = (setting.override or setting.key) if setting is not None else ""
        if not key or changes.of(self.changes, key) is None:
            self._tell("this setting is not changed")
        else:
            self._want(changes.without(self.changes, key))

    def _take_out(self, unknown: Fault) -> None:
        """Ask whether an unknown key shall go."""

        def go(yes: bool | None) -> None:
            if yes and unknown.removal is not None:
                key = unknown.removal.partition("=")[0]
                self._want([*changes.without(self.changes, key), unknown.removal])

        note = "It is a change as others: D shows it, S saves it, and until then the file stays as it is. e opens the file."
        question = Question(f"Take `{unknown.key}` out?", [unknown.words], note, "take it out", self._symbols)
        self.app.push_screen(question, go)

    def _choose(self, setting: Setting) -> None:
        take = self._taker(setting)
        words = sorted(setting.choices, key=lambda word: word != setting.value)
        choices = [Choice(word, word, _about_choice(word, setting)) for word in words]

        def chosen(word: str | None) -> None:
            if word is not None and word != setting.value:
                take(word, lambda refused: self._tell(refused) if refused is not None else None)

        self.app.push_screen(Chooser(f"{setting.key}: {setting.meaning}"[:200], choices, self._symbols), chosen)

    def _taker(self, setting: Setting) -> Take:
        """Return what takes a value if the loader accepts it, and tells why if it does not."""

        def take(value: str, then: Callable[[str | None], None]) -> Callable[[], None]:
            given = _Given(setting, value, then)
            self._given.append(given)
            if self._given[0] is given:
                self._check()
            return lambda: self._forget(given)

        return take

    def _check(self) -> None:
        """Ask the loader about the first value that was given; those after it build on it."""
        given, experiment, base = self._given[0], self.experiment, self.changes
        wanted = changes.put(base, given.key, given.value)
        asked = self._question(wanted)

        def answered(answer: Answer) -> None:
            if not self.is_attached or given not in self._given:
                return
            if self.experiment == experiment and self.changes != base:
                self._check()  # other changes were made meanwhile: they stay
                return
            self._given.remove(given)
            if self.experiment == experiment:
                self._decide(given, asked, wanted, form.parse(answer))
            else:
                given.then("it is not taken: another experiment was chosen meanwhile")
            if self._given:
                self._check()

        self._board.read(["__complete", "form", asked], answered)

    def _forget(self, given: _Given) -> None:
        """Do not take a value that was given; the next one need not wait for its answer."""
        if given not in self._given:
            return
        was_first = self._given[0] is given
        self._given.remove(given)
        if was_first and self._given:
            self._check()

    def _decide(self, given: _Given, asked: str, wanted: list[str], found: Form | Refusal) -> None:
        """Take a value, or say why the loader refuses it."""
        refused = self._refuses(found, given.setting)
        if isinstance(found, form.Refusal) or refused is not None:
            given.then(refused)
            return
        self._asked = asked
        self._want(wanted)
        self._show(found)
        given.then(None)

    def _want(self, wanted: list[str]) -> None:
        self.changes = wanted  # at once: a value that is being checked builds on them
        self.post_message(self.Wanted(wanted))

    def _refuses(self, found: Form | Refusal, setting: Setting) -> str | None:
        """Return why a new value is not taken; None if it is. Where other settings are wrong, only this one counts."""
        if isinstance(found, form.Refusal):
            return found.words
        was_wrong = self.form is not None and bool(self.form.faults)
        faults = found.faults_at(setting.key) if was_wrong else found.faults
        return "\n".join(fault.words for fault in faults) or None

    @property
    def _board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def _tell(self, words: str) -> None:
        text = self._symbols.text(sanitize_line(words, 700))
        self._board.notify(text, severity="warning", markup=False, timeout=10)


def _state(path: str) -> object:
    """What changes when a file does; None if it is not there."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _about_choice(word: str, setting: Setting) -> str:
    parts = ["now"] if word == setting.value else []
    parts += ["default"] if word == setting.default else []
    return ", ".join(parts)
