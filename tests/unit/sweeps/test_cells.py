"""Cells of a sweep: order, names, places of what is wrong, and counting without expanding."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.tasks.command import Command
from armada.errors import ArmadaError, ConfigError, UsageError
from armada.sweeps.cells import MOST_CELLS, Cell, Known, Words, expand, label_all, open_values, read_draft
from armada.sweeps.equal_cells import identity

HEAD = "name: Probe\ntask: command\ncommand: [sh, -c, 'true']\nenv: {LR: x}\n"


def cells_of(folder: Path, sweep: str, words: Words | None = None) -> list[Cell]:
    path = folder / "e.yaml"
    path.write_text(HEAD + sweep, "utf-8")
    return expand(read_draft(path, words or Words()))


def error_of(folder: Path, sweep: str, words: Words | None = None) -> ArmadaError:
    with pytest.raises(ArmadaError) as caught:
        cells_of(folder, sweep, words)
    return caught.value


def test_a_grid_has_every_combination_and_its_last_key_varies_first(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, "sweep:\n  grid:\n    env.LR: ['1', '2']\n    stop_grace_s: [5, 6]\n")
    assert [(cell.number, cell.label) for cell in cells] == [
        (1, "LR=1 stop_grace_s=5"),
        (2, "LR=1 stop_grace_s=6"),
        (3, "LR=2 stop_grace_s=5"),
        (4, "LR=2 stop_grace_s=6"),
    ]
    third = cells[2].experiment
    assert isinstance(third, Command)
    assert (third.env["LR"], third.stop_grace_s, third.sweep) == ("2", 5.0, None)


def test_cells_do_not_share_values_that_a_later_cell_changes(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, "sweep: {grid: {env.A: [1, 2]}}\n")
    assert [cell.experiment.env for cell in cells] == [{"LR": "x", "A": "1"}, {"LR": "x", "A": "2"}]


def test_listed_cells_come_first_then_the_grid_then_drawn_ones_and_equal_ones_count_once(tmp_path: Path) -> None:
    cells = cells_of(
        tmp_path,
        "sweep:\n  cells: [{env.LR: b}, {env.LR: z, env.X: 1}]\n  grid: {env.LR: [a, b]}\n"
        "  random: {n: 1, seed: 3, space: {env.LR: [a, b, c]}}\n",
    )
    assert [cell.label for cell in cells] == ["LR=b", "LR=z X=1", "LR=a", "LR=c"]


@pytest.mark.parametrize(
    "cells",
    [
        "[{stop_grace_s: 5}, {stop_grace_s: 5.0}]",
        "[{stop_grace_s: 1e-5}, {stop_grace_s: 0.00001}]",
        "[{env.LR: 1, retries: 2}, {retries: 2, env.LR: '1'}]",
        "[{env: {A: 1, B: 2}}, {env: {B: 2, A: '1'}}]",
        "[{stop_grace_s: 5}], grid: {stop_grace_s: [5.0]}",
        "[{stop_grace_s: 5}], random: {n: 1, space: {stop_grace_s: [5.0]}}",
    ],
)
def test_cells_that_differ_only_in_the_way_they_are_written_count_once(tmp_path: Path, cells: str) -> None:
    assert len(cells_of(tmp_path, f"sweep: {{cells: {cells}}}\n")) == 1


def test_cells_that_mean_something_else_stay(tmp_path: Path) -> None:
    assert len(cells_of(tmp_path, "sweep: {cells: [{env.LR: '1'}, {env.LR: '1.0'}, {env.LR: ' 1'}]}\n")) == 3


def test_a_cell_that_the_sweep_has_under_another_spelling_is_not_added(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(HEAD, "utf-8")
    draft = read_draft(path, Words(grid=["stop_grace_s=5,6"]))
    assert [cell.number for cell in expand(draft, Known(done=[{"stop_grace_s": 5.0}], last=1))] == [2]


def test_the_same_seed_draws_the_same_cells_and_another_one_draws_others(tmp_path: Path) -> None:
    space = ("stop_grace_s={min: 1, max: 1000000}", "env.LR=a,b")
    drawn = [
        [cell.values for cell in cells_of(tmp_path, "", Words(space=space, random=5, seed=seed))] for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({str(values) for values in drawn[0]}) == 5


def test_drawn_numbers_stay_inside_their_interval_and_are_what_is_shown(tmp_path: Path) -> None:
    words = Words(space=("stop_grace_s={min: 0.001, max: 10.0, scale: log}",), random=200)
    values = [cell.values["stop_grace_s"] for cell in cells_of(tmp_path, "", words)]
    assert all(0.001 <= value <= 10.0 and float(f"{value:.6g}") == value for value in values)
    assert 50 < sum(value < 0.1 for value in values) < 150


def test_whole_ends_draw_fractions_of_a_setting_that_has_them(tmp_path: Path) -> None:
    space = ("stop_grace_s={min: 0, max: 5}", "env.LR={min: 0, max: 5}", "retries={min: 0, max: 5}")
    cells = cells_of(tmp_path, "", Words(space=space, random=20))
    assert any(cell.values["stop_grace_s"] % 1 for cell in cells)
    assert {type(cell.values[key]) for cell in cells for key in ("env.LR", "retries")} == {int}


def test_a_cell_keeps_no_places_of_the_other_cells(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, "sweep: {grid: {env.B: [1, 2]}}\n", Words(grid=[f"env.A={list(range(300))}"]))
    places = cells[300].experiment.places
    assert not any(key.startswith("sweep") for key in places)
    assert (cells[300].label, places["env.A"]) == ("B=2 A=0", "--grid env.A=0")


def test_options_replace_a_key_of_the_file_and_keep_the_others(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, "sweep: {grid: {env.A: [1, 2], env.B: [3]}}\n", Words(grid=["env.A=7"]))
    assert [cell.label for cell in cells] == ["A=7 B=3"]


@pytest.mark.parametrize(
    ("sweep", "words", "said"),
    [
        ("sweep:\n  grid:\n    resources.gpu: [1]\n", Words(), ":7: unknown key `resources.gpu`"),
        ("sweep:\n  grid:\n    stop_grace_s: [1, soon]\n", Words(), ":7: `stop_grace_s` must be a number, not 'soon'"),
        ("", Words(grid=["stop_grace=1,2"]), "--grid stop_grace=1,2: unknown key `stop_grace`"),
        ("", Words(grid=["stop_grace_s"]), "write KEY=VALUE,VALUE"),
        ("", Words(grid=["env.A=1]"]), "not YAML"),
        ("", Words(grid=["command.9=a"]), "'9' is not an index of a list of 3"),
        ("", Words(grid=["name.x=1"]), "`name.x` cannot differ between cells"),
        ("sweep: {grid: {env.A: [1, 1]}}\n", Words(), "`env.A` has 1 twice"),
        ("", Words(grid=['env.A=1,"1"']), "`env.A` has 1 and '1', which are the same to it"),
        (
            "sweep: {grid: {stop_grace_s: [5, 6, 5.0]}}\n",
            Words(),
            ":5: `stop_grace_s` has 5 and 5.0, which are the same",
        ),
        ("", Words(random=1, space=['env.A=2,"2"']), "`env.A` has 2 and '2', which are the same"),
        ("sweep: {grid: {env.A: []}}\n", Words(), "`sweep.grid.env.A` must be filled"),
        ("sweep: {grid: {env..A: [1]}}\n", Words(), "'env..A' is not a key"),
        ("sweep: {cells: [{}]}\n", Words(), "cell 1 changes nothing"),
        ("sweep: {gird: {env.A: [1]}}\n", Words(), "unknown key `sweep.gird`"),
        ("sweep: 5\n", Words(), "`sweep` must be a mapping"),
        ("", Words(), "there is nothing to sweep over"),
        ("", Words(random=3), "has no `space` to draw from"),
        ("", Words(random=0, space=["env.A=1"]), "--random 0: `sweep.random.n` must be at least 1"),
        ("", Words(random=5, space=["env.A=1,2"]), "is 5, but its space has only 2 combinations"),
        ("", Words(random=5, space=["env.A={min: 2, max: 1}"]), "must be more than `min`, 2"),
        ("", Words(random=5, space=["env.A={min: 0, max: 1, scale: log}"]), "must be more than 0 with `scale: log`"),
        ("", Words(random=5, space=[f"env.A={{min: 1, max: 1{'0' * 400}, scale: log}}"]), "max` is too large to draw"),
        ("", Words(random=5, space=["env.A={min: 1, max: 1.7e308, scale: log}"]), "max` is too large to draw"),
        ("", Words(random=5, space=["env.A={min: 1, max: .inf}"]), "a finite number, not inf"),
        ("", Words(grid=["env.A=1", "env.B=1", "env.A=2"]), "--grid env.A=2: `env.A` has values already"),
        ("", Words(random=1, space=["env.A=1", "env.A=2"]), "--space env.A=2: `env.A` has values already"),
        ("sweep: {grid: {env.A: [1]}, stop: {target: 3}}\n", Words(), "needs `metric`"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, sweep: str, words: Words, said: str) -> None:
    assert said in str(error_of(tmp_path, sweep, words))


def test_a_wrong_key_has_the_nearest_one_as_hint(tmp_path: Path) -> None:
    assert error_of(tmp_path, "sweep: {grid: {resources.gpu: [1]}}\n").hint == "did you mean `resources.gpus`?"


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("", Words(grid=["env.HF_TOKEN=canary-9912,x"])),
        ("", Words(grid=["arguments.0=a,hf_canary9912canary9912"])),
        ("", Words(grid=["arguments.0=--key=canary-9912,x"])),
        ("", Words(grid=["env=[{A: b, HF_TOKEN: canary-9912}]"])),
        ("", Words(grid=["arguments=[[--token, canary-9912]]"])),
        ("", Words(random=1, space=["env.API_KEY=[short, canary-9912]"])),
        ("", Words(search=3, space=["env.PASSWORD=[short, canary-9912]"])),
        ("sweep: {metric: loss, cells: [{env.A: 1}, {env.MY_SECRET: canary-9912}]}\n", Words()),
        ("", Words(grid=["env.DB_PASSWORD=canary,b"])),
        ("", Words(grid=["env=[{A: b, DB_PASSWORD: canary}]"])),
    ],
)
def test_a_secret_is_not_swept_over_and_not_repeated(tmp_path: Path, sweep: str, words: Words) -> None:
    error = error_of(tmp_path, f"arguments: [x]\n{sweep or 'sweep: {metric: loss}'}\n", words)
    assert "may be a secret" in error.message
    assert "canary" not in f"{error} {error.hint}"


def test_short_words_and_numbers_under_such_names_are_no_secrets(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, "", Words(grid=["env.SORT_KEY=name,date", "env.MAX_TOKEN=1234567890,5"]))
    assert len(cells) == 4
    cells = cells_of(tmp_path, "", Words(grid=[f"env.REVISION={'ab' * 20},main"]))
    assert len(cells) == 2


def test_harmless_values_under_names_like_those_of_secrets_are_swept_and_shown(tmp_path: Path) -> None:
    grid = ["env.SORT_KEY=timestamp,alphabet", "env.TOKENIZER=Qwen/Qwen2.5-0.5B", "env.KEY=training"]
    assert [cell.label for cell in cells_of(tmp_path, "", Words(grid=grid))] == [
        "SORT_KEY=timestamp TOKENIZER=Qwen/Qwen2.5-0.5B KEY=training",
        "SORT_KEY=alphabet TOKENIZER=Qwen/Qwen2.5-0.5B KEY=training",
    ]


def test_numbers_under_a_secrets_name_are_swept_and_not_shown(tmp_path: Path) -> None:
    (cell,) = cells_of(tmp_path, "", Words(grid=["env.DB_PASSWORD=4711", "env.A=4712"]))
    assert (cell.label, open_values(cell.values)) == (
        "DB_PASSWORD=*** A=4712",
        {"env.DB_PASSWORD": "***", "env.A": 4712},
    )


def test_values_that_only_look_alike_are_cells_of_their_own(tmp_path: Path) -> None:
    cells = cells_of(tmp_path, "", Words(grid=['env.A="1","1.0","x"']))
    assert [cell.experiment.env["A"] for cell in cells] == ["1", "1.0", "x"]


def test_a_million_cells_are_counted_but_never_made(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(HEAD, "utf-8")
    choices = ",".join(map(str, range(100)))
    draft = read_draft(path, Words(grid=[f"env.{name}={choices}" for name in "ABC"]))
    assert draft.count == 10**6
    with pytest.raises(UsageError, match=f"at most {MOST_CELLS:,} cells, not 1,000,000"):
        expand(draft)


def test_more_cells_go_on_with_the_numbers_and_leave_out_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(HEAD + "sweep: {grid: {env.A: [1, 2, 3]}}\n", "utf-8")
    known = Known(done=[{"env.A": 2}, {"env.A": 9}], pending={identity({"env.A": 3}): 5}, last=7)
    more = expand(read_draft(path, Words()), known)
    assert [(cell.number, cell.label) for cell in more] == [(8, "A=1"), (5, "A=3")]


def test_labels_are_as_short_as_they_are_clear() -> None:
    assert label_all([{"train.seed": 1, "data.seed": 2, "arguments.1": "x" * 40, "train.lr": 1e-5}]) == [
        f"train.seed=1 data.seed=2 arguments.1={'x' * 29}… lr=1e-05"
    ]


def test_a_file_with_a_sweep_is_checked_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("name: x\ntask: command\ncomand: [a]\nsweep: {grid: {env.A: [1]}}\n", "utf-8")
    draft = read_draft(path, Words())
    with pytest.raises(ConfigError, match="unknown key `comand`"):
        expand(draft)


def test_what_may_be_a_secret_is_in_no_label() -> None:
    token = "hf_" + "a" * 30
    cells = [{"env.HF_TOKEN": "mine", "env.MODE": "x", "train.pad_token": "eos", "arguments.2": f"--key={token}"}]
    (label,) = label_all(cells)
    assert label == "HF_TOKEN=*** MODE=x pad_token=eos arguments.2=--key=***"
    assert label_all([{"env.API": token}, {"env.API": 3}]) == ["API=***", "API=3"]
