"""What cannot be reproduced is said, and nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from armada import __version__
from armada.compare.plan_difference import compare_plans
from armada.compare.reproduction import Reproduction, _readme
from armada.compare.unreproduced import find_missing
from armada.records.launch_record import KeptContent, KeptFile, LaunchRecord
from armada.store.runs import Run


def kept(kind: str, source: Path | str, **files: bytes) -> KeptContent:
    listed = tuple(KeptFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items())
    return KeptContent(kind, "0" * 64, str(source), listed, len(listed), 0)


def test_all_that_is_pinned_and_unchanged_needs_no_word(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"1")
    spec = {
        "experiment": {"model": "owner/model"},
        "training": {"data": {"train": [{"hub": {"id": "owner/rows", "revision": "abc"}}], "eval": []}},
    }
    record = LaunchRecord(
        __version__, contents=(kept("code", "/p", a=b"1"), kept("data", tmp_path, rows=b"1")), hub_model=("o/m", "abc")
    )
    assert find_missing(spec, record, {"a": b"1"}) == ()


@pytest.mark.parametrize(
    ("spec", "contents", "said"),
    [
        ({}, (kept("code", "/p", a=b"1", b=b"2"),), "the bytes of some code files were not kept: b (1 B)"),
        ({}, (KeptContent("code", "0", "/p", None, 30_000, 0),), "30,000 files, too many to be recorded"),
        ({}, (kept("data", "/nowhere", rows=b"1"),), "is missing or has changed: rows"),
        ({}, (KeptContent("data", "0", "/d", None, 3000, 0),), "3,000 files; only the plan compares them"),
        ({"experiment": {"model": "owner/model"}}, (), "the revision of the model owner/model was not recorded"),
        ({"training": {"data": {"train": [{"hub": {"id": "o/r"}}]}}}, (), "the revision of the dataset o/r was not"),
    ],
)
def test_each_gap_has_a_sentence(spec: dict[str, Any], contents: tuple[KeptContent, ...], said: str) -> None:
    (found,) = find_missing(spec, LaunchRecord(__version__, contents=contents), {"a": b"1"})
    assert said in found


def test_another_version_of_armada_is_named() -> None:
    assert find_missing({}, LaunchRecord("0.0.1"), None) == (f"armada was 0.0.1 then, and is {__version__} now",)


@pytest.mark.parametrize(
    "spec",
    [
        {"training": [], "experiment": 7},
        {"training": {"data": {"train": "x", "eval": 3}}, "experiment": {"model": ["a"]}},
        {"training": {"data": {"train": [{"hub": "x"}, None]}}},
    ],
)
def test_a_plan_of_wrong_types_is_no_error(spec: dict[str, Any]) -> None:
    assert find_missing(spec, LaunchRecord(__version__), None) == ()


def reproduction(spec: dict[str, Any], run_id: str = "run-1") -> Reproduction:
    values: dict[str, Any] = dict.fromkeys(Run._fields)
    run = Run(
        **{**values, "run_id": run_id, "name": "n", "host": "h", "task": "command", "experiment": "/old/exp.yaml"}
    )
    return Reproduction(run, spec, None, {}, {}, {}, (), ())


def plan(run_id: str, folder: str, root: str, **more: Any) -> dict[str, Any]:
    return {
        "format": 1, "run_id": run_id, "created_at": run_id, "host": "h", "launch_key": run_id,
        "job": {"argv": [f"{root}/runs/{run_id}/x", f"{folder}/data.txt"], "code": f"{root}/code/abc", "env": {}},
        "experiment": {"code": f"{folder}", "data": {"train": [{"path": f"{folder}/d"}]}}, **more,
    }  # fmt: skip


def test_ids_times_and_folders_do_not_differ() -> None:
    found = reproduction(plan("run-1", "/old/code", "/root/.armada"))
    assert compare_plans(found, plan("run-2", "/new/code", "/other/root"), Path("/new")) == []


def test_what_differs_is_named_by_its_key() -> None:
    found = reproduction(plan("run-1", "/old/code", "/r", gpus=1, environment={"key": "a", "path": "/r/envs/a"}))
    now = plan("run-2", "/new/code", "/r", gpus=2, environment={"key": "a", "path": "/r/envs/a"}, host="other")
    assert compare_plans(found, now, Path("/new")) == [("gpus", 1, 2), ("host", "h", "other")]
    assert compare_plans(found, now, Path("/new"), other_host=True) == [("gpus", 1, 2)]


def test_secrets_of_a_plan_are_masked_and_hashes_are_not() -> None:
    found = reproduction(plan("run-1", "/old", "/r", environment={"key": "a"}, experiment={"env": {"HF_TOKEN": "one"}}))
    now = plan("run-2", "/new", "/r", environment={"key": "b"}, experiment={"env": {"HF_TOKEN": "two"}})
    told = compare_plans(found, now, Path("/new"))
    assert ("experiment.env.HF_TOKEN", "***", "***") in told
    assert ("environment.key", "a", "b") in told


def test_what_is_known_only_after_a_download_is_not_called_different() -> None:
    found = reproduction(plan("run-1", "/old/code", "/r", container={"image": "x", "digest": "sha256:1"}))
    assert compare_plans(found, plan("run-2", "/new/code", "/r", container={"image": "x"}), Path("/new")) == []


def test_a_run_without_gpus_is_not_said_to_differ_by_them() -> None:
    found = reproduction({})
    assert "GPU" not in _readme(found)
    assert "GPUs add in an order" in _readme(dataclasses.replace(found, run=found.run._replace(gpus=(0,))))
