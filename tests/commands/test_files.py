"""`files:` of an experiment, on this machine: from home, from the host, from the web and from the hub."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.launch.plans.files import SMALL_BYTES
from tests.conftest import Armada
from tests.file_server import Web, serving_files
from tests.hub_server import Hub, serving

SHOW = (
    "cat one.txt folder/sub/two.txt there/three.txt big.bin model/config.json; printf mine > folder/mine; ls -a folder"
)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving_files(Web({"big.bin": b"from the web\n"})) as web:
        yield web


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub("acme/tiny", {"config.json": b"{}\n", "model.safetensors": b"w" * 1000})) as hub:
        yield hub


def launched(armada: Armada, experiment: str) -> str:
    run_id = str(armada.json("launch", "--host", "local", experiment)["run_id"])
    armada.await_end(run_id)
    return run_id


def test_a_job_finds_all_of_them_under_their_names(armada: Armada, web: Web, hub: Hub) -> None:
    armada.write("one.txt", "one\n")
    folder = armada.folder / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "two.txt").write_text("two\n")
    nas = armada.folder / "nas"
    nas.mkdir()
    (nas / "three.txt").write_text("three\n")
    files = {
        "one.txt": "one.txt",
        "folder/": "data",
        "there": f"host:{nas}",
        "big.bin": f"{web.address}/big.bin",
        "model": "hf://acme/tiny",
    }
    experiment = armada.command("sh", "-c", SHOW, files=files, env={"HF_ENDPOINT": hub.address})
    dry = armada.run("launch", "--host", "local", "--dry-run", experiment)
    assert dry.returncode == 0, dry.stderr
    shown = dry.stdout + dry.stderr
    assert "ARM018 files: 1 already there, 2 to download" in shown
    assert f"there (already there) from host:{nas}" in shown
    assert not web.downloads
    run_id = launched(armada, experiment)
    output = (armada.local_runs / run_id / "output.log").read_text()
    assert output == "one\ntwo\nthree\nfrom the web\n{}\n.\n..\nmine\nsub\n"
    work = armada.local_runs / run_id / "work"
    assert (work / "there").readlink() == nas
    assert (work / "model" / "model.safetensors").is_symlink()
    assert [path.name for path in folder.iterdir()] == ["sub"]  # what a job puts beside its files stays its own
    launched(armada, experiment)
    assert len(web.downloads) == 1
    assert sum("/resolve/" in each for each in hub.asked) == 2
    assert armada.run("rm", run_id, "--force").returncode == 0
    assert (nas / "three.txt").read_text() == "three\n"
    assert (folder / "sub" / "two.txt").exists()


def refused(armada: Armada, files: dict[str, Any], **more: Any) -> str:
    done = armada.run("launch", "--host", "local", armada.command("true", files=files, **more))
    assert done.returncode != 0
    assert not armada.local_runs.exists()
    return done.stderr


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a": "missing"}, "`files.a`: there is no file or folder"),
        ({"../a": "x"}, "must be a path below the folder the job works in"),
        ({"/a": "x"}, "must be a path below the folder the job works in"),
        ({"a": "host:data"}, "must be an absolute path on the host"),
        ({"a": "host:/data\n/x"}, "has a control character"),
        ({"a": "ftp://x/y"}, "cannot be fetched"),
        ({"a": "http://example.org/y"}, "needs `sha256`"),
        ({"a": "https://me:pw@example.org/y"}, "must not contain a password"),
        ({"a": "hf://one"}, "names no repository"),
        ({"a": {"path": "x", "url": "https://example.org/y"}}, "needs one of `path`, `host` and `url`"),
        ({"a": {"path": "x", "sha256": "0" * 64}}, "is for files on the web"),
        ({"a": {"url": "https://example.org/y", "sha256": "zz"}}, "64 hexadecimal digits"),
        ({"a": "host:/usr", "a/b": "host:/usr"}, "would lie in"),
        ({"a": "host:/no/such/folder"}, "there is no /no/such/folder on this host"),
    ],
)
def test_a_wrong_entry_is_said_before_anything_starts(armada: Armada, files: dict[str, Any], words: str) -> None:
    assert words in refused(armada, files)


def test_a_server_that_refuses_and_one_that_is_not_there(armada: Armada, web: Web) -> None:
    said = refused(armada, {"a": f"{web.address}/gone", "b": "http://127.0.0.1:9/x"})
    assert f"`files.a`: {web.address}/gone answered 404" in said
    assert "1 more: b" in said


def test_links_pipes_and_empty_folders_in_a_folder_are_named(armada: Armada) -> None:
    folder = armada.folder / "data"
    folder.mkdir()
    assert "holds no files" in refused(armada, {"data": "data"})
    os.mkfifo(folder / "pipe")
    assert "pipe is neither a file nor a folder" in refused(armada, {"data": "data"})
    (folder / "pipe").unlink()
    (folder / "link").symlink_to("/etc/hosts")
    assert "link is a link" in refused(armada, {"data": "data"})


def test_two_things_of_one_name_are_refused(armada: Armada) -> None:
    (armada.folder / "code").mkdir()
    armada.write("code/train.py", "")
    armada.write("x.txt", "")
    assert "`code` already puts train.py there" in refused(armada, {"train.py": "x.txt"}, code="code")
    data = {"train": [{"path": "x.txt"}]}
    assert "`data` already puts x.txt there" in refused(armada, {"x.txt/y": "host:/usr"}, data=data)


def test_another_hash_than_promised_fails_the_launch_and_says_both(armada: Armada, web: Web) -> None:
    wrong = hashlib.sha256(b"else").hexdigest()
    experiment = armada.command("true", files={"a": {"url": f"{web.address}/big.bin", "sha256": wrong}})
    done = armada.run("launch", "--host", "local", experiment)
    assert done.returncode != 0
    assert wrong in done.stderr
    assert hashlib.sha256(web.files["big.bin"]).hexdigest() in done.stderr
    (run,) = json.loads(armada.run("ps", "--json").stdout)
    assert (run["state"], run["reason"]) == ("failed", "provision_failed")


def test_small_files_of_a_folder_travel_together_and_large_ones_alone(armada: Armada) -> None:
    for name in ("one/a.txt", "one/b.txt", "my\u00a0two/a.txt", "one/large.bin"):
        (armada.folder / name).parent.mkdir(exist_ok=True)
        armada.write(name, name[-5:] + "\n")
    (armada.folder / "one" / "large.bin").write_bytes(b"x" * (SMALL_BYTES + 1))
    files = {
        "a": "one/a.txt",
        "b/a": "one/b.txt",
        "again": "one/a.txt",
        "c": "my\u00a0two/a.txt",
        "large": "one/large.bin",
    }
    run_id = launched(armada, armada.command("sh", "-c", "cat a b/a again c; wc -c < large", files=files))
    assert armada.run("logs", run_id).stdout.split() == ["a.txt", "b.txt", "a.txt", "a.txt", str(SMALL_BYTES + 1)]
    stored = [each for each in (armada.local_runs.parent / "data").iterdir() if len(each.name) == 64]
    assert sorted(sorted(file.name for file in each.iterdir()) for each in stored) == [
        ["a.txt"], ["a.txt", "b.txt"], ["large.bin"],
    ]  # fmt: skip


def test_a_resumed_run_has_its_files_still(armada: Armada, web: Web) -> None:
    script = "cat big.bin; test -e done || { touch done; exit 1; }"
    run_id = launched(armada, armada.command("sh", "-c", script, files={"big.bin": f"{web.address}/big.bin"}))
    web.status = 404
    resumed = armada.run("resume", run_id)
    assert resumed.returncode == 0, resumed.stderr
    armada.await_end(run_id)
    assert Path(armada.local_runs / run_id / "state.json").read_text().count("succeeded") == 1
