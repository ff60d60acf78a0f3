#!/usr/bin/env python3
"""Make the pictures in README.md and docs/: the real dashboard over a store that tells a small story. `make screenshots`.

    python docs/screenshots.py [FOLDER]

The clock stands still, so that a picture changes only when the dashboard does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from armada import __version__
from armada.config.profile_choice import choose_profile
from armada.daemon import instance, status
from armada.paths import HomePaths
from armada.protocol.facts import GpuKind, Hardware
from armada.protocol.records import Checkpoint
from armada.provision.environment_key import environment_key
from armada.store import checkpoints, hosts, metrics, run_sync, runs, telemetry, transfers
from armada.store.database import Database
from armada.store.runs import Verdict

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from armada.tui.app import Dashboard

NOW = 1_790_000_000.0
SIZE = (132, 40)
GB = 10**9
HOSTS: dict[str, dict[str, Any]] = {
    "a100-1": {"ssh": "root@203.0.113.7:50022", "price_per_hour": 12.4},
    "a100-2": {"ssh": "root@203.0.113.9:50181", "price_per_hour": 12.4},
    "workstation": {"ssh": "kim@workstation.example"},
}
GPUS = {
    "a100-1": (8, "NVIDIA A100-SXM4-80GB", 80),
    "a100-2": (8, "NVIDIA A100-SXM4-80GB", 80),
    "workstation": (2, "NVIDIA GeForce RTX 3090", 24),
}
LOG = """\
12:52:08  step 14,340  loss 0.3911  grad_norm 0.61  lr 3.1e-05  39,812 tok/s
12:52:31  step 14,360  loss 0.3884  grad_norm 0.58  lr 3.1e-05  39,790 tok/s
12:52:54  step 14,380  loss 0.3902  grad_norm 0.63  lr 3.1e-05  39,805 tok/s
12:53:01  saved checkpoint-14400 (2.1 GB, 9.4 s)
12:53:17  step 14,400  loss 0.3879  grad_norm 0.60  lr 3.1e-05  39,799 tok/s
"""


class Clock:
    """Stands still where it was set."""

    now = NOW

    @classmethod
    def time(cls) -> float:
        return cls.now

    @classmethod
    @contextlib.contextmanager
    def ago(cls, seconds: float) -> Iterator[None]:
        """What happens inside happened then."""
        cls.now = NOW - seconds
        yield
        cls.now = NOW


class Story:
    """A researcher's Tuesday: two rented boxes, a workstation that was switched off, one run that ran out of memory."""

    def __init__(self, home: HomePaths, database: Database) -> None:
        self._home = home
        self._database = database
        self._chance = random.Random(7)

    def tell(self) -> None:
        self._home.hosts_file.write_text(json.dumps({"hosts": HOSTS}))
        self._run(
            "arc-7b-r128-4k2m9x", "a100-2", 11_604, 20_000, 8, hours=13.4, loss=0.72, reason="stalled", why=STALLED
        )
        self._run("arc-1.5b-r128-7k3f9d", "a100-1", 14_400, 20_000, 8, hours=5.8, loss=0.38, rate=1e-4)
        self._run("sweep-lr5e-5-x81p0c", "local", 2_400, 10_000, 0, hours=1.2, loss=1.2, rate=5e-5)
        self._run("sweep-lr1e-4-q02mzt", "local", 0, 10_000, 0, hours=0, state="queued")
        self._run("qwen-0.5b-dora-8v3n1e", "workstation", 6_600, 20_000, 2, hours=2.5, loss=0.61)
        self._run("qwen-0.5b-lora-z5c7wd", "workstation", 20_000, 20_000, 2, hours=6.0, loss=0.455, state="succeeded")
        self._run(
            "wide-r512-m4d2ha", "a100-1", 40, 20_000, 8, hours=0.1, loss=3.1, state="failed", reason="oom", why=OOM
        )
        self._sync()
        for name in GPUS:
            with Clock.ago(372 if name == "workstation" else 2):
                self._host(name)
        with Clock.ago(360):
            runs.mark_unreachable(self._database, ["qwen-0.5b-dora-8v3n1e"], "no route to host")
            hosts.mark_unreachable(self._database, "workstation", "no route to host")
        log = self._home.run("arc-1.5b-r128-7k3f9d") / "outputs" / "output.log"
        log.parent.mkdir(parents=True)
        log.write_text(LOG)
        os.utime(log, (NOW - 185, NOW - 185))

    def _run(
        self,
        run_id: str,
        host: str,
        step: int,
        total: int,
        gpus: int,
        *,
        hours: float,
        loss: float = 1.0,
        rate: float = 2e-4,
        state: str = "running",
        reason: str | None = None,
        why: str | None = None,
    ) -> None:
        batch = {"global": 16, "micro": 1, "accumulation": 2, "processes": 8}
        experiment = {
            "name": run_id[:-7],
            "train": {"learning_rate": rate, "max_steps": total},
            "lora": {"r": 128, "alpha": 256},
        }
        spec = {
            "job": {"argv": ["accelerate", "launch", "-m", "armada_train"]},
            "training": {"batch": batch},
            "experiment": experiment,
        }
        spec["environment"] = {"key": "cu130-4f2a91c07d5e"}
        name = run_id[:-7].replace("sweep-", "sweep/")
        runs.insert(self._database, run_id=run_id, name=name, host=host, task="sft", experiment="qwen.yaml", spec=spec)
        started = NOW - 3600 * hours if hours else None
        facts: dict[str, Any] = {"observed_at": NOW - 2, "started_at": started, "gpus": json.dumps(list(range(gpus)))}
        if state in runs.ENDED:
            facts |= {"ended_at": NOW - 5400, "started_at": NOW - 5400 - 3600 * hours}
        facts |= {"created_at": NOW - 3600 * hours - 840, "total_steps": total, "step": step or None}
        verdict = Verdict(state, reason, why, 1, 1, "heartbeats of all ranks, 1 s old")
        runs.record(self._database, run_id, verdict, **facts)
        if step:
            self._curves(run_id, step, loss, facts["started_at"])
            pace = {"tokens_per_s": 4_975.0 * max(1, gpus), "step_time_s": 0.7 if gpus else 2.2}
            runs.record(self._database, run_id, verdict, **(pace if state == "running" and reason is None else {}))

    def _curves(self, run_id: str, step: int, loss: float, started: float) -> None:
        every = max(1, step // 700)
        lines = []
        for at in range(every, step + 1, every):
            noise = self._chance.gauss(0, 0.02 + 0.1 / (1 + at / 900))
            value = loss + 2.6 * math.exp(-at / 700) + 0.5 / (1 + at / 2500) - 0.5 / (1 + step / 2500) + noise
            warm = min(1.0, at / 600) * (0.5 + 0.5 * math.cos(math.pi * at / 22_000)) * 5e-5
            norm = 0.5 + 0.25 * abs(self._chance.gauss(0, 1)) + 3 * math.exp(-at / 300)
            moment = started + (NOW - 2 - started) * at / step
            lines.append(
                {"kind": "train", "step": at, "time": moment, "loss": value, "grad_norm": norm, "learning_rate": warm}
            )
            lines[-1]["num_tokens"] = at * 28_000
        lines[-1]["loss"] = loss
        metrics.record_metrics(self._database, run_id, lines, offset=0, next_offset=len(lines))

    def _sync(self) -> None:
        for run_id, steps in (
            ("arc-1.5b-r128-7k3f9d", (13_500, 14_000)),
            ("arc-7b-r128-4k2m9x", (9_000, 9_500)),
            ("qwen-0.5b-lora-z5c7wd", (19_500, 20_000)),
        ):
            outbox = [self._checkpoint(step, age_s=60 * (16 - place)) for place, step in enumerate(steps)]
            waiting = self._checkpoint(14_400 if steps[0] == 13_500 else 11_500, age_s=20)
            listed = [*outbox, *([waiting] if steps[0] < 15_000 else [])]
            checkpoints.record_outbox(self._database, run_id, [Checkpoint.model_validate(entry) for entry in listed])
            for entry in outbox:
                place = self._home.checkpoints(run_id) / f"checkpoint-{entry['step']}"
                with Clock.ago(NOW - entry["created_at"] - 40):
                    checkpoints.mark_home(self._database, run_id, entry["digest"], place)
            run_sync.succeeded(
                self._database,
                run_id,
                began=NOW - 360,
                next_due_at=NOW + 240,
                final_of=1 if steps[0] > 15_000 else None,
            )
            if steps[0] == 13_500:
                transfers.begin(self._database, run_id, waiting["digest"], waiting["size_bytes"])
                transfers.progress(self._database, run_id, waiting["digest"], int(1.3 * GB), 22e6)
            elif steps[0] == 9_000:
                again = NOW + 95
                transfers.give_up(
                    self._database, run_id, waiting["digest"], "failed", "connection reset by peer", next_try_at=again
                )
                run_sync.failed(
                    self._database, run_id, now=NOW - 700, reason="connection reset by peer", next_due_at=again
                )

    def _checkpoint(self, step: int, *, age_s: float) -> dict[str, Any]:
        return {
            "digest": f"{step * 7919:064x}"[::-1],
            "step": step,
            "size_bytes": int(2.1 * GB),
            "file_count": 9,
            "created_at": NOW - age_s,
        }

    def _host(self, name: str) -> None:
        count, model, memory_gb = GPUS[name]
        busy = {"a100-1": 98.0, "a100-2": 100.0, "workstation": 0.0}[name]
        run_id = {"a100-1": "arc-1.5b-r128-7k3f9d", "a100-2": "arc-7b-r128-4k2m9x", "workstation": None}[name]
        gpus, points = [], []
        for index in range(count):
            used = int(memory_gb * 2**30 * (0.88 + 0.01 * index if run_id else 0.02))
            gpu = {
                "index": index,
                "name": model,
                "memory_total_bytes": memory_gb * 2**30,
                "compute_capability": "8.6" if name == "workstation" else "8.0",
                "memory_used_bytes": used,
                "utilization": busy,
            }
            gpus.append(gpu | {"processes": [{"pid": 4121 + index, "run_id": run_id}] if run_id else []})
            for back in range(90, -1, -1):
                load = max(
                    0.0, min(100.0, busy - abs(self._chance.gauss(0, 4)) - (40 if run_id and back % 31 == 17 else 0))
                )
                watts = (92.0 if name == "a100-2" else 310.0 + self._chance.gauss(0, 12)) if run_id else 25.0
                points.append(
                    telemetry.Point(index, Clock.now - 10 * back, load, used, watts, 71.0 if run_id else 36.0)
                )
        disk = {"free_bytes": 412 * GB, "total_bytes": 1_000 * GB}
        facts: dict[str, Any] = {
            "gpus": gpus,
            "disk": disk,
            "cpu_count": 96,
            "memory_total_bytes": 1 << 40,
            "machine": "x86_64",
        }
        hardware = Hardware("x86_64", "2.39", tuple(GpuKind(model) for _ in range(count)))
        profile = choose_profile(hardware.gpus, self._home).profile
        environments = {environment_key(profile, hardware): "ready"}
        hosts.record_facts(self._database, name, facts | {"environments": environments})
        telemetry.record(self._database, name, points)


STALLED = "no step for 7 m: ranks 3 5 wait in all_reduce, GPU 100 % at 92 W"
OOM = "CUDA out of memory on rank 3: tried to allocate 2.1 GiB, 0.9 GiB free"


async def _charts(pilot: Pilot[None], board: Dashboard) -> None:
    board.open_run("arc-1.5b-r128-7k3f9d", "charts")
    await pilot.press("v", "v")


async def _compare(pilot: Pilot[None], _: Dashboard) -> None:
    await pilot.press("slash", *"arc", "enter", "a", "c")


SCENES: dict[str, Callable[[Pilot[None], Dashboard], Awaitable[object]]] = {
    "runs": lambda pilot, _: pilot.press("down", "down", "down", "down"),
    "charts": _charts,
    "hosts": lambda pilot, _: pilot.press("3"),
    "sync": lambda pilot, _: pilot.press("4"),
    "compare": _compare,
}


async def shoot(home: HomePaths, folder: Path) -> None:
    from armada.tui.app import Dashboard

    for name, go in SCENES.items():
        board = Dashboard(home, watch=False)
        async with board.run_test(size=SIZE) as pilot:
            while len(board.snapshot.runs) < 7 or board.snapshot.daemon is None:
                await pilot.pause(0.05)
            await pilot.pause(0.5)
            await go(pilot, board)
            await pilot.pause(1.5)
            (folder / f"{name}.svg").write_text(_own_font(board.export_screenshot(title="armada")), encoding="utf-8")


def _own_font(picture: str) -> str:
    """Without the web fonts that Rich would have a reader's browser load from elsewhere, and with ids that stay the same."""
    picture = re.sub(r"@font-face\s*\{.*?\}\s*", "", picture, flags=re.DOTALL)
    number = re.search(r"terminal-(\d+)-", picture)
    picture = picture.replace(number[0], "terminal-") if number else picture
    return picture.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")


def picture_report(home_folder: Path, folder: Path) -> None:
    """Write a report of the story's comparable runs, and picture it if Chromium is there."""
    from armada.cli.main import run as command

    chromium = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
    if chromium is None:
        print("report.png: no Chromium here, so the picture stays as it is")
        return
    page = home_folder / "report.html"
    if command(["report", *_comparable(), "--html", str(page), "--metrics", "loss,grad_norm"]) != 0:
        sys.exit("the report could not be written")
    size = "--window-size=1200,910"
    argv = [chromium, "--headless", "--no-sandbox", "--hide-scrollbars", size, f"--screenshot={folder / 'report.png'}"]
    subprocess.run([*argv, page.as_uri()], check=True, stderr=subprocess.DEVNULL)


def _comparable() -> list[str]:
    with Database(HomePaths.from_environment().store) as database:
        return [run.run_id for run in runs.every(database) if run.name.startswith("arc")]


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "screenshots").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.pop("COLORFGBG", None)
    os.environ |= {"TZ": "UTC", "LANG": "C.UTF-8", "ARMADA_NO_DAEMON": "1"}
    time.tzset()
    time.time = Clock.time
    shutil.disk_usage = lambda _: SimpleNamespace(total=1000 * GB, used=400 * GB, free=600 * GB)  # type: ignore[assignment,return-value]
    with tempfile.TemporaryDirectory() as home_folder:
        os.environ["ARMADA_HOME"] = home_folder
        os.chdir(home_folder)
        home = HomePaths.from_environment()
        home.make()
        with Database(home.store) as database:
            Story(home, database).tell()
        with instance.only_instance(home):
            status.write(home, status.Status(4711, None, None, __version__, True, NOW - 9000, NOW - 1, {}, ()))
            status.judge.__kwdefaults__["wall"] = time.time  # it took the clock that goes, before this one stood still
            asyncio.run(shoot(home, folder))
        picture_report(Path(home_folder), folder)
    for picture in sorted([*folder.glob("*.svg"), *folder.glob("*.png")]):
        print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
