"""The GPU kit on a CPU, with tiny shapes: each check runs here as it will on a GPU, as far as a CPU goes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from armada.launch.estimates.shape import read_shape
from benchmarks.gpu.checks import compiling, liger, qlora, speed
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.workbench import Skipped, Workbench
from tests.payload.interpreter import Interpreter

ROOT = Path(__file__).parents[2]
H200 = {
    "gpu": "NVIDIA H200",
    "capability": "9.0",
    "memory_bytes": 150_000_000_000,
    "peak_flops": 989e12,
    "packages": {},
}


def order(folder: Path, name: str, *, tiny: bool, **machine: Any) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "name": name,
        "module": "",
        "folder": str(folder),
        "shared": str(folder / "shared"),
        "tiny": tiny,
        "home_python": sys.executable,
        "limit_s": 60,
        "machine": {**H200, **machine},
    }


def measure(python: Interpreter, folder: Path, *names: str) -> dict[str, dict[str, Any]]:
    """Run checks by the command; what the payload's Python lacks of armada, this one has."""
    words = [
        "--tiny",
        "--python",
        python.path,
        "--home-python",
        sys.executable,
        "--work",
        str(folder),
        "--commit",
        "abc",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", *words, "--only", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checks: dict[str, dict[str, Any]] = json.loads((folder / "tiny.json").read_text())["checks"]
    return checks


def cases(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {case["name"]: case for case in entry["cases"]}


@pytest.mark.payload
@pytest.mark.takes_long("three starts of torch: the machine is described, a model is made, attentions are compared")
def test_the_cheapest_checks_run_and_their_figures_are_written(payload_python: Interpreter, tmp_path: Path) -> None:
    found = measure(payload_python, tmp_path, "facts", "attention")
    assert {name: entry["status"] for name, entry in found.items()} == {"facts": "passed", "attention": "passed"}
    assert cases(found["facts"])["health"]["figures"]["tflops"] > 0
    assert found["facts"]["packages"]["trl"] == "1.16.0"
    attentions = cases(found["attention"])
    assert attentions["auto"]["message"] == "sdpa: the run is on CPUs"
    assert attentions["eager"]["figures"]["loss_differs"] < 1e-5
    assert attentions["flash_attention_3"]["status"] == "skipped"
    assert not (tmp_path / "kit-models").exists()


@pytest.mark.payload
@pytest.mark.long
@pytest.mark.takes_long("a dozen trainings, one after the other")
def test_every_other_check_runs_on_a_cpu(payload_python: Interpreter, tmp_path: Path) -> None:
    names = ["placement", "bf16", "oom", "launch", "fp8", "qlora", "liger", "speed-0.5b", "trl-0.5b"]
    found = measure(payload_python, tmp_path, *names)
    skipped = {"qlora", "liger"}
    assert {name: entry["status"] for name, entry in found.items()} == {
        name: "skipped" if name in skipped else "passed" for name in names
    }
    assert cases(found["fp8"])["matrices"]["figures"]["differs"] < 0.01
    assert cases(found["placement"])["none visible"]["figures"] == {"code": 2}
    assert cases(found["bf16"])["learns alike"]["figures"]["same_again"]
    assert "train.micro_batch_size: 2 with accumulation 2" in cases(found["oom"])["does not fit"]["message"]
    assert cases(found["launch"])["resume"]["figures"] == {
        "resumed_at": 12,
        "killed_at": cases(found["launch"])["resume"]["figures"]["killed_at"],
        "to_the_bit": True,
        "first_differs": 0,
        "last_differs": 0,
    }
    assert cases(found["launch"])["checkpoints at home"]["figures"]["count"] >= 2
    assert len(found["speed-0.5b"]["cases"]) == 5
    assert all(case["figures"]["tokens_per_s"] > 0 for case in found["speed-0.5b"]["cases"])
    against = cases(found["trl-0.5b"])["against trl sft"]["figures"]
    assert against["losses_differ"] < 1e-3
    assert 0.5 < against["memory_of_trl"] < 2


@pytest.mark.payload
@pytest.mark.long
@pytest.mark.takes_long("torch compiles for a minute")
def test_the_check_of_compile_runs_on_a_cpu(payload_python: Interpreter, tmp_path: Path) -> None:
    found = cases(measure(payload_python, tmp_path, "compile")["compile"])
    assert found["compiled"]["figures"]["warmup_s"] > found["not compiled"]["figures"]["warmup_s"]
    assert found["gain"]["figures"]["speedup"] > 0


def test_the_payload_reads_what_the_checks_ask_of_a_gpu(tmp_path: Path) -> None:
    model = {"path": "/models/some"}
    bench = Workbench(order(tmp_path, "speed-7b", tiny=False))
    asked = {
        **liger.sections(bench, model),
        **{f"q-{name}": each for name, each in qlora.sections(bench, model).items()},
    }
    asked |= compiling.sections(bench, model)
    read = {name: parse_training(Section(section, "training")) for name, section in asked.items()}
    assert {training.device for training in read.values()} == {"cuda"}
    assert {training.precision for training in read.values()} == {"bf16"}
    assert {training.peak_flops for training in read.values()} == {989e12}
    assert read["liger-learns"].schedule.kernels == "liger"
    assert read["liger-speed"].measurement is not None
    assert read["compiled"].schedule.compile
    quantized = read["q-qlora"].lora
    assert quantized is not None
    assert quantized.quantize == "nf4"


@pytest.mark.parametrize(
    ("gpu", "memory_gib", "expected"),
    [
        ("H200", 139.8, {("lora", 4096): (2, False), ("lora", 2048): (8, False), ("lora", 8192): (1, False)}),
        ("24 GB", 23.6, {("lora", 4096): (1, True), ("full", 2048): None}),
    ],
)
def test_the_largest_batch_that_fits_is_measured(
    tmp_path: Path, gpu: str, memory_gib: float, expected: dict[tuple[str, int], tuple[int, bool] | None]
) -> None:
    bench = Workbench(order(tmp_path, "speed-7b", tiny=False))
    planned: dict[tuple[str, int], tuple[int, bool] | None] = {}
    for cell in (*speed.CELLS["7b"], *speed.CELLS["7b-more"]):
        if cell.recomputes:
            continue
        training = speed.plan(read_shape(SHAPES["7b"]), cell, bench, memory_gib * 2**30)
        planned[cell.method, cell.length] = (
            (training.micro_batch, training.activation_checkpointing) if training else None
        )
        if training is not None:
            parse_training(Section(speed.section(bench, training, {"path": "/models/7b"}), "training"))
    assert {cell: planned[cell] for cell in expected} == expected


def test_a_gpu_without_16_bit_floats_or_4_bits_is_no_failure(tmp_path: Path) -> None:
    old = Workbench(order(tmp_path / "t4", "qlora", tiny=False, capability="7.5"))
    assert old.precision == "fp16"
    assert Workbench(order(tmp_path / "odd", "qlora", tiny=False, capability="[N/A]")).capability == (0, 0)
    with pytest.raises(Skipped, match="a base in 4 bits needs a GPU"):
        qlora.run(Workbench(order(tmp_path / "cpu", "qlora", tiny=True)))
