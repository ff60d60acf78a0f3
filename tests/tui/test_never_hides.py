"""What is wrong, unknown, old or not yet read is on the screen, and not shown as something else."""

from __future__ import annotations

import json
import math
import re
import time

import pytest
from textual.pilot import Pilot

from armada.__main__ import main as armada
from armada.home import own
from armada.store import checkpoints, metrics, runs, telemetry
from armada.tui import remembered
from armada.tui.curves import Curve, CurveUpdate
from armada.tui.screens.chooser import Choice, Chooser
from armada.tui.snapshot import Snapshot
from armada.tui.symbols import UNICODE
from armada.tui.watcher import Subscription, Watcher
from tests.conftest import eventually
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until

NAN = math.nan


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert armada(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_hosts_file_that_cannot_be_used_is_said_with_its_line_until_it_is_mended(world: World) -> None:
    world.run("demo-aaaaaa", host="box")
    good = "hosts:\n  box:\n    ssh: root@box\n    price_per_hour: 14.4\n"
    world.home.hosts_file.write_text(good.replace("price_per_hour", "price_per_hours"))

    async def use(pilot: Pilot[None]) -> None:
        for place in "1346":
            await pilot.press(place)
            words = await shows(pilot, "hosts.yaml:4", "price_per_hour`?", "no host and no price is known")
            assert "not in hosts.yaml" not in words
        await pilot.press("1")
        world.home.hosts_file.write_text(good)
        await shows(pilot, "$14.40/h")
        await lacks(pilot, "hosts.yaml:4")
        world.home.hosts_file.write_text("hosts: [\n")
        await shows(pilot, "hosts.yaml", "hosts and prices stay as last read", "$14.40/h")

    drive(world.board(), use)


def test_notifications_that_reach_nobody_are_said(world: World) -> None:
    world.run("demo-aaaaaa")
    world.home.notifications_file.write_text("url: [ntfy://topic]\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "notifications.yaml:1", "urls", "nobody is notified")

    drive(world.board(), use)


@pytest.mark.parametrize(("newest", "word"), [(NAN, "NaN"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_a_loss_that_is_not_finite_is_in_the_table_the_headings_and_the_facts(
    world: World, newest: float, word: str
) -> None:
    world.run("demo-aaaaaa", step=30, total_steps=100)
    world.losses("demo-aaaaaa", [2.0] * 9 + [0.4125] + [newest] * 20)

    async def use(pilot: Pilot[None]) -> None:
        words = await shows(pilot, f"its loss is {word}", f"{word} since step 11, before 0.4125", "1 needs you")
        (row,) = [line for line in words.splitlines() if "30%" in line]
        assert word in row
        await pilot.press("enter")
        await shows(pilot, f"loss {word}")
        await pilot.press("c", "plus")
        await shows(pilot, f"{word} since step 11, before 0.4125", f"last      {word:<11}step 30", "20×, first at")
        await shows(pilot, "before    0.4125     step 10")
        await pilot.press("1", "c")
        await shows(pilot, "loss against step", f"{word} since step 11, before 0.4125")

    drive(world.board(), use)


def test_a_curve_of_nothing_but_nan_says_so(world: World) -> None:
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [NAN] * 200)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no finite values to draw: NaN since step 1")

    drive(world.board(), use)


def test_an_outline_of_many_points_ends_in_its_newest_value(world: World) -> None:
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [1.0] * 9995 + [math.inf, 0.5, NAN, NAN, NAN])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "NaN since step")

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("values", "log", "words"),
    [
        ([1.0, NAN, 2.0], False, ""),
        ([1.0, NAN, math.inf], False, "inf since step 2"),
        ([NAN], True, "NaN since step 1"),
        ([1.0, -0.25], True, "-0.25: not on a logarithmic scale"),
        ([1.0, -0.25], False, ""),
        ([], True, ""),
    ],
)
def test_what_a_heading_says_of_a_value_that_cannot_be_drawn(values: list[float], log: bool, words: str) -> None:
    curve = Curve((step, 0.0, value) for step, value in enumerate(values, 1))
    assert curve.doubt(log=log) == words


def test_one_point_alone_is_drawn_and_its_place_is_named(world: World) -> None:
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [0.75], name="eval_loss")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        words = await shows(pilot, "eval_loss (1 of", " 0.75")
        chart = words[words.index("eval_loss (1 of") :].splitlines()
        assert "●" in "".join(chart[1:-1])
        assert any(line.strip("│ ") == "1" for line in chart)

    drive(world.board(), use)


