"""Add a host: a form, the host's key to confirm, and the output of `armada hosts add`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from armada.config.ssh_line import read_ssh_line
from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line, sanitize_text
from armada.tui.operations import GONE
from armada.tui.screens.dialog import Dialog
from armada.tui.screens.keys import keys_of
from armada.tui.screens.question import Question
from armada.tui.widgets import frame
from armada.tui.widgets.field import Field

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from armada.tui.app import Dashboard
    from armada.tui.operations import Answer, Ended
    from armada.tui.symbols import Symbols

FIELDS: tuple[tuple[str, str, str], ...] = (
    ("name", "name", "the name in armada"),
    ("ssh", "address", "user@address:port, an alias, or ssh -p 50022 root@…"),
    ("profile", "profile", "optional: chosen by its GPUs"),
    ("root", "folder", "optional: armada's folder there (~/.armada)"),
    ("price", "price", "optional: price per hour, such as 12.40"),
    ("scheduler", "scheduler", "optional: slurm or htcondor (direct)"),
)
"""Fields: the option of `armada hosts add` that each fills, its label, and its placeholder."""
NEEDED = ("name", "ssh")
SUGGESTED = "a name is suggested: keep it, or type another one. Enter asks the host for its key"
_ADDRESS = re.compile(r"\S*[@:]\S+|(.*[\s/])?ssh\s.*|.*\s\S+@\S.*")
"""What is an address and cannot be a name."""
_OTHERS_WORDS = re.compile(r"(: | \()armada hosts add [^()]*\)$")
"""The end of a hint for a shell: the command to type there."""
SAID_MOST = 20_000
KEYS = (("enter", "asks the host for its key"), ("tab", "next field"), ("esc", "cancels"))
NOTE = (
    "Compare the key with what the box's console or its provider shows. Everything sent there later, including secrets, "
    "goes to the holder of this key."
)


class AddHost(Dialog[str | None]):
    """Returns the name of the added host, or None.

    Args:
        symbols: The symbols that the terminal can show.
    """

    AUTO_FOCUS = "#name"
    BINDINGS = [  # noqa: RUF012  # Textual declares it so
        Binding("escape", "leave", "leave", priority=True),
        Binding("enter", "close", "close"),
        # Before what is typed next, which a slow link brings in the same moment: it is meant for the next field.
        Binding("tab", "app.focus_next", "next field", priority=True),
        Binding("shift+tab", "app.focus_previous", "field before", priority=True),
    ]
    DEFAULT_CSS = """
    AddHost { align: center middle; }
    AddHost Vertical { width: 90%; max-width: 110; height: auto; max-height: 95%; }
    AddHost Static { height: auto; }
    AddHost Horizontal { height: 1; }
    AddHost .label { width: 11; color: $text-muted; }
    AddHost Input { height: 1; border: none; padding: 0 1; background: $boost; width: 1fr; }
    AddHost Input:focus { border: none; background: $accent 20%; }
    AddHost VerticalScroll { height: auto; max-height: 40vh; margin: 1 0 0 0; }
    """

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self._symbols = symbols
        self.fields: dict[str, Input] = {}
        self._added: str | None = None

    @property
    def board(self) -> Dashboard:
        return cast("Dashboard", self.app)

    def compose(self) -> ComposeResult:
        from armada.config.profiles import list_profiles

        hints = {"profile": list_profiles(self.board.home), "scheduler": ["direct", "slurm", "htcondor"]}
        self.box = frame.dialog("Add a host", *KEYS)
        with self.box:
            for name, label, more in FIELDS:
                suggester = SuggestFromList(hints[name]) if name in hints else None
                self.fields[name] = Field(placeholder=self._symbols.text(more), id=name, suggester=suggester)
                yield Horizontal(Static(label, classes="label", markup=False), self.fields[name])
            with VerticalScroll(can_focus=False) as said:
                said.display = False
                self.said = Static()
                yield self.said

    # Input ----------------------------------------------------------------------------------------------------------

    @property
    def words(self) -> list[str]:
        """Return the command's arguments; with `=`, so that no input can become an option."""
        value = {name: field.value.strip() for name, field in self.fields.items()}
        options = [f"--{name}={value[name]}" for name, _, _ in FIELDS if name not in NEEDED and value[name]]
        return [*options, "--", value["name"], value["ssh"]]

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._suggest_name():
            return
        empty = next((self.fields[name] for name in NEEDED if not self.fields[name].value.strip()), None)
        if empty is not None and empty is not event.input:
            empty.focus()
        elif empty is not None:
            self._say("a name and an address are needed", "error")
        else:
            self._ask()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        if event.widget is self.fields["name"] and self.is_active and _ADDRESS.fullmatch(self.fields["name"].value):
            self._suggest_name()

    def _suggest_name(self) -> bool:
        """Move an address that stands in the field of the name, and suggest a name where there is none.

        Returns:
            Whether one was suggested, or the address cannot be read.
        """
        name, address = (self.fields[each] for each in NEEDED)
        if _ADDRESS.fullmatch(name.value.strip()) and not address.value.strip():
            address.value, name.value = name.value.strip(), ""
        if name.value.strip() or not address.value.strip():
            return False
        from armada.transport.ssh.new_host_name import name_of
        from armada.transport.ssh.resolve import parse_destination

        try:
            place = parse_destination(read_ssh_line(address.value).target)
        except ArmadaError as error:
            self._say(f"address: {error.message}{f' ({error.hint})' if error.hint else ''}", "error")
            address.focus()
            return True
        name.value = name_of(place, {"auto", "local", *(host.name for host in self.board.snapshot.hosts)})
        name.focus()
        name.select_all()
        self._say(SUGGESTED, "dim")
        return True

    def _ask(self) -> None:
        """Fetch the host's key; nothing is pinned or written."""
        from armada.tui.screens.checking import check

        words, name = self.words, sanitize_line(self.fields["name"].value.strip(), 60)
        asked = (f"ask {name} for its key", ["hosts", "add", "--dry-run", "--json", *words])
        check(self.board, [asked], lambda answers: self._compare(words, answers[0]))

    # The host's key -------------------------------------------------------------------------------------------------

    def _compare(self, words: list[str], answer: Answer) -> None:
        found = answer.json
        offered = keys_of(found.get("offered")) if found else {}
        if found is None or not offered:
            field, why = _of_the_form(answer.refusal)
            self._unlock(f"Nothing was added: {why}", "error", field)
            return
        name = words[-2]
        pinned = keys_of(found.get("pinned_before"))
        lines = [f"{name} ({found.get('ssh')}) shows", *(f"  {kind} {mark}" for mark, kind in offered.items())]
        if pinned and set(pinned) != set(offered):
            lines += ["pinned before, for a host of this name", *(f"  {kind} {mark}" for mark, kind in pinned.items())]
        changed = _changes_of(found.get("changes"))
        if changed:
            lines += ["a host of this name is known; this changes", *(f"  {each}" for each in changed)]
        title = f"Pin this key and {'change' if changed else 'add'} {name}?"
        question = Question(title, lines, NOTE, "change it" if changed else "add it", self._symbols)
        self.board.push_screen(
            question, lambda yes: self._add(words, list(offered)) if yes else self._unlock("Nothing was added.")
        )

    def _add(self, words: list[str], fingerprints: list[str]) -> None:
        name = words[-2]
        if self.board.refuses(f"add {name}"):
            self._unlock(f"Nothing was added: {GONE}.", "error", "name")
            return
        self._lock(f"adding {name}, then inspecting it …")
        expected = [f"--expect={mark}" for mark in fingerprints]
        self.board.operate(
            f"add {name}", ["hosts", "add", *expected, *words], ended=lambda ended: self._end(name, ended)
        )

    def _end(self, name: str, ended: Ended) -> None:
        if not self.is_attached:
            return
        try:
            text = ended.log.read_text(encoding="utf-8", errors="replace")[-SAID_MOST:]
        except OSError:  # it was not started, or somebody has deleted its output
            text = ended.words
        if ended.exit_code:
            self._unlock(text.strip(), "error")
            return
        self._added = name
        self._say(text.strip())
        frame.facts(self.box, frame.keys(("enter", "closes this")))
        self.set_focus(None)

    # Drawing --------------------------------------------------------------------------------------------------------

    def _say(self, words: str, style: str = "") -> None:
        colour = self.app.theme_variables.get("text-error", "") if style == "error" else style
        cast("VerticalScroll", self.said.parent).display = bool(words)
        self.said.update(Text(self._symbols.text(sanitize_text(words, SAID_MOST)), style=colour))

    def _lock(self, words: str) -> None:
        for field in self.fields.values():
            field.disabled = True
        self._say(words, "dim")

    def _unlock(self, words: str, style: str = "", field: str = "ssh") -> None:
        for each in self.fields.values():
            each.disabled = False
        self._say(words, style)
        self.fields[field].focus()

    def action_close(self) -> None:
        if self._added is not None:
            self.dismiss(self._added)

    def action_leave(self) -> None:
        self.dismiss(self._added)


def _of_the_form(refusal: str) -> tuple[str, str]:
    """Return the field that a refusal of the command is about, and the refusal in the words of the form."""
    words = _OTHERS_WORDS.sub(lambda found: ")" if found[1] == ": " else "", refusal)
    words = words.removeprefix("argument --")
    for name, label, _ in FIELDS:
        if words.startswith(f"{name}: "):
            return name, f"{label}{words.removeprefix(name)}"
    return "ssh", words


def _changes_of(listed: object) -> list[str]:
    """What the command would change of a host that is known, a line each."""
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [f"{each.get('key')}: {_word(each.get('before'))} → {_word(each.get('after'))}" for each in found]


def _word(value: object) -> str:
    return "—" if value is None else sanitize_line(str(value), 100)
