"""`armada bench` before anything is measured: what it refuses, and what it would do."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from armada.cli.shapes import SHAPES, schema_of
from tests.conftest import Armada

EXPERIMENT = """\
task: sft
name: speed
model: {tiny: {}}
data: {train: [{path: train.jsonl}], eval: [{path: train.jsonl}]}
train: {global_batch_size: 6, epochs: 1, eval_every_steps: 5, stop_early: {}}
tracking: {wandb: online}
"""


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    row = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    (tmp_path / "train.jsonl").write_text(row * 8)
    path = tmp_path / "speed.yaml"
    path.write_text(EXPERIMENT)
    return str(path)


def test_a_plan_has_a_measurement_for_each_cell_and_nothing_else(armada: Armada, experiment: str) -> None:
    grid = ("--grid", "train.micro_batch_size=2,4", "--grid", "resources.processes=1,2")
    plan = armada.json("bench", experiment, "--host", "local", "--dry-run", *grid)
    jsonschema.validate(plan, schema_of(SHAPES["bench --dry-run"]))
    assert (plan["spec"]["task"], plan["spec"]["processes"]) == ("bench", 2)
    cells = plan["spec"]["training"]["bench"]["cells"]
    batches = [cell["training"]["batch"] for cell in cells]
    assert [(each["micro"], each["processes"], each["global"]) for each in batches] == [
        (2, 1, 6),
        (2, 2, 8),
        (4, 1, 8),
        (4, 2, 8),
    ]
    for cell in cells:
        training = cell["training"]
        assert training["measurement"] == {"warmup_steps": 3, "steps": 10, "seconds": 30.0}
        assert (training["data"]["eval"], training["tracking"]["wandb"], training["evaluation"]["samples"]) == (
            [],
            "off",
            0,
        )
        assert training["train"]["stop_early"] is None  # it waits for an evaluation
    assert {f"launch/cell-{number}-accelerate.yaml" for number in (1, 2, 3, 4)} <= set(plan["files"])


def test_cells_wait_for_no_metric_of_an_evaluation_and_each_has_its_own_teacher(
    armada: Armada, experiment: str
) -> None:
    named = "eval: {arc: [{path: train.jsonl}]}"
    text = Path(experiment).read_text().replace("eval: [{path: train.jsonl}]", named)
    Path(experiment).write_text(text.replace("stop_early: {}", "best_metric: eval_arc_loss"))
    plan = armada.json("bench", experiment, "--host", "local", "--dry-run")
    (cell,) = plan["spec"]["training"]["bench"]["cells"]
    assert cell["training"]["train"].get("best_metric") is None, "its evaluation is left out"
    Path(experiment).write_text(f"{text.replace('task: sft', 'task: distill')}distill: {{teacher: teachers/a}}\n")
    for name in ("a", "b"):
        folder = armada.folder / "teachers" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "vocab_size": 560, "hidden_size": 64}))
        (folder / "model.safetensors").write_bytes(name.encode())
    grid = ("--grid", f"distill.teacher={armada.folder}/teachers/a,{armada.folder}/teachers/b")
    done = armada.run("bench", experiment, "--host", "local", "--dry-run", "--json", *grid)
    cells = json.loads(done.stdout)["spec"]["training"]["bench"]["cells"]
    teachers = [cell["training"]["objective"]["teacher"]["path"] for cell in cells]
    assert len({Path(path).parent for path in teachers}) == 1, "both are sent"
    assert len(set(teachers)) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--grid", "train.micro_batch=1"), 2, "did you mean `train.micro_batch_size`"),
        (("--grid", "resources.gpus=0,1"), 3, "profile cpu is for machines without GPUs"),
        (("--grid", "train.seed=" + ",".join(map(str, range(30)))), 2, "30 cells take about"),
        (
            ("--grid", "train.seed=" + ",".join(map(str, range(1000))), "--grid", "train.max_length=" + ",".join(map(str, range(8, 1008)))),
            2,
            "1,000,000 cells take about 12,500 hours; a bench has at most 500 cells",
        ),
        (("--grid", "env.DB_PASSWORD=abc,abd"), 2, "--grid env.DB_PASSWORD=***: `env.DB_PASSWORD` may be a secret"),
        (("--steps", "1"), 2, "is not a number of steps"),
        (("--seconds", "nan"), 2, "is not a number of seconds"),
        (("--detach", "--csv", "rows.csv"), 2, "there are no rows yet"),
        (("--chart", "rows.gif"), 2, "must end in .svg or .png"),
        (("--csv", "no/such/folder/rows.csv"), 2, "there is no folder"),
        (("--csv", "speed.yaml"), 8, "exists already"),
        (("--chart", "taken.svg"), 8, "exists already"),
        (("--apply", "cpu"), 8, "is a bundled profile"),
        (("--show", "x"), 2, "--show takes a run and no experiment"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_before_anything_starts(
    armada: Armada, experiment: str, words: tuple[str, ...], code: int, message: str
) -> None:
    (armada.folder / "taken.svg").write_text("mine")
    done = armada.run("bench", experiment, "--host", "local", *words)
    assert message in done.stderr
    assert done.returncode == code
    assert armada.json("ps") == []


def test_a_run_that_is_no_bench_has_no_rows(armada: Armada) -> None:
    run = armada.json("launch", "--host", "local", armada.command("true"))
    done = armada.run("bench", "--show", run["run_id"])
    assert (done.returncode, "is no bench" in done.stderr) == (2, True)


def test_a_host_alone_is_measured_in_one_process(armada: Armada) -> None:
    armada.write("speed.yaml", EXPERIMENT)
    (armada.folder / "local").mkdir()  # a folder of that name is no experiment
    plan = armada.json("bench", "local", "--dry-run")
    jsonschema.validate(plan, schema_of(SHAPES["bench --dry-run"]))
    assert (plan["spec"]["task"], plan["spec"]["experiment"]) == ("bench", {"health": {}})
    assert plan["spec"]["job"]["argv"][1:3] == ["-m", "armada_train.bench.health"]
    for words, message in (
        (("bench", "nowhere"), "no host is called 'nowhere'"),
        (("bench", "nowhere.yaml"), "there is no file nowhere.yaml"),
        (("bench", "quickstart"), "name the host to measure on"),
        (("bench", "speed.yaml"), "name the host to measure on"),
        (("bench",), "name an experiment and a host"),
        (("bench", "local", "--grid", "train.seed=1"), "--grid belongs to the bench of an experiment"),
    ):
        done = armada.run(*words)
        assert done.returncode in {2, 7}, done.stderr
        assert message in done.stderr


EXAMPLES = Path(__file__).parents[2] / "examples" / "bench"


@pytest.mark.parametrize(
    ("name", "profile", "grid", "batches"),
    [
        (
            "two-gpus",
            "rtx3090-2x",
            ("resources.gpus=1,2", "train.micro_batch_size=1,2,4,8"),
            [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2), (8, 2)],
        ),
        (
            "two-gpus",
            "a6000-8x",
            ("resources.gpus=1,2,4,8", "train.micro_batch_size=2"),
            [(2, n) for n in (1, 2, 4, 8)],
        ),
        ("models", "a100-80gb-8x", ("model=Qwen/Qwen2.5-0.5B-Instruct,Qwen/Qwen2.5-7B-Instruct",), [(1, 8), (1, 8)]),
    ],
)
def test_the_examples_are_tables_that_people_time_by_hand(
    armada: Armada, name: str, profile: str, grid: tuple[str, ...], batches: list[tuple[int, int]]
) -> None:
    """On a machine without GPUs all checks but that of the GPUs pass."""
    words = [word for each in grid for word in ("--grid", each)]
    planned = armada.run(
        "bench", str(EXAMPLES / f"{name}.yaml"), "--host", "local", "--profile", profile, *words, "--dry-run", "--json"
    )
    assert planned.returncode == 3
    plan = json.loads(planned.stdout)
    cells = [cell["training"]["batch"] for cell in plan["spec"]["training"]["bench"]["cells"]]
    assert [(cell["micro"], cell["processes"]) for cell in cells] == batches
    assert {cell["global"] for cell in cells} == {16}
    assert [check["code"] for check in plan["checks"] if check["outcome"] == "fail"] == ["ARM001"]
