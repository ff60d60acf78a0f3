"""A job that writes through the links in its work folder to data that runs share: said of that run, kept from the next."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from armada_agent.provision import integrity

from tests.agent.conversation import Host
from tests.agent.test_agent_checkpoint_watch import findings
from tests.agent.test_agent_content import Manifest
from tests.waiting import eventually

ROWS = b'{"text": "a"}\n' * 100
FILES = {"train.jsonl": ROWS, "deep/tool.sh": b"#!/bin/sh\n", "deep/größe.txt": b"x"}
WRITE = "chmod u+w $(readlink -f corpus/train.jsonl); tr a b < corpus/train.jsonl > new; cat new > corpus/train.jsonl"


def publish(host: Host) -> tuple[str, Path]:
    """Put data on the host as home does."""
    manifest: Manifest = [
        [name, len(data), hashlib.sha256(data).hexdigest(), 0o755 if name.endswith(".sh") else 0o644]
        for name, data in sorted(FILES.items())
    ]
    sha = hashlib.sha256(json.dumps(manifest, separators=(",", ":"), ensure_ascii=True).encode()).hexdigest()
    staging = Path(host.call("content.check", kind="data", sha=sha)["staging"])
    for name, data in FILES.items():
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).write_bytes(data)
    return sha, Path(host.call("content.publish", kind="data", sha=sha, manifest=manifest)["path"])


def launch(host: Host, run_id: str, path: Path, script: str) -> None:
    host.launch(run_id, "sh", "-c", script, job={"data": [{"content": str(path), "name": "corpus"}]})


def test_files_that_runs_share_are_read_only_and_are_still_the_same_content(some_host: Host) -> None:
    sha, path = publish(some_host)
    assert {each.stat().st_mode & 0o777 for each in path.rglob("*") if each.is_file()} == {0o444, 0o555}
    assert some_host.call("content.check", kind="data", sha=sha)["present"] is True
    (path.parent / f".manifest-{sha}.json").unlink()
    assert some_host.call("content.check", kind="data", sha=sha)["present"] is True
    launch(some_host, "kept-1", path, "cat corpus/*; [ $(id -u) = 0 ] || ! echo more >> corpus/train.jsonl")
    assert some_host.await_end("kept-1")["state"] == "succeeded"
    assert findings(some_host, "kept-1") == []


def test_a_change_is_said_of_its_run_and_the_next_launch_sends_again(some_host: Host) -> None:
    sha, path = publish(some_host)
    launch(some_host, "wrote-1", path, WRITE)
    assert some_host.await_end("wrote-1")["state"] == "succeeded"
    (said,) = findings(some_host, "wrote-1")
    assert said.startswith(
        "train.jsonl of its data (corpus) changed while this run used it: a job wrote through a link"
    )
    aside = path.parent / f".changed-{sha}"
    assert f"The changed copy is now {aside}, and the next launch sends the data again" in said
    assert (aside / "train.jsonl").read_bytes() == ROWS.replace(b"a", b"b")
    assert some_host.call("content.check", kind="data", sha=sha)["present"] is False
    assert publish(some_host) == (sha, path)
    launch(some_host, "wrote-2", path, WRITE)
    some_host.await_end("wrote-2")
    assert len(findings(some_host, "wrote-2")) == 1


def test_what_another_run_uses_stays_where_it_is(this_host: Host) -> None:
    _, path = publish(this_host)
    launch(this_host, "reads-1", path, "touch begun; while [ ! -e go ]; do sleep 0.05; done; cat corpus/train.jsonl")
    eventually((this_host.folder("reads-1") / "work" / "begun").exists)
    launch(this_host, "wrote-1", path, WRITE)
    this_host.await_end("wrote-1")
    (said,) = findings(this_host, "wrote-1")
    assert f"The copy stays, because other runs use it; when reads-1 has ended: rm -rf {path}" in said
    assert path.is_dir()
    (this_host.folder("reads-1") / "work" / "go").touch()
    assert this_host.await_end("reads-1")["state"] == "succeeded"
    assert len(findings(this_host, "reads-1")) == 1
    assert not path.exists()


def test_what_was_only_touched_has_not_changed(this_host: Host) -> None:
    _, path = publish(this_host)
    launch(this_host, "touch-1", path, "chmod u+w $(readlink -f corpus/train.jsonl); touch corpus/train.jsonl")
    this_host.await_end("touch-1")
    assert findings(this_host, "touch-1") == []
    assert path.is_dir()


def test_every_kind_of_change_is_found(this_host: Host) -> None:
    sha, path = publish(this_host)
    record = str(path.parent / f".manifest-{sha}.json")
    (path / "extra").touch()
    (path / "deep" / "tool.sh").unlink()
    (path / "train.jsonl").unlink()
    (path / "train.jsonl").symlink_to("/dev/zero")
    os.truncate(path / "deep" / "größe.txt", 0)
    found = integrity.find_changed(str(path), sha, record, 60.0)
    assert found == ["deep/größe.txt", "deep/tool.sh", "extra", "train.jsonl"]
    with pytest.raises(OSError, match="longer than"):
        integrity.find_changed(str(path), sha, record, -1.0)


def test_what_a_broken_off_publication_made_read_only_can_be_sent_again(this_host: Host) -> None:
    sha = "a" * 64
    staging = Path(this_host.call("content.check", kind="data", sha=sha)["staging"])
    (staging / "x").write_text("x")
    (staging / "x").chmod(0o444)
    this_host.call("content.check", kind="data", sha=sha)
    assert (staging / "x").stat().st_mode & 0o200
