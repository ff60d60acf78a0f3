"""The command line: typed, completed, filled in, remembered, and carried out as in a shell."""

from __future__ import annotations

import json

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from armada.store import runs
from armada.tui import acts, outputs, remembered
from armada.tui.commands.completion import Known, complete
from armada.tui.outputs import Reading
from armada.tui.screens.command_line import cut
from armada.tui.screens.output import OutputWindow
from armada.tui.snapshot import EMPTY, HostView
from tests.tui.conftest import World, drive, lacks, said, screen, shows, strips, until
from tests.tui.test_acts import rows
from tests.tui.test_dialogs import at_once
from tests.tui.test_typed import registry
from tests.waiting import eventually


async def opened(pilot: Pilot[None]) -> Input:
    """Open the command line, and wait until the commands are known."""
    await pilot.press("colon")
    await shows(pilot, "Open the dashboard")
    return pilot.app.screen.query_one(Input)


async def typed(pilot: Pilot[None], text: str, *keys: str) -> None:
    """Open the command line with a text, then press keys."""
    (await opened(pilot)).value = text
    await pilot.pause()
    await pilot.press(*keys)


def test_a_command_reads_the_run_under_the_cursor_and_shows_what_it_printed(world: World) -> None:
    world.run("demo-aaaaaa", state="failed", reason="oom", message="CUDA [b]out\x1b[31m of memory")
    world.run("other-bbbbbb", state="succeeded")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await opened(pilot)
        await pilot.press(*"sho", "tab")
        await shows(pilot, "→ armada show demo-aaaaaa")
        await pilot.press("enter")
        await shows(pilot, "armada show demo-aaaaaa", "CUDA [b]out�[31m of memory", "armada resume demo-aaaaaa")
        await pilot.press("y")
        assert board.clipboard == "armada show demo-aaaaaa"
        await pilot.press("slash", *"resume", "enter")
        await until(pilot, lambda: "resume" in screen(pilot).splitlines()[3])
        await pilot.press("escape")
        await lacks(pilot, "y copy command")

    drive(board, use)


def test_what_a_command_prints_keeps_its_colours(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(
        outputs, "command", lambda *_: ["sh", "-c", 'printf "${FORCE_COLOR:-0} \\033[90mmasked\\033[0m said\\n"']
    )

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press(*"profiles ls", "enter")
        await shows(pilot, "1 masked said")
        drawn = strips(pilot.app)
        found = {segment.text.strip(): segment.style for strip in drawn for segment in strip if "masked" in strip.text}
        assert found["masked"] is not None
        assert found["said"] is not None
        assert found["masked"].color != found["said"].color

    drive(world.board(), use)


def test_a_command_that_has_no_room_says_how_much_of_it_is_left_out(world: World) -> None:
    for number in range(4):
        world.run(f"lr-rank-{number}-aaaaaa", name=f"lr-{number}")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "lr-0", "lr-3")
        await pilot.press(*["space"] * 4)  # each goes on to the next run
        await shows(pilot, "4 marked")
        await opened(pilot)
        await pilot.press(*"stop")
        await shows(pilot, "→ armada stop lr-rank-", "… and ", " more")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize(
    ("room", "said"),
    [(30, "armada stop one two three"), (24, "armada stop … and 3 more"), (0, "armada stop one two three")],
)
def test_what_is_cut_is_counted(room: int, said: str) -> None:
    assert cut("armada stop one two three", room) == said


def test_marked_runs_are_filled_in_and_shown_before_enter(world: World) -> None:
    for name in ("a-aaaaaa", "b-bbbbbb"):
        world.run(name, state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "a-aaaaaa", "b-bbbbbb")
        await pilot.press("a")
        await typed(pilot, "show")
        await shows(pilot, "and 1 more")
        await pilot.press("escape")
        await typed(pilot, "tag --add=arc", "enter")
        await until(pilot, lambda: all(run.tags == ("arc",) for run in runs.every(world.database)))
        (act,) = acts.newest(world.home)
        assert act.words[:2] == ("tag", "--add=arc")
        assert set(act.words[2:]) == {"a-aaaaaa", "b-bbbbbb"}

    drive(world.board(), use)


