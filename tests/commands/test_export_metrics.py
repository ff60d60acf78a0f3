"""`armada export RUN --csv|--parquet`: every point of every metric, in a file that is whole or not there."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.conftest import Armada
from tests.published_run import opened, record, record_losses, sft_plan


@pytest.fixture
def home(armada: Armada) -> Armada:
    for run_id, values in (("one", [0.1, math.nan, math.inf]), ("two", [1e-300])):
        with opened(armada.folder / "home") as (_, database):
            record(database, run_id, sft_plan(run_id))
            record_losses(
                database,
                run_id,
                [{"kind": "train", "step": n, "time": 1.5, "loss": v, '=x"\n,': n} for n, v in enumerate(values)],
            )
    return armada


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_a_row_for_each_point(home: Armada) -> None:
    told = home.json("export", "one", "two", "--csv", "m.csv", "--metrics", "loss")
    assert (told["runs"], told["rows"]) == (["one", "two"], 4)
    rows = table(home.folder / "m.csv")
    assert rows[0] == {"run": "one", "step": "0", "time": "1970-01-01T00:00:01.500Z", "metric": "loss", "value": "0.1"}
    assert [row["value"] for row in rows] == ["0.1", "nan", "inf", "1e-300"]


def test_no_metric_becomes_a_formula_or_another_column(home: Armada) -> None:
    assert home.run("export", "two", "--csv", "m.csv").returncode == 0
    assert [row["metric"] for row in table(home.folder / "m.csv")] == ["'=x\" ,", "loss"]


def test_parquet_has_types(home: Armada) -> None:
    assert home.run("export", "one", "two", "--parquet", "m.parquet").returncode == 0
    found = pyarrow.parquet.read_table(home.folder / "m.parquet")
    assert found.column_names == ["run", "step", "time", "metric", "value"]
    assert [str(found.schema.field(name).type) for name in ("step", "time", "value")] == [
        "int64",
        "timestamp[us, tz=UTC]",
        "double",
    ]
    losses = [row["value"] for row in found.to_pylist() if row["metric"] == "loss"]
    assert losses[0] == 0.1
    assert math.isnan(losses[1])
    assert losses[2:] == [math.inf, 1e-300]
    assert found.num_rows == 8


def test_without_pyarrow_a_sentence_says_how_to_get_it(home: Armada) -> None:
    program = "import sys; sys.modules['pyarrow'] = None; from armada.cli.main import run; sys.exit(run(sys.argv[1:]))"
    argv = [sys.executable, "-c", program, "export", "one", "--parquet", "m.parquet"]
    done = subprocess.run(argv, cwd=home.folder, env=home.env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "armada-gpu[parquet]" in done.stderr
    assert not (home.folder / "m.parquet").exists()


def test_a_file_that_exists_stays_unless_forced(home: Armada) -> None:
    (home.folder / "m.csv").write_text("mine")
    answer = home.run("export", "one", "--csv", "m.csv")
    assert (answer.returncode, (home.folder / "m.csv").read_text()) == (8, "mine")
    assert "--force" in answer.stderr
    assert home.run("export", "one", "--csv", "m.csv", "--force").returncode == 0
    assert len(table(home.folder / "m.csv")) == 6
    assert [path.name for path in home.folder.iterdir() if path.name.endswith(".tmp")] == []


def test_a_link_counts_as_its_target(home: Armada) -> None:
    (home.folder / "precious").write_text("mine")
    (home.folder / "m.csv").symlink_to("precious")
    assert home.run("export", "one", "--csv", "m.csv").returncode == 8
    assert (home.folder / "precious").read_text() == "mine"
    assert home.run("export", "one", "--csv", "m.csv", "--force").returncode == 0
    assert (home.folder / "m.csv").readlink() == Path("precious")
    assert len(table(home.folder / "precious")) == 6


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--csv", "no/folder/m.csv"], 2, "there is no folder"),
        (["--csv", "."], 2, "is a folder"),
        (["--csv", ""], 2, "is not the name of a file"),
        (["--csv", "home/state/armada.db", "--force"], 2, "armada's own folder"),
        (["--csv", "m.csv", "--gguf"], 2, "--gguf is for checkpoints"),
        (["--csv", "m.csv", "--metrics", "lss"], 7, "did you mean loss?"),
        (["--csv", "m.csv", "--to", "x"], 2, "not allowed with"),
        (["--to", "x", "--force"], 2, "--force is for --csv"),
        (["--to", "x", "two"], 2, "one run"),
        (["--csv", "m.csv", "--where", "id:two"], 2, "either RUN or --where"),
        (["--to", "x", "--where", "id:two"], 2, "either RUN or --where"),
        ([], 2, "one of the arguments --to --csv --parquet is required"),
    ],
)
def test_what_cannot_be_written_has_a_sentence(home: Armada, words: list[str], code: int, said: str) -> None:
    answer = home.run("export", "one", *words)
    assert answer.returncode == code, answer.stderr
    assert said in answer.stderr
    assert not (home.folder / "m.csv").exists()


@pytest.mark.parametrize("target", [["--csv", "m.csv"], ["--csv", "-"], ["--parquet", "m.parquet"], ["--to", "x"]])
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "required: RUN"),
        (["--where", "id:nothing"], 7, "no run matches id:nothing"),
        (["--where", "los<("], 2, "a value is missing"),
        (["--where", " "], 2, "the filter is empty"),
    ],
)
def test_without_a_run_nothing_is_exported(
    home: Armada, target: list[str], words: list[str], code: int, said: str
) -> None:
    answer = home.run("export", *words, *target)
    assert (answer.returncode, said in answer.stderr) == (code, True), answer.stderr
    assert answer.stdout == ""
    assert sorted(path.name for path in home.folder.iterdir()) == ["home"]


def test_a_filter_chooses_what_is_exported(home: Armada) -> None:
    told = home.json("export", "--where", "id:two", "--csv", "m.csv", "--metrics", "loss")
    assert (told["runs"], told["rows"]) == (["two"], 1)
    answer = home.run("export", "--where", "host:gpu-1", "--to", "x")
    assert (answer.returncode, "the filter matches 2" in answer.stderr) == (2, True), answer.stderr


def test_a_dash_prints_the_table(home: Armada) -> None:
    answer = home.run("export", "two", "--csv", "-", "--metrics", "loss")
    assert answer.stdout.splitlines() == ["run,step,time,metric,value", "two,0,1970-01-01T00:00:01.500Z,loss,1e-300"]
