"""A run's overview has all that matters on one screen, whatever the run and the size of the terminal."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping

import pytest
from textual.pilot import Pilot

from armada.store import hosts, metrics, telemetry
from armada.store.telemetry import Point
from tests.tui.conftest import World, drive, lacks, screen, shows

SIZES = ((80, 24), (120, 36), (160, 48), (250, 70))
STALLED = "no step for 7 m: ranks 3 5 wait in all_reduce, GPU 100 % at 92 W"
PARTS_S = {"backward": 0.36, "forward": 0.19, "data": 0.05}
RUN = "demo-aaaaaa"


def box(world: World, *, gpus: int = 8, price: float | None = 12.4) -> None:
    """A host with its GPUs, measured."""
    world.hosts(box={"ssh": "root@192.0.2.1", "price_per_hour": price})
    known = [
        {"index": at, "name": "A100", "memory_total_bytes": 80 << 30, "memory_used_bytes": 1 << 30}
        for at in range(gpus)
    ]
    hosts.record_facts(world.database, "box", {"gpus": known})
    now = time.time()
    points = [Point(at, now - 10 * back, 97.0, 71 << 30, 312.0, 71.0) for at in range(gpus) for back in range(60)]
    telemetry.record(world.database, "box", points)


def train(world: World, losses: list[float], *, timed: bool = True) -> None:
    """Metrics as the bundled trainer writes them."""
    now, parts = time.time(), {f"time/{part}": seconds for part, seconds in PARTS_S.items()}
    lines: list[dict[str, object]] = [
        {"kind": "train", "step": step, "time": now - len(losses) + step, "loss": loss} | (parts if timed else {})
        for step, loss in enumerate(losses, 1)
    ]
    assert metrics.record_metrics(world.database, RUN, lines, offset=0, next_offset=len(lines))


def log(world: World, text: str) -> None:
    path = world.home.run(RUN) / "outputs" / "output.log"
    path.parent.mkdir(parents=True)
    path.write_text(text)


def happy(world: World) -> None:
    box(world)
    world.run(RUN, step=120, total_steps=200, gpus=json.dumps(list(range(8))))
    train(world, [3.0 / step for step in range(1, 121)])
    world.checkpoint(RUN, 50, home=True)
    world.checkpoint(RUN, 100, home=False)
    log(world, "".join(f"step {step}\n" for step in range(1, 121)) + "the last line\n")


def hung(world: World) -> None:
    box(world)
    gpus = json.dumps(list(range(8)))
    world.run(RUN, step=120, total_steps=200, gpus=gpus, reason="stalled", message=STALLED)
    train(world, [3.0 / step for step in range(1, 121)])
    world.checkpoint(RUN, 100, home=True)
    log(world, "WARNING the last line\n")


def failed(world: World) -> None:
    box(world, gpus=2)
    message = "CUDA out of memory on rank 3"
    world.run(RUN, state="failed", reason="oom", message=message, step=2, total_steps=200, gpus="[0, 1]", exit_code=1)
    train(world, [3.0, 2.0], timed=False)
    log(world, "Traceback (most recent call last):\nthe last line\n")


def not_finite(world: World) -> None:
    box(world, gpus=1)
    world.run(RUN, step=3, total_steps=200, gpus="[0]", loss=math.nan)
    train(world, [3.0, 2.0, math.nan])
    log(world, "the last line\n")


def without_gpu(world: World) -> None:
    box(world, gpus=0, price=None)
    world.run(RUN, step=3, total_steps=200)
    train(world, [3.0, 2.0, 1.0])
    log(world, "the last line\n")


def queued(world: World) -> None:
    box(world, gpus=4)
    spec = {"experiment": {"train": {"seed": 7}}, "job": {"argv": ["true"]}}
    world.run(RUN, state="queued", reason="Priority", started_at=None, spec=spec)


def script(world: World) -> None:
    """It prints, and makes no steps."""
    box(world, gpus=1)
    world.run(RUN, gpus="[0]")
    log(world, "".join(f"word {step}\n" for step in range(1, 121)) + "the last line\n")


COST = "at $12.40/h"
RUNS: Mapping[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "happy": (happy, ("nothing", "lowest 0.025", "97%", "backward", "60%", COST, "1 home, 1 only on the", "the last")),
    "hung": (hung, ("stalled: no step for 7 m", "lowest 0.025", "97%", "backward", COST, "1 home", "the last line")),
    "failed": (failed, ("oom: CUDA out of memory", "lowest 2", "97%", "not measured", COST, "0 home", "the last line")),
    "NaN": (not_finite, ("its loss is NaN", "NaN since step 3", "97%", "backward", COST, "0 home", "the last line")),
    "no GPU": (
        without_gpu,
        ("nothing", "lowest 1", "box reports no GPU", "backward", "no price", "0 home", "the last"),
    ),
    "queued": (
        queued,
        ("Priority", "nothing", "no loss yet", "97%", "no step yet", "once it runs", "0 home", "press l"),
    ),
    "script": (script, ("nothing", "no loss yet", "97%", "no step yet", COST, "0 home", "the last line")),
}
"""Runs, with the words of what needs you, curve, GPUs, time of a step, cost, checkpoints and log."""


@pytest.mark.parametrize("kind", RUNS)
def test_all_that_matters_is_in_sight_at_every_size(world: World, kind: str) -> None:
    fill, words = RUNS[kind]
    fill(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await shows(pilot, "needs you", *words)

    drive(world.board(), use, SIZES[0])


def test_a_small_terminal_has_one_line_for_each_and_a_large_one_panels(world: World) -> None:
    happy(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        await shows(pilot, "a step       0.6 s: backward 60% · forward 32%", "GPUs         8 ", "checkpoints  1 home")
        await lacks(pilot, "A step takes")
        await pilot.resize_terminal(160, 48)
        seen = await shows(pilot, "A step takes 0.6 s", "─ Checkpoints ─", "─ box ─", "100    2.1 GB", "  7 ")
        assert "a step " not in seen
        assert "checkpoints  1" not in seen
        await pilot.resize_terminal(80, 24)
        await shows(pilot, "a step       0.6 s: backward")

    drive(world.board(), use, SIZES[0])


def test_a_long_reason_is_whole_where_it_fits_and_shortened_where_not(world: World) -> None:
    hung(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        await shows(pilot, "at 92 W")
        await pilot.resize_terminal(45, 22)
        await shows(pilot, "stalled: no step for 7", "…", "checkpoints", "1 home")
        await lacks(pilot, "at 92 W")

    drive(world.board(), use, SIZES[0])


def test_room_that_nothing_else_needs_has_events(world: World) -> None:
    without_gpu(world)
    begun = {"seq": 1, "time": time.time(), "kind": "state", "state": "running", "message": "[b]begun\x1b[31m"}
    metrics.record_events(world.database, RUN, [begun], offset=0, next_offset=1)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        await shows(pilot, "─ Events ─", "state  running · [b]begun", "the last line")
        await pilot.resize_terminal(80, 24)
        await lacks(pilot, "─ Events ─")

    drive(world.board(), use, (250, 70))


def test_a_script_with_metrics_of_its_own_shows_the_first_of_them(world: World) -> None:
    box(world, gpus=1)
    world.run(RUN, gpus="[0]", step=3)
    world.losses(RUN, [0.2, 0.4, 0.6], name="accuracy")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        await shows(pilot, f"{RUN} · accuracy", "highest 0.6")

    drive(world.board(), use)


def test_a_run_that_waits_shows_its_settings_until_it_has_a_curve(world: World) -> None:
    queued(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        await shows(pilot, "─ Settings ─", "train.seed  7", "─ Plan ─", "job.argv")
        train(world, [3.0, 2.0])
        await shows(pilot, "lowest 2")
        await lacks(pilot, "─ Settings ─", "─ Plan ─", "no loss yet")

    drive(world.board(), use, (160, 48))


@pytest.mark.parametrize("kind", RUNS)
def test_no_size_is_too_small_or_too_large(world: World, kind: str) -> None:
    RUNS[kind][0](world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        for size in ((20, 5), (1, 1), (40, 12), (49, 30), (106, 16), (110, 20), (60, 90), (220, 18), (500, 200)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            if size[0] >= 20:
                await shows(pilot, "needs you" if size[1] >= 12 else "state")
        assert "needs you" in screen(pilot)

    drive(world.board(), use, SIZES[0])


def test_without_unicode_it_is_ascii(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "C")
    monkeypatch.setenv("LC_ALL", "C")
    hung(world)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, RUN)
        await pilot.press("enter")
        for size in ((60, 24), (160, 48)):
            await pilot.resize_terminal(*size)
            await shows(pilot, "needs you", "stalled: no step", "1 home")
            inside = screen(pilot).translate(dict.fromkeys(map(ord, "─│╭╮╰╯▁▂▃▄▅▆▇█"), " "))
            assert inside.isascii(), inside

    drive(world.board(), use, SIZES[0])