def test_the_history_goes_up_and_down_is_searched_and_remembered(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    for text in ("star", "tag --add=x", "note 'one [b]'"):
        remembered.keep_command(world.home, text)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        field = await opened(pilot)
        await pilot.press(*"dra", "up")
        assert field.value == "note 'one [b]'"
        await pilot.press("up", "up", "up")
        assert field.value == "star"
        await pilot.press("down", "down", "down")
        assert field.value == "dra"
        field.value = "ta"
        await pilot.pause()
        await pilot.press("ctrl+r")
        assert field.value == "tag --add=x"
        await pilot.press("ctrl+r")
        assert field.value == "star"
        await pilot.press("ctrl+r")
        await shows(pilot, "no older command has 'ta' in it")
        field.value = "star"
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: runs.find(world.database, "demo-aaaaaa").starred_at is not None)

    drive(world.board(), use)
    assert remembered.commands(world.home) == ["tag --add=x", "note 'one [b]'", "star"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shwo", "there is no command 'shwo' (did you mean armada show?)"),
        ("note 'half", "a quote in the command is not closed"),
        ("dashboard", "it is open already"),
        ("[/b]\x1b[31m", "there is no command '[/b]"),
        ("--json", "a command does not begin with"),
    ],
)
def test_what_means_nothing_starts_nothing_and_says_why(world: World, text: str, words: str) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, text, "enter")
        await shows(pilot, words)
        await pilot.press("escape")
        await lacks(pilot, words)

    drive(world.board(), use)
    assert acts.newest(world.home) == []
    assert remembered.commands(world.home) == []


def test_an_empty_line_closes_and_escape_too(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        for key in ("enter", "escape"):
            await opened(pilot)
            await pilot.press(key)
            await lacks(pilot, "Open the dashboard")

    drive(world.board(), use)


def test_a_refused_command_says_the_sentence_of_the_command(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, "archive", "enter")
        await until(pilot, lambda: "archive demo-aaaaaa ended with" in said(pilot))
        assert "demo-aaaaaa is running; only runs that have ended can be archived" in said(pilot)

    drive(world.board(), use)


def test_acts_that_are_hard_to_undo_ask(world: World) -> None:
    world.hosts(far={"ssh": "root@192.0.2.1"})
    world.run("demo-aaaaaa", host="far")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, "stop", "enter")
        await shows(pilot, "Stop 1 run?", "demo-aaaaaa on far")
        await pilot.press("n")
        await typed(pilot, "stop --grace 0", "enter")
        await shows(pilot, "stop?", "armada stop --grace 0 demo-aaaaaa")
        await pilot.press("n")
        await typed(pilot, "hosts rm", "enter")
        await shows(pilot, "hosts rm?", "armada hosts rm far")
        await pilot.press("escape")
        await lacks(pilot, "hosts rm?")

    drive(world.board(), use)
    assert acts.newest(world.home) == []


