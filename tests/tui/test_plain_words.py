"""Small words of the screens: what is cut is marked, what is empty is left out, and no absence is claimed that is not known."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from armada.store import metrics, runs
from armada.tui.app import Dashboard
from armada.tui.screens.preview_window import PreviewWindow
from armada.tui.screens.verdict import Verdict
from armada.tui.symbols import ASCII, UNICODE
from tests.tui.conftest import World, drive, heard, shows, until


@pytest.mark.parametrize(("locale", "mark"), [("C", "~"), ("C.UTF-8", "…")])
def test_a_long_name_beside_the_tabs_is_cut_with_a_mark(
    world: World, monkeypatch: pytest.MonkeyPatch, locale: str, mark: str
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    run_id = "a-rather-long-name-4k2m9x"
    world.run(run_id)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "a-rather-long")
        await pilot.press("enter")
        seen = await shows(pilot, "overview  charts", f"{mark} ")
        line = next(line for line in seen.splitlines() if "overview  charts" in line)
        name = line.partition(" overview")[0].strip()
        assert name.endswith(mark)
        assert run_id.startswith(name.removesuffix(mark))

    drive(world.board(), use, (80, 24))


def test_in_ascii_the_mark_of_a_cut_differs_from_a_dot() -> None:
    assert ASCII.text("too long a wo…") == "too long a wo~"
    assert ASCII.text("…-64") == "~-64"
    assert ASCII.text("reading …") == "reading ."
    assert UNICODE.text("a wo… …") == "a wo… …"


def script(world: World) -> None:
    unset: dict[str, object] = {"data": None, "train": {}, "tags": []}
    spec = {"job": {"argv": ["true"]}, "experiment": {"task": "command", "command": ["true"], **unset}}
    runs.insert(
        world.database, run_id="demo-aaaaaa", name="demo", host="box", task="command", experiment="e.yaml", spec=spec
    )


def test_the_overview_of_a_command_leaves_out_what_is_not_set_and_promises_no_loss(world: World) -> None:
    script(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo", "no loss recorded")
        await pilot.press("enter")
        seen = await shows(pilot, "─ Settings ─", "command", "no metrics recorded")
        inside = seen.partition("─ Settings ─")[2]
        assert "not set" not in inside
        assert "{}" not in inside
        assert "no loss" not in seen

    drive(world.board(), use, (160, 48))


@pytest.mark.parametrize("where", ["run", "compare"])
def test_a_filter_does_not_claim_what_is_not_kept(world: World, where: str) -> None:
    world.run("demo-aaaaaa")
    world.run("more-bbbbbb")
    names = [f"layer/{number}" for number in range(metrics.MOST_SERIES + 100)]
    line = {"kind": "train", "step": 1, "time": 1.0, **dict.fromkeys(names, 1.5)}
    assert metrics.record_metrics(world.database, "demo-aaaaaa", [line], offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa", "more-bbbbbb")
        if where == "run":
            await until(pilot, lambda: isinstance(pilot.app, Dashboard) and bool(pilot.app.snapshot.runs))
            assert isinstance(pilot.app, Dashboard)
            pilot.app.open_run("demo-aaaaaa")
            await pilot.press("c")
        else:
            await pilot.press("a", "c")
        await shows(pilot, "layer/0")
        await pilot.press("slash", *"zebra")
        await shows(pilot, "none of the 500 kept metrics matches zebra; 100 are not kept")
        if where == "compare":
            await pilot.press("escape", "slash", *"layer/9")
            await shows(pilot, "of the 500 kept metrics match layer/9; 100 are not kept")

    drive(world.board(), use, (150, 40))


def test_a_preview_has_its_keys_in_the_lower_edge(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(PreviewWindow("The data", ["one row"]))
        seen = await shows(pilot, "─ The data ─", "esc close", "one row")
        assert "Esc closes" not in seen

    drive(world.board(), use)


@pytest.mark.parametrize(("width", "is_long"), [(80, True), (160, False)])
def test_a_long_verdict_is_said_once(world: World, width: int, is_long: bool) -> None:
    async def use(pilot: Pilot[None]) -> None:
        items = [{"run_id": "demo-aaaaaa", "what": "a checkpoint", "lost": True}]
        answer = {"safe": False, "items": items, "scheduler": "direct"}
        name = "a-host-whose-name-is-long"
        pilot.app.push_screen(Verdict(name, answer, UNICODE))
        seen = await shows(pilot, "demo-aaaaaa: a checkpoint")
        assert (f"Release {name}?" in seen) is is_long
        assert seen.count("1 thing") == 1

    drive(world.board(), use, (width, 30))


@pytest.mark.parametrize(
    ("name", "is_told"), [("nosuch[b]", True), ("nord", False), ("textual-dark", False), ("", False)]
)
def test_a_theme_that_does_not_exist_is_named_with_those_that_do(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, is_told: bool
) -> None:
    monkeypatch.setenv("ARMADA_THEME", name)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Runs")
        told = [words for words in heard(pilot) if "ARMADA_THEME" in words]
        assert bool(told) is is_told
        if is_told:
            assert "nosuch[b] is no theme; there are armada-dark, armada-light," in told[0]

    drive(world.board(), use)
