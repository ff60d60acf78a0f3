"""Launch: the form, the hosts, the checks, and each of its keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.color import Color
from textual.pilot import Pilot

from armada.tui import changes, planned
from armada.tui.asking import Asking
from armada.tui.host_reading import HostReader
from armada.tui.operations import Answer
from armada.tui.reachability import Silence
from armada.tui.screens.launch import LaunchScreen
from armada.tui.screens.runs import RunsScreen
from armada.tui.theme import LIGHT
from armada.tui.widgets.host_plans import HostPlans
from tests.tui.conftest import World, drive, lacks, said, screen, shows, strips, until

EXPERIMENT = """\
# the head
name: hello   # its name
task: command
command: [sh, -c, "echo hi"]
data: {train: [{path: rows.jsonl}]}
resources: {gpus: 0}
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the dashboard starts; none of them runs."""
    found: list[list[str]] = []

    def start(home: Any, title: Any, words: list[str], tell: Any, **_: Any) -> Path:
        del title, tell
        found.append(list(words))
        return Path(home.state)

    monkeypatch.setattr("armada.tui.operations.start", start)
    return found


@pytest.fixture
def file() -> Path:
    """An experiment in the folder of the dashboard."""
    path = Path("exp.yaml").absolute()
    path.write_text(EXPERIMENT)
    Path("rows.jsonl").write_text('{"text": "one \\u001b[31m[b]red[/b]"}\n{"text": "two"}\n')
    return path


def launch(pilot: Pilot[None]) -> LaunchScreen:
    return next(each for each in pilot.app.screen_stack if isinstance(each, LaunchScreen))


async def opened(pilot: Pilot[None]) -> None:
    """Open Launch with the experiment, without a host, and go to the form."""
    await pilot.press("5")
    await shows(pilot, "Type an experiment and a host")
    await until(pilot, lambda: launch(pilot).hosts.row_count)
    launch(pilot).fields["host"].value = ""
    launch(pilot).fields["experiment"].value = "exp.yaml"
    await until(pilot, lambda: launch(pilot).form.form is not None)
    await pilot.press("escape")
    await until(pilot, lambda: launch(pilot).form.table.has_focus)


async def at(pilot: Pilot[None], key: str) -> None:
    """Put the cursor on a setting with `/`."""
    await pilot.press("slash", *(_KEYS.get(letter, letter) for letter in key), "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen) and launch(pilot).form.table.cursor == key)


_KEYS = {".": "full_stop", "_": "underscore"}


def test_settings_are_edited_in_place_and_become_changes_of_the_command(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await at(pilot, "stop_grace_s")
        await shows(pilot, "number ≥ 0, in seconds   default 60.0", "Seconds between SIGTERM and SIGKILL")
        await pilot.press("enter")
        await shows(pilot, "enter takes it")
        await pilot.press(*"-1", "enter")
        await shows(pilot, "--set stop_grace_s=-1: `stop_grace_s` must be at least 0.0, not -1")
        await pilot.press("backspace", "backspace", *"5", "enter")
        await lacks(pilot, "enter takes it")
        await shows(pilot, "stop_grace_s=5", "changed", "1 change")
        assert launch(pilot).words == ("plan", "--set=stop_grace_s=5", "--", "exp.yaml")
        await at(pilot, "sync.transfer")
        await pilot.press("enter")
        await shows(pilot, "sync.transfer: ", "auto", "rsync", "stream")
        await pilot.press(*"rsync", "enter")
        await shows(pilot, "sync.transfer=rsync", "2 changes")
        await pilot.press("home")
        await until(pilot, lambda: launch(pilot).form.table.cursor == "name")
        await pilot.press("enter", *"on: #1", "enter")  # text gets the quotes that YAML needs
        await until(pilot, lambda: launch(pilot).changes == ["stop_grace_s=5", "sync.transfer=rsync", 'name="on: #1"'])
        await at(pilot, "stop_grace_s")
        await pilot.press("u", "Y")
        await until(pilot, lambda: "copied: armada plan --set=sync.transfer=rsync" in said(pilot))
        await shows(pilot, "2 changes")
        assert file.read_text() == EXPERIMENT

    drive(world.board(), use)


def test_a_value_that_the_editor_cannot_show_whole_is_not_edited_there(world: World, file: Path) -> None:
    file.write_text(EXPERIMENT.replace("name: hello", f"name: {'x' * 5000}"))

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await at(pilot, "name")
        await pilot.press("enter")
        await until(pilot, lambda: "name has 5,000 characters, and at most 4,000 can be edited here" in said(pilot))
        assert isinstance(pilot.app.screen, LaunchScreen)

    drive(world.board(), use)


def test_the_difference_is_shown_and_saved_beside_the_file(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        launch(pilot).fields["set"].value = "name=other retries=1"
        await shows(pilot, "2 changes")
        await pilot.press("D")
        await shows(pilot, "-name: hello   # its name", "+name: other   # its name", "+retries: 1")
        await pilot.press("escape", "S")
        await shows(pilot, "Save as", "exp-2.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: launch(pilot).fields["experiment"].value == "exp-2.yaml")
        assert launch(pilot).fields["set"].value == ""
        assert Path("exp-2.yaml").read_text() == EXPERIMENT.replace("hello", "other") + "retries: 1\n"
        await pilot.press("S")
        await shows(pilot, "Save as")
        launch_input = pilot.app.screen.query_one("Input")
        launch_input.value = "exp.yaml"  # type: ignore[attr-defined]  # it is an Input
        await pilot.press("enter")
        await shows(pilot, "Replace exp.yaml?")
        await pilot.press("escape")
        await lacks(pilot, "Replace exp.yaml?")
        assert file.read_text() == EXPERIMENT, "escape is no"

    drive(world.board(), use)


def colour_of(pilot: Pilot[None], word: str) -> tuple[int, int, int] | None:
    """The colour in which a word is drawn."""
    styles = [segment.style for strip in strips(pilot.app) for segment in strip if segment.text.strip() == word]
    triplet = styles[0].color.triplet if styles and styles[0] and styles[0].color else None
    return (triplet.red, triplet.green, triplet.blue) if triplet is not None else None


def test_hosts_stand_side_by_side_and_what_failed_is_on_top(world: World, file: Path, started: list[list[str]]) -> None:
    world.hosts(twin={"local": True, "root": str(Path("twin").absolute()), "price_per_hour": 2.0})
    file.write_text(EXPERIMENT + "secrets: [NOT_SET_HERE]\nsweep: {grid: {retries: [1, 2]}}\n")

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, "a sweep of 2 cells")
        await pilot.press("p")
        seen = await shows(pilot, "✗ refused", "ARM004 NOT_SET_HERE", "passed enter lists them")
        lines = seen.splitlines()
        (failed,) = [number for number, line in enumerate(lines) if "│ ✗ ARM004" in line]
        (passed,) = [number for number, line in enumerate(lines) if "passed enter lists" in line]
        assert failed < passed
        launch(pilot).board.choose_theme("armada-light")  # the checks take its colours, too
        await until(pilot, lambda: colour_of(pilot, "ARM004") == Color.parse(LIGHT.error or "").rgb)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "an experiment and a host are needed" in said(pilot))
        await pilot.press("tab")
        await until(pilot, lambda: launch(pilot).hosts.has_focus)
        launch(pilot).fields["set"].value = "secrets=[]"
        await pilot.press("home", "enter")
        await until(pilot, lambda: launch(pilot).fields["host"].value == launch(pilot).hosts.cursor)
        await shows(pilot, "^l launches the sweep")
        await pilot.press("tab", "enter")
        await shows(pilot, "ARM007", "clocks agree")
        await pilot.press("shift+tab", "shift+tab")
        await until(pilot, lambda: launch(pilot).form.table.has_focus)
        await pilot.press("v")
        await shows(pilot, "CELL", "retries=1", "retries=2")
        await pilot.press("escape", "ctrl+l")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        (words,) = started
        host = words[1].removeprefix("--host=")
        assert words == ["sweep", f"--host={host}", "--set=secrets=[]", "--", "exp.yaml"]
        assert host in ("local", "twin")

    drive(world.board(), use)


def test_the_hosts_are_drawn_again_only_when_something_of_them_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hosts(far={"ssh": "root@192.0.2.1"}, near={"ssh": "root@192.0.2.2"})
    drawn: list[str] = []
    show_hosts = HostPlans.show_hosts

    def show(hosts: HostPlans, *told: Any) -> None:
        drawn.append(str(told[3]))
        show_hosts(hosts, *told)

    monkeypatch.setattr(HostPlans, "show_hosts", show)
    monkeypatch.setattr("armada.tui.screens.launch.PRICE_S", 1e12)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await shows(pilot, "Type an experiment and a host")
        await until(pilot, lambda: launch(pilot).hosts.row_count)
        drawn.clear()
        board.snapshot = board.snapshot._replace(taken_at=board.snapshot.taken_at + 2, daemon=None)
        launch(pilot).take()
        assert drawn == []
        first, *others = board.snapshot.hosts
        gone = first._replace(silent=Silence(1.0, "no route"))
        board.snapshot = board.snapshot._replace(hosts=(gone, *others))
        launch(pilot).take()
        assert len(drawn) == 1
        launch(pilot).renew()  # as another size or other colours ask for
        assert len(drawn) == 2
        launch(pilot).fields["host"].value = "near"
        await until(pilot, lambda: drawn[-1] == "near")

    drive(board, use)


def test_a_file_that_is_wrong_changed_or_gone_is_said_and_the_changes_are_kept(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        launch(pilot).fields["set"].value = "retries=3"
        await shows(pilot, "1 change")
        file.write_text("name: hello\n\ttask: command\n")
        await shows(pilot, "exp.yaml:2: not YAML")
        await pilot.press("e")
        await until(pilot, lambda: f"+2 {file}" in said(pilot))
        file.write_text(EXPERIMENT.replace("hello", "again"))
        await shows(pilot, "again")
        file.unlink()
        await shows(pilot, "cannot read it: No such file or directory")
        assert "exp.yaml is gone; your changes are kept" in said(pilot)
        assert launch(pilot).changes == ["retries=3"]
        file.write_text(EXPERIMENT)
        await lacks(pilot, "cannot read it")
        await pilot.press("escape", "5")
        await shows(pilot, "retries=3", "1 change")

    drive(world.board(), use)


def test_a_text_that_takes_minutes_to_read_does_not_come_into_a_field(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        screen = launch(pilot)
        screen.fields["set"].focus()
        await pilot.pause()
        screen.fields["set"].post_message(events.Paste("x" * (changes.LONGEST + 1)))
        screen.fields["set"].post_message(events.Paste("lora.r=64"))
        await until(pilot, lambda: screen.changes == ["lora.r=64"])

    drive(world.board(), use)


def test_a_command_that_cannot_be_started_is_an_answer() -> None:
    answers: list[Answer] = []
    Asking(lambda _, answer: answers.append(answer)).ask(["plan", "--set=name=\0"])
    assert ["the command cannot be started" in answer.err for answer in answers] == [True]
    assert "the command cannot be started" in planned.parse(answers[0]).error


def test_what_a_run_needs_of_the_disk_is_not_said_to_be_free() -> None:
    told = {
        "hosts": [{"name": "box", "estimate": {"disk_needed_bytes": 1_000_000_000, "disk_free_bytes": 74_500_000_000}}]
    }
    (plan,) = planned.parse(Answer(0, json.dumps(told), "")).hosts
    assert plan.disk == "needs 1.0 GB of 74.5 GB free"


def test_the_first_rows_are_shown_and_hostile_text_is_inert(world: World, file: Path) -> None:
    file.write_text(EXPERIMENT + 'env: {A: "[red]\\e[31m[@click=app.exit]", B: &b "x"}\ntags: [*b]\n')

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await at(pilot, "env.A")
        await shows(pilot, '"[red]\\u001b[31m[@click')
        await pilot.press("v")
        await shows(pilot, "2 rows", "columns text", "[b]red[/b]")
        await pilot.press("escape")
        await pilot.press("left")
        await until(pilot, lambda: launch(pilot).form.table.cursor == "env")
        await pilot.press("left")
        await lacks(pilot, "[@click")
        await pilot.press("right")
        assert "\x1b" not in await shows(pilot, "[@click")

    drive(world.board(), use)


def test_what_is_typed_for_a_variable_is_text(world: World, file: Path) -> None:
    file.write_text(EXPERIMENT + "env: {LR: '0.3'}\n")

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await at(pilot, "env.LR")
        await pilot.press("enter")
        await shows(pilot, "enter takes it", "0.3", "text")
        await pilot.press(*["backspace"] * 3, *"0.9", "enter")
        await until(pilot, lambda: launch(pilot).changes == ['env.LR="0.9"'])
        await shows(pilot, "1 change")
        launch(pilot).fields["set"].value = "env.LR=0.9"
        await shows(pilot, "around all: --set 'env.LR=")
        assert "shell" not in screen(pilot)

    drive(world.board(), use)


def record(world: World, **settings: Any) -> None:
    """A run of exp.yaml with other settings."""
    from armada.config.experiments import load_experiment

    experiment = load_experiment(Path("exp.yaml"), [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    spec = {"job": {"argv": ["true"]}, "experiment": json.loads(experiment.model_dump_json())}
    world.run("demo-aaaaaa", name="renamed", host="local", state="failed", spec=spec)
    world.database.connection.execute("UPDATE runs SET experiment = ?", (str(Path("exp.yaml").absolute()),))


@pytest.mark.parametrize("way", ["runs", "run"])
def test_a_run_is_launched_again_with_its_settings(
    world: World, file: Path, started: list[list[str]], way: str
) -> None:
    record(world, retries=4, **{"env.RATE": "a b"})

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "renamed")
        await pilot.press(*(["enter"] if way == "run" else []), "R")
        await shows(pilot, "retries=4", "^l launches this plan")
        await pilot.press("ctrl+l")
        await until(pilot, lambda: started)
        wanted = [
            "launch",
            "--host=local",
            '--set=env={RATE: "a b"}',
            "--set=name=renamed",
            "--set=retries=4",
            "--follows=demo-aaaaaa",
            "--",
            file.name,
        ]
        assert sorted(started[0]) == sorted(wanted)

    drive(world.board(), use)


@pytest.mark.parametrize(("name", "kept"), [("hello RATE=1", []), ("mine RATE=1", ["name=mine"]), ("x", ["name=x"])])
def test_a_cell_is_launched_again_without_the_name_that_says_its_settings(
    world: World, file: Path, name: str, kept: list[str]
) -> None:
    from armada.config.experiments import load_experiment

    experiment = load_experiment(file, ['env={RATE: "1"}'])
    sweep = {"id": "hello-x7", "cell": 1, "label": "RATE=1", "values": {"env.RATE": "1"}}
    spec = {"job": {"argv": ["true"]}, "experiment": json.loads(experiment.model_dump_json()), "sweep": sweep}
    world.run("demo-aaaaaa", name=name, host="local", state="failed", spec=spec)
    world.database.connection.execute("UPDATE runs SET experiment = ?", (str(file),))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "1 of 1 runs")
        await pilot.press("R")
        await until(pilot, lambda: launch(pilot).fields["set"].value)
        assert sorted(launch(pilot).changes or ()) == ['env={RATE: "1"}', *kept]

    drive(world.board(), use)


def test_a_run_is_launched_again_before_the_hosts_were_read(
    world: World, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host is filled in once it is known, and is not said to be gone before."""
    record(world)
    read, are_read = HostReader.read, False
    monkeypatch.setattr(HostReader, "read", lambda *args, **options: read(*args, **options) if are_read else ())

    async def use(pilot: Pilot[None]) -> None:
        nonlocal are_read
        await shows(pilot, "renamed")
        await pilot.press("R")
        await shows(pilot, "name=renamed", "reading …")
        assert launch(pilot).fields["host"].value == ""
        assert "no hosts" not in screen(pilot)
        are_read = True
        world.run("demo-bbbbbb", host="local")  # what changes is read again
        await shows(pilot, "^l launches this plan")
        assert launch(pilot).fields["host"].value == "local"
        assert "is not in hosts.yaml any more" not in said(pilot)

    drive(world.board(), use)


