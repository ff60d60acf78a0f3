"""What home keeps of a launch: read back as written, checked against what was sent, and nothing where it is damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from armada.paths import HomePaths
from armada.provision.content import take_stock
from armada.records.code_archive import LARGEST_FILE_BYTES, has_code, keep_code, read_code
from armada.records.launch_record import (
    KeptContent,
    KeptEnvironment,
    LaunchRecord,
    forget_record,
    keep_content,
    read_record,
    write_record,
)

RUN = "run-1"
CODE = {"train.py": b"print(1)\n", "src/model.py": b"x = 2\n", "bin/tool": b"#!/bin/sh\n"}


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    found = HomePaths(tmp_path / "config", tmp_path / "state")
    found.make()
    return found


def project(folder: Path, files: dict[str, bytes] = CODE) -> KeptContent:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    if "bin/tool" in files:
        (folder / "bin/tool").chmod(0o755)
    content = take_stock("code", folder, files)
    return keep_content("code", content.sha, folder, content.manifest)


def test_a_record_is_read_as_it_was_written(home: HomePaths, tmp_path: Path) -> None:
    record = LaunchRecord(
        armada="1.2",
        experiment="name: a # why\n",
        experiment_path="/x/exp.yaml",
        contents=(project(tmp_path / "project"),),
        environment=KeptEnvironment("abc", "3.11", "torch==2.6\n", None, "https://x.example", None),
        hub_model=("owner/model", "0" * 40),
        files=(("corpus", "hf://owner/x", "abc"),),
        gpus=("NVIDIA H200",),
        price_per_hour=2.5,
        secrets=("HF_TOKEN",),
        sync={"keep_home": {"last": 2}},
    )
    write_record(home, RUN, record)
    assert read_record(home, RUN) == record
    assert (home.launch_record(RUN) / "record.json").stat().st_mode & 0o077 == 0


def test_a_run_without_a_record_has_none(home: HomePaths) -> None:
    assert read_record(home, RUN) is None
    assert not has_code(home, RUN)


@pytest.mark.parametrize("text", ["", "[]", "{", '"a"', "[" * 100_000, '\x00{"armada": 1}'])
def test_a_record_that_is_no_record_is_none(home: HomePaths, text: str) -> None:
    home.launch_record(RUN).mkdir(parents=True)
    (home.launch_record(RUN) / "record.json").write_text(text)
    assert read_record(home, RUN) is None


def test_wrong_values_in_a_record_count_as_missing(home: HomePaths) -> None:
    sha = "a" * 64
    paths = ["/etc/passwd", "../x", "a//b", "", ".", 7, None, "good.py"]
    files = [{"path": path, "size_bytes": 3, "sha256": sha} for path in paths]
    value = {
        "armada": 3,
        "experiment": ["x"],
        "contents": [7, {"kind": "code", "sha": sha, "source": None, "files": files, "file_count": -1}],
        "environment": "x",
        "hub_model": ["only one"],
        "files": [["a", "b"], 3],
        "gpus": [1],
        "price_per_hour": True,
    }
    home.launch_record(RUN).mkdir(parents=True)
    (home.launch_record(RUN) / "record.json").write_text(json.dumps(value))
    record = read_record(home, RUN)
    assert record is not None
    assert record.code is not None
    assert [file.path for file in record.code.files or ()] == ["good.py"]
    assert (record.armada, record.experiment, record.environment, record.hub_model) == ("", None, None, None)
    assert (record.files, record.gpus, record.price_per_hour) == ((), (), None)


def test_the_code_comes_back_byte_for_byte(home: HomePaths, tmp_path: Path) -> None:
    code = project(tmp_path / "project")
    keep_code(home, RUN, code)
    (tmp_path / "project/train.py").write_bytes(b"changed later\n")
    assert read_code(home, RUN, code) == CODE
    assert read_code(home, RUN, code, ["train.py", "no such file"]) == {"train.py": CODE["train.py"]}
    assert {file.path for file in code.files or () if file.executable} == {"bin/tool"}


def test_of_too_many_files_only_the_number_is_recorded(tmp_path: Path) -> None:
    sha = "0" * 64
    manifest = [(str(number), 2, sha, 0o644) for number in range(2001)]
    found = [keep_content(kind, sha, tmp_path, manifest) for kind in ("code", "data", "payload")]
    assert [each.files is None for each in found] == [False, True, True]
    assert {(each.file_count, each.size_bytes) for each in found} == {(2001, 4002)}


def test_a_file_that_changed_since_it_was_sent_is_not_kept(home: HomePaths, tmp_path: Path) -> None:
    code = project(tmp_path / "project")
    (tmp_path / "project/train.py").write_bytes(b"print(9)\n")
    (tmp_path / "project/src/model.py").unlink()
    (tmp_path / "project/src/model.py").symlink_to("/etc/passwd")
    keep_code(home, RUN, code)
    assert set(read_code(home, RUN, code)) == {"bin/tool"}


def test_a_large_file_is_named_only(home: HomePaths, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    os.truncate(os.open(folder / "weights.bin", os.O_CREAT | os.O_WRONLY), LARGEST_FILE_BYTES + 1)
    (folder / "a.py").write_bytes(b"1")
    content = take_stock("code", folder, ["weights.bin", "a.py"])
    code = keep_content("code", content.sha, folder, content.manifest)
    keep_code(home, RUN, code)
    assert [file.path for file in code.files or ()] == ["a.py", "weights.bin"]
    assert set(read_code(home, RUN, code)) == {"a.py"}


def test_two_launches_of_the_same_code_share_its_bytes(home: HomePaths, tmp_path: Path) -> None:
    code = project(tmp_path / "project")
    keep_code(home, RUN, code)
    keep_code(home, "run-2", code, ["run-0", RUN])
    first, second = (home.launch_record(run_id) / "code.tar.gz" for run_id in (RUN, "run-2"))
    assert first.stat().st_ino == second.stat().st_ino
    forget_record(home, RUN)
    assert not first.exists()
    assert read_code(home, "run-2", code) == CODE


def test_an_incomplete_archive_is_not_shared(home: HomePaths, tmp_path: Path) -> None:
    code = project(tmp_path / "project")
    (tmp_path / "project/train.py").write_bytes(b"changed")
    keep_code(home, RUN, code)
    assert "train.py" not in read_code(home, RUN, code)
    (tmp_path / "project/train.py").write_bytes(CODE["train.py"])
    keep_code(home, "run-2", code, [RUN])
    assert read_code(home, "run-2", code) == CODE


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "text"])
def test_a_damaged_archive_gives_only_what_has_the_right_hash(home: HomePaths, tmp_path: Path, damage: str) -> None:
    code = project(tmp_path / "project", {**CODE, "long.py": os.urandom(50_000)})
    keep_code(home, RUN, code)
    place = home.launch_record(RUN) / "code.tar.gz"
    whole = place.read_bytes()
    half = len(whole) // 2
    changed = whole[:half] + bytes(byte ^ 255 for byte in whole[half : half + 20]) + whole[half + 20 :]
    place.write_bytes({"cut": whole[:half], "changed": changed, "empty": b"", "text": b"hello"}[damage])
    found = read_code(home, RUN, code)
    assert "long.py" not in found
    assert all(CODE[name] == data for name, data in found.items())


def test_a_link_in_place_of_the_record_is_not_followed(home: HomePaths, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    home.run(RUN).mkdir(parents=True)
    home.launch_record(RUN).symlink_to(precious)
    forget_record(home, RUN)
    assert (precious / "file").exists()
