from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from armada.config.experiments import load_experiment
from armada.config.tasks.experiment import Experiment
from armada.errors import ConfigError
from armada.launch.plans.job_data import JobData, plan_job_data
from armada.paths import HostPaths
from armada.protocol.spec import JobLink
from armada.provision.code import take_snapshot

SCRIPT = "name: s\ntask: script\nscript: train.py\ncode: code\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (
        "code/train.py",
        "code/tracked.txt",
        "code/big/a.bin",
        "code/big/deep/b.bin",
        "elsewhere/c.txt",
        "code/c.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "code" / ".gitignore").write_text("big\nc.txt\n")
    subprocess.run(["git", "init", "-q", str(tmp_path / "code")], check=True)
    return tmp_path


def load(project: Path, *sources: str, text: str = SCRIPT) -> Experiment:
    listed = ", ".join(f"{{path: {source}}}" for source in sources)
    (project / "e.yaml").write_text(f"{text}data: {{train: [{listed}]}}\n")
    return load_experiment(project / "e.yaml")


def plan(project: Path, *sources: str, text: str = SCRIPT) -> JobData:
    experiment = load(project, *sources, text=text)
    snapshot = take_snapshot(experiment.code) if experiment.code else None
    return plan_job_data(experiment, snapshot, HostPaths(PurePosixPath("/r")))


def test_ignored_data_keeps_its_place_and_what_is_elsewhere_is_found_below_data(project: Path) -> None:
    found = plan(project, "code/big", "elsewhere/c.txt", "code/c.txt")
    assert [link.name for link in found.links] == ["big", "data/c.txt", "c.txt"]
    big, other, _ = found.contents
    assert big.files == ["big/a.bin", "big/deep/b.bin"]
    assert found.links[0].content == f"/r/data/{big.sha}/big"
    assert found.links[1].content == f"/r/data/{other.sha}/c.txt"


def test_what_travels_with_the_code_is_not_sent_twice(project: Path) -> None:
    assert plan(project, "code/tracked.txt") == JobData()


def test_a_link_to_data_is_found_under_its_own_name(project: Path) -> None:
    (project / "code" / "big" / "linked.txt").symlink_to(project / "elsewhere" / "c.txt")
    found = plan(project, "code/big/linked.txt")
    assert found.links == [JobLink(content=f"/r/data/{found.contents[0].sha}/c.txt", name="big/linked.txt")]


def test_a_command_without_code_finds_data_by_its_experiments_folder(project: Path) -> None:
    found = plan(project, "elsewhere/c.txt", text="name: c\ntask: command\ncommand: [ls]\n")
    assert [link.name for link in found.links] == ["elsewhere/c.txt"]


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (("code",), "this is `code` itself, or contains it"),
        (("code/..",), "this is `code` itself, or contains it"),
        (("elsewhere/c.txt", "more/c.txt"), "two entries of `data:` would both be data/c.txt in the job's folder"),
    ],
)
def test_data_that_cannot_be_placed_is_refused(project: Path, sources: tuple[str, ...], said: str) -> None:
    (project / "more").mkdir()
    (project / "more" / "c.txt").write_text("more")
    with pytest.raises(ConfigError, match=said):
        plan(project, *sources)