def test_what_is_not_read_yet_is_said_to_be_read_and_not_to_be_absent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [1.0, 2.0])
    world.run("rest-bbbbbb")
    monkeypatch.setattr(Watcher, "_curves", lambda *_: ())
    monkeypatch.setattr("armada.tui.watcher.read_detail", lambda *_: None)

    async def use(pilot: Pilot[None]) -> None:
        words = await shows(pilot, "demo-aaaaaa", "reading …")
        assert "no loss yet" not in words
        for page in "chefa":
            await pilot.press("1", "enter", page)
            words = await shows(pilot, "reading …")
            assert "no samples" not in words.casefold()
            assert "none yet" not in words
            assert "no points of this metric" not in words
        await pilot.press("1", "a", "c")
        await shows(pilot, "reading 2 curves …")

    drive(world.board(), use)


def test_before_the_first_look_nothing_is_said_to_be_absent(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watcher, "start", lambda _: None)

    async def use(pilot: Pilot[None]) -> None:
        for place in "134":
            await pilot.press(place)
            words = await shows(pilot, "reading …")
            assert not [said for said in ("no run", "only this machine", "everything is home") if said in words]

    drive(world.board(), use)


def test_a_curve_of_very_many_points_is_shown_before_all_of_it_is_read(world: World) -> None:
    world.run("demo-aaaaaa")
    world.losses("demo-aaaaaa", [float(step % 7) for step in range(6000)])
    read: list[int] = []

    def take(_: Snapshot, updates: tuple[CurveUpdate, ...]) -> None:
        read.extend(len(each.fresh) for each in updates if each.fresh is not None)

    watcher = Watcher(world.home, take)
    watcher.want(Subscription(curves=frozenset({("demo-aaaaaa", "loss")})), "a screen")
    watcher.start()
    try:
        eventually(lambda: 6000 in read, "all points")
    finally:
        watcher.stop()
    assert 0 < read[0] < 1100
    assert read[1:] == [6000]


