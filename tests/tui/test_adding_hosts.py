"""A host is added from the dashboard: a form, the key it shows, and what the check says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from armada.tui.operations import Answer, Ended
from armada.tui.screens.add_host import AddHost
from tests.tui.conftest import World, drive, lacks, nothing, said, screen, shows, until
from tests.tui.test_dialogs import at_once
from tests.tui.test_store_gone import delete

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = {"alias": "armada-box", "algorithm": "ssh-ed25519", "fingerprint": "SHA256:abc", "machine": "box"}
LINE = "ssh -p 50022 root@192.0.2.1"


class Commands:
    """Stands where the dashboard starts commands; a test says what they answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.asked: list[list[str]] = []
        self.started: list[list[str]] = []
        self.answer = Answer(0, json.dumps({"ssh": "root@192.0.2.1:50022", "offered": [KEY], "pinned_before": []}), "")
        self.end = (0, "box added\n[bold]2 × RTX 3090\n")
        self.output: Path | None = folder / "add.log"
        self._folder = folder
        monkeypatch.setattr("armada.tui.operations.ask", self._ask)
        monkeypatch.setattr("armada.tui.operations.start", self._start)

    def _ask(self, words: list[str], tell: Callable[[Answer], None]) -> Callable[[], None]:
        self.asked.append(words)
        tell(self.answer)
        return nothing

    def _start(self, _home: object, title: str, words: list[str], tell: Callable[[Ended], None], **_: object) -> None:
        self.started.append(words)
        if self.output is None:
            tell(Ended(title, 1, "not started, as there is no room", self._folder))
            return
        self.output.write_text(self.end[1])
        tell(Ended(title, self.end[0], "", self.output))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    return Commands(monkeypatch, tmp_path)


async def fill(pilot: Pilot[None], **values: str) -> None:
    await pilot.press("3")
    await shows(pilot, "– local")
    await pilot.press("a")
    await shows(pilot, "Add a host")
    for name, value in values.items():
        pilot.app.screen.query_one(f"#{name}", Input).value = value


def test_a_host_is_added_once_its_key_was_shown_and_the_check_is_read_in_the_form(
    world: World, commands: Commands
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="box", ssh=LINE, price="12.4")
        await pilot.press("enter")
        await shows(pilot, "Pin this key and add box?", "ssh-ed25519 SHA256:abc", "Compare the key")
        assert commands.started == []
        await pilot.press("y")
        await shows(pilot, "[bold]2 × RTX 3090", "enter closes this")
        world.hosts(box={"ssh": "root@192.0.2.1:50022"})  # as the command would have
        await pilot.press("enter")
        await lacks(pilot, "Add a host")
        await until(pilot, lambda: any(line.startswith("│▸") and "box" in line for line in screen(pilot).splitlines()))

    drive(world.board(), use)
    words = ["--price=12.4", "--", "box", LINE]
    assert commands.asked == [["hosts", "add", "--dry-run", "--json", *words]]
    assert commands.started == [["hosts", "add", "--expect=SHA256:abc", *words]]


def test_what_would_change_of_a_known_host_is_named_before_the_yes(world: World, commands: Commands) -> None:
    changes = [{"key": "ssh", "before": "root@192.0.2.9", "after": "root@192.0.2.1:50022"}]
    told = {"ssh": "root@192.0.2.1:50022", "offered": [KEY], "pinned_before": [], "changes": changes}
    commands.answer = Answer(0, json.dumps(told), "")

    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="box", ssh=LINE)
        await pilot.press("enter")
        await shows(pilot, "Pin this key and change box?", "ssh: root@192.0.2.9 → root@192.0.2.1:50022", "change it")

    drive(world.board(), use)
    assert commands.started == []


def test_without_a_yes_nothing_is_added_and_what_was_typed_stays(world: World, commands: Commands) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="box", ssh=LINE)
        await pilot.press("enter")
        await shows(pilot, "Pin this key and add box?")
        await pilot.press("enter")
        await shows(pilot, "Nothing was added.", LINE)
        await pilot.press("escape")
        await lacks(pilot, "Add a host")

    drive(world.board(), use)
    assert commands.started == []


def test_what_keeps_a_host_from_being_added_stays_in_the_form(world: World, commands: Commands) -> None:
    refused = {"error": {"message": "box: no route to host", "hint": "is it on?"}}
    question, commands.answer = commands.answer, Answer(4, json.dumps(refused), "")
    commands.end = (4, "box added to hosts.yaml\narmada: box: it refuses the login\n")

    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, ssh=LINE)
        await pilot.press("enter")
        assert commands.asked == [], "there is no name yet"
        pilot.app.screen.query_one("#name", Input).value = "box"
        await pilot.press("enter")
        await shows(pilot, "Nothing was added: box: no route to host (is it on?)", LINE)
        commands.answer = question
        await pilot.press("enter")
        await shows(pilot, "Pin this key")
        await pilot.press("y")
        await shows(pilot, "armada: box: it refuses the login", LINE)
        form = pilot.app.screen
        assert isinstance(form, AddHost)
        assert not form.fields["ssh"].disabled

    drive(world.board(), use)


