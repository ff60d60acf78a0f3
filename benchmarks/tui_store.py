"""A store as after years of use, made in half a minute: for the dashboard's benchmark and for a person who wants to look at one.

python -m benchmarks.tui_store FOLDER [--runs 10000] [--hosts 50] [--points 10000000] [--log-mb 2000]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from armada.paths import HomePaths
from armada.store.database import Database

BUSY = "run-000199"
"""It runs on `local`, prints without end, and has many points."""
GPUS = 8
LONG_RUNS = 20
"""So many runs share four fifths of all points; the rest have the remaining ones."""

RUN = """INSERT INTO runs (run_id, name, host, task, spec, state, reason, message, step, total_steps, loss, tokens_per_s, step_time_s, gpus,
         created_at, started_at, ended_at, observed_at, metrics_offset)
         VALUES (?, ?, ?, 'sft', ?, ?, ?, ?, ?, 10000, ?, 9000, 0.7, '[0, 1, 2, 3]', ?, ?, ?, ?, 1)"""
CHECKPOINT = """INSERT INTO checkpoints (run_id, digest, step, size_bytes, file_count, created_at, on_host, home_path, verified_at)
                VALUES (?, ?, ?, 2100000000, 3, ?, 0, '/home', ?)"""
POINTS = """INSERT INTO points WITH RECURSIVE counted(step) AS (SELECT 1 UNION ALL SELECT step + 1 FROM counted WHERE step < ?)
            SELECT ?, step, 1.7e9 + step, 1 + 2.0 / step + abs(random() % 1000) / 5000.0 FROM counted"""
LINE = "{{'loss': {loss:.4f}, 'grad_norm': {norm:.3f}, 'learning_rate': 5e-05, 'epoch': {epoch:.2f}}} step {step}\n"


def fill(home: HomePaths, *, runs: int, hosts: int, points: int) -> None:
    """Runs of which one in two hundred goes on, hosts with prices and GPUs, curves, checkpoints, syncs."""
    home.make()
    chance = random.Random(1)
    names = [f"host-{number}" for number in range(hosts)]
    configured = {name: {"ssh": f"root@192.0.2.{n % 250 + 1}", "price_per_hour": 2.5} for n, name in enumerate(names)}
    home.hosts_file.write_text(json.dumps({"hosts": configured}))
    with Database(home.store) as database:
        _runs(database, runs, names, chance)
        _points(database, runs, points)
        _hosts(database, names, chance)
        database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _runs(database: Database, count: int, names: list[str], chance: random.Random) -> None:
    now = time.time()
    states = ["succeeded"] * 150 + ["failed"] * 39 + ["cancelled"] * 10 + ["running"]
    filled, kept, synced = [], [], []
    for number in range(count):
        run_id, state = f"run-{number:06}", states[number % len(states)]
        if state == "failed" and number > count - 300:
            state = (
                "cancelled"  # a failure of today would stand above the runs that go on, and those are to be in sight
            )
        made = now - 600 * (count - number)
        ended = None if state == "running" else made + 500
        experiment = {"train": {"seed": number, "note": "x" * 2000}}
        spec = json.dumps({"job": {"argv": ["train"]}, "experiment": experiment})
        host = "local" if run_id == BUSY else names[number % len(names)]
        why = ("oom", "CUDA out of memory") if state == "failed" else (None, None)
        seen = (number % 10_000, chance.random(), made, made, ended, now)
        filled.append((run_id, f"sweep/lr-{number}", host, spec, state, *why, *seen))
        kept += [(run_id, f"{number:032}{step:032}", step, made, made) for step in (500, 1000)]
        synced.append((run_id, made, int(state != "running")))
    with database.transaction() as connection:
        connection.executemany(RUN, filled)
        connection.executemany(CHECKPOINT, kept)
        connection.executemany("INSERT INTO run_sync (run_id, last_at, final_done) VALUES (?, ?, ?)", synced)


def _points(database: Database, runs: int, points: int) -> None:
    each = max(1, points // 5 // runs)
    long = range(199, runs, max(200, runs // LONG_RUNS // 200 * 200)) if runs > 200 else range(0)
    extra = (points - each * runs) // max(1, len(long))
    with database.transaction() as connection:
        for number in range(runs):
            run_id = f"run-{number:06}"
            made = connection.execute("INSERT INTO series (run_id, name) VALUES (?, 'loss')", (run_id,))
            count = each + (extra if number in long else 0)
            connection.execute(POINTS, (count, made.lastrowid))


def _hosts(database: Database, names: list[str], chance: random.Random) -> None:
    now, memory = time.time(), 80 << 30
    facts, seen = [], []
    for name in names:
        used = [int(memory * chance.random()) for _ in range(GPUS)]
        gpus = [
            {
                "index": gpu,
                "name": "NVIDIA A100-SXM4-80GB",
                "memory_total_bytes": memory,
                "memory_used_bytes": used[gpu],
            }
            for gpu in range(GPUS)
        ]
        facts.append((name, json.dumps({"gpus": gpus, "disk": {"free_bytes": 4e11}}), now, GPUS))
        seen += [
            (name, gpu, now - 10 * back, 90 + 10 * chance.random(), used[gpu], 300.0, 60.0)
            for gpu in range(GPUS)
            for back in range(90)
        ]
    with database.transaction() as connection:
        connection.executemany("INSERT INTO hosts (name, facts, observed_at, most_gpus) VALUES (?, ?, ?, ?)", facts)
        connection.executemany("INSERT INTO telemetry VALUES (?, ?, ?, ?, ?, ?, ?)", seen)


def write_log(path: Path, megabytes: int) -> None:
    """A log of real lines, every one different; whole blocks of them repeat."""
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = random.Random(2)
    lines = [
        LINE.format(loss=2 + chance.random(), norm=chance.random(), epoch=step / 5000, step=step)
        for step in range(10_500)
    ]
    block = "".join(lines).encode()
    with path.open("wb") as file:
        for _ in range(megabytes * 1_000_000 // len(block)):
            file.write(block)


def log_of(home: HomePaths, run_id: str) -> Path:
    return home.local_root / "runs" / run_id / "output.log"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--log-mb", type=int, default=2000)
    options = parser.parse_args()
    home = HomePaths(options.folder / "config", options.folder / "state")
    began = time.monotonic()
    fill(home, runs=options.runs, hosts=options.hosts, points=options.points)
    write_log(log_of(home, BUSY), options.log_mb)
    print(
        f"made in {time.monotonic() - began:.0f} s; look at it: ARMADA_HOME={options.folder} armada dashboard --read-only"
    )


if __name__ == "__main__":
    main()
