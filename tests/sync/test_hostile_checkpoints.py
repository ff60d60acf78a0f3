"""Checkpoints that changed on their host, or that no honest host would offer."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from armada_agent.outbox.finishing import publish
from armada_agent.paths import RunPaths

from armada.store import run_sync, transfers
from tests.sync.conftest import Place, both_ways


@both_ways
@pytest.mark.fault(
    "source rewritten after it was announced",
    "never published; other checkpoints come",
)
def test_a_file_changed_on_the_host_is_never_published_and_hinders_no_other(place: Place) -> None:
    place.create()
    bad = place.save(1, {"model": b"announced"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"rewritten")
    place.save(2, {"model": b"good"})
    outcome = place.sync()
    assert place.home_steps() == [2]
    (trouble,) = outcome.troubles
    assert (trouble.cause, trouble.step) == ("source_changed", 1)
    assert not (place.remote / "outbox" / f"{bad}.ack").exists()
    assert outcome.pending == (bad,)
    transfer = transfers.of_run(place.database, place.run_id)[bad]
    assert (transfer.state, transfer.tries) == ("failed", 1)
    assert transfer.next_try_at is not None
    assert run_sync.find(place.database, place.run_id).failures == 1
    assert place.sync().troubles == ()  # not before its time
    (place.remote / "outbox" / bad / "model").write_bytes(b"announced")
    assert [path.name for path in place.sync(insist=True).published] == ["checkpoint-1"]


@both_ways
@pytest.mark.fault(
    "source rotated away during a transfer",
    "said; the rest comes",
)
def test_a_file_that_was_rotated_away_is_said_and_the_rest_comes(place: Place) -> None:
    place.create()
    bad = place.save(1, {"model": b"1", "other": b"2"})
    (place.remote / "outbox" / bad / "model").unlink()
    place.save(2, {"model": b"3"})
    outcome = place.sync()
    assert [trouble.cause for trouble in outcome.troubles] == ["source_changed"]
    assert place.home_steps() == [2]


HOSTILE_PATHS = [
    "../escape",
    "/tmp/escape",
    "a/../../escape",
    "a\x1b]0;x\x07",
    "a\nb",
    ".",
    "MANIFEST.json",
    "a\\..\\b",
]


@pytest.mark.fault(
    "manifest with `..`, absolute path, control characters …",
    "quarantined and said, nothing fetched",
)
@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_manifest_no_honest_host_would_write_is_quarantined_and_said(place: Place, path: str) -> None:
    place.create()
    entry = {"path": path, "size": 1, "sha256": hashlib.sha256(b"1").hexdigest()}
    digest = place.save_raw(
        json.dumps({"format": 1, "run_id": "x", "step": 1, "created_at": 1.0, "files": [entry]}), {}
    )
    good = place.save(2, {"model": b"good"})
    before = {p for p in place.home.state.rglob("*") if "local" not in p.parts}
    outcome = place.sync()
    assert [trouble.cause for trouble in outcome.troubles] == ["rejected"]
    assert place.home_steps() == [2]
    transfer = transfers.of_run(place.database, place.run_id)[digest]
    assert (transfer.state, transfer.next_try_at) == ("failed", None)
    assert place.sync().troubles == ()  # not looked at again by itself
    assert [trouble.cause for trouble in place.sync(insist=True).troubles] == ["rejected"]
    added = {p for p in place.home.state.rglob("*") if "local" not in p.parts} - before
    own = (place.home.state / "runs", place.home.lock("folders").parent)
    assert all(any(p.is_relative_to(folder) for folder in own) for p in added)
    assert not Path("/tmp/escape").exists()
    assert (place.remote / "outbox" / f"{good}.ack").exists()


def test_a_name_that_is_no_utf_8_is_said_to_be_none(place: Place) -> None:
    place.create()
    folder = place.remote / "outbox" / ".new-1-1-1"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/gr\xf6\xdfe.bin")).write_bytes(b"w")
    (folder / ".announce.json").write_text(json.dumps({"step": 1}))
    publish(RunPaths(str(place.home.local_root), place.run_id), str(folder), 1, lambda: 1.0)
    (trouble,) = place.sync().troubles
    assert trouble.cause == "rejected"
    assert "a file's name is not UTF-8, so it cannot come home (gr\\udcf6\\udcdfe.bin)" in str(trouble.error)
    assert "control characters" not in str(trouble.error)


@both_ways
@pytest.mark.fault(
    "symlink, FIFO, folder or device in an outbox",
    "does not come",
)
@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "device"])
def test_what_is_no_regular_file_does_not_come(place: Place, kind: str, tmp_path: Path) -> None:
    place.create()
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    digest = place.save(1, {"model": b"secret"})
    target = place.remote / "outbox" / digest / "model"
    target.unlink()
    if kind == "symlink":
        target.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(target)
    elif kind == "device":
        target.symlink_to("/dev/zero")
    else:
        target.mkdir()
    assert [trouble.cause for trouble in place.sync().troubles] == ["source_changed"]
    assert place.home_steps() == []


def test_a_folder_that_is_a_link_on_the_host_is_not_followed(place: Place, tmp_path: Path) -> None:
    place.create()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_bytes(b"x")
    digest = place.save(1, {"sub/x": b"x"})
    folder = place.remote / "outbox" / digest / "sub"
    (folder / "x").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert [trouble.cause for trouble in place.sync().troubles] == ["source_changed"]


def test_a_quarantined_manifest_that_left_the_outbox_is_forgotten(place: Place) -> None:
    place.create()
    digest = place.save_raw(json.dumps({"format": 1, "step": 1, "created_at": 1.0, "files": [
        {"path": "../x", "size": 1, "sha256": "a" * 64}]}), {})  # fmt: skip
    place.sync()
    assert digest in transfers.of_run(place.database, place.run_id)
    (place.remote / "outbox" / digest / "MANIFEST.json").unlink()
    (place.remote / "outbox" / digest).rmdir()
    place.sync()
    assert transfers.of_run(place.database, place.run_id) == {}