def test_a_run_whose_file_is_gone_says_how_to_get_it_back(world: World, file: Path) -> None:
    record(world)
    file.unlink()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "renamed")
        await pilot.press("R")
        await until(pilot, lambda: "is gone" in said(pilot) and "armada reproduce demo-aaaaaa --to DIR" in said(pilot))

    drive(world.board(), use)


def test_a_narrow_terminal_shows_one_frame_at_a_time(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        seen = await shows(pilot, "Experiment exp.yaml", "SETTING")
        assert "LAUNCH" not in seen
        await pilot.press("tab")
        await shows(pilot, "LAUNCH", "not asked")
        assert "SETTING" not in screen(pilot)
        await pilot.press("tab")
        await lacks(pilot, "LAUNCH", "SETTING")
        await pilot.press("tab")
        await until(pilot, lambda: launch(pilot).fields["experiment"].has_focus)

    drive(world.board(), use, (80, 24))


def test_a_terminal_that_becomes_narrow_shows_the_frame_that_has_the_focus(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await shows(pilot, "SETTING", "LAUNCH")
        await pilot.click("#hosts", offset=(6, 2))
        await until(pilot, lambda: launch(pilot).hosts.has_focus)
        await pilot.resize_terminal(100, 30)
        await lacks(pilot, "SETTING")
        await shows(pilot, "LAUNCH")
        await until(pilot, lambda: launch(pilot).hosts.has_focus)
        await pilot.press("enter")
        await until(pilot, lambda: launch(pilot).fields["host"].value == "local")

    drive(world.board(), use, (160, 40))


def test_who_leaves_launch_before_the_plan_is_asked_for_starts_no_plan(world: World, file: Path) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        view = launch(pilot)
        before = view._timer  # noqa: SLF001  # what asks
        view.fields["host"].value = "local"
        await until(pilot, lambda: view._timer is not before)  # noqa: SLF001
        timer = view._timer  # noqa: SLF001
        assert timer is not None
        await pilot.press("1")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
        await until(pilot, lambda: timer._task is None)  # noqa: SLF001  # Textual's: it was stopped

    drive(world.board(), use)


def test_n_begins_in_the_field_of_the_experiment_and_5_where_launch_was_left(world: World, file: Path) -> None:
    del file

    async def use(pilot: Pilot[None]) -> None:
        for key in ("n", "n", "5"):
            await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen))
            await pilot.press(key)
            await until(pilot, lambda: isinstance(pilot.app.screen, LaunchScreen))
            screen = launch(pilot)
            first, table = screen.fields["experiment"], screen.form.table
            assert screen.focused is (first if key == "n" else table)
            if not first.value:
                first.value = "exp.yaml"
                await shows(pilot, "hello")
            assert first.value == "exp.yaml"
            await pilot.press("escape" if key == "n" else "x")  # to the form
            await until(pilot, lambda: launch(pilot).focused is launch(pilot).form.table)
            await pilot.press("escape")

    drive(world.board(), use)
