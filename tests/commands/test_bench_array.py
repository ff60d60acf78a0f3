"""`armada bench --array`: on a cluster each cell is a job of one array, and the rows are one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from armada.cli import bench_array, main
from armada.cli.shapes import SHAPES, schema_of
from armada.store import metrics, runs, sweeps
from armada.store.database import Database
from armada.sweeps import service
from tests.commands import array_slurm
from tests.conftest import Armada
from tests.waiting import eventually

EXPERIMENT = """\
task: sft
name: speed
model: {tiny: {}}
data: {train: [{path: train.jsonl}]}
train: {global_batch_size: 8, epochs: 1}
"""
GRID = ("--grid", "train.micro_batch_size=1,2", "--grid", "train.attention=sdpa,eager")


@pytest.fixture
def experiment(armada: Armada) -> str:
    row = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    (armada.folder / "train.jsonl").write_text(row * 8)
    path = armada.folder / "speed.yaml"
    path.write_text(EXPERIMENT)
    return str(path)


@pytest.fixture
def slurm(armada: Armada) -> Path:
    """This machine as a cluster."""
    return array_slurm.make_cluster(armada.folder, armada.env, profile="cpu")


def row(cell: int, speed: float) -> dict[str, object]:
    return {
        "kind": "bench", "time": 1.0, "step": cell, "status_code": 0, "tokens_per_s": speed, "spread": 0.01,
        "processes": 1, "micro_batch_size": 1,
    }  # fmt: skip


def test_cells_are_jobs_of_one_array_and_their_rows_one_table(
    armada: Armada, experiment: str, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in armada.env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(armada.folder)
    monkeypatch.setattr(service, "provision_share", lambda database, share, progress: share)  # no torch here
    words = ["bench", experiment, "--host", "local", *GRID, "--array", "--parallel", "2"]
    main.run([*words, "--detach"])
    (call,) = (slurm / "sbatch.calls").read_text().splitlines()
    assert "--array=0-3%2" in call
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        (name,) = {run.sweep for run in runs.every(database)}
        assert name is not None
        record = sweeps.find(database, name)
        cells = runs.of_sweep(database, name)
        assert [run.task for run in cells] == ["bench"] * 4
        for number, run in enumerate(cells, 1):
            training: Any = runs.spec(database, run.run_id)["training"]
            (cell,) = training["bench"]["cells"]
            assert (cell["number"], cell["values"]["train.micro_batch_size"]) == (number, 1 if number < 3 else 2)
    assert record.title == "speed: bench"

    def ended() -> bool:
        return all(cell["state"] == "failed" for cell in armada.json("sweep", "show", name)["cells"])

    eventually(ended)  # there is no environment
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        for number, speed in ((1, 100.0), (2, 250.0), (4, 249.0)):
            told, run_id = [row(number, speed)], f"{name}-{number:03}"
            offset = database.connection.execute("SELECT metrics_offset FROM runs WHERE run_id = ?", (run_id,))
            at = offset.fetchone()[0]
            assert metrics.record_metrics(database, run_id, told, offset=at, next_offset=at + 1)
    shown = armada.json("bench", "--show", name)
    jsonschema.validate(shown, schema_of(SHAPES["bench"]))
    assert (shown["run_id"], shown["state"], shown["best"], shown["as_fast"]) == (name, "failed", 2, [4])
    assert [cell["status"] for cell in shown["cells"]] == ["measured", "measured", "waiting", "measured"]
    printed = armada.run("bench", "--show", name).stdout
    assert (
        "so far: as fast as each other, within their spreads: cell 2 (micro_batch_size=1 attention=eager), cell 4\n"
        in printed
    )
    assert f"1 of 4 cells have no row: armada sweep retry {name} measures them" in printed
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        runs.set_state(database, f"{name}-003", "running")
    early = armada.run("bench", "--show", name, "--apply", "mine")
    assert (early.returncode, f"1 of 4 cells of {name} are still to be measured" in early.stderr) == (8, True), early
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        runs.set_state(database, f"{name}-003", "failed")
    applied = armada.json("bench", "--show", name, "--apply", "mine")["applied"]
    assert applied["settings"]["attention"] == "eager"
    assert armada.json("bench", "--show", f"{name}-002")["best"] == 2
    refused = armada.run("sweep", "extend", name, "--grid", "train.seed=1")
    assert refused.returncode == 2
    assert "is a bench: no cells can be added to it" in refused.stderr


def test_an_interrupted_hand_over_continues_under_its_name(
    armada: Armada, experiment: str, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in armada.env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(armada.folder)
    words = ["bench", experiment, "--host", "local", *GRID, "--array", "--detach"]

    def killed(database: Any, share: Any, progress: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(service, "provision_share", killed)
    assert main.run(words) == 130
    monkeypatch.setattr(service, "provision_share", lambda database, share, progress: share)
    main.run([*words, "--warmup", "5"])  # another pace is another bench
    main.run(words)
    with Database(armada.folder / "home" / "state" / "armada.db") as database:
        assert len({run.sweep for run in runs.every(database)}) == 2
        assert len(runs.every(database)) == 8
    assert len((slurm / "sbatch.calls").read_text().splitlines()) == 2


def test_without_detach_the_rows_are_shown_once_all_jobs_have_ended(
    armada: Armada, experiment: str, slurm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in armada.env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(armada.folder)
    monkeypatch.setattr(service, "provision_share", lambda database, share, progress: share)
    monkeypatch.setattr(bench_array, "_EVERY_S", 0.1)
    assert main.run(["bench", experiment, "--host", "local", "--grid", "train.seed=1,2", "--array"]) == 6
    said = capsys.readouterr()
    assert "2 of 2 cells have no row: armada sweep retry speed-bench-" in said.out
    assert "2 cells of speed-bench-" in said.err
    assert "ended without a measurement" in said.err


def test_a_plan_of_an_array_starts_nothing(armada: Armada, experiment: str, slurm: Path) -> None:
    told = armada.json("bench", experiment, "--host", "local", *GRID, "--array", "--dry-run")
    assert [cell["label"] for cell in told["cells"]][:2] == [
        "micro_batch_size=1 attention=sdpa", "micro_batch_size=1 attention=eager",
    ]  # fmt: skip
    assert armada.json("ps") == []
    assert not (slurm / "sbatch.calls").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--array",), "has no batch system: its cells are measured one after the other"),
        (("--parallel", "2"), "--parallel belongs to --array"),
        (("--array", "--parallel", "0"), "is not a number of jobs"),
    ],
)
def test_an_array_without_a_cluster_is_refused(
    armada: Armada, experiment: str, words: tuple[str, ...], message: str
) -> None:
    done = armada.run("bench", experiment, "--host", "local", *GRID, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert armada.json("ps") == []
