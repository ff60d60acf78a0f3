"""A handful of screens as they look, at the smallest size that is promised and at a large one; behaviour is tested elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from armada.store import hosts, run_sync, runs, telemetry, transfers
from armada.store.telemetry import Point
from armada.tui import remembered
from armada.tui.operations import Answer
from armada.tui.screens.launch import LaunchScreen, Planned
from armada.tui.widgets.field import Field
from armada.verdicts.states import Verdict
from tests.tui.conftest import World, drive, shows, until
from tests.tui.picture import looks_like

NOW = 1_790_000_000.0
SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 48)], ids=["80x24", "160x48"])


@pytest.fixture
def still(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which no time passes, no cursor blinks and every disk is alike."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setattr(Field, "_toggle_cursor", lambda _: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=10**12, used=4 * 10**11, free=6 * 10**11))
    return world


def fill(world: World) -> None:
    """One of each: runs well, waits, is lost, fails, is over."""
    prices = {"a100-1": 12.4, "workstation": None}
    world.hosts(**{name: {"ssh": f"root@{name}.example", "price_per_hour": price} for name, price in prices.items()})
    steps: dict[str, Any] = {
        "total_steps": 20_000,
        "tokens_per_s": 39_800.0,
        "step_time_s": 0.7,
        "gpus": "[0, 1, 2, 3, 4, 5, 6, 7]",
    }
    world.run("arc-r128-aaaaaa", name="arc-r128", host="a100-1", step=14_400, **steps)
    world.losses("arc-r128-aaaaaa", [0.4 + 2.0 / (1 + step / 8) + 0.05 * (step % 3) for step in range(120)])
    world.checkpoint("arc-r128-aaaaaa", 14_000, home=True)
    world.run("sweep-lr1e-4-bbbbbb", name="sweep/lr1e-4", host="condor", state="queued")
    world.run("dora-cccccc", name="dora", host="workstation", step=6_600, **steps)
    runs.mark_unreachable(world.database, ["dora-cccccc"], "no route to host")
    world.run(
        "wide-dddddd", name="wide", host="a100-1", state="failed", reason="oom", message="CUDA out of memory on rank 3"
    )
    world.run("lora-eeeeee", name="größe-日本", host="workstation", state="succeeded", loss=0.455)
    world.checkpoint("lora-eeeeee", 20_000, home=True)
    for run_id in ("wide-dddddd", "lora-eeeeee"):
        world.last_sync(run_id)
    runs.record(
        world.database, "arc-r128-aaaaaa", Verdict("running", attempt=1, seq=2), tokens_per_s=39_800.0, step=14_400
    )


@SIZES
def test_runs(still: World, size: tuple[int, int]) -> None:
    fill(still)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128", "no route to host", "loss")
        await looks_like(pilot, "runs")

    drive(still.board(), use, size)


@SIZES
def test_pins_and_columns(still: World, size: tuple[int, int]) -> None:
    fill(still)
    remembered.keep_pinned(still.home, ["lora-eeeeee"])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128", "no route to host", "loss")
        await looks_like(pilot, "runs-pinned")
        await pilot.press("C", "down", "down", "space")
        await shows(pilot, "the newest loss", "9 columns")
        await looks_like(pilot, "columns")

    drive(still.board(), use, size)


@SIZES
def test_first_start(still: World, size: tuple[int, int]) -> None:
    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet")
        await looks_like(pilot, "first-start")

    drive(still.board(), use, size)


@SIZES
def test_a_filter_that_finds_nothing(still: World, size: tuple[int, int]) -> None:
    fill(still)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128")
        await pilot.press("slash", *"nowhere", "enter")
        await looks_like(pilot, "nothing-found")

    drive(still.board(), use, size)


@SIZES
def test_a_store_that_cannot_be_read(still: World, size: tuple[int, int]) -> None:
    fill(still)

    async def use(pilot: Pilot[None]) -> None:
        await looks_like(pilot, "runs")
        still.database.connection.execute("ALTER TABLE revision RENAME TO gone")
        await shows(pilot, "the store cannot be read")
        await looks_like(pilot, "store-trouble")

    drive(still.board(), use, size)


@SIZES
def test_a_question_before_runs_are_stopped(still: World, size: tuple[int, int]) -> None:
    fill(still)

    async def use(pilot: Pilot[None]) -> None:
        await looks_like(pilot, "runs")  # what is under a question is not drawn anew
        await pilot.press("a", "x")
        await looks_like(pilot, "stop")

    drive(still.board(), use, size)


@SIZES
def test_curves(still: World, size: tuple[int, int]) -> None:
    fill(still)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128", "loss")
        pilot.app.open_run("arc-r128-aaaaaa", "charts")  # type: ignore[attr-defined]  # it is the dashboard
        await shows(pilot, "loss (1 of 2)")
        await looks_like(pilot, "curves")

    drive(still.board(), use, size)


@SIZES
def test_the_overview_of_a_run(still: World, size: tuple[int, int]) -> None:
    fill(still)
    gpus = [{"index": at, "name": "A100", "memory_total_bytes": 80 << 30} for at in range(8)]
    hosts.record_facts(still.database, "a100-1", {"gpus": gpus})
    points = [
        Point(at, NOW - 10 * back, 90.0 + at - 40 * (back == 20), 71 << 30, 312.0, 71.0)
        for at in range(8)
        for back in range(90)
    ]
    telemetry.record(still.database, "a100-1", points)
    still.losses("arc-r128-aaaaaa", [0.19] * 3, name="time/backward")
    still.losses("arc-r128-aaaaaa", [0.06] * 3, name="time/data")
    log = still.home.run("arc-r128-aaaaaa") / "outputs" / "output.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"step {step}  loss 0.4\n" for step in range(60)) + "WARNING a batch was cut\n")
    os.utime(log, (NOW - 60, NOW - 60))

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128", "loss")
        pilot.app.open_run("arc-r128-aaaaaa")  # type: ignore[attr-defined]  # it is the dashboard
        await shows(pilot, "lowest", "backward", "a batch was cut", "1 home")
        await looks_like(pilot, "overview")

    drive(still.board(), use, size)


@SIZES
def test_sync_with_a_failure(still: World, size: tuple[int, int]) -> None:
    fill(still)
    digest = still.checkpoint("arc-r128-aaaaaa", 14_400, home=False)
    transfers.begin(still.database, "arc-r128-aaaaaa", digest, 2_100_000_000)
    transfers.progress(still.database, "arc-r128-aaaaaa", digest, 700_000_000, 2.2e7)
    lost = still.checkpoint("dora-cccccc", 6_000, home=False)
    transfers.give_up(still.database, "dora-cccccc", lost, "failed", "connection reset", next_try_at=NOW + 200)
    run_sync.failed(still.database, "dora-cccccc", now=NOW - 7200, reason="connection reset", next_due_at=NOW + 200)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128")
        await pilot.press("4")
        await shows(pilot, "connection reset")
        await looks_like(pilot, "sync")

    drive(still.board(), use, size)


@SIZES
def test_launch(still: World, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(still)
    Path("exp.yaml").write_text(
        "name: arc\ntask: sft\nmodel: {tiny: {}}\ndata: {train: [{path: a.jsonl}]}\n"
        "train:\n  global_batch_size: 16   # of all ranks\n  max_steps: 400\n  learning_rate: 3.0e-3\nlora: {r: 16}\n"
    )
    Path("a.jsonl").write_text('{"messages": []}\n')
    monkeypatch.setattr("armada.tui.asking.Asking.ask", lambda *_: None)  # the plan is the one below

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r128")
        await pilot.press("5")
        await shows(pilot, "Type an experiment and a host")
        launch = pilot.app.screen
        assert isinstance(launch, LaunchScreen)
        for name, value in (("experiment", "exp.yaml"), ("host", "a100-1"), ("set", "lora.r=128 train.seed=7")):
            launch.fields[name].value = value
        await until(pilot, lambda: launch.form.form is not None and launch.asked is not None)
        launch.on_planned(Planned(launch.asked or (), Answer(0, json.dumps(PLANS), "")))
        await pilot.press("escape", "home")
        if size[0] < 110:
            await looks_like(pilot, "launch-form")
            await pilot.press("tab", "tab")
        await looks_like(pilot, "launch")

    drive(still.board(), use, size)


RANGE = {"low": 36_000.0, "middle": 40_000.0, "high": 50_000.0}
PLANS: dict[str, object] = {
    "fastest": "a100-1",
    "hosts": [
        {
            "name": "a100-1",
            "outcome": "possible",
            "gpus": 8,
            "gpu": "NVIDIA A100-SXM4-80GB",
            "command": ["python", "-m", "armada_train.launch", "--spec", "runs/arc-7k3f9d/spec.json"],
            "batch": {"global": 16, "micro": 1, "accumulation": 2, "processes": 8},
            "memory": {"total_bytes": 61e9, "low_bytes": 55e9, "high_bytes": 68e9},
            "estimate": {
                "seconds": RANGE,
                "cost": {"low": 120.0, "middle": 137.0, "high": 170.0},
                "price_per_hour": 12.4,
                "currency": "USD",
                "wait": "8 of 8 GPUs free",
                "wait_s": 0.0,
                "said": "3 earlier runs of this model",
                "disk_needed_bytes": 30e9,
                "disk_free_bytes": 412e9,
            },
            "send_bytes": 3_100_000,
            "checks": [
                {
                    "code": "ARM014",
                    "outcome": "warn",
                    "message": "4.1 % of samples are too long",
                    "hint": "max_length: 8192",
                },
                {"code": "ARM003", "outcome": "ok", "message": "precision bf16", "hint": None},
                {"code": "ARM007", "outcome": "ok", "message": "clocks agree", "hint": None},
            ],
        },
        {
            "name": "workstation",
            "outcome": "unreachable",
            "error": {"message": "no answer within 5 s", "hint": "armada hosts check workstation"},
        },
    ],
}


def test_a_picture_that_differs_says_where_and_how_to_keep_the_new_one(
    still: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tui.picture.FOLDER", still.home.state)
    monkeypatch.setattr("tests.tui.picture.UPDATING", False)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "Nothing has been launched yet")
        (still.home.state / "first-start-80x24.txt").write_text("something else\n")
        with pytest.raises(pytest.fail.Exception) as failure:
            await looks_like(pilot, "first-start")
        assert "-something else" in str(failure.value)
        assert "│  Nothing has been launched yet. To begin:" in str(failure.value)
        assert "ARMADA_UPDATE_PICTURES=1" in str(failure.value)

    drive(still.board(), use, (80, 24))


@SIZES
def test_compare(still: World, size: tuple[int, int]) -> None:
    prices = {"a100-1": "12.40 USD", "workstation": "2.50 USD"}
    still.hosts(**{name: {"ssh": f"root@{name}.example", "price": price} for name, price in prices.items()})
    for number, (rate, rank, kind) in enumerate([(1e-5, 8, "cosine"), (1e-4, 16, "linear"), (1e-3, 64, "cosine")]):
        experiment = {"train": {"learning_rate": rate, "scheduler": kind}, "lora": {"r": rank}}
        run_id = still.run(
            f"arc-r{rank}-{'abc'[number] * 6}",
            name=f"arc-r{rank}",
            host=list(prices)[number % 2],
            spec={"job": {"argv": []}, "experiment": experiment},
            step=120,
            total_steps=120,
            started_at=NOW - 3600 * (number + 1),
        )
        still.losses(run_id, [0.5 - 0.1 * number + 2.0 / (1 + step / 8) + 0.05 * (step % 3) for step in range(120)])

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "no daemon", "arc-r64")
        await pilot.press("a", "c")
        await looks_like(pilot, "compare-curves")
        for key, page in (("p", "parallel"), ("o", "pareto"), ("f", "settings")):
            await pilot.press(key)
            await looks_like(pilot, f"compare-{page}")

    drive(still.board(), use, size)