def test_a_yes_starts_the_command_as_in_a_shell(world: World) -> None:
    world.hosts(far={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "far")
        await pilot.press("home")
        await typed(pilot, "hosts rm", "enter")
        await shows(pilot, "armada hosts rm far")
        await pilot.press("y")
        await until(pilot, lambda: "hosts rm far done" in said(pilot))

    drive(world.board(), use)
    assert [act.words for act in acts.newest(world.home)] == [("hosts", "rm", "far")]
    assert "far" not in world.home.hosts_file.read_text()


def test_read_only_refuses_what_changes_and_reads_home_alone(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, "star", "enter")
        await until(pilot, lambda: "star: disabled" in said(pilot))
        await typed(pilot, "ps")
        await shows(pilot, "→ armada ps --cached")
        await pilot.press("enter")
        await shows(pilot, "demo-aaaaaa", "y copy command")

    drive(world.board(read_only=True), use)
    assert runs.find(world.database, "demo-aaaaaa").starred_at is None
    assert remembered.commands(world.home) == []


def test_the_same_command_twice_at_once_is_two_acts(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, "star", "enter")
        await typed(pilot, "star", "enter")
        await until(pilot, lambda: said(pilot).count("star demo-aaaaaa done") == 2)

    drive(world.board(), use)
    assert [act.words for act in acts.newest(world.home)] == [("star", "demo-aaaaaa")] * 2


def test_an_act_outlives_the_dashboard(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, "star", "enter", "ctrl+c")
        await until(pilot, lambda: not pilot.app.is_running)

    drive(world.board(), use)
    eventually(lambda: runs.find(world.database, "demo-aaaaaa").starred_at is not None)


def test_a_reading_command_ends_with_its_window(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa")
    monkeypatch.setattr("armada.tui.outputs.command", lambda *_: ["sh", "-c", "echo began; exec sleep 600"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        reading = Reading(world.home, [("plan", "x.yaml"), ("plan", "y.yaml")], 80)
        panel = OutputWindow(("plan", "x.yaml"), reading.log, lambda: reading.exit_code, reading.stop)
        pilot.app.push_screen(panel)
        await shows(pilot, "armada plan x.yaml   running …", "$ armada plan x.yaml", "began")
        await pilot.press("escape")
        await until(pilot, lambda: not reading.is_running)
        assert "y.yaml" not in reading.log.read_text()

    drive(world.board(), use)


def test_a_reading_command_that_cannot_be_started_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "command", lambda *_: [str(world.home.state / "no such program")])

    async def use(pilot: Pilot[None]) -> None:
        await opened(pilot)
        await pilot.press(*"profiles ls", "enter")
        await shows(pilot, "armada profiles ls   ended with 1", "armada: not started: No such file or directory")

    drive(world.board(), use)


def test_a_reading_command_without_a_file_for_its_output_does_not_end_well(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "new_log", lambda *_, **__: world.home.state / "no such folder" / "x.log")
    reading = Reading(world.home, [("plan", "x.yaml")], 80)
    eventually(lambda: reading.exit_code == 1)


def test_ten_thousand_runs_are_completed_within_a_frame(world: World) -> None:
    world.run("demo-aaaaaa")
    (row,) = rows(world).values()
    many = tuple(
        row._replace(run=row.run._replace(run_id=f"r{number}-{number:06d}"), name="x" * 300) for number in range(10_000)
    )
    snapshot = EMPTY._replace(runs=many, by_id={each.run.run_id: each for each in many})
    known = Known()
    complete("show 99", registry(), known.names(snapshot))
    start, found = complete("show r9999-", registry(), known.names(snapshot))
    assert [each.word for each in found] == ["r9999-009999"]
    assert all(len(each.about) <= 80 for each in found)
    assert start == len("show ")


def test_a_host_and_a_sweep_are_completed_although_no_run_changed() -> None:
    known, before = Known(), EMPTY
    added = HostView("newbox", None, configured=True, local=False, record=None)
    after = before._replace(hosts=(added,), sweeps=("grid",))
    assert [list(known.names(before)(kind)) for kind in ("hosts", "sweeps")] == [[], []]
    assert [each.word for kind in ("hosts", "sweeps") for each, _ in known.names(after)(kind)] == ["newbox", "grid"]


def test_hostile_names_are_completed_inert(world: World) -> None:
    world.run("demo-aaaaaa", name="[red]\x1b]52;c;x\x07" + "名" * 300)
    world.hosts(far={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "[red]")
        await typed(pilot, "show ")
        seen = await shows(pilot, "[red]�]52;c;x�")
        assert "\x1b" not in seen
        await pilot.press("tab")
        assert pilot.app.screen.query_one(Input).value == "show demo-aaaaaa "

    drive(world.board(), use, (80, 24))


def test_the_commands_own_words_work(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await typed(pilot, "history", "enter")
        await shows(pilot, "History: what was started")
        await pilot.press("escape")
        await typed(pilot, "notifications", "enter")
        await shows(pilot, "Notifications from the daemon")
        await pilot.press("escape")
        await typed(pilot, "undo", "enter")
        await until(pilot, lambda: "there is nothing to undo" in said(pilot))
        await typed(pilot, "quit", "enter")
        await until(pilot, lambda: not pilot.app.is_running)

    drive(world.board(), use)


def test_commands_that_cannot_be_read_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        monkeypatch.setattr("armada.tui.operations.command", lambda *words: ["sh", "-c", "echo broken >&2; exit 1"])
        await pilot.press("colon", *"show", "enter")
        await shows(pilot, "the commands cannot be read: broken")

    drive(world.board(), use)


@pytest.mark.parametrize("content", ["", "{", "7", '["a", 7, "\\u001b[31m", "b"]'])
def test_a_broken_history_is_no_history(world: World, content: str) -> None:
    file = world.home.state / "dashboard" / "commands.json"
    file.parent.mkdir(parents=True)
    file.write_text(content)
    assert remembered.commands(world.home) == (["a", "b"] if "a" in content else [])
    remembered.keep_command(world.home, "show")
    assert remembered.commands(world.home)[-1] == "show"
    assert json.loads(file.read_text())[-1] == "show"
    assert file.stat().st_mode & 0o077 == 0


def test_nothing_that_is_typed_at_once_is_lost_or_pressed(world: World) -> None:
    """Over a slow connection the keys after `:` or `/` come in the same moment: `n` would launch, `d` remove."""
    world.run("demo-aaaaaa", state="failed")

    async def use(pilot: Pilot[None]) -> None:
        def type_at_once(text: str) -> None:
            for each in text:
                pilot.app.post_message(events.Key({":": "colon", "/": "slash"}.get(each, each), each))

        await shows(pilot, "demo-aaaaaa")
        type_at_once(":sync now --")
        await shows(pilot, "Command", "sync now --")
        await pilot.press("escape")
        await lacks(pilot, "Command")
        type_at_once("/nd:/dx")
        await shows(pilot, "/ nd:/dx", "0 of 1 runs")
        assert len(pilot.app.screen_stack) == 1

    drive(world.board(), use)


def test_tab_completes_what_was_typed_and_not_what_was_looked_at_last(world: World) -> None:
    """A slow link brings a word, Tab and Enter in one piece: half of the word would name another run."""
    world.run("demo-aaaaaa", name="fail-run", state="failed")
    world.run("fail-run-bbbbbb", name="fail-run", state="failed", reason="oom", message="the one that is meant")
    world.run("fail-zz-cccccc", name="other", state="failed")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "fail-run aaaaaa")
        await opened(pilot)
        at_once(pilot, *"show", "space", *"fail-run-", "tab", "enter")
        await shows(pilot, "armada show fail-run-bbbbbb", "the one that is meant")

    drive(world.board(), use)


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (70, 15)])
def test_what_completes_a_line_is_cut_where_it_has_no_room(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await opened(pilot)
        box = pilot.app.screen.query_one("#found")
        assert box.size.height == 8
        lines = [line.strip("│ ") for line in screen(pilot).splitlines()[box.region.y :][:8]]
        assert any(line.endswith("…") for line in lines)
        assert {line.split(" ")[0] for line in lines} <= set(registry().all), "each line has one candidate"
        await pilot.resize_terminal(size[0] - 10, size[1])
        await until(pilot, lambda: box.size.width < size[0] - 10)
        assert box.size.height == 8

    drive(world.board(), use, size)
