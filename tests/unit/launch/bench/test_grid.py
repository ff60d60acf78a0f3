from __future__ import annotations

from pathlib import Path

import pytest

from armada.errors import ConfigError, PreflightRefused, UsageError
from armada.launch.bench.grid import MOST_CELLS, expand, read_grid

EXPERIMENT = """\
task: sft
name: speed
model: {tiny: {}}
data: {train: [{path: train.jsonl}]}
train: {global_batch_size: 8, max_steps: 10}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    path = tmp_path / "exp.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_a_grid_is_every_combination_and_its_last_key_varies_first(file: Path) -> None:
    cells = expand(read_grid(file, [], ["train.micro_batch_size=1,2,2", "resources.gpus=1,2"]))
    assert [cell.label for cell in cells] == [
        "micro_batch_size=1 gpus=1",
        "micro_batch_size=1 gpus=2",
        "micro_batch_size=2 gpus=1",
        "micro_batch_size=2 gpus=2",
    ]
    assert [cell.number for cell in cells] == [1, 2, 3, 4]
    assert [(cell.experiment.train.micro_batch_size, cell.experiment.resources.gpus) for cell in cells][2] == (2, 1)


def test_what_only_a_profile_says_stays_out_of_the_experiment(file: Path) -> None:
    cells = expand(read_grid(file, [], ["train.attention=sdpa,eager"]))
    assert [dict(cell.machine) for cell in cells] == [{"attention": "sdpa"}, {"attention": "eager"}]


def test_without_a_grid_there_is_one_cell(file: Path) -> None:
    (cell,) = expand(read_grid(file, ["train.seed=7"], []))
    assert (cell.label, cell.experiment.train.seed) == ("as it is", 7)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("train.micro_batch=1,2", "--grid train.micro_batch=1,2: unknown key `train.micro_batch`", "micro_batch_size"),
        ("train.atention=sdpa", "unknown key `train.atention`", "`train.attention`"),
        ("train.attention=flash", "`train.attention`", "sdpa"),
        ("train.micro_batch_size=0", "--grid train.micro_batch_size=0: `train.micro_batch_size`", ""),
        ("train.micro_batch_size=", "write KEY=VALUE,VALUE", ""),
        ("train.micro_batch_size=[]", "there are no values", ""),
        ("train.seed={min: 1}", "there are no values", ""),
        ("environment.requirements=[[a], [b]]", "share one environment", "--set"),
        ("name=a,b", "cannot differ between cells", ""),
        ("=1", "write KEY=VALUE,VALUE", ""),
    ],
)
def test_a_wrong_grid_is_refused_with_its_option(file: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        expand(read_grid(file, [], [text]))
    assert message in str(refused.value)
    assert "--grid" in str(refused.value)
    assert hint in f"{refused.value} {refused.value.hint}"


def test_a_key_given_twice_and_a_script_are_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match="has values already"):
        read_grid(file, [], ["train.seed=1", "train.seed=2"])
    script = file.with_name("script.yaml")
    script.write_text("task: command\nname: c\ncommand: ['true']\ncode: null\n")
    with pytest.raises(PreflightRefused, match="nothing can be measured"):
        read_grid(script, [], ["name=a"])


def test_a_million_cells_are_counted_and_not_made(file: Path) -> None:
    values = ",".join(map(str, range(1, 1001)))
    grid = read_grid(file, [], [f"train.seed={values}", f"train.max_length={','.join(map(str, range(8, 1008)))}"])
    assert grid.count == 1_000_000 > MOST_CELLS
    with pytest.raises(UsageError, match="1,000,000"):
        expand(grid)


@pytest.mark.parametrize("task", ["pretrain", "dpo", "reward", "kto"])
def test_each_training_on_rows_is_measured(file: Path, task: str) -> None:
    file.write_text(EXPERIMENT.replace("task: sft", f"task: {task}"))
    (cell,) = expand(read_grid(file, [], ["train.micro_batch_size=2"]))
    assert (cell.experiment.task, cell.experiment.train.micro_batch_size) == (task, 2)


def test_a_training_that_samples_its_rows_is_not_measured(file: Path) -> None:
    file.write_text(
        EXPERIMENT.replace("task: sft", "task: grpo") + "grpo: {rewards: [judge:score], num_generations: 2}\ncode: .\n"
    )
    with pytest.raises(PreflightRefused, match="`task: grpo` samples its rows meanwhile"):
        read_grid(file, [], [])
