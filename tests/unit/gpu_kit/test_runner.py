"""The GPU kit's runner: no check can stop the others, and each result is written as it comes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import catalogue, results_file, runner
from benchmarks.gpu.catalogue import Check
from tests.waiting import eventually

LONG_AGO = 1e9


def story(name: str, needs_s: float = 1, limit_s: float = 60) -> Check:
    return Check(name, "tests.unit.gpu_kit.stories", "a story", needs_s, limit_s)


@pytest.fixture
def kit(tmp_path: Path) -> Callable[..., runner.Runner]:
    setting = runner.Setting(
        python=sys.executable,
        home_python=sys.executable,
        machine={"gpu": "NVIDIA H200", "driver": "580.1", "python": "3.12.3", "packages": {"torch": "2.13.0"}},
        work=tmp_path / "work",
        results=tmp_path / "results" / "nvidia-h200.json",
        tiny=True,
        commit="abc",
    )

    def make(budget_s: float = 1000, said: list[str] | None = None, **options: Any) -> runner.Runner:
        lines = [] if said is None else said
        return runner.Runner(setting, budget_s, lines.append, **options)

    return make


def read(tmp_path: Path) -> dict[str, Any]:
    checks: dict[str, Any] = results_file.read(tmp_path / "results" / "nvidia-h200.json")["checks"]
    return checks


def test_every_end_of_a_check_is_a_result_and_the_next_one_runs(
    tmp_path: Path, kit: Callable[..., runner.Runner]
) -> None:
    said: list[str] = []
    names = ["passes", "fails", "raises", "oom", "skips", "dies", "lies", "tells"]
    states = kit(said=said).run([story(name) for name in names], again=False)
    assert states == {
        "passes": "passed",
        "fails": "failed",
        "raises": "failed",
        "oom": "oom",
        "skips": "skipped",
        "dies": "failed",
        "lies": "failed",
        "tells": "failed",
    }
    found = read(tmp_path)
    assert {name: entry["message"] for name, entry in found.items() if name not in ("passes", "oom")} == {
        "fails": "the loss is 7",
        "raises": "LookupError: what a library says",
        "skips": "flash-attn is not installed",
        "dies": "it ended with signal 9 before it had said its result",
        "lies": "it said 'splendid', which is no result",
        "tells": "1 of 2 cases failed",
    }
    first = {"name": "first", "status": "passed", "message": "", "figures": {"figure": 1.5, "nothing": None}}
    assert all(entry["cases"][0] == first for entry in found.values())
    assert found["passes"]["commit"] == "abc"
    assert found["passes"]["packages"] == {"torch": "2.13.0"}
    assert "LookupError: what a library says" in "".join(said)


def test_a_check_that_hangs_is_ended_with_all_that_it_started_and_its_cases_stay(
    tmp_path: Path, kit: Callable[..., runner.Runner]
) -> None:
    child = tmp_path / "work" / "kit-checks" / "hangs" / "child"

    def clock() -> float:  # time passes when the check hangs
        return LONG_AGO if child.exists() and child.read_text() else 0.0

    states = kit(budget_s=2 * LONG_AGO, clock=clock).run([story("hangs"), story("passes")], again=False)
    assert states == {"hangs": "timeout", "passes": "passed"}
    entry = read(tmp_path)["hangs"]
    assert entry["message"] == "it did not end within 60 s"
    assert [case["name"] for case in entry["cases"]] == ["first"]
    pid = int(child.read_text())
    eventually(lambda: not _is_alive(pid), "the end of what it started")


def test_a_check_that_is_ended_by_what_is_left_of_the_budget_says_so(
    tmp_path: Path, kit: Callable[..., runner.Runner]
) -> None:
    child = tmp_path / "work" / "kit-checks" / "hangs" / "child"

    def clock() -> float:
        return LONG_AGO if child.exists() and child.read_text() else 0.0

    assert kit(budget_s=30, clock=clock).run([story("hangs")], again=False) == {"hangs": "timeout"}
    expected = "it did not end within 30 s, which was all that was left of the budget"
    assert read(tmp_path)["hangs"]["message"] == expected


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_has_a_result_is_not_measured_again_unless_it_is_asked_for(
    tmp_path: Path, kit: Callable[..., runner.Runner]
) -> None:
    path = tmp_path / "results" / "nvidia-h200.json"
    old = {"passes": "passed", "oom": "oom", "fails": "timeout", "skips": "skipped"}
    for name, status in old.items():
        results_file.record(path, "NVIDIA H200", name, {"status": status, "message": "before", "cases": []})
    said: list[str] = []
    assert kit(said=said).run([story(name) for name in old], again=False) == {**old, "fails": "failed"}
    found = read(tmp_path)
    assert {name: entry["message"] == "before" for name, entry in found.items()} == {
        "passes": True,
        "oom": True,
        "fails": False,
        "skips": False,
    }
    assert kit().run([story("passes")], again=True) == {"passes": "passed"}
    assert read(tmp_path)["passes"]["message"] == ""


def test_what_does_not_fit_the_budget_is_listed_and_keeps_an_earlier_result(
    tmp_path: Path, kit: Callable[..., runner.Runner]
) -> None:
    path = tmp_path / "results" / "nvidia-h200.json"
    results_file.record(path, "NVIDIA H200", "fails", {"status": "failed", "message": "before", "cases": []})
    states = kit(budget_s=3).run([story("passes"), story("fails")], again=False)
    assert states == {"passes": "not run", "fails": "not run"}
    found = read(tmp_path)
    assert found["passes"]["message"] == "3 s of the budget are left, and it takes about 1 s"
    assert found["fails"]["message"] == "before"


def test_a_broken_results_file_is_named_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    for text in (
        "{ cut",
        "[]",
        '{"format": 1, "checks": []}',
        '{"format": 1, "checks": {"facts": 3}}',
        '{"format": 2, "checks": {}}',
    ):
        path.write_text(text)
        with pytest.raises(results_file.ResultsError, match=str(path)):
            results_file.record(path, "GPU", "facts", {})
        assert path.read_text() == text
    assert results_file.file_for("NVIDIA H100 80GB HBM3/../x").name == "nvidia-h100-80gb-hbm3-x.json"
    assert results_file.file_for("…").name == "gpu.json"


def test_the_catalogue_names_modules_that_exist_and_fits_its_budget() -> None:
    for check in catalogue.CHECKS:
        file = runner.ROOT.joinpath(*check.module.split(".")).with_suffix(".py")
        assert "def run(bench: Workbench) -> None:" in file.read_text()
        assert check.needs_s <= check.limit_s <= 9 * 60  # a lent machine takes commands of ten minutes
    assert sum(check.needs_s for check in catalogue.CHECKS) <= 25 * 60
    with pytest.raises(ValueError, match="there is no check fast; there are facts, placement"):
        catalogue.find(["fast"])


def test_the_command_refuses_with_a_sentence_what_it_cannot_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    words = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "r.json")]
    assert command.main([*words, "--python", "no-such-python"]) == 2
    assert "no-such-python is no program; name a Python with torch" in capsys.readouterr().err
    assert command.main([*words, "--python", sys.executable]) == 2
    assert "no GPU can be measured: nvidia-smi" in capsys.readouterr().err
    assert command.main([*words, "--python", sys.executable, "--tiny"]) == 2
    assert "lacks torch, transformers" in capsys.readouterr().err
    assert command.main([*words, "--only", "fast"]) == 2
    assert "there is no check fast" in capsys.readouterr().err
    with command.alone(tmp_path / "work"):
        assert command.main([*words, "--tiny"]) == 2
    assert "another `make gpu` works in" in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_the_whole_command_writes_results_and_says_what_was_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "CHECKS", (story("passes"), story("oom")))
    about: dict[str, Any] = {"gpu": None, "missing": [], "missing_home": ["fabric"], "packages": {}, "python": "3.12.3"}
    monkeypatch.setattr(command, "describe", lambda _python, *, tiny: about)
    words = ["--work", str(tmp_path), "--tiny", "--commit", "abc", "--results", str(tmp_path / "r.json")]
    assert command.main(words) == 0
    out = capsys.readouterr().out
    assert "lacks fabric: the check `launch` cannot run" in out
    assert "1 passed: passes" in out
    content = json.loads((tmp_path / "r.json").read_text())
    assert {name: entry["status"] for name, entry in content["checks"].items()} == {"passes": "passed", "oom": "oom"}
    assert command.main([*words, "--again", "--budget", "0.05"]) == 0
    assert "2 not run: passes, oom\nthe same command again measures what was not run" in capsys.readouterr().out


def test_a_check_gets_one_gpu_and_neither_settings_nor_the_network_of_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARMADA_HOME", "WANDB_API_KEY", "HF_TOKEN", "PYTHONHOME"):
        monkeypatch.setenv(name, "theirs")
    made = runner.environment({"index": 3}, tiny=False)
    assert not {"ARMADA_HOME", "WANDB_API_KEY", "HF_TOKEN", "PYTHONHOME"} & set(made)
    assert (made["CUDA_VISIBLE_DEVICES"], made["HF_HUB_OFFLINE"]) == ("3", "1")
    assert made["PYTHONPATH"].split(os.pathsep)[1] == str(runner.ROOT)
    assert runner.environment({"index": 3}, tiny=True)["CUDA_VISIBLE_DEVICES"] == ""
