"""`armada bench` from its command to its rows at home, with real trainings on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from tests.conftest import Armada
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import chats, write_jsonl
from tests.payload.prepared import prepare_environment

EXPERIMENT = """\
task: sft
name: speed
model: {tiny: {hidden_size: 32, layers: 2, heads: 2, kv_heads: 1, intermediate_size: 64, vocab_size: 320}}
data: {train: [{path: train.jsonl}], eval: [{path: train.jsonl}]}
train: {global_batch_size: 6, max_length: 256, epochs: 1}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    write_jsonl(tmp_path / "train.jsonl", chats(32))
    path = tmp_path / "speed.yaml"
    path.write_text(EXPERIMENT)
    return str(path)


@pytest.mark.takes_long("a training imports torch, which no server has forked for it")
def test_a_bench_measures_shows_and_applies(
    armada: Armada, payload_python: Interpreter, experiment: str, tmp_path: Path
) -> None:
    prepare_environment(armada, payload_python.path)
    csv, chart = tmp_path / "rows.csv", tmp_path / "rows.svg"
    words = ("bench", experiment, "--host", "local", "--no-daemon", "--seconds", "0.1", "--steps", "3")
    grid = ("--grid", "train.micro_batch_size=2,4")
    shown = armada.json(*words, *grid, "--csv", str(csv), "--chart", str(chart))
    jsonschema.validate(shown, schema_of(SHAPES["bench"]))
    assert [cell["status"] for cell in shown["cells"]] == ["measured", "measured"]
    assert [cell["global_batch_size"] for cell in shown["cells"]] == [6, 8], "rounded up to whole micro batches"
    assert len(csv.read_text().splitlines()) == 3
    assert chart.read_text().startswith("<svg")
    again = armada.run("bench", "--show", shown["run_id"])
    assert again.returncode == 0, again.stderr
    assert "TOKENS/S" in again.stdout
    verdicts = ("fastest: cell", "no two cells can be told apart", "as fast as each other")
    assert any(words in again.stdout for words in verdicts)
    applying = armada.run("bench", "--show", shown["run_id"], "--json", "--apply", "mine")
    if json.loads(applying.stdout)["applied"]:
        assert armada.run("profiles", "validate", "mine").returncode == 0
    else:
        assert applying.returncode == 8
        assert "nothing was written into profile mine" in applying.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "grid", "cells"),
    [
        ("two-gpus", ("resources.processes=1,2", "train.micro_batch_size=4,8"), 4),
        ("models", ("model.tiny.layers=2,6",), 2),
    ],
)
def test_the_examples_are_measured_on_a_machine_without_gpus(
    armada: Armada, payload_python: Interpreter, name: str, grid: tuple[str, ...], cells: int
) -> None:
    prepare_environment(armada, payload_python.path)
    example = Path(__file__).parents[2] / "examples" / "bench" / f"{name}.yaml"
    words = [word for each in grid for word in ("--grid", each)]
    shown = armada.json(
        "bench", str(example), "--host", "local", "--no-daemon", "--seconds", "0.1", "--steps", "3", *words
    )
    assert [cell["status"] for cell in shown["cells"]] == ["measured"] * cells


@pytest.mark.takes_long("torch is imported, and each figure is measured for a second")
def test_a_machine_is_measured_and_judged(armada: Armada, payload_python: Interpreter) -> None:
    prepare_environment(armada, payload_python.path)
    shown = armada.json("bench", "local", "--no-daemon")
    jsonschema.validate(shown, schema_of(SHAPES["bench"]))
    figures = {each["name"]: each for each in shown["figures"]}
    assert set(figures) == {
        "cpu_flops",
        "cpu_memory_bytes_per_s",
        "disk_write_bytes_per_s",
        "disk_read_bytes_per_s",
    }
    assert figures["cpu_flops"]["value"] > 1e8
    assert "nothing says what it should be" in figures["cpu_flops"]["said"]
    assert not list(armada.local_runs.glob("*/health.bin")), "what was written to measure the disk is gone"
    again = armada.run("bench", "--show", shown["run_id"])
    assert f"local: {shown['verdict']}" in again.stdout
    refused = armada.run("bench", "--show", shown["run_id"], "--csv", "rows.csv")
    assert (refused.returncode, "--csv belongs to the bench of an experiment" in refused.stderr) == (2, True)
