"""Cells of a bench, measured one after the other by real trainings."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from armada_agent.runs.beside_work import is_ours

from tests.payload.conftest import StartedRun
from tests.payload.interpreter import Process
from tests.payload.payload_run import ACCELERATE, PayloadRun, make_training
from tests.payload.test_payload_distill import answers, make_distill
from tests.payload.test_payload_tasks import make_task

FAKE = """
import sys, time, torch
import armada_train.training.trainer as trainer
from armada_train.bench.__main__ import main
from armada_train.specification.values import Measurement

turns = int(sys.argv.pop())
Measurement.turns = lambda self, start_s: turns
whole = trainer.Trainer.training_step

def step(self, *arguments, **options):
    if self.args.per_device_train_batch_size == 8:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
    if self.args.per_device_train_batch_size == 2:
        raise ValueError("a kernel is \\x1b[31mmissing")
    if self.args.per_device_train_batch_size == 1:
        time.sleep(3600)
    return whole(self, *arguments, **options)

trainer.Trainer.training_step = step
sys.exit(main(sys.argv[1:]))
"""


IMPORTS = """
import sys
from pathlib import Path
from armada_train.bench.__main__ import _import_once
from armada_train.bench.cells import read_bench
from armada_train.runfolder import RunFolder

sys.path.insert(0, sys.argv[1])  # as of a host with GPUs
spec = Path(sys.argv[2])
print(_import_once(list(read_bench(spec).cells), RunFolder.from_environment(spec.parent, {})), "peft" in sys.modules)
"""


def bench_run(
    run: PayloadRun, micros: list[int], *, seconds: float = 0, timeout_s: float = 300, processes: int = 1
) -> PayloadRun:
    """Make a run's spec that of a bench over micro batch sizes."""
    trainings = {}
    for micro in micros:
        batch = {"global": micro * processes, "micro": micro, "accumulation": 1, "processes": processes}
        trainings[f"micro_batch_size={micro}"] = {**run.training, "batch": batch}
    return bench_of(run, trainings, seconds=seconds, timeout_s=timeout_s, processes=processes)


def bench_of(
    run: PayloadRun,
    trainings: Mapping[str, dict[str, Any]],
    *,
    seconds: float = 0,
    timeout_s: float = 300,
    processes: int = 1,
) -> PayloadRun:
    """Make a run's spec that of a bench over trainings, by their labels."""
    run.write_accelerate()
    kind = "MULTI_GPU" if processes > 1 else "NO"
    run.accelerate_file.write_text(ACCELERATE.format(distributed_type=kind, processes=processes))
    measurement = {"warmup_steps": 2, "steps": 4, "seconds": seconds}
    cells = [
        {
            "number": number,
            "label": label,
            "training": {**training, "measurement": measurement},
            "accelerate": str(run.accelerate_file),
        }
        for number, (label, training) in enumerate(trainings.items(), start=1)
    ]
    content = {"bench": {"timeout_s": timeout_s, "cells": cells}}
    run.spec_file.write_text(json.dumps({"format": 1, "run_id": "a-bench-1", "training": content}))
    return run


def start(run: PayloadRun, *, fake: bool = False, turns: int = 1) -> Process:
    """Start the bench; a fake one has cells that fail or hang, and as many turns as it is told."""
    if not fake:
        return run.start_python("-m", "armada_train.bench", "--spec", str(run.spec_file))
    script = run.path / "fake.py"
    script.write_text(FAKE)
    return run.start_python(str(script), "--spec", str(run.spec_file), str(turns))


def ended(process: Process) -> tuple[int, str]:
    output = process.communicate()[0]
    assert process.returncode is not None
    return process.returncode, output


def rows(run: PayloadRun) -> list[dict[str, Any]]:
    """The newest row of each cell, which home keeps."""
    return list({row["step"]: row for row in run.lines("bench")}.values())


@pytest.fixture
def bench(make_run: StartedRun, chat_files: tuple[Path, Path]) -> PayloadRun:
    return make_run(make_training(chat_files[0], train={"max_steps": 1000}))


def test_each_cell_gets_a_row_and_saves_nothing(bench: PayloadRun) -> None:
    code, output = ended(start(bench_run(bench, [4, 16])))
    assert code == 0, output
    assert [(row["step"], row["status"], row["micro_batch_size"]) for row in rows(bench)] == [
        (1, "measured", 4),
        (2, "measured", 16),
    ]
    for row in rows(bench):
        assert row["steps"] == 4
        assert row["samples_per_s"] * row["measured_s"] == pytest.approx(4 * row["micro_batch_size"])
        assert row["tokens_per_s"] > row["samples_per_s"]
        assert row["step_time_p05_s"] <= row["step_time_median_s"] <= row["step_time_p95_s"]
        assert row["peak_memory_bytes"] > 1e6
        assert 1 < row["products_per_s"] < 1e6, "134 million multiplications each"
    assert not list(bench.path.glob("**/checkpoint-*")), "nothing is saved"
    assert [path.name for path in bench.path.iterdir() if not is_ours(path.name, of_task=True)] == []
    assert "cell 2/2 micro_batch_size=16: " in output