def test_a_host_is_not_added_where_there_can_be_no_file_for_the_output(world: World, commands: Commands) -> None:
    commands.output = None

    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="box", ssh=LINE)
        await pilot.press("enter")
        await shows(pilot, "Pin this key")
        await pilot.press("y")
        await shows(pilot, "add box: not started, as there is no room")
        form = pilot.app.screen
        assert isinstance(form, AddHost)
        assert not form.fields["ssh"].disabled

    drive(world.board(), use)


def test_a_host_is_not_added_to_a_store_that_is_gone_and_the_form_can_be_used_again(
    world: World, commands: Commands
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="box", ssh=LINE)
        await pilot.press("enter")
        await shows(pilot, "Pin this key")
        delete(world)
        await pilot.press("y")
        await shows(pilot, "Nothing was added: the store is gone")
        form = pilot.app.screen
        assert isinstance(form, AddHost)
        assert not form.fields["ssh"].disabled
        assert commands.started == []

    drive(world.board(), use)


def test_a_form_for_a_host_fits_a_small_terminal(world: World, commands: Commands) -> None:
    commands.end = (0, "".join(f"line {n}\n" for n in range(40)))

    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="box", ssh=LINE)
        await pilot.press("enter")
        await shows(pilot, "Pin this key")
        await pilot.press("y")
        await shows(pilot, "Add a host", "scheduler", "line 0", "enter closes this")

    drive(world.board(), use, (80, 24))


def test_the_real_command_says_why_a_host_is_not_there(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="gone", ssh="ssh -p 1 root@127.0.0.1")
        await pilot.press("enter")
        await shows(pilot, "Nothing was added: gone: root@127.0.0.1:1 refuses connections")

    drive(world.board(), use)
    assert not world.home.hosts_file.exists()


def test_a_dashboard_that_only_shows_adds_no_host(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– local")
        await pilot.press("a")
        await until(pilot, lambda: "add a host: disabled" in said(pilot))

    drive(world.board(read_only=True), use)


def test_what_is_typed_after_tab_is_the_next_fields_also_where_it_comes_in_one_piece(
    world: World, commands: Commands
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot)
        fields = {each.id: each for each in pilot.app.screen.query(Input)}
        at_once(pilot, *"box", "tab", *"me", "shift+tab", "end", "2")
        await until(pilot, lambda: fields["name"].value == "box2")
        assert fields["ssh"].value == "me"

    drive(world.board(), use)


@pytest.mark.parametrize("key", ["enter", "tab"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{LINE} -L 8080:localhost:8080", "192.0.2.1-50022"),
        ("root@gpu-1.example.org", "gpu-1-2"),
        ("192.0.2.7:22", "192.0.2.7"),
    ],
)
def test_an_address_in_the_field_of_the_name_goes_to_its_own_and_a_name_is_suggested(
    world: World, commands: Commands, text: str, name: str, key: str
) -> None:
    world.hosts(**{"gpu-1": {"ssh": "root@192.0.2.9"}})

    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot)
        pilot.app.screen.post_message(events.Paste(text))
        fields = {each.id: each for each in pilot.app.screen.query(Input)}
        await until(pilot, lambda: fields["name"].value == text)
        await pilot.press(key)
        await until(pilot, lambda: (fields["name"].value, fields["ssh"].value) == (name, text))
        await shows(pilot, "a name is suggested")
        assert commands.asked == []
        await until(pilot, lambda: fields["name"].has_focus)
        await pilot.press(*"box", "enter")
        await shows(pilot, "Pin this key and add box?")

    drive(world.board(), use)
    assert commands.asked[0][-2:] == ["box", text]


def test_an_address_that_cannot_be_read_is_said_in_the_form(world: World, commands: Commands) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, name="ssh -J jump root@192.0.2.1")
        await pilot.press("enter")
        await shows(pilot, "address: -J 'jump': a jump host cannot be set")
        assert pilot.app.screen.query_one("#ssh", Input).has_focus

    drive(world.board(), use)
    assert commands.asked == []


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"name": "a b"}, "name", "name: 'a b' is not a valid name of a host (letters, digits"),
        ({"name": "box", "root": "zzz"}, "root", "folder: must be absolute"),
        ({"name": "box", "scheduler": "pbs"}, "scheduler", "scheduler: invalid choice: 'pbs'"),
    ],
)
def test_a_refusal_of_the_real_command_names_the_field_and_no_command(
    world: World, values: dict[str, str], field: str, words: str
) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await fill(pilot, ssh="root@127.0.0.1:1", **values)
        await pilot.press("enter")
        await shows(pilot, f"Nothing was added: {words}")
        assert "armada hosts add" not in screen(pilot)
        await until(pilot, lambda: pilot.app.screen.query_one(f"#{field}", Input).has_focus)

    drive(world.board(), use)
