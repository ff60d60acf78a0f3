"""`metrics:` names tables below the folder that a script or command works in."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.tasks.own_job import OwnJob
from armada.launch.plans.watch import watch_of
from tests.unit.config.experiments import COMMAND, SFT, load, refused


@pytest.mark.parametrize("words", ["logs/**/metrics.csv", "[logs/**/metrics.csv]"])
def test_a_path_or_a_list_of_paths_reaches_the_host(project: Path, words: str) -> None:
    experiment = load(project, f"{COMMAND}metrics: {words}\n")
    assert isinstance(experiment, OwnJob)
    assert watch_of(experiment).model_dump(exclude_unset=True)["metrics"] == ("logs/**/metrics.csv",)


def test_without_it_nothing_is_said_to_the_host(project: Path) -> None:
    assert "metrics" not in watch_of(load(project, COMMAND)).model_dump(exclude_unset=True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("/tmp/a.csv", "'/tmp/a.csv' must be a path below the folder that the job works in"),
        ("../a.csv", "must be a path below"),
        ("~/a.csv", "must be a path below"),
        ("logs//a.csv", "must be a path below"),
        ("a.txt", "'a.txt' must end in .csv, .tsv, .jsonl, .ndjson or .json"),
        ("5", "`metrics"),
        ("['']", "must not be empty"),
        (f"[{', '.join(f'{number}.csv' for number in range(33))}]", "names 33 files; at most 32 are read"),
    ],
)
def test_what_no_host_could_read_is_refused_with_its_line(project: Path, words: str, problem: str) -> None:
    wrong = refused(project, f"{COMMAND}metrics: {words}\n")
    assert problem in wrong.message
    assert wrong.line == 4


def test_the_bundled_trainer_needs_none(project: Path) -> None:
    wrong = refused(project, f"{SFT}metrics: a.csv\n")
    assert "`metrics`" in wrong.message
    assert "`task: script` or `task: command`" in wrong.message