def test_each_task_is_measured_and_a_pair_is_one_sample(bench: PayloadRun, tmp_path: Path) -> None:
    never = {"eval_every_steps": None}
    made = {task: make_task(task, tmp_path, train=never) for task in ("pretrain", "dpo", "reward", "kto")}
    made["distill"] = make_distill(tmp_path, train=never, rows=answers(64))
    for training in made.values():
        training["data"]["eval"] = []
    code, output = ended(start(bench_of(bench, made)))
    assert code == 0, output
    found = dict(zip(made, rows(bench), strict=True))
    assert {task: row["status"] for task, row in found.items()} == dict.fromkeys(made, "measured"), output
    for task in ("dpo", "reward", "kto", "distill"):
        assert found[task]["samples_per_s"] * found[task]["measured_s"] == pytest.approx(
            4 * made[task]["batch"]["global"]
        )


def test_running_out_of_memory_is_a_result_and_so_is_a_failure(bench: PayloadRun) -> None:
    # That the cells see the fake shows that they are forked from the process that has imported torch.
    code, output = ended(start(bench_run(bench, [8, 2, 4]), fake=True))
    assert code == 0, output
    assert [row["status"] for row in rows(bench)] == ["oom", "failed", "measured"]
    assert "Tried to allocate" in rows(bench)[0]["message"]
    assert "a kernel is" in rows(bench)[1]["message"]
    code, output = ended(start(bench_run(bench, [8, 2, 4]), fake=True))
    assert code == 0, output
    told = [row["step"] for row in bench.lines("bench")]
    assert told[:3] == [1, 2, 3]
    assert told.count(1) == 1, "what ran out of memory is not measured again"
    assert [row["status"] for row in bench.lines("bench")[4:6]] == ["failed", "measured"], "what failed is"


def test_a_cell_that_takes_too_long_is_ended(bench: PayloadRun) -> None:
    code, output = ended(start(bench_run(bench, [1], timeout_s=0.5), fake=True))
    assert code == 0, output
    (row,) = rows(bench)
    assert (row["status"], row["message"]) == ("timeout", "it did not end within 0.5 s")


def test_cells_take_turns_and_an_interrupted_bench_keeps_those_that_are_over(bench: PayloadRun) -> None:
    process = start(bench_run(bench, [4, 16, 1]), fake=True, turns=2)
    bench.wait_for(process, (bench.path / "bench" / "3" / "heartbeat-0.json").exists, "the third cell")
    os.kill(process.pid, signal.SIGTERM)
    code, output = ended(process)
    assert code == 85, output
    assert bench.failure["reason"] == "preempted"
    first, _ = rows(bench)
    assert (first["turns"], first["turns_asked"], first["steps"]) == (1, 2, 2), "half of what was asked"
    with (bench.path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "bench", "step": 3, "status": "mea')
    # The second turn of the second cell has no room: its row is that of its first.
    code, output = ended(start(bench_run(bench, [4, 8, 3]), fake=True, turns=2))
    assert code == 0, output
    found = []
    for line in (bench.path / "metrics.jsonl").read_text().splitlines():
        try:
            found.append((json.loads(line)["step"], json.loads(line)["turns"]))
        except ValueError:
            found.append((0, 0))
    assert found[:3] == [(1, 1), (2, 1), (0, 0)]
    assert found[3:7] == [(1, 2), (2, 1), (3, 1), (3, 2)]
    assert found[7:] == [(1, 2), (2, 1), (3, 2)], "with the spread of the whole bench"
    assert "0 of 3 cells were measured before" in output
    assert "cell 1/3 micro_batch_size=4: turn 2/2: " in output
    whole = [json.loads(line) for line in (bench.path / "metrics.jsonl").read_text().splitlines()[7:]]
    one, two, _ = whole
    assert one["steps"] == 4
    assert one["samples_per_s"] * one["measured_s"] == pytest.approx(4 * 4)
    assert one["cell_s"] > first["cell_s"]
    assert one["machine_varied"] == two["machine_varied"] > 0
    assert (two["status"], two["message"][:17]) == ("measured", "turn 2 of 2: oom:")


def test_a_bench_without_a_single_result_fails(bench: PayloadRun) -> None:
    code, output = ended(start(bench_run(bench, [2]), fake=True))
    assert code == 1, output
    assert "no cell could be measured" in bench.failure["message"]


@pytest.mark.long
def test_a_cell_of_two_processes_counts_the_samples_of_both(bench: PayloadRun) -> None:
    code, output = ended(start(bench_run(bench, [4], processes=2)))
    assert code == 0, output
    (row,) = rows(bench)
    assert (row["status"], row["processes"]) == ("measured", 2)
    assert row["samples_per_s"] * row["measured_s"] == pytest.approx(4 * 8)


def test_what_starts_cuda_as_it_is_imported_keeps_no_cell_from_being_forked(bench: PayloadRun, tmp_path: Path) -> None:
    package = tmp_path / "packages" / "bitsandbytes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('it starts CUDA')")
    script = tmp_path / "imports.py"
    script.write_text(IMPORTS)
    run = bench_run(bench, [4])
    told = run.finish_python(str(script), str(package.parent), str(run.spec_file), fresh=True)
    assert told.output.splitlines()[-1] == "True True", told.output
