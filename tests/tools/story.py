"""The store behind the pictures of docs/: a researcher's Tuesday, with all that can go wrong on it.

Two rented boxes, a workstation that was switched off, a Slurm cluster; a run that hangs, one that ran out of memory, one
whose loss is NaN, one whose budget is spent, one with a damaged checkpoint, one that was resumed, and a sweep with cells
that were pruned.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from armada.config.profile_choice import choose_profile
from armada.foundation.process_identity import Process
from armada.paths import HomePaths
from armada.protocol.facts import GpuKind, Hardware
from armada.protocol.records import Checkpoint
from armada.provision.environment_key import environment_key
from armada.store import (
    checkpoints,
    hosts,
    labels,
    metrics,
    notifications,
    run_sync,
    runs,
    sweeps,
    telemetry,
    transfers,
)
from armada.store.database import Database
from armada.store.transitions import RESUMED
from armada.tui import acts, remembered
from armada.verdicts.states import ENDED, Verdict

NOW = 1_790_000_000.0
GB = 10**9
HOSTS: dict[str, dict[str, Any]] = {
    "a100-1": {"ssh": "root@203.0.113.7:50022", "price_per_hour": 12.4},
    "a100-2": {"ssh": "root@203.0.113.9:50181", "price_per_hour": 12.4},
    "leonardo": {"ssh": "kim@login.leonardo.example", "scheduler": "slurm", "profile": "a100-80gb"},
    "workstation": {"ssh": "kim@workstation.example"},
}
GPUS = {
    "a100-1": (8, "NVIDIA A100-SXM4-80GB", 80),
    "a100-2": (8, "NVIDIA A100-SXM4-80GB", 80),
    "workstation": (2, "NVIDIA GeForce RTX 3090", 24),
}
HUNG, LONG, AWAY, DONE = "arc-7b-r128-4k2m9x", "arc-1-5b-r128-7k3f9d", "qwen-0-5b-dora-8v3n1e", "qwen-0-5b-lora-z5c7wd"
OOM, NAN, SPENT, WAITS = "wide-r512-m4d2ha", "bf16-lr1e-3-t7x1ke", "gemma-4b-full-c3v8pn", "gemma-4b-dpo-h6w2rz"
SWEEP = "lr-rank-x81p0c"
STALLED = "no step for 7 m: ranks 3 5 wait in all_reduce, GPU 100 % at 92 W"
NO_MEMORY = "CUDA out of memory on rank 3: tried to allocate 2.1 GiB, 0.9 GiB free"
BUDGET = (
    "its budget of 60 USD is spent: it ran for 4 h 50 m; `armada resume gemma-4b-full-c3v8pn` grants the same once more"
)
QUEUE = {
    "mine": {"RUNNING": 1, "PENDING": 1},
    "others": {"RUNNING": 212, "PENDING": 388},
    "quota": "boost: 4.7 % of 5.2 % used",
    "partitions": [
        {"name": "boost", "nodes": 96, "gpus": 384, "gpus_free": 3, "state": "up", "time_limit": "1-00:00:00"},
        {"name": "debug", "nodes": 2, "gpus": 8, "gpus_free": 6, "state": "up", "time_limit": "00:30:00"},
    ],
}
LOG = "".join(
    f"12:{45 + at // 3:02}:{at % 3 * 20:02}  step {14_000 + 20 * at:,}  loss {0.3921 - 0.0002 * at + 0.001 * (at % 4):.4f}"
    f"  grad_norm 0.{58 + at % 7}  lr 3.1e-05  39,8{at % 10}2 tok/s\n"
    + ("12:48:24  \x1b[33mWARNING\x1b[0m  a batch of 8,192 tokens was cut\n" if at == 10 else "")
    + ("12:50:04  saved checkpoint-14300 (2.1 GB, 9.4 s)\n" if at == 15 else "")
    for at in range(21)
)
TRACEBACK = """\
12:01:02  8 ranks, NVIDIA A100-SXM4-80GB, bf16
12:01:40  step 20/20,000  loss 3.2711  31,402 tok/s
12:02:12  step 40/20,000  loss 3.1004  31,377 tok/s
\x1b[31mTraceback (most recent call last):\x1b[0m
  File "armada_train/training/trainer.py", line 212, in training_step
    loss = model(**batch).loss
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 3 has 0.93 GiB free.
\x1b[31mERROR\x1b[0m  rank 3 ended with 1; the others are stopped
"""
WARNINGS = "".join(
    f"13:{26 + at // 2:02}:{at % 2 * 30:02}  step {11_602 - 2 * (68 - at):,}  loss 0.7{61 - at // 2 + at % 5:02}{at % 9}"
    f"  grad_norm 0.{64 + at % 9}  lr 2.8e-05  39,6{at % 10}2 tok/s\n"
    + ("13:47:58  saved checkpoint-11500 (2.1 GB, 9.8 s)\n" if at == 43 else "")
    for at in range(68)
)
WARNINGS += """\
14:05:20  step 11,602  loss 0.7214  grad_norm 0.71  lr 2.8e-05  39,640 tok/s
14:05:43  step 11,604  loss 0.7200  grad_norm 0.69  lr 2.8e-05  39,655 tok/s
\x1b[33m[rank3] WARNING\x1b[0m  NCCL all_reduce has waited for 300 s: ranks 3 5
"""
STEP_S = {"backward": 0.36, "forward": 0.19, "communication": 0.09, "data": 0.04, "optimizer": 0.02, "other": 0.01}
PROMPTS = {
    "Complete the pattern: 2 4 8 16": ("32", {7_000: "18 20 22", 10_500: "24 32", 14_000: "32"}),
    "Rotate the grid [[1,0],[0,2]] by 90 degrees": (
        "[[0,1],[2,0]]",
        {7_000: "[[1,0],[0,2]]", 10_500: "[[0,2],[1,0]]", 14_000: "[[0,1],[2,0]]"},
    ),
}


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
    """Tells it to a store.

    Args:
        home: An empty home.
        database: Its store.
    """

    def __init__(self, home: HomePaths, database: Database) -> None:
        self._home = home
        self._database = database
        self._chance = random.Random(7)

    def tell(self) -> None:
        """Fill the store and the files beside it."""
        self._home.hosts_file.write_text(json.dumps({"hosts": HOSTS}))
        self._training_runs()
        self._sweep()
        self._checkpoints()
        for name in GPUS:
            with Clock.ago(372 if name == "workstation" else 2):
                self._gpu_host(name)
        with Clock.ago(11):
            hosts.record_facts(self._database, "leonardo", {"gpus": [], "queue": QUEUE, "machine": "x86_64"})
            disk = {"free_bytes": 600 * GB, "total_bytes": 1_000 * GB}
            hosts.record_facts(self._database, "local", {"gpus": [], "disk": disk, "machine": "x86_64"})
        with Clock.ago(360):
            runs.mark_unreachable(self._database, [AWAY], "no route to host")
            hosts.mark_unreachable(self._database, "workstation", "no route to host")
        self._logs()
        self._labels()
        self._told()
        self._acts()

    # Runs -----------------------------------------------------------------------------------------------------------

    def _training_runs(self) -> None:
        self._run(
            HUNG, "a100-2", 11_604, 20_000, 8, hours=13.4, loss=0.72, verdict=Verdict("running", "stalled", STALLED)
        )
        self._run(LONG, "a100-1", 14_400, 20_000, 4, hours=5.8, loss=0.38, rate=1e-4, resumed=True)
        self._run(AWAY, "workstation", 6_600, 20_000, 2, hours=2.5, loss=0.61)
        self._run(DONE, "workstation", 20_000, 20_000, 2, hours=6.0, loss=0.455, verdict=Verdict("succeeded"))
        self._run(OOM, "a100-1", 40, 20_000, 8, hours=0.1, loss=3.1, verdict=Verdict("failed", "oom", NO_MEMORY))
        self._run(NAN, "a100-1", 3_120, 10_000, 2, hours=1.1, loss=math.nan, rate=1e-3, rank=16)
        spent = Verdict("failed", "budget", BUDGET)
        self._run(SPENT, "a100-2", 5_220, 9_000, 8, hours=4.84, loss=0.94, verdict=spent, rate=2e-5)
        self._run(WAITS, "leonardo", 0, 4_000, 0, hours=0, verdict=Verdict("queued", "Priority"))

    def _sweep(self) -> None:
        settings = {
            "metric": "eval_loss",
            "goal": "min",
            "parallel": 2,
            "grid": {"train.learning_rate": [2e-5, 5e-5], "lora.r": [8, 32, 64, 128]},
        }
        sweeps.insert(
            self._database, name=SWEEP, title="lr-rank", experiment="arc.yaml", launch_key="k", settings=settings
        )
        sweeps.set_state(self._database, SWEEP, "started")
        low = "pruned at step 1000: eval_loss {:.3g}, best half of {} cells is below 0.79"
        cells: Sequence[tuple[float, int, Verdict, int, float]] = (
            (2e-5, 8, Verdict("cancelled", "pruned", low.format(1.09, 3)), 1_000, 1.09),
            (2e-5, 32, Verdict("succeeded"), 4_000, 0.61),
            (2e-5, 64, Verdict("running"), 2_650, 0.52),
            (2e-5, 128, Verdict("failed", "oom", NO_MEMORY.replace("2.1", "1.4")), 120, 2.31),
            (5e-5, 8, Verdict("cancelled", "pruned", low.format(0.97, 4)), 1_000, 0.97),
            (5e-5, 32, Verdict("running"), 1_480, 0.66),
            (5e-5, 64, Verdict("submitted"), 0, 1.0),
            (5e-5, 128, Verdict("submitted"), 0, 1.0),
        )
        for number, (rate, rank, verdict, step, loss) in enumerate(cells, 1):
            values = {"train.learning_rate": rate, "lora.r": rank}
            cell = {"id": SWEEP, "cell": number, "label": f"learning_rate={rate:g} r={rank}", "values": values}
            hours = 0.0 if not step else 2.6 - 0.2 * number
            self._run(
                f"lr-rank-{number}-{'bcdfghjk'[number - 1] * 2}{number}x{number}q",
                "a100-1" if number % 2 else "local",
                step,
                4_000,
                2 if step and number % 2 else 0,
                hours=hours,
                loss=loss,
                rate=rate,
                rank=rank,
                verdict=verdict,
                sweep=cell,
            )

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
        rank: int = 128,
        verdict: Verdict | None = None,
        resumed: bool = False,
        sweep: dict[str, Any] | None = None,
    ) -> None:
        verdict = verdict or Verdict("running")
        processes = max(1, gpus)
        batch = {"global": 16, "micro": 1, "accumulation": 16 // processes, "processes": processes}
        spec: dict[str, Any] = {
            "job": {"argv": ["accelerate", "launch", "-m", "armada_train"]},
            "training": {"batch": batch},
            "experiment": {
                "name": _name(run_id),
                "train": {"learning_rate": rate, "max_steps": total, "seed": 7},
                "lora": {"r": rank, "alpha": 2 * rank},
            },
            "environment": {"key": "cu130-4f2a91c07d5e"},
        }
        name = _name(run_id)
        if sweep is not None:
            spec["sweep"] = sweep
            name = f"lr-rank {sweep['label']}"  # as a launch names cells
        created = 3600 * hours + 840
        with Clock.ago(created):
            runs.insert(
                self._database, run_id=run_id, name=name, host=host, task="sft", experiment="arc.yaml", spec=spec
            )
        started = NOW - 3600 * hours if hours else None
        facts: dict[str, Any] = {"observed_at": NOW - 2, "started_at": started, "gpus": json.dumps(list(range(gpus)))}
        if verdict.state in ENDED:
            ended = NOW - (700 if sweep else 5400)
            facts |= {"ended_at": ended, "started_at": ended - 3600 * hours, "observed_at": ended}
        facts |= {"created_at": NOW - created, "total_steps": total, "step": step or None}
        self._transitions(run_id, verdict, facts, resumed=resumed)
        if step:
            self._curves(run_id, step, loss, facts["started_at"], facts.get("ended_at", NOW - 2))
            pace: dict[str, Any] = {"tokens_per_s": 4_975.0 * processes, "step_time_s": 0.7 if gpus else 2.2}
            if verdict.state == "running" and verdict.reason is None:
                runs.record(self._database, run_id, self._seen(verdict, 9), **pace)
            self._events(run_id, verdict, step, facts["started_at"], facts.get("ended_at"))

    @staticmethod
    def _seen(verdict: Verdict, number: int) -> Verdict:
        because = "heartbeats of all ranks, 1 s old" if verdict.state == "running" else "the supervisor's own record"
        if verdict.state in ("queued", "submitted"):
            because = "squeue names its job" if verdict.state == "queued" else "the host has its submission"
        return Verdict(verdict.state, verdict.reason, verdict.message, 1, number, because)

    def _transitions(self, run_id: str, verdict: Verdict, facts: dict[str, Any], *, resumed: bool) -> None:
        """Record the states that it went through, each at its time."""
        if facts["started_at"] is not None:
            with Clock.ago(NOW - facts["started_at"]):
                runs.record(self._database, run_id, Verdict("running", None, None, 1, 1))
        if resumed:
            moment = NOW - 7_900
            with Clock.ago(NOW - moment + 1_260):
                lost = Verdict("failed", "supervisor_lost", "the host was restarted", 1, 2)
                runs.record(self._database, run_id, lost)
            with Clock.ago(NOW - moment):
                runs.record(self._database, run_id, Verdict("submitted", None, RESUMED, 1, 3))
                runs.record(self._database, run_id, Verdict("running", None, None, 1, 4))
            facts["submission"] = 2
        moment = facts.get("ended_at", NOW - 432 if verdict.reason == "stalled" else facts["observed_at"])
        seen = facts["observed_at"]
        runs.record(self._database, run_id, self._seen(verdict, 8), **{**facts, "observed_at": moment})
        runs.record(self._database, run_id, self._seen(verdict, 8), observed_at=seen)

    def _events(self, run_id: str, verdict: Verdict, step: int, started: float, ended: float | None) -> None:
        begun = {"seq": 1, "time": started - 40, "kind": "attempt", "attempt": 1, "submission": 1}
        lines: list[dict[str, object]] = [begun]
        lines.append({"seq": 2, "time": started, "kind": "state", "attempt": 1, "state": "running"})
        for seq, at in enumerate(range(500, step + 1, max(500, step // 12 // 500 * 500)), 3):
            moment = started + ((ended or NOW) - started) * at / step
            digest = f"{at * 7919:064x}"[::-1]
            lines.append(
                {"seq": seq, "time": moment, "kind": "checkpoint", "step": at, "size_bytes": 2.1e9, "digest": digest}
            )
        if verdict.reason is not None:
            end: dict[str, object] = {"kind": "state", "attempt": 1, "state": verdict.state, "reason": verdict.reason}
            lines.append(end | {"seq": len(lines) + 1, "time": ended or NOW - 432, "message": verdict.message})
        metrics.record_events(self._database, run_id, lines, offset=0, next_offset=len(lines))

    def _curves(self, run_id: str, step: int, loss: float, started: float, until: float) -> None:
        every, fall = max(1, step // 700), min(700, step / 4)
        is_nan, target = math.isnan(loss), 1.4 if math.isnan(loss) else loss
        lines: list[dict[str, object]] = []
        for at in range(every, step + 1, every):
            noise = self._chance.gauss(0, 0.02 + 0.1 / (1 + at / 900))
            value = target + 2.6 * math.exp(-at / fall) + 0.5 / (1 + at / 2500) - 0.5 / (1 + step / 2500) + noise
            warm = min(1.0, at / 600) * (0.5 + 0.5 * math.cos(math.pi * at / 22_000)) * 5e-5
            norm = 0.5 + 0.25 * abs(self._chance.gauss(0, 1)) + 3 * math.exp(-at / 300)
            if is_nan and at > 0.94 * step:
                value = norm = math.nan
            line: dict[str, object] = {"kind": "train", "step": at, "time": started + (until - started) * at / step}
            line |= _besides(value, at) if run_id == LONG else {}
            lines.append(line | {"loss": value, "grad_norm": norm, "learning_rate": warm, "num_tokens": at * 28_000})
            if run_id == HUNG:
                lines[-1] |= {f"time/{part}": seconds for part, seconds in STEP_S.items()}
            if at // 500 > (at - every) // 500 and not is_nan:
                shown = {"kind": "eval", "step": at, "time": line["time"], "eval_loss": value + 0.04}
                lines.append(shown)
        next(line for line in reversed(lines) if "loss" in line)["loss"] = loss
        metrics.record_metrics(self._database, run_id, lines, offset=0, next_offset=len(lines))

    # Checkpoints and syncs --------------------------------------------------------------------------------------------

    def _checkpoints(self) -> None:
        home = {LONG: (13_500, 14_000), HUNG: (9_000, 9_500), DONE: (19_500, 20_000), SPENT: (5_000, 5_220)}
        away = {LONG: 14_400, HUNG: 11_500}
        for run_id, steps in home.items():
            listed = [self._checkpoint(step, age_s=60 * (16 - place)) for place, step in enumerate(steps)]
            waiting = [self._checkpoint(away[run_id], age_s=20)] if run_id in away else []
            every = [Checkpoint.model_validate(entry) for entry in [*listed, *waiting]]
            checkpoints.record_outbox(self._database, run_id, every)
            for entry in listed:
                place = self._home.checkpoints(run_id) / f"checkpoint-{entry['step']}"
                with Clock.ago(NOW - entry["created_at"] - 40):
                    checkpoints.mark_home(self._database, run_id, entry["digest"], place)
            final = 1 if run_id in (DONE, SPENT) else None
            run_sync.succeeded(self._database, run_id, began=NOW - 360, next_due_at=NOW + 240, final_of=final)
            if run_id == LONG:
                transfers.begin(self._database, run_id, waiting[0]["digest"], waiting[0]["size_bytes"])
                transfers.progress(self._database, run_id, waiting[0]["digest"], int(1.3 * GB), 22e6)
            elif run_id == HUNG:
                reason, again = "connection reset by peer", NOW + 95
                transfers.give_up(self._database, run_id, waiting[0]["digest"], "failed", reason, next_try_at=again)
                run_sync.failed(self._database, run_id, now=NOW - 700, reason=reason, next_due_at=again)
        checkpoints.mark_trouble(
            self._database, DONE, self._checkpoint(19_500, age_s=0)["digest"], "damaged at home: model.safetensors"
        )
        lost = self._checkpoint(6_500, age_s=900)
        checkpoints.record_outbox(self._database, AWAY, [Checkpoint.model_validate(lost)])

    @staticmethod
    def _checkpoint(step: int, *, age_s: float) -> dict[str, Any]:
        digest = f"{step * 7919:064x}"[::-1]
        return {
            "digest": digest,
            "step": step,
            "size_bytes": int(2.1 * GB),
            "file_count": 9,
            "created_at": NOW - age_s,
        }

    # Hosts ------------------------------------------------------------------------------------------------------------

    def _gpu_host(self, name: str) -> None:
        count, model, memory_gb = GPUS[name]
        users = {
            "a100-1": {0: LONG, 1: LONG, 2: LONG, 3: LONG, 4: NAN, 5: NAN},
            "a100-2": dict.fromkeys(range(8), HUNG),
        }
        gpus, points = [], []
        for index in range(count):
            run_id = users.get(name, {}).get(index)
            busy = (100.0 if name == "a100-2" else 98.0) if run_id else 0.0
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
                dip = 40 if run_id and back % 31 == 17 else 0
                load = max(0.0, min(100.0, busy - abs(self._chance.gauss(0, 4)) - dip))
                watts = (92.0 if name == "a100-2" else 310.0 + self._chance.gauss(0, 12)) if run_id else 25.0
                points.append(
                    telemetry.Point(index, Clock.now - 10 * back, load, used, watts, 71.0 if run_id else 36.0)
                )
        facts: dict[str, Any] = {
            "gpus": gpus,
            "disk": {"free_bytes": 412 * GB, "total_bytes": 1_000 * GB},
            "cpu_count": 96,
            "memory_total_bytes": 1 << 40,
            "machine": "x86_64",
        }
        hardware = Hardware("x86_64", "2.39", tuple(GpuKind(model) for _ in range(count)))
        profile = choose_profile(hardware.gpus, self._home).profile
        environments = {environment_key(profile, hardware): "ready"}
        hosts.record_facts(self._database, name, facts | {"environments": environments})
        telemetry.record(self._database, name, points)

    # What lies beside the store ---------------------------------------------------------------------------------------

    def _logs(self) -> None:
        for run_id, text, age_s in ((LONG, LOG, 185), (HUNG, WARNINGS, 360), (OOM, TRACEBACK, 5400)):
            log = self._home.run(run_id) / "outputs" / "output.log"
            log.parent.mkdir(parents=True)
            log.write_text(text)
            os.utime(log, (NOW - age_s, NOW - age_s))
        for run_id, worse in ((LONG, 0), (HUNG, 3_500)):
            lines = [
                {"step": step - worse, "prompt": prompt, "expected": expected, "generated": answer}
                for prompt, (expected, answers) in PROMPTS.items()
                for step, answer in answers.items()
            ]
            file = self._home.run(run_id) / "outputs" / "samples.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _labels(self) -> None:
        labels.star(self._database, LONG)
        labels.change_tags(self._database, LONG, add=["arc", "paper"])
        labels.change_tags(self._database, HUNG, add=["arc"])
        labels.set_note(self._database, LONG, "the run for table 2; do not stop")

    def _told(self) -> None:
        news = (
            (5400, "run_failed", f"{OOM[:-7]} failed", f"{OOM} on a100-1: failed, oom ({NO_MEMORY})"),
            (5390, "run_failed", f"{SPENT[:-7]} failed", f"{SPENT} on a100-2: failed, budget ({BUDGET})"),
            (700, "sync_failing", f"{HUNG[:-7]}: sync is failing", f"{HUNG} on a100-2: nothing came home for 2 h 1 m"),
            (432, "run_stalled", f"{HUNG[:-7]} is stalled", f"{HUNG} on a100-2: {STALLED}; its processes are alive"),
            (360, "disk_soon_full", "workstation: disk soon full", "workstation: 40 GB of 1.0 TB are free"),
        )
        for age_s, kind, title, body in news:
            key = f"{kind}:{title}@desk"
            notifications.post(self._database, key=key, kind=kind, title=title, body=body, now=NOW - age_s)
        waiting = [each.id for each in notifications.waiting(self._database)]
        notifications.mark_delivered(self._database, waiting[:-1], NOW - 400)
        remembered.keep_notified_until(self._home, waiting[2])
        remembered.keep_toured(self._home)

    def _acts(self) -> None:
        done: Sequence[tuple[int, tuple[str, ...], int]] = (
            (20_880, ("launch", "--host=a100-1", "--", "arc.yaml"), 0),
            (9_400, ("sweep", "--host=a100-1", "--host=local", "--", "arc-sweep.yaml"), 0),
            (7_910, ("resume", LONG), 0),
            (5_100, ("tag", LONG, "paper"), 0),
            (1_300, ("hosts", "check", "workstation"), 6),
            (690, ("sync", "now", HUNG), 4),
        )
        for age_s, words, code in done:
            with Clock.ago(age_s):
                log = acts.new_log(self._home, words[0])
                undo = [["tag", LONG, "--remove", "paper"]] if words[0] == "tag" else []
                acts.record(log, title=" ".join(words), words=words, process=Process(1, "1", "1"), undo=undo)
            with Clock.ago(age_s - 4):
                acts.record_end(log, code)


def _name(run_id: str) -> str:
    return re.sub(r"-(\d)-(\d)b-", r"-\1.\2b-", run_id[:-7])  # an id has no dots


def _besides(loss: float, step: int) -> dict[str, float]:
    """Return what else a training measures at a step: enough for a wall of charts."""
    wave = math.sin(step / 900)
    return {
        "mean_token_accuracy": 0.93 - 0.12 * loss,
        "entropy": 0.9 * loss + 0.05 * wave,
        "step_time_s": 0.7 + 0.02 * wave + (0.4 if step % 3000 < 40 else 0.0),
        "time/forward": 0.21 + 0.005 * wave,
        "time/backward": 0.39 + 0.01 * wave,
        "time/data": 0.02 + 0.01 * abs(wave),
        "time/communication": 0.06 + 0.008 * wave,
        "gpu_memory_gb": 61.0 + 3.0 * (1 - math.exp(-step / 200)),
    }


def tell(home: HomePaths) -> None:
    """Make the store of the story in an empty home, whose clock stands still at `NOW`."""
    home.make()
    before, time.time = time.time, Clock.time
    try:
        with Database(home.store) as database:
            Story(home, database).tell()
    finally:
        time.time = before
