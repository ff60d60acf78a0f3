"""W&B's offline records at home, and what uploads them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from armada.errors import OutcomeUnknown, UsageError
from armada.foundation.extras import install_command
from armada.paths import HomePaths
from armada.sync.outputs.wandb import compose_command, find_program, offline_runs, upload

RUN = "tiny-abc123"


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    return HomePaths(tmp_path / "config", tmp_path / "state")


def record(home: HomePaths, stamp: str, *, top: str = "wandb", uploaded: bool = False) -> Path:
    """An offline folder as wandb 0.31 leaves it."""
    folder = home.run(RUN) / "outputs" / top / f"offline-run-{stamp}-{RUN}"
    (folder / "files").mkdir(parents=True)
    records = folder / f"run-{RUN}.wandb"
    records.write_bytes(b":W&B")
    if uploaded:
        (folder / f"run-{RUN}.wandb.synced").touch()
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A stand-in for `wandb`, whose service cannot be reached here: it keeps its words and marks what it was given."""
    script = tmp_path / "bin" / "wandb"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f'for word; do printf "%s\\n" "$word"; done > {tmp_path}/words; env > {tmp_path}/env\n'
        f"pwd -P > {tmp_path}/place; find . > {tmp_path}/beside\n"
        'while [ "$1" != -- ]; do shift; done; shift\n'
        'echo "syncing"; for run; do for f in "$run"/*.wandb; do touch "$f.synced"; done; done\n'
    )
    script.chmod(0o755)
    return script


def test_records_come_in_order_of_time_from_both_places(home: HomePaths) -> None:
    second = record(home, "20261120_170029")
    first = record(home, "20261120_170027", uploaded=True)
    third = record(home, "20261120_180000", top="work/wandb")
    (second.parent / "latest-run").symlink_to(second.name)
    (second.parent / f"run-20261120_160000-{RUN}").mkdir()
    (second.parent / "offline-run-20261120_160000-empty").mkdir()
    found = offline_runs(home, RUN)
    assert [run.folder for run in found] == [first, second, third]
    assert [run.uploaded for run in found] == [True, False, False]


def test_records_that_grew_since_their_upload_have_more_to_tell(home: HomePaths) -> None:
    folder = record(home, "20261120_170027", uploaded=True)
    os.utime(folder / f"run-{RUN}.wandb.synced", (1, 1))
    assert not offline_runs(home, RUN)[0].uploaded


def test_nothing_at_home_is_nothing(home: HomePaths) -> None:
    assert offline_runs(home, RUN) == []


def test_an_upload_is_words_and_homes_own_key(
    home: HomePaths, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "canary")
    monkeypatch.setenv("WANDB_MODE", "offline")  # what a person set for trainings here must not make this one silent
    folders = [record(home, f"20261120_17002{number}") for number in (7, 9)]
    runs = offline_runs(home, RUN)
    command = compose_command([str(program)], runs, run_id=RUN, project="a b; touch x", entity=None)
    said: list[str] = []
    upload(command, runs, said.append)
    words = (tmp_path / "words").read_text().splitlines()
    assert words == ["sync", "--include-synced", f"--id={RUN}", "--project=a b; touch x", "--", *map(str, folders)]
    environment = (tmp_path / "env").read_text().splitlines()
    assert "WANDB_API_KEY=canary" in environment
    assert "WANDB_MODE=offline" not in environment
    assert said == ["syncing"]
    assert all(run.uploaded for run in offline_runs(home, RUN))


def test_settings_that_came_from_a_host_are_not_beside_the_upload(
    home: HomePaths, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_DIR", str(home.run(RUN) / "outputs"))  # left over from a training
    folder = record(home, "20261120_170027")
    settings = folder.parent / "wandb" / "settings"
    settings.parent.mkdir()
    settings.write_text("[default]\nbase_url = https://evil.example\n")
    runs = offline_runs(home, RUN)
    upload(compose_command([str(program)], runs, run_id=RUN, project=None, entity=None), runs, lambda _: None)
    place = Path((tmp_path / "place").read_text().strip())
    assert not place.is_relative_to(home.state)
    assert not place.exists()
    assert (tmp_path / "beside").read_text() == ".\n"
    variables = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert Path(variables["WANDB_DIR"]).name == place.name


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("echo 'Error: No API key configured. Use `wandb login` to log in.'; exit 1", UsageError, "no key"),
        ("printf 'bad \\033[2J gateway\\n'; exit 1", OutcomeUnknown, "exit code 1: bad �\\[2J gateway"),
        ("exit 0", OutcomeUnknown, "did not mark offline-run-20261120_170027"),
    ],
)
def test_a_failed_upload_says_what_to_do(
    home: HomePaths, program: Path, script: str, error: type[Exception], words: str
) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    record(home, "20261120_170027")
    runs = offline_runs(home, RUN)
    with pytest.raises(error, match=words):
        upload(compose_command([str(program)], runs, run_id=None, project=None, entity=None), runs, lambda _: None)


def test_without_the_program_its_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "wandb").mkdir()  # a folder of that name is no program, nor a module to run
    sys.modules.pop("wandb", None)
    with pytest.raises(UsageError) as caught:
        find_program()
    assert caught.value.hint == install_command("wandb")
