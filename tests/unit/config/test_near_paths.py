"""A path that is not there names the one that is probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.experiments import load_experiment
from armada.config.near_paths import near_path
from armada.errors import ConfigError

SCRIPT = "name: s\ntask: script\nscript: {script}\ncode: {code}\n{more}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dataset" / "clean").mkdir(parents=True)
    (tmp_path / "dataset" / "clean" / "train.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    (tmp_path / "accelerate.yaml").write_text("{}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("script", "code", "more", "line", "message", "meant"),
    [
        ("train.py", "scr", "", 4, "`code`: there is no folder", "'src'"),
        ("trian.py", "src", "", 3, "`script`: there is no file", "'train.py'"),
        ("train.py", "src", "accelerate: acelerate.yaml", 5, "`accelerate`: there is no file", "'accelerate.yaml'"),
        (
            "train.py",
            "src",
            "data: {train: [{path: datasets/claen/train.json}]}",
            5,
            "`data.train[0].path`: there is no file",
            "'dataset/clean/train.jsonl'",
        ),
        ("train.py", "src", "files: {corpus: datast}", 5, "`files.corpus`: there is no file or folder", "'dataset'"),
    ],
)
def test_a_mistyped_path_is_named_with_its_line_and_the_nearest_one(
    project: Path, script: str, code: str, more: str, line: int, message: str, meant: str
) -> None:
    (project / "e.yaml").write_text(SCRIPT.format(script=script, code=code, more=more))
    with pytest.raises(ConfigError) as wrong:
        load_experiment(project / "e.yaml")
    assert (wrong.value.line, message in wrong.value.message) == (line, True)
    assert wrong.value.hint == f"did you mean {meant}?"


def test_a_mistyped_folder_of_a_model_names_the_nearest(project: Path) -> None:
    (project / "models" / "llama").mkdir(parents=True)
    (project / "e.yaml").write_text(
        "name: s\ntask: sft\nmodel: ./model/lama\ndata: {train: [{path: dataset/clean/train.jsonl}]}\n"
        "train: {global_batch_size: 1, max_steps: 1}\n"
    )
    with pytest.raises(ConfigError) as wrong:
        load_experiment(project / "e.yaml")
    assert (wrong.value.line, "`model`: there is no folder" in wrong.value.message) == (3, True)
    assert wrong.value.hint == "did you mean 'models/llama'?"


def test_a_path_like_nothing_that_is_there_gets_no_hint(project: Path) -> None:
    assert near_path(project / "zzz", project, Path.exists) is None
    assert near_path(project / "dataset" / "zzz", project, Path.exists) is None
    assert near_path(project / "datasets" / "zzz", project, Path.exists) is None
    assert near_path(Path("relative"), project, Path.exists) is None


def test_only_what_the_key_takes_is_meant(project: Path) -> None:
    assert near_path(project / "datast", project, Path.is_file) is None
    assert near_path(project / "src", project, Path.is_file) is None


def test_a_path_outside_of_the_project_is_named_whole(project: Path) -> None:
    hint = near_path(project / "datast", project / "src", Path.is_dir)
    assert hint == f"did you mean '{project / 'dataset'}'?"


def test_names_are_shown_without_control_characters(project: Path) -> None:
    (project / "evil\x1b[2Jname").mkdir()
    hint = near_path(project / "evil[2Jname", project, Path.is_dir)
    assert hint is not None
    assert hint.isprintable()
