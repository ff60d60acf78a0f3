"""Run, Hosts, Sync, Compare, help and palette, against a real store."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from armada.store import hosts, run_sync, telemetry, transfers
from armada.tui.screens.compare import CompareScreen
from armada.tui.screens.run import RunScreen
from armada.tui.symbols import ASCII, UNICODE, Symbols
from armada.tui.widgets.host_safety import Safety
from armada.tui.widgets.safety import bar
from tests.tui.conftest import World, drive, lacks, said, screen, shows, until

GPU = {
    "index": 0,
    "name": "NVIDIA A100",
    "memory_total_bytes": 80 << 30,
    "memory_used_bytes": 71 << 30,
    "utilization": 98,
    "processes": [{"pid": 1, "run_id": "demo-aaaaaa"}, {"pid": 4711, "run_id": None}],
}


def test_the_run_screen_tells_state_evidence_batch_and_command(world: World) -> None:
    spec = {
        "job": {"argv": ["accelerate", "launch", "train.py"]},
        "training": {"batch": {"global": 16, "micro": 4, "accumulation": 2, "processes": 2}},
        "environment": {"key": "cu130-4f2a"},
        "experiment": {"lora": {"r": 64}},
    }
    world.run("demo-aaaaaa", spec=spec, step=10, total_steps=20)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        await shows(
            pilot, "16 samples a step = micro 4 × accumulate 2 × 2", "cu130-4f2a", "because      evidence", "train.py"
        )
        await pilot.press("f")
        await shows(pilot, "lora.r", "64")
        await pilot.press("escape")
        await shows(pilot, "1 of 1 runs")

    drive(world.board(), use)


def test_charts_step_through_metrics_panels_scale_smoothing_and_zoom(world: World) -> None:
    world.run("demo-aaaaaa", step=100, total_steps=200)
    world.losses("demo-aaaaaa", [3.0 / (1 + step / 10) for step in range(100)])
    world.losses("demo-aaaaaa", [0.1] * 10, name="grad_norm")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("2")
        await pilot.press("c")
        await shows(pilot, "loss (1 of 3)", "100")
        await pilot.press("m")
        await shows(pilot, "grad_norm (2 of 3)")
        await pilot.press("M", "v")
        await shows(pilot, "loss (1 of 3)", "grad_norm (2 of 3)")
        await pilot.press("L", "s")
        await shows(pilot, "(log)", "smoothed 0.6")
        await pilot.press("plus")
        await shows(pilot, "zoomed: 0 shows all")
        await pilot.press("0")
        await lacks(pilot, "zoomed")

    drive(world.board(), use)


def test_new_points_are_drawn_after_those_that_were_there(world: World) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=200)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "c")
        await shows(pilot, "loss (1 of 2)", " 1  lowest 1 · highest 3")
        world.losses("demo-aaaaaa", [0.25, float("nan")])
        await shows(pilot, "loss (1 of 2)", " NaN since step 5, before 0.25")
        view = pilot.app.screen
        assert isinstance(view, RunScreen)
        assert len(view.wall.curves["loss"]) == 5

    drive(world.board(), use)


def test_a_log_is_followed_searched_and_left_at_its_place(world: World) -> None:
    world.run("demo-aaaaaa", host="local")
    log = world.home.local_root / "runs" / "demo-aaaaaa" / "output.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "line 99999", "following")
        with log.open("a") as file:
            file.write("one more\n")
        await shows(pilot, "one more")
        await pilot.press("slash", *"line", "space", *"777", "enter")
        seen = await shows(pilot, "search “line 777”", "line 77799")
        assert "following" not in seen
        await pilot.press("N")
        await shows(pilot, "line 77798")
        await pilot.press("home")
        await shows(pilot, "line 0", "line 20")
        await pilot.press("end")
        await shows(pilot, "one more", "following")

    drive(world.board(), use)


def test_checkpoints_say_where_each_copy_is_and_events_are_listed(world: World) -> None:
    world.run("demo-aaaaaa")
    world.checkpoint("demo-aaaaaa", 100, home=True)
    digest = world.checkpoint("demo-aaaaaa", 200, home=False)
    transfers.begin(world.database, "demo-aaaaaa", digest, 2_100_000_000)
    transfers.progress(world.database, "demo-aaaaaa", digest, 1_050_000_000, 22e6)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", "h")
        seen = await shows(pilot, "checkpoint-200", "50% on its way", "22.0 MB/s")
        line = next(line for line in seen.splitlines() if "checkpoint-100" in line)
        assert "2.1 GB" in line
        assert f"home  {world.home.checkpoints('demo-aaaaaa') / 'checkpoint-100'}" in line
        assert " s ago" in line.rpartition("checkpoint-100")[2], "verified when"
        await pilot.press("e")
        await shows(pilot, "none yet")

    drive(world.board(), use, (300, 40))


def test_a_run_that_is_removed_meanwhile_is_said_to_be_gone(world: World) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter")
        from armada.store import runs

        runs.delete(world.database, "demo-aaaaaa")
        await shows(pilot, "no longer in the store")

    drive(world.board(), use)


def test_hosts_show_gpus_users_strangers_price_disk_and_silence(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": 12.5}, new={"ssh": "root@192.0.2.2"})
    world.run("demo-aaaaaa")
    hosts.record_facts(world.database, "box", {"gpus": [GPU], "disk": {"free_bytes": 412e9, "total_bytes": 2e12}})
    points = [telemetry.Point(0, time.time() - 10 * age, 90.0, 70 << 30, 312.0, 71.0) for age in range(30)]
    telemetry.record(world.database, "box", points)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("3")
        seen = await shows(pilot, "1×A100", "$12.50/h", "412 GB", " 90%", "not checked")
        assert "70/80 GiB" not in seen  # a line, until it is unfolded
        await pilot.press("home", "enter")
        await shows(pilot, "70/80 GiB", "312 W", "71 °C", "▅▅▅", "demo-aaaaaa, stranger (pid 4711)")
        hosts.mark_unreachable(world.database, "box", "no route to host")
        await shows(pilot, "unreachable since", "no route to host")
        await pilot.press("l")
        await shows(pilot, "/ host:box", "1 of 1 runs")

    drive(world.board(), use)


def test_facts_of_any_shape_break_nothing(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"})
    odd = {"gpus": [{"index": [], "name": {}, "processes": "x", "utilization": "much"}, 7], "disk": [1], "x": None}
    hosts.record_facts(world.database, "box", odd)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await shows(pilot, "box")
        await pilot.press("home", "enter")
        await shows(pilot, "/0 GiB  free")

    drive(world.board(), use)


def test_a_high_sync_screen_lists_what_came_home_last(world: World) -> None:
    world.run("demo-aaaaaa")
    world.run("new-bbbbbb", state="succeeded")
    world.checkpoint("demo-aaaaaa", 100, home=True)
    world.checkpoint("demo-aaaaaa", 200, home=False)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "What came home last", "ckpt-100", "1 checkpoint home, 1 only on box")
        world.checkpoint("new-bbbbbb", 7, home=True)
        await shows(pilot, "ckpt-7 ", "new-bbbbbb")
        lines = [line for line in screen(pilot).splitlines() if "ckpt-" in line]
        assert [("new" in line, "demo" in line) for line in lines] == [(True, False), (False, True)]
        await pilot.resize_terminal(120, 30)
        await lacks(pilot, "What came home last")

    drive(world.board(), use, (120, 40))


def test_without_utf8_a_cut_name_ends_in_the_same_mark_everywhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "C")
    long = "long-name-" * 6
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, name=long)
        world.checkpoint(run_id, 100, home=True)
        world.losses(run_id, [3.0, 2.0])

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        seen = await shows(pilot, "What came home last", "ckpt-100")
        assert seen.count(f"{long[:39]}~  ckpt-100") == 2
        await pilot.press("1", "a", "c")
        await shows(pilot, f" a {long[:30]}", "~ 2")

    drive(world.board(), use, (120, 40))


def test_sync_shows_what_moves_what_fails_and_when_it_is_tried_again(world: World) -> None:
    world.run("demo-aaaaaa")
    world.run("home-bbbbbb", state="succeeded")
    world.last_sync("home-bbbbbb")
    digest = world.checkpoint("demo-aaaaaa", 200, home=False)
    now = time.time()
    again_at, why = now + 2.5 * 86_400 + 1800, "connection reset"  # it is 2 d 12 h for half an hour
    transfers.give_up(world.database, "demo-aaaaaa", digest, "failed", why, next_try_at=again_at)
    run_sync.failed(world.database, "demo-aaaaaa", now=now - 7200, reason=why, next_due_at=again_at)

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        seen = await shows(pilot, "failed: connection reset", "retry in 2 d 12 h", "failing for 2 h", "disk at home")
        assert "home-bbbbbb" not in seen

    drive(world.board(), use)


def test_compare_overlays_marked_runs_and_lists_what_differs(world: World) -> None:
    for run_id, rate in (("one-aaaaaa", 1e-4), ("two-bbbbbb", 5e-5)):
        experiment = {"train": {"learning_rate": rate, "seed": 5}}
        world.run(run_id, spec={"job": {"argv": []}, "experiment": experiment}, step=3, total_steps=9)
        world.losses(run_id, [3.0, 2.0, 1.0 + rate])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c")
        seen = await shows(pilot, "loss against step", "train.learning_rate", "0.0001", "5e-05")
        assert "seed" not in seen
        for against in ("time", "tokens", "cost"):
            await pilot.press("b")
            await shows(pilot, f"loss against {against}")
        await shows(pilot, "it needs the host's price")

    drive(world.board(), use)


def test_two_currencies_share_no_axis(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1", "price": "10 EUR"}, other={"ssh": "root@192.0.2.2", "price": "10 USD"})
    for run_id, host in (("one-aaaaaa", "box"), ("two-bbbbbb", "other")):
        world.run(run_id, host=host, step=3, total_steps=9)
        world.losses(run_id, [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c")
        await shows(pilot, "loss against step")
        await pilot.press("b", "b", "b")
        seen = await shows(pilot, "loss against cost", "1 run in another currency left out")
        view = pilot.app.screen
        assert isinstance(view, CompareScreen)
        own, other = ("EUR", "$") if view.chart.unit == "EUR" else ("$", "EUR")
        assert len(view.chart.lines) == 1
        axis = seen.splitlines()[view.chart.region.y : view.chart.region.bottom]
        assert any(own in line for line in axis)
        assert not any(other in line for line in axis)
        costs = [
            line for line in seen.splitlines()[view.chart.region.bottom :] if "-aaaaaa" in line or "-bbbbbb" in line
        ]
        assert [sum(money in line for line in costs) for money in ("EUR", "$")] == [1, 1], "each run in its own"

    drive(world.board(), use)


def test_compare_draws_the_run_whose_curve_the_preview_has_drawn_already(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=3, total_steps=9)
        world.losses(run_id, [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "two-bbbbbb · loss", "lowest 1 ·", "⠉")
        await pilot.press("a", "c")
        view = pilot.app.screen
        assert isinstance(view, CompareScreen)
        await until(pilot, lambda: len([line for line in view.chart.lines if len(line.xs)]) == 2)

    drive(world.board(), use)


@pytest.mark.parametrize("key", ["question_mark", "f1"])
def test_help_lists_the_keys_of_the_screen_first(world: World, key: str) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await shows(pilot, "Stop these runs")
        await pilot.press("escape")
        await lacks(pilot, "Stop these runs")

    drive(world.board(), use)


def test_a_click_into_a_part_of_the_terminal_that_is_gone_does_nothing(world: World) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 2)
        palette = pilot.app.screen
        palette.post_message(events.Click(palette, 500, 500, 0, 0, 1, False, False, False, 500, 500))
        await pilot.press("escape")
        await until(pilot, lambda: len(pilot.app.screen_stack) == 1)

    drive(world.board(), use)


def test_themes_change_and_the_picture_stays(world: World) -> None:
    world.run("demo-aaaaaa", step=3, total_steps=9)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        for name in ("armada-light", "armada-contrast", "nord"):
            await pilot.press("ctrl+t")
            assert pilot.app.theme == name
            await pilot.pause()
            assert "demo-aaaaaa" in screen(pilot)

    drive(world.board(), use)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_it_is_left_at_once_from_anywhere(world: World, key: str) -> None:
    world.run("demo-aaaaaa")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("enter", key)
        await until(pilot, lambda: not pilot.app.is_running)

    drive(world.board(), use)


def test_no_utf8_means_ascii_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C")
    world.run("demo-aaaaaa", name="größe 日本", step=5, total_steps=10)
    world.losses("demo-aaaaaa", [3.0, 2.0, 1.0])

    async def use(pilot: Pilot[None]) -> None:
        seen = await shows(pilot, "grose ????", "######......", "loss")
        ours = [line for line in seen.splitlines() if "aaaaaa" in line or "armada" in line]
        assert all(line.isascii() for line in ours), ours

    drive(world.board(), use)


def test_the_launch_screen_plans_while_one_types_and_refuses_what_preflight_refuses(world: World) -> None:
    Path("exp.yaml").write_text('{"name": "hello", "task": "command", "command": ["echo", "hi"]}')

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await shows(pilot, "Type an experiment and a host")
        await pilot.press(*"exp", "full_stop", *"yaml", "tab", *"local")
        await shows(pilot, "one command on local", "^l launches this plan", "echo hi")
        await pilot.press("tab", *"nonsense=1")
        await shows(pilot, "nonsense")
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "no plan" in said(pilot))

    drive(world.board(), use)


def test_the_launch_screen_compares_all_hosts_when_asked(world: World) -> None:
    world.hosts(twin={"local": True, "root": str(Path("twin").absolute()), "price_per_hour": 2.0})
    Path("exp.yaml").write_text('{"name": "hello", "task": "command", "command": ["echo", "hi"]}')

    async def use(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await shows(pilot, "Enter in an empty host field compares all hosts")
        await pilot.press(*"exp", "full_stop", *"yaml", "tab", "enter")
        seen = await shows(pilot, " possible", "$2.00/h", "echo hi", "choose a host: enter on its row")
        possible = [line for line in seen.splitlines() if " possible" in line]
        assert sorted(name for name in ("local", "twin") for line in possible if name in line) == ["local", "twin"]
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "an experiment and a host are needed" in said(pilot))

    drive(world.board(), use)


def test_a_bar_has_a_cell_for_each_kind_of_checkpoint_there_is() -> None:
    spans = bar(UNICODE, Safety("box", home=1000, only_host=3, damaged=1), moving=1, width=10)
    assert [(len(words), style) for words, style in spans] == [(7, "good"), (1, "accent"), (1, "warn"), (1, "bad")]
    assert "".join(words for words, _ in spans) == UNICODE.full * 7 + UNICODE.empty * 3, "only what is at home is full"
    assert bar(UNICODE, Safety("box"), 0, 10) == [(UNICODE.empty * 10, "faint")]


def test_a_bar_is_full_only_if_all_is_at_home_also_without_colours() -> None:
    def drawn(symbols: Symbols, *, since: float | None = None, moving: int = 0, **counts: int) -> str:
        safety = Safety("box", **counts)
        safety.unreachable_since = since
        return "".join(words for words, _ in bar(symbols, safety, moving, 10))

    for symbols in (UNICODE, ASCII):
        full, empty = symbols.full, symbols.empty
        assert drawn(symbols, home=3) == full * 10
        assert drawn(symbols, home=999, only_host=1) == full * 9 + empty
        assert drawn(symbols, home=1, only_host=1, moving=1) == full * 5 + empty * 5
        assert drawn(symbols, home=1, damaged=999) == full + empty * 9
        assert drawn(symbols, only_host=4, moving=1) == empty * 10
        assert drawn(symbols, home=9, since=1.0) == full * 9 + empty, "nobody knows what it has"


def test_sync_shows_how_safe_each_host_is(world: World) -> None:
    world.hosts(box={"ssh": "root@192.0.2.1"}, spare={"ssh": "root@192.0.2.2"})
    world.run("demo-aaaaaa", host="box", state="succeeded")
    world.run("more-bbbbbb", host="spare", state="succeeded")
    world.checkpoint("demo-aaaaaa", 7, home=True)
    world.checkpoint("demo-aaaaaa", 8, home=False)
    world.checkpoint("more-bbbbbb", 9, home=True)
    world.last_sync("more-bbbbbb")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("4")
        seen = await shows(pilot, "Is everything safe?", "not safe to destroy: 1 checkpoint only there")
        lines = seen.splitlines()
        bars = [line for line in lines if UNICODE.full in line and "checkpoint" in line]
        risky, safe = (next(line for line in bars if host in line) for host in ("box", "spare"))
        assert lines.index(risky) < lines.index(safe)
        assert "1 checkpoint home · 3 r before you destroy it" in safe

    drive(world.board(), use)
