"""The history of acts: copied, shown, started again, undone; and notifications, the tour and help."""

from __future__ import annotations

import json

import pytest
from textual.pilot import Pilot

from armada.foundation.process_identity import current
from armada.store import labels, notifications, runs
from armada.tui import acts, remembered
from armada.tui.bindings import KEYS
from armada.tui.screens import history
from armada.tui.screens.help import HelpScreen
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.run import RunScreen
from armada.tui.screens.runs import RunsScreen
from tests.tui.conftest import World, drive, heard, lacks, said, screen, shows, until


def starred(world: World) -> bool:
    return runs.find(world.database, "demo-aaaaaa").starred_at is not None


def test_an_act_is_listed_copied_undone_and_started_again(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("asterisk")
        await until(pilot, lambda: starred(world) and "star demo-aaaaaa done" in said(pilot))
        await pilot.press("7")
        await shows(pilot, "armada star demo-aaaaaa", "done", "u undoes")
        await pilot.press("y")
        assert board.clipboard == "armada star demo-aaaaaa"
        await pilot.press("o")
        await shows(pilot, "demo-aaaaaa: starred")
        await pilot.press("escape")
        await pilot.press("u")
        await until(pilot, lambda: not starred(world))
        await shows(pilot, "armada star demo-aaaaaa --off", "undone")
        await pilot.press("end", "u")
        await until(pilot, lambda: "it is undone already" in said(pilot))
        await pilot.press("enter")
        await shows(pilot, "Start it again?")
        await pilot.press("y")
        await until(pilot, lambda: starred(world))
        await pilot.press("escape")
        await lacks(pilot, "History:")

    drive(board, use)


@pytest.mark.parametrize("size", [(20, 8), (40, 10), (50, 16)])
def test_a_small_terminal_shows_the_commands(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-")
        await pilot.press("asterisk")
        await until(pilot, lambda: starred(world) and "star demo-aaaaaa done" in said(pilot))
        await pilot.press("7")
        seen = await shows(pilot, "COMMAND", "armada star")
        assert ("ENDED" in seen) == (size[0] >= 40)

    drive(world.board(), use, size)


def test_what_cannot_be_undone_says_so(world: World) -> None:
    world.hosts(far={"ssh": "root@127.0.0.1:1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "far")
        await pilot.press("home", "c")
        await until(pilot, lambda: "ended with 4" in said(pilot))
        await pilot.press("7")
        await shows(pilot, "failed (4)", "armada hosts check far")
        await pilot.press("u")
        await until(pilot, lambda: "it cannot be undone: only stars" in said(pilot))
        await pilot.press("escape", "U")
        await until(pilot, lambda: "there is nothing to undo" in said(pilot))

    drive(world.board(), use)


def test_an_act_of_long_ago_is_undone_after_a_question(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FRESH_S", 0.0)
    world.run("demo-aaaaaa", state="succeeded")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("t", *"paper", "enter")
        await until(pilot, lambda: "tag demo-aaaaaa done" in said(pilot))
        await pilot.press("U")
        await shows(pilot, "Undo what was done", "armada tag demo-aaaaaa --add=paper")
        await pilot.press("n")
        await lacks(pilot, "Undo what was done")
        assert runs.find(world.database, "demo-aaaaaa").tags == ("paper",)
        await pilot.press("U")
        await shows(pilot, "Undo what was done")
        await pilot.press("y")
        await until(pilot, lambda: runs.find(world.database, "demo-aaaaaa").tags == ())

    drive(world.board(), use)


def test_the_last_act_is_undone_from_every_screen_once(world: World) -> None:
    world.run("demo-aaaaaa", state="succeeded")
    labels.change_tags(world.database, "demo-aaaaaa", add=["old"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("t", *"new -old", "enter")
        await until(pilot, lambda: "tag demo-aaaaaa done" in said(pilot))
        assert runs.find(world.database, "demo-aaaaaa").tags == ("new",)
        await pilot.press("4", "U")
        await until(pilot, lambda: runs.find(world.database, "demo-aaaaaa").tags == ("old",))
        await until(pilot, lambda: "undo tag demo-aaaaaa done" in said(pilot))
        await pilot.press("U")
        await until(pilot, lambda: "there is nothing to undo" in said(pilot))

    drive(world.board(), use)


def test_an_act_whose_end_nobody_recorded_says_how_to_find_out(world: World) -> None:
    world.run("demo-aaaaaa")
    world.run("other-bbbbbb")
    for words in (["stop", "demo-aaaaaa"], ["sync", "now"]):
        log = acts.new_log(world.home, words[0])
        acts.record(log, title="t", words=words, process=current())
        told = json.loads(log.with_suffix(".json").read_text())
        log.with_suffix(".json").write_text(json.dumps(told | {"process": [2**30, "another time", None]}))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("7")
        await shows(
            pilot, "unknown", "o shows its output, `armada show demo-aaaaaa`", "o shows its output, `armada ps`"
        )

    drive(world.board(), use)


def test_an_act_of_an_older_dashboard_has_no_command_to_copy(world: World) -> None:
    acts.new_log(world.home, "stop").write_text("old [b]words\x1b[31m\n")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("7")
        await shows(pilot, "stop (command not recorded)", "unknown")
        await pilot.press("y", "enter")
        await until(pilot, lambda: said(pilot).count("did not record the command") == 2)
        await pilot.press("o")
        await shows(pilot, "old [b]words")

    drive(world.board(), use)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_command_that_is_not_recorded_whole_is_neither_started_again_nor_copied(world: World, is_old: bool) -> None:
    log = acts.new_log(world.home, "launch")
    words = ["launch", "--host=box", f"--set=model.revision={'a1' * 20}", "--", "exp.yaml"]
    acts.record(log, title="t", words=words, process=current())
    acts.record_end(log, 0)
    if is_old:
        told = json.loads(log.with_suffix(".json").read_text())
        del told["is_whole"]
        log.with_suffix(".json").write_text(json.dumps(told))

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("7")
        await shows(pilot, "armada launch --host=box", "…")
        await pilot.press("y", "enter")
        await until(pilot, lambda: said(pilot).count("was not recorded (…)") == 2)
        assert "copied" not in said(pilot)
        assert isinstance(pilot.app.screen, history.HistoryWindow)

    drive(world.board(), use)


def test_a_command_whose_own_words_have_that_sign_is_recorded_whole(world: World) -> None:
    log = acts.new_log(world.home, "note")
    acts.record(log, title="t", words=["note", "demo-aaaaaa", "--", "wait …"], process=current())
    assert [act.is_whole for act in acts.newest(world.home)] == [True]


# Notifications ------------------------------------------------------------------------------------------------------


def tell(world: World, number: int, title: str, body: str = "the body", to: str = "a") -> None:
    notifications.post(world.database, key=f"event-{number}@{to}", kind="run_failed", title=title, body=body)


def test_what_the_daemon_told_is_listed_once_counted_and_then_read(world: World) -> None:
    world.run("demo-aaaaaa")
    tell(world, 1, "demo [b]failed\x1b[31m", "oom\nsecond line")
    tell(world, 1, "demo [b]failed\x1b[31m", "oom\nsecond line", to="b")
    tell(world, 2, "disk is full")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "2 unread (8)")
        await pilot.press("8")
        seen = await shows(pilot, "demo [b]failed�[31m", "second line", "disk is full", "waits")
        assert seen.count("demo [b]failed") == 1
        await pilot.press("y")
        assert board.clipboard.startswith("disk is full")
        await pilot.press("escape")
        await lacks(pilot, "unread (8)")
        tell(world, 3, "another")
        await shows(pilot, "1 unread (8)")

    drive(board, use)
    assert remembered.notified_until(world.home) > 0


def test_without_notifications_the_panel_says_where_they_are_chosen(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("8")
        await shows(pilot, "notifications.yaml says what is sent")
        await pilot.press("8")
        await lacks(pilot, "notifications.yaml says")

    drive(world.board(), use)


def test_a_message_that_is_longer_than_the_window_is_wide_is_shown_whole(world: World) -> None:
    words = [f"word{number}" for number in range(30)]
    tell(world, 1, "demo failed", " ".join(words))

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("8")
        await shows(pilot, "Notifications from the daemon", *words)
        await pilot.resize_terminal(50, 24)
        await shows(pilot, "Notifications from the daemon", *words)

    drive(world.board(), use, (80, 24))


RUN_GONE = "gone-bbbbbb is no longer in the store"
HOST_GONE = "away is no host in hosts.yaml"


def about(world: World, number: int, kind: str, body: str) -> None:
    notifications.post(world.database, key=f"event-{number}@a", kind=kind, title=f"event {number}", body=body)


def test_enter_on_a_notification_opens_its_run_or_its_host(world: World) -> None:
    world.hosts(one={"ssh": "root@192.0.2.1"}, two={"ssh": "root@192.0.2.2"})
    world.run("demo-aaaaaa", host="one")
    about(world, 1, "host_stop", "away: its stop command failed")
    about(world, 2, "run_failed", "gone-bbbbbb on one: failed, oom after 3 m\narmada logs gone-bbbbbb")
    about(world, 3, "disk_soon_full", "two: 3.0 GB of 1.0 TB are free; a run saves checkpoints there")
    about(
        world, 4, "run_stalled", "demo-aaaaaa on one: no step for 7 m; its processes are alive\narmada stop demo-aaaaaa"
    )
    about(world, 5, "run_failed", "")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("8")
        await shows(pilot, "Notifications from the daemon", "enter open")
        await pilot.press("enter")
        await until(pilot, lambda: "what this message is about is no host" in said(pilot))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(board.screen, RunScreen) and board.screen.run_id == "demo-aaaaaa")
        await pilot.press("8", "down", "down", "enter")
        await until(pilot, lambda: isinstance(board.screen, HostsScreen) and board.screen.host_meant == "two")
        await pilot.press("k")
        assert isinstance(board.screen, HostsScreen)
        assert board.screen.host_meant != "two"
        await pilot.press("8", "down", "down", "enter")
        await until(pilot, lambda: isinstance(board.screen, HostsScreen) and board.screen.host_meant == "two")
        await pilot.press("8", "down", "down", "down", "enter")
        await until(pilot, lambda: RUN_GONE in said(pilot))
        await pilot.press("down", "enter")
        await until(pilot, lambda: HOST_GONE in said(pilot))
        await pilot.press("8")
        await lacks(pilot, "Notifications from the daemon")

    drive(board, use)


def test_escape_from_a_run_that_a_notification_opened_over_hosts_goes_back_there(world: World) -> None:
    world.run("demo-aaaaaa", host="one")
    about(world, 1, "run_stalled", "demo-aaaaaa on one: no step for 7 m; its processes are alive")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("3")
        await until(pilot, lambda: isinstance(board.screen, HostsScreen))
        hosts = board.screen
        await pilot.press("8")
        await shows(pilot, "Notifications from the daemon", "demo-aaaaaa on one")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(board.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: board.screen is hosts)

    drive(board, use)


# The tour -----------------------------------------------------------------------------------------------------------


def test_an_empty_home_opens_the_tour_once(world: World) -> None:
    async def first(pilot: Pilot[None]) -> None:
        for number, title in enumerate(("What armada does", "Add a host", "Try the", "Watch it", "Bring it home"), 1):
            await shows(pilot, f"{number} of 5 · {title}")
            await pilot.press("enter")
        await lacks(pilot, "of 5")
        await shows(pilot, "Nothing has been launched yet")

    async def second(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet")
        assert "of 5" not in screen(pilot)
        await pilot.press("colon", *"tour", "enter")
        await shows(pilot, "1 of 5")
        await pilot.press("enter", "enter", "left")
        await shows(pilot, "2 of 5")
        await pilot.press("escape")
        await lacks(pilot, "of 5")

    drive(world.board(is_new=True), first)
    drive(world.board(is_new=True), second)


@pytest.mark.parametrize("way", ["runs", "hosts", "read-only"])
def test_a_home_in_use_opens_no_tour(world: World, way: str) -> None:
    if way == "runs":
        world.run("demo-aaaaaa")
    if way == "hosts":
        world.hosts(far={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        await until(pilot, world.home.looked_at.exists)
        await shows(pilot, "demo-aaaaaa" if way == "runs" else "Nothing has been launched yet")
        assert "of 5" not in screen(pilot)

    drive(world.board(is_new=True, read_only=way == "read-only"), use)


# Help and lists -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["1", "2", "2c", "2l", "2h", "2e", "2f", "3", "4", "6", "7", "8"])
def test_help_lists_every_key_that_works_on_a_screen(world: World, way: str) -> None:
    """From Textual's own bindings: whatever works here is in the table that help shows."""
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [1.0, 0.5])
    world.checkpoint("demo-aaaaaa", 7, home=False)
    known = {name: key for key in KEYS for name in key.keys.split(",")}

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press(*way)
        await pilot.pause()
        active = {
            name
            for name, binding in pilot.app.screen.active_bindings.items()
            if type(binding.node).__module__.startswith("armada")
        }
        ours = {name for name in active if not name.startswith(("ctrl+pageup", "ctrl+pagedown"))}
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        shown = pilot.app.screen
        assert isinstance(shown, HelpScreen)
        for name in ours - {"tab", "shift+tab", "ctrl+c", "super+c", "question_mark", "f1"}:
            assert name in known, name
            assert known[name].help in shown.words.plain, name

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("state", "key"), [("failed", "u        Resume"), ("running", "x        Stop"), ("succeeded", "enter    Open")]
)
def test_help_begins_with_what_is_under_the_cursor(world: World, state: str, key: str) -> None:
    world.run("demo-aaaaaa", state=state)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("question_mark")
        seen = await shows(pilot, f" demo-aaaaaa, {state}")
        lines = seen.splitlines()
        here = next(place for place, line in enumerate(lines) if f", {state}" in line)
        assert any(key in line for line in lines[here : here + 7])
        await pilot.press("G", "g", "j", "slash", *"Signs:", "enter")
        await shows(pilot, "Signs: ")

    drive(world.board(), use)


def test_lists_go_up_and_down_by_letters(world: World) -> None:
    for number in range(5):
        world.run(f"r{number}-aaaaaa")
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "r0-aaaaaa", "r4-aaaaaa")
        first = board.screen
        assert isinstance(first, RunsScreen)
        order = [entry.key for entry in first.table.entries if entry.kind == "row"]
        for keys, place in (("G", 4), ("k", 3), ("g", 0), ("jj", 2), ("e", order.index("r4-aaaaaa"))):
            await pilot.press(*keys)
            assert first.table.cursor == order[place], keys

    drive(board, use)


def test_words_are_found_in_lists(world: World) -> None:
    world.hosts(**{name: {"ssh": f"root@192.0.2.{number}"} for number, name in enumerate(("alpha", "beta", "alp"), 1)})
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "alpha", "beta", "local")
        shown = board.screen
        assert isinstance(shown, HostsScreen)
        await pilot.press("g", "slash", *"ALP", "enter")
        await until(pilot, lambda: "alp" in (shown.table.cursor or ""))
        before = shown.table.cursor
        await pilot.press("n")
        assert "alp" in (shown.table.cursor or "")
        assert shown.table.cursor != before
        await pilot.press("N")
        assert shown.table.cursor == before
        await pilot.press("slash")
        await shows(pilot, "Search")
        await pilot.press("ctrl+u", *"zzz", "enter")
        await until(pilot, lambda: "not found:" in said(pilot))

    drive(board, use)


def test_words_are_found_in_texts_and_they_scroll(world: World) -> None:
    settings = {f"key{number:03}": number for number in range(100)}
    world.run("demo-aaaaaa", spec={"job": {"argv": ["true"]}, "experiment": {"env": settings}})

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "f")
        await shows(pilot, "key000")
        await pilot.press("slash", *"key077", "enter")
        await shows(pilot, "key077")
        await pilot.press("g")
        await lacks(pilot, "key077")
        await pilot.press("n")
        await shows(pilot, "key077")
        await pilot.press("G", "k", "k", "pageup")
        await pilot.press("slash", *"nowhere", "enter")
        await until(pilot, lambda: "not found: nowhere" in said(pilot))

    drive(world.board(), use, (100, 24))


@pytest.mark.parametrize("size", [(20, 5), (1, 1), (80, 24), (300, 100)])
def test_every_panel_is_drawn_at_every_size(world: World, size: tuple[int, int]) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await pilot.pause()
        for key in ("colon", "7", "8", "question_mark"):
            await pilot.press(key)
            await pilot.pause()
            await pilot.resize_terminal(*size)
            await pilot.press("escape")
        assert not [note for note in heard(pilot) if "Error" in note]

    drive(world.board(), use, size)
