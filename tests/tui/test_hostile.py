"""What a host says is shown, never obeyed."""

from __future__ import annotations

import json
import re

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from armada.store import checkpoints, hosts, metrics, runs
from armada.tui.app import Dashboard
from armada.tui.operations import Answer
from armada.tui.screens.hosts import HostsScreen
from armada.tui.screens.verdict import Verdict
from armada.tui.symbols import UNICODE
from tests.tui.conftest import World, drive, heard, lacks, screen, shows, strips, until

HOSTILE = [
    "\x1b[2J\x1b]52;c;aGFja2Vk\x07",
    "\x9b31mred\x85\x90q",
    "[@click=app.exit]press me[/]",
    "[/foo][bold]markup[/bold",
    "\u202egnp.exe\u2066",
    "tab\there\r\nline two\x00",
    "\ud800 lone",
    "wide 日本語 🚀 e\u0301",
    "x" * 200_000,
]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_text_is_inert_on_every_screen(world: World, text: str) -> None:
    stored = text.encode("utf-8", "replace").decode()  # SQLite takes no lone surrogates
    spec = {"job": {"argv": [stored]}, "experiment": {stored[:200]: stored}}
    world.run("demo-aaaaaa", name=stored, host=stored, reason=stored, message=stored, spec=spec, phase=stored)
    runs.mark_unreachable(world.database, ["demo-aaaaaa"], stored)
    world.run("real-bbbbbb", host="local")
    gpu = {"index": 0, "name": stored, "processes": [{"run_id": stored}, {"pid": stored}]}
    queue = {"waiting": [{"run_id": stored, "since": stored}], "mine": {stored: 1}, "quota": stored, "error": stored}
    queue["partitions"] = [{"name": stored, "gpus": stored, "state": stored, "time_limit": stored}]
    facts = {"gpus": [gpu], "queue": queue, "environments": {stored: stored}, "machine": stored}
    hosts.record_facts(world.database, stored, facts)
    hosts.record_facts(world.database, "local", facts)
    digest = world.checkpoint("demo-aaaaaa", 7, home=False)
    checkpoints.mark_trouble(world.database, "demo-aaaaaa", digest, stored)
    hosts.mark_unreachable(world.database, stored, stored)
    event = {"seq": 1, "time": 1.0, "kind": stored, "message": text}
    metrics.record_events(world.database, "demo-aaaaaa", [event], offset=0, next_offset=1)
    line = {"kind": "train", "step": 1, "time": 1.0, stored[:80]: 1.0, "loss": 1.0}
    metrics.record_metrics(world.database, "demo-aaaaaa", [line], offset=0, next_offset=1)
    log = world.home.local_root / "runs" / "real-bbbbbb" / "output.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(text.encode("utf-8", "surrogatepass") + b"\xff\xfe\nthe end\n")

    async def use(pilot: Pilot[None]) -> None:
        seen = [await shows(pilot, "needs you", "unreachable since")]
        for keys in (("enter",), ("c",), ("v", "v"), ("e",), ("f",), ("3",), ("4",), ("1", "a", "c"), ("1", "x")):
            await pilot.press(*keys)
            await pilot.pause(0.1)
            seen.append(screen(pilot))
        await pilot.press("escape", "escape", "home", "enter", "f", "d")
        seen.append(await shows(pilot, "Compare its settings with which run?"))
        await pilot.press("enter")
        seen.append(await shows(pilot, "SETTING"))
        await pilot.press("h")
        seen.append(await shows(pilot, "checkpoint-7"))
        await pilot.press("P")
        seen.append(await shows(pilot, "into which folder?"))
        await pilot.press("escape", "5", "ctrl+o", "escape", "tab", "ctrl+o")
        seen.append(await shows(pilot, "On which host?"))
        await pilot.press("escape", "escape")
        await pilot.press("end", "l")
        seen.append(await shows(pilot, "the end"))
        for picture in seen:
            assert not OBEYED.search(picture.replace("\n", "")), ascii(OBEYED.search(picture.replace("\n", "")))
        assert pilot.app.is_running

    drive(world.board(), use)


def test_a_click_on_hostile_markup_does_nothing(world: World) -> None:
    world.run("demo-aaaaaa", name="[@click=app.leave]press me[/]")

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "[@click=app.leave]press me[/]")
        y = next(y for y, line in enumerate(seen.splitlines()) if "press me" in line)
        await pilot.click(offset=(24, y))
        await pilot.pause()
        assert pilot.app.is_running

    drive(world.board(), use)