@pytest.mark.parametrize(("newest", "word"), [(NAN, "NaN"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_the_command_line_shows_a_loss_that_is_not_finite(
    world: World, capsys: pytest.CaptureFixture[str], newest: float, word: str
) -> None:
    world.run("demo-aaaaaa", state="succeeded", step=5)
    world.losses("demo-aaaaaa", [1.0, newest])
    world.losses("demo-aaaaaa", [0.5, newest], name="eval_loss")
    assert f" {word} " in printed(capsys, "ps", "--cached")
    (run,) = json.loads(printed(capsys, "ps", "--cached", "--json"), parse_constant=pytest.fail)
    assert (run["loss"], run["loss_not_finite"]) == (None, word)
    assert json.loads(printed(capsys, "show", "--json", "demo"), parse_constant=pytest.fail)["loss_not_finite"] == word
    shown = printed(capsys, "show", "demo")
    assert f"loss {word}" in shown
    assert f"0.5000 at 3  {word} at 4" in shown


def test_a_loss_that_is_not_there_yet_is_not_said_to_be_a_nan(world: World) -> None:
    world.run("demo-aaaaaa")
    assert runs.find(world.database, "demo-aaaaaa").loss_text is None
    world.losses("demo-aaaaaa", [NAN, 0.25])
    assert runs.find(world.database, "demo-aaaaaa").loss_text == "0.25"


def test_a_checkpoint_known_to_be_damaged_is_counted_as_home_nowhere(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.run("demo-aaaaaa", state="succeeded", step=20, total_steps=20)
    world.checkpoint("demo-aaaaaa", 10, home=True)
    digest = world.checkpoint("demo-aaaaaa", 20, home=True)
    assert "2 of 2" in printed(capsys, "ps", "--cached")
    checkpoints.mark_trouble(world.database, "demo-aaaaaa", digest, "damaged at home: model.safetensors")
    assert "1 of 2" in printed(capsys, "ps", "--cached")
    (line,) = [line for line in printed(capsys, "show", "demo").splitlines() if "checkpoint-20 " in line]
    assert "damaged at home, also on box: " in line
    assert "(damaged at home: model.safetensors)" in line
    listed = printed(capsys, "sync", "ls")
    assert "1 (2.1 GB), 1 damaged" in listed
    assert "all home" not in listed
    (run,) = json.loads(printed(capsys, "sync", "ls", "--json"))
    assert (run["home"], [each["step"] for each in run["damaged"]]) == (1, [20])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "1 home 1 damaged")
        await pilot.press("enter")
        await shows(pilot, "1 home, 1 damaged at home")
        await pilot.press("h")
        await shows(pilot, "damaged at home: model.safetensors")
        await pilot.press("4")
        await shows(pilot, "1 damaged 1 home")

    drive(world.board(), use)


def test_a_run_of_another_home_is_stopped_only_after_its_home_was_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = {"job": {"argv": ["true"]}, "experiment": {}}
    other = {"id": "ab" * 16, "label": "ada@desktop", "path": "/home/ada"}
    world.run("theirs-aaaaaa", spec={**spec, "home": other})
    world.run("ours-bbbbbb", spec={**spec, "home": own(world.home).as_json()})
    world.run("old-cccccc", spec=spec, state="failed")
    asked: list[list[str]] = []
    monkeypatch.setattr(
        "armada.tui.operations.start", lambda _home, _title, words, _tell, **_: asked.append(list(words))
    )

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "theirs", "ours", "old")
        await pilot.press("a", "x")
        words = await shows(pilot, "Stop 2 runs?", "1 run of another home")
        (line,) = [line for line in words.splitlines() if "launched by" in line]
        assert "theirs-aaaaaa on box, running, launched by ada@desktop (home abababab)" in line
        assert asked == []
        await pilot.press("y")

    drive(world.board(), use)
    assert sorted(asked) == [["stop", "--other-home", "theirs-aaaaaa"], ["stop", "ours-bbbbbb"]]


def test_ps_in_an_empty_home_reads_no_configuration(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armada.cli.context.Context.hosts", lambda _: pytest.fail("it costs 0.2 s"))
    assert "No runs." in printed(capsys, "ps")


def test_ps_says_that_the_hosts_file_is_wrong_also_where_no_run_is_to_be_looked_at(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.home.hosts_file.write_text("hosts:\n  box: {sssh: root@box}\n")
    assert armada(["ps"]) == 2
    assert "hosts.yaml:2" in capsys.readouterr().err


def test_without_utf8_everything_on_every_screen_is_ascii(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    world.hosts(box={"ssh": "root@box", "price_per_hour": 2.5})
    world.run("demo-aaaaaa", name="größe-日本", step=5, total_steps=10)
    world.losses("demo-aaaaaa", [2.0, 1.0])
    world.checkpoint("demo-aaaaaa", 5, home=False)
    world.run("dead-bbbbbb", state="failed", reason="oom")
    telemetry.record(world.database, "box", [telemetry.Point(0, time.time(), 9.0, 1 << 30, 99.0, 41.0)])

    async def use(pilot: Pilot[None]) -> None:
        words = await shows(pilot, "grose-????", "50%", "1 needs you")
        for keys in (
            ["x"],
            ["escape", "2"],
            ["c"],
            ["l"],
            ["h"],
            ["e"],
            ["f"],
            ["3"],
            ["4"],
            ["5"],
            ["escape", "question_mark"],
        ):
            await pilot.press(*keys)
            await pilot.pause()
            words = screen(pilot)
            assert words.isascii(), sorted({sign for sign in words if not sign.isascii()})
            if keys == ["3"]:
                await shows(pilot, "temperature C")

    drive(world.board(), use)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_help_the_palette_and_the_way_out_are_always_at_the_bottom(world: World, width: int) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        for place in "1234":
            await pilot.press(place)
            await pilot.pause()
            bottom = screen(pilot).splitlines()[-1]
            assert bottom.endswith("? help  ^p all  q quit"), bottom
            if place == "1":
                assert "x stop" in bottom
                assert "u resume" in bottom
        await pilot.press("5")
        bottom = (await shows(pilot, "^l launch")).splitlines()[-1]
        assert "esc leaves the field" in bottom
        assert "q quit" not in bottom
        assert "^p all" in bottom

    drive(world.board(), use, (width, 30))


def test_money_says_what_all_priced_hosts_burn_and_what_of_it_is_idle(world: World) -> None:
    world.hosts(box={"ssh": "root@box", "price_per_hour": 2.5}, spare={"ssh": "root@spare", "price_per_hour": 122.5})
    world.run("demo-aaaaaa", host="box")

    async def use(pilot: Pilot[None]) -> None:
        top = (await shows(pilot, "burning $125.00/h (idle $122.50)", "for runs this week")).splitlines()[0]
        assert re.search(r"running  burning \$125\.00/h \(idle \$122\.50\)  \$2\.\d\d for runs this week", top)
        tabs = " armada  1 Runs  2 Run  3 Hosts  4 Sync  5 Launch  6 Compare  "
        assert top.startswith(tabs)
        facts = top.removeprefix(tabs).strip()
        assert "   " not in facts.removesuffix("no daemon").rstrip()

    drive(world.board(), use, (170, 40))


def test_events_are_words(world: World) -> None:
    world.run("demo-aaaaaa")
    event = {
        "seq": 1,
        "time": 1.0,
        "kind": "state",
        "attempt": 1,
        "state": "failed",
        "reason": "oom",
        "exit": {"code": 9},
    }
    metrics.record_events(
        world.database, "demo-aaaaaa", [{**event, "free_bytes": 2_000_000, "host": None}], offset=0, next_offset=1
    )

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "e")
        words = await shows(pilot, "failed · oom · exit.code 9 · free 2.0 MB")
        assert "{" not in words

    drive(world.board(), use)


def test_the_step_of_a_checkpoint_event_comes_first_and_its_digest_last(world: World) -> None:
    world.run("demo-aaaaaa")
    event = {"seq": 1, "time": 1.0, "kind": "checkpoint", "digest": "9" * 64, "size_bytes": 62, "step": 40}
    metrics.record_events(world.database, "demo-aaaaaa", [event], offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "e")
        await shows(pilot, f"step 40 · size 62 B · digest {'9' * 8}")

    drive(world.board(), use, (80, 24))


@pytest.mark.parametrize(("state", "expects"), [("running", True), ("failed", False)])
def test_only_a_run_that_has_not_ended_is_said_to_get_points_yet(world: World, state: str, expects: bool) -> None:
    world.run("demo-aaaaaa", state=state)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2", "c")
        words = await shows(pilot, "no points of this metric")
        assert ("the next check of the host brings them" in words) is expects

    drive(world.board(), use)


@pytest.mark.parametrize(
    ("typed", "first"),
    [("r.y", "r.yaml"), ("r", "r.yaml"), ("bar", "bar.yaml"), ("sub/r", "sub/r.yaml"), ("br", "bar.yaml")],
)
def test_the_chooser_offers_first_what_is_called_what_was_typed(world: World, typed: str, first: str) -> None:
    taken: list[str | None] = []

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet")
        choices = [Choice(name, name) for name in ("bar.yaml", "sub/r.yaml", "r.yaml")]
        pilot.app.push_screen(Chooser("Which?", choices, UNICODE), taken.append)
        await shows(pilot, "Which?")
        await pilot.press(*["slash" if key == "/" else "full_stop" if key == "." else key for key in typed], "enter")
        await until(pilot, lambda: taken)

    drive(world.board(), use)
    assert taken == [first]


def test_a_theme_that_was_chosen_is_there_the_next_time(world: World) -> None:
    async def choose(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "theme" in said(pilot))
        chosen.append(pilot.app.theme)

    async def look(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet")
        chosen.append(pilot.app.theme)

    chosen: list[str] = []
    drive(world.board(), choose)
    drive(world.board(), look)
    assert chosen[0] == chosen[1] != "armada-dark"
    (world.home.state / "dashboard" / "chosen.json").write_text("[")
    drive(world.board(), look)


def test_the_end_of_a_long_line_of_a_log_can_be_reached(world: World) -> None:
    world.run("demo-aaaaaa", host="local", state="succeeded")
    output = world.home.local_root / "runs" / "demo-aaaaaa" / "output.log"
    output.parent.mkdir(parents=True)
    output.write_text("begin " + "x" * 150 + " the end\n")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "begin xxx")
        await pilot.press("right")
        words = await shows(pilot, "x the end", "from column 70")
        assert "begin" not in words
        await pilot.press("left")
        await shows(pilot, "begin xxx")

    drive(world.board(), use, (140, 30))


def test_the_cursor_goes_to_the_run_that_was_just_launched(world: World) -> None:
    world.run("old-aaaaaa", host="box")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "old-aaaaaa")
        board, table = pilot.app, pilot.app.screen.table  # type: ignore[attr-defined]  # it is the screen of the runs
        board.await_run("box")  # type: ignore[attr-defined]  # it is the dashboard
        world.run("other-bbbbbb", host="elsewhere")
        await shows(pilot, "other-bbbbbb")
        assert table.cursor == "old-aaaaaa"
        world.run("new-cccccc", host="box")
        await until(pilot, lambda: table.cursor == "new-cccccc")

    drive(world.board(), use)


def test_chosen_columns_say_nan_as_the_usual_ones_do(world: World) -> None:
    world.run("demo-aaaaaa", step=30, total_steps=100)
    world.losses("demo-aaaaaa", [2.0] * 9 + [NAN] * 20)
    remembered.keep_columns(world.home, ["name", "loss"])

    async def use(pilot: Pilot[None]) -> None:
        words = await shows(pilot, "its loss is NaN")
        assert [line for line in words.splitlines() if "demo-aaaaaa" in line and "NaN" in line]

    drive(world.board(), use)