@pytest.mark.parametrize("step_time_s", [1e308, -1e308])
def test_a_step_time_that_no_run_has_ends_nothing(world: World, step_time_s: float) -> None:
    world.run("demo-aaaaaa", step=5, total_steps=1000)
    line = {"kind": "train", "step": 5, "time": 1.0, "step_time_s": step_time_s}
    metrics.record_metrics(world.database, "demo-aaaaaa", [line], offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "1 of 1 runs")
        await pilot.press("enter")
        await shows(pilot, "5 of 1,000")

    drive(world.board(), use)


def test_what_an_operation_says_is_inert_too(world: World) -> None:
    from armada.store.running_operations import operation

    with operation(world.database, kind="launch", argv=["armada"], host="box") as progress:
        progress.step("provision", "[@click=app.exit]\x1b[2Jbuilding", done=1, total=2)
        stored = world.database.connection.execute("SELECT message FROM operations").fetchone()[0]
        assert json.dumps(stored)

        async def use(pilot: Pilot[None]) -> None:
            seen = await shows(pilot, "launch box: provision [@click=app.exit]", "50%")
            assert "\x1b" not in seen

        drive(world.board(), use)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_what_a_host_answers_when_it_is_asked_is_inert_in_the_question(world: World, text: str) -> None:
    said = json.dumps(
        {
            "safe": False,
            "ssh": text,
            "items": [{"run_id": text, "what": text, "hint": text, "lost": True}, {"run_id": text, "lost": "x"}, 7],
            "offered": [{"alias": text, "algorithm": text, "fingerprint": text}, {"fingerprint": 7}],
            "pinned_before": text,
        }
    )
    answer = Answer(0, said.encode("utf-8", "replace").decode(), text)
    world.hosts(box={"ssh": "root@192.0.2.1"})

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "– box")
        view = pilot.app.screen
        assert isinstance(view, HostsScreen)
        for question in (view.compare, view.judge):
            question(text, answer)
            await until(pilot, lambda: len(pilot.app.screen_stack) == 3)
            await pilot.pause()
            seen = screen(pilot)
            assert not OBEYED.search(seen.replace("\n", "")), ascii(seen)
            await pilot.press("escape")
        for nothing in ("", "7", "[]", "{}", "\ud800"):
            view.compare("box", Answer(4, nothing, text))
        view.judge(text, Answer(4, "", text))
        seen = await shows(pilot, "It is unknown what")
        assert not OBEYED.search(seen.replace("\n", "")), ascii(seen)
        await pilot.press("escape")
        await lacks(pilot, "It is unknown what")
        board = pilot.app
        assert isinstance(board, Dashboard)
        assert not OBEYED.search("".join(heard(pilot)).replace("\n", ""))
        assert len(board.screen_stack) == 2

    drive(world.board(), use)


def test_a_verdict_is_safe_only_if_it_says_so_and_names_nothing_that_would_be_lost(world: World) -> None:
    for answer, safe in (
        ({"safe": True, "items": []}, True),
        ({"safe": True, "items": [{"run_id": "r", "what": "w", "lost": False}]}, True),
        ({"safe": True, "items": [{"run_id": "r", "what": "w", "lost": True}]}, False),
        ({"safe": True, "items": [{"run_id": "r"}]}, False),
        ({"safe": 1, "items": []}, False),
        ({"items": []}, False),
        ({}, False),
    ):
        assert Verdict("box", answer, UNICODE).safe is safe, answer


@pytest.mark.parametrize(("layers", "more"), [(600, "102"), (5_000, "At least 500")])
def test_very_many_metrics_with_long_and_foreign_names_are_charted_and_the_limit_is_said(
    world: World, layers: int, more: str
) -> None:
    names = ["x" * 300, "שלום/مرحبا", *(f"layer/{number}/norm" for number in range(layers))]
    world.run("demo-aaaaaa", name="שלום-عالم")
    line = {"kind": "train", "step": 1, "time": 1.0, **dict.fromkeys(names, 1.5)}
    assert metrics.record_metrics(world.database, "demo-aaaaaa", [line], offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "שלום-عالم")
        await pilot.press("2", "c")
        await shows(
            pilot,
            "of 500, no more are kept)",
            f"{more} more metrics are not kept: layer/",
        )
        await shows(pilot, "… All are in metrics.jsonl", "which y brings home")
        outputs = world.home.run("demo-aaaaaa") / "outputs"
        outputs.mkdir(parents=True)
        (outputs / "metrics.jsonl").touch()
        assert metrics.record_metrics(world.database, "demo-aaaaaa", [line], offset=1, next_offset=2)
        await shows(pilot, "All are in /", "metrics.jsonl")
        for filtered in ("xxxx", "שלום"):
            await pilot.press("slash")
            pilot.app.screen.query_one(Input).value = filtered
            await pilot.press("enter")
            await shows(pilot, "(1 of 1 of 500")
            assert {strip.cell_length for strip in strips(pilot.app)} == {80}

    drive(world.board(), use, (80, 24))
