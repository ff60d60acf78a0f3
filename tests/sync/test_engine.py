"""Checkpoints and outputs come home from this machine's own agent: verified, shared, kept, deleted, reported."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from armada.errors import ArmadaError
from armada.rpc.client import Question
from armada.store import checkpoints, files_home, run_sync, runs, transfers
from armada.sync.checkpoints import staging
from armada.sync.checkpoints.staging import PARTIAL
from armada.sync.release.judge import judge_host
from armada.sync.runs.outbox_listing import look_at
from armada.sync.runs.pull import Pulled, choose
from armada.sync.runs.pull import pull as pull_now
from armada.sync.runs.report import Look
from armada.sync.runs.sync_run import sync_host
from armada.sync.transfer.block_writer import BLOCK_BYTES
from armada.transport.interface import TransferProgress
from armada.verdicts.states import Verdict
from tests.sync.conftest import Place, both_ways, leftovers, random_bytes


@both_ways
def test_every_byte_of_a_checkpoint_comes_home_and_the_host_is_told(place: Place) -> None:
    place.create()
    files = {"model.safetensors": random_bytes(3 * BLOCK_BYTES + 17), "sub/tokenizer.json": b"{}", "empty": b""}
    digest = place.save(5, files)
    outcome = place.sync()
    (folder,) = outcome.published
    assert folder.name == "checkpoint-5"
    assert {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()} == {
        **files,
        "MANIFEST.json": (place.remote / "outbox" / digest / "MANIFEST.json").read_bytes(),
    }
    assert {(folder / name).stat().st_mode & 0o777 for name in files} == {0o444}
    assert (place.remote / "outbox" / f"{digest}.ack").exists()
    assert outcome.size_bytes == sum(map(len, files.values()))
    assert leftovers(place) == []
    assert transfers.of_run(place.database, place.run_id)[digest].state == "done"


def test_a_second_sync_brings_nothing_and_says_how_many_are_home(place: Place) -> None:
    place.create()
    place.save(1, {"a": b"1"})
    place.sync()
    again = place.sync()
    assert (again.published, again.already, again.outputs.fetched) == ((), 1, ())


def test_no_sync_is_the_last_one_of_a_run_whose_end_is_guessed(place: Place) -> None:
    place.create()
    runs.set_state(place.database, place.run_id, "failed", reason="gone")
    run = runs.find(place.database, place.run_id)
    since = run.guessed_at or 0.0
    for later_s, is_last in ((60.0, False), (8 * 86_400.0, True)):
        assert look_at(place.database, place.session, [run], since + later_s)[run.run_id].ended is is_last


@both_ways
def test_equal_files_do_not_travel_twice_and_share_their_bytes(place: Place) -> None:
    place.create()
    shared = random_bytes(BLOCK_BYTES + 1)
    place.save(1, {"base.bin": shared, "adapter": b"one"})
    (first,) = place.sync().published
    second_digest = place.save(2, {"base.bin": shared, "adapter": b"two"})
    # The host's own copy is spoiled: only the bytes at home can make this checkpoint whole.
    (place.remote / "outbox" / second_digest / "base.bin").write_bytes(b"x" * len(shared))
    (second,) = place.sync().published
    assert (first / "base.bin").stat().st_ino == (second / "base.bin").stat().st_ino
    assert (second / "adapter").read_bytes() == b"two"


@pytest.mark.fault(
    "bit flip in a published checkpoint",
    "never linked into the next one",
)
def test_a_damaged_file_at_home_is_not_linked_into_the_next_checkpoint(place: Place) -> None:
    place.create()
    shared = random_bytes(10_000)
    place.save(1, {"base.bin": shared})
    (first,) = place.sync().published
    damaged = first / "base.bin"
    damaged.chmod(0o644)
    damaged.write_bytes(b"y" + shared[1:])
    place.save(2, {"base.bin": shared, "new": b"1"})
    (second,) = place.sync().published
    assert (second / "base.bin").read_bytes() == shared
    assert damaged.read_bytes() != shared
    assert files_home.find(place.database, hashlib.sha256(shared).hexdigest()) == [second / "base.bin"]


@both_ways
def test_a_staging_file_that_is_a_link_into_a_published_one_is_never_written_through(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"a" * 5000})
    (first,) = place.sync().published
    digest = place.save(2, {"model": b"b" * 5000})
    folder = place.home.staging(place.run_id, digest)
    folder.mkdir(parents=True)
    os.link(first / "model", folder / "model")
    place.sync()
    assert (first / "model").read_bytes() == b"a" * 5000
    assert (place.published / "checkpoint-2" / "model").read_bytes() == b"b" * 5000


@both_ways
@pytest.mark.fault(
    "bit flip in staging",
    "found and fetched again",
)
def test_bits_that_flip_in_staging_are_found_and_fetched_again(place: Place) -> None:
    place.create()
    data = random_bytes(2 * BLOCK_BYTES)
    digest = place.save(1, {"model": data})
    folder = place.home.staging(place.run_id, digest)
    folder.mkdir(parents=True)
    (folder / "model").write_bytes(bytes([data[0] ^ 1]) + data[1:])
    (folder.parent / f"{digest}.blocks").write_text("0 model\n1 model\n")  # as a broken transfer left it
    (published,) = place.sync().published
    assert (published / "model").read_bytes() == data


def test_a_journal_cut_off_in_the_middle_of_a_line_is_believed_up_to_there(place: Place) -> None:
    place.create()
    data = random_bytes(3 * BLOCK_BYTES)
    digest = place.save(1, {"model": data})
    folder = place.home.staging(place.run_id, digest)
    folder.mkdir(parents=True)
    (folder / "model").write_bytes(data[:BLOCK_BYTES] + bytes(2 * BLOCK_BYTES))
    (folder.parent / f"{digest}.blocks").write_text("0 model\n1 mod")
    (published,) = place.sync().published
    assert (published / "model").read_bytes() == data


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
    assert all(p.is_relative_to(place.home.state / "runs") for p in added)
    assert not Path("/tmp/escape").exists()
    assert (place.remote / "outbox" / f"{good}.ack").exists()


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


def test_retention_at_home_keeps_the_newest_the_best_and_the_last(place: Place) -> None:
    place.create(keep_home={"last": 2, "best": 1, "every_steps": 100})
    for step, loss in ((50, 0.1), (60, 0.9), (100, 0.8), (120, 0.7), (130, 0.6)):
        place.save(step, {"model": b"%d" % step}, eval_loss=loss)
        outcome = place.sync()
    assert place.home_steps() == [50, 100, 120, 130]
    assert [p.name for p in outcome.deleted_home] == []
    assert sorted(p.name for p in place.published.iterdir() if p.name.startswith("checkpoint")) == [
        "checkpoint-100", "checkpoint-120", "checkpoint-130", "checkpoint-50"]  # fmt: skip
    assert leftovers(place) == []
    assert place.sync().published == ()  # what was deleted does not come back


def test_what_the_settings_do_not_want_is_not_fetched_and_stays_on_the_host(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0})
    digests = [place.save(step, {"model": b"%d" % step}) for step in (1, 2, 3)]
    place.sync()
    assert place.home_steps() == [3]
    assert place.host_digests() == set(digests)
    assert not (place.remote / "outbox" / f"{digests[0]}.ack").exists()


def test_the_host_keeps_as_many_as_it_should_and_never_what_is_not_home(place: Place) -> None:
    place.create(keep_remote=1)
    digests = [place.save(step, {"model": b"%d" % step}, eval_loss=step) for step in (1, 2, 3, 4)]
    (place.remote / "outbox" / digests[1] / "model").write_bytes(b"?")  # never comes home
    outcome = place.sync()
    assert set(outcome.deleted_host) == {digests[2]}  # 1 is the best, 2 is not home, 4 is the newest
    assert place.host_digests() == {digests[0], digests[1], digests[3]}
    assert not any(path.name.startswith(".trash") for path in (place.remote / "outbox").iterdir())


def test_nothing_goes_on_the_host_whose_copy_at_home_is_short(place: Place) -> None:
    place.create(keep_remote=5)
    digests = [place.save(step, {"model": b"%d" % step * 10}) for step in (1, 2, 3)]
    place.sync()
    copy = place.published / "checkpoint-1" / "model"
    copy.chmod(0o644)
    copy.write_bytes(b"short")
    spec = json.loads(place.database.connection.execute("SELECT spec FROM runs").fetchone()[0])
    spec["sync"]["keep_remote"] = 1
    place.database.connection.execute("UPDATE runs SET spec = ?", (json.dumps(spec),))
    assert set(place.sync().deleted_host) == {digests[1]}


def test_the_agent_deletes_nothing_that_was_not_acknowledged_and_never_the_newest(place: Place) -> None:
    place.create()
    first, second = (place.save(step, {"model": b"%d" % step}) for step in (1, 2))
    answer = place.session.call("outbox.prune", {"run_id": place.run_id, "digests": [first, second]})
    assert answer["pruned"] == []
    assert set(answer["refused"]) == {first, second}
    for digest in (first, second):
        place.session.call("outbox.ack", {"run_id": place.run_id, "digest": digest})
    answer = place.session.call("outbox.prune", {"run_id": place.run_id, "digests": [first, second]})
    assert (answer["pruned"], set(answer["refused"])) == ([first], {second})


OPTIMIZER = {"optimizer.pt": b"o" * 50, "scheduler.pt": b"s", "rng_state_0.pth": b"r"}


def test_only_the_newest_keeps_its_optimizer_where_that_is_asked(place: Place) -> None:
    place.create(include_optimizer="last")
    place.save(1, {"model": b"1", **OPTIMIZER})
    place.sync()
    assert (place.published / "checkpoint-1" / "optimizer.pt").exists()
    place.save(2, {"model": b"2", **OPTIMIZER})
    place.sync()
    old, new = place.published / "checkpoint-1", place.published / "checkpoint-2"
    assert not (old / "optimizer.pt").exists()
    assert json.loads((old / PARTIAL).read_text())["left_out"] == sorted(OPTIMIZER)
    assert (new / "optimizer.pt").exists()
    assert not (new / PARTIAL).exists()
    digests = {c.step: c.digest for c in checkpoints.of_run(place.database, place.run_id)}
    _, files = staging.read_published(old, digests[1])
    assert [file.path for file in files] == ["model"]


def test_the_youngest_keeps_its_optimizer_although_a_former_attempt_was_farther(place: Place) -> None:
    place.create(include_optimizer="last")
    now = time.time()
    place.save(90, {"model": b"1", **OPTIMIZER}, created_at=now - 50)
    place.save(100, {"model": b"2", **OPTIMIZER}, created_at=now - 40)
    place.save(60, {"model": b"3", **OPTIMIZER}, created_at=now - 10)  # gone back to 50, with other settings
    place.sync()
    whole = {p.parent.name for p in place.published.glob("checkpoint-*/optimizer.pt")}
    assert whole == {"checkpoint-100", "checkpoint-60"}


def test_no_optimizer_comes_where_none_is_asked_for(place: Place) -> None:
    place.create(include_optimizer=False)
    place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    assert sorted(p.name for p in folder.iterdir()) == ["MANIFEST.json", PARTIAL, "model"]


def pull(place: Place, step: int) -> Pulled:
    chosen = choose(place.database, place.session, runs.find(place.database, place.run_id), str(step))
    return pull_now(
        place.database,
        place.session,
        place.home,
        place.run_id,
        progress=lambda what, seen: None,
        hashing=lambda count: None,
        only=chosen,
    )


@both_ways
@pytest.mark.parametrize("include", [False, "last"])
def test_a_checkpoint_asked_for_by_name_is_made_whole_and_stays_so(place: Place, include: object) -> None:
    place.create(include_optimizer=include, keep_remote=5)
    place.save(1, {"model": b"1", "sub/optimizer.pt": b"p" * 9, **OPTIMIZER})
    place.sync()
    place.save(2, {"model": b"2", **OPTIMIZER})
    place.sync()
    folder = place.published / "checkpoint-1"
    assert not (folder / "optimizer.pt").exists()
    assert pull(place, 1).completed == 4
    assert not (folder / PARTIAL).exists()
    assert {name: (folder / name).read_bytes() for name in OPTIMIZER} == OPTIMIZER
    assert (folder / "sub/optimizer.pt").stat().st_mode & 0o777 == 0o444
    place.sync()
    assert (folder / "optimizer.pt").exists()
    assert pull(place, 1).completed == 0
    assert leftovers(place) == []
    place.save(3, {"model": b"3", **OPTIMIZER})
    pull(place, 3)
    assert (place.published / "checkpoint-3" / "optimizer.pt").exists()


def test_a_checkpoint_deleted_by_hand_and_asked_for_by_name_comes_again_whole(place: Place) -> None:
    place.create(include_optimizer=False)
    place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    shutil.rmtree(folder)
    assert pull(place, 1).published == (folder,)
    assert (folder / "optimizer.pt").exists()


def test_what_was_left_out_and_is_nowhere_any_more_is_said_and_the_rest_stays(place: Place) -> None:
    place.create(include_optimizer=False)
    digest = place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    (place.remote / "outbox" / digest / "optimizer.pt").unlink()
    pulled = pull(place, 1)
    assert "optimizer.pt" in str(pulled.lacking)
    assert (folder / "model").read_bytes() == b"1"
    assert "optimizer.pt" in json.loads((folder / PARTIAL).read_text())["left_out"]


def test_a_checkpoint_asked_for_by_name_is_not_deleted_by_the_next_sync(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0}, keep_remote=1)
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
    place.sync()
    assert place.home_steps() == [3]
    pull(place, 1)
    place.sync()
    assert place.home_steps() == [1, 3]
    folder = place.published / "checkpoint-1"
    for path in (*folder.iterdir(), folder):
        path.unlink() if path.is_file() else path.rmdir()
    place.sync()
    assert place.home_steps() == [3]  # deleted by a person: not wanted back


def test_space_that_other_transfers_are_about_to_fill_does_not_count_as_free(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1" * 100_000})
    transfers.begin(place.database, place.run_id, "f" * 64, 10**18)
    (trouble,) = place.sync().troubles
    assert (trouble.cause, "that are arriving now" in trouble.error.message) == ("disk_home", True)
    long_ago = time.time() - 100  # the process that carried it was killed
    place.database.connection.execute("UPDATE transfers SET updated_at = ?", (long_ago,))
    assert len(place.sync(insist=True).published) == 1


def test_logs_and_chosen_files_come_home_and_only_what_changed_comes_again(place: Place) -> None:
    place.create(outputs=["results/**", "*.csv"])
    remote = place.remote
    (remote / "output.log").write_text("line 1\n")
    for name in ("results/deep/a.txt", "table.csv", "not-this.bin"):
        (remote / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (remote / "work" / name).write_text(name)
    (remote / "wandb").mkdir()
    (remote / "wandb" / "run.wandb").write_bytes(b"w")
    (remote / "secrets.env").write_text("{}")
    fetched = set(place.sync().outputs.fetched)
    assert fetched == {"output.log", "work/results/deep/a.txt", "work/table.csv", "wandb/run.wandb", "spec.json"}
    assert (place.outputs / "work" / "results" / "deep" / "a.txt").read_text() == "results/deep/a.txt"
    with (remote / "output.log").open("a") as stream:
        stream.write("line 2\n")
    assert place.sync().outputs.fetched == ("output.log",)
    assert (place.outputs / "output.log").read_text() == "line 1\nline 2\n"
    assert place.sync().outputs.fetched == ()


def test_a_long_log_that_grew_and_one_that_was_begun_anew_come_right(place: Place) -> None:
    place.create()
    log = place.remote / "output.log"
    log.write_bytes(random_bytes(BLOCK_BYTES + 5))
    place.sync()
    with log.open("ab") as stream:
        stream.write(random_bytes(BLOCK_BYTES))
    place.sync()
    assert (place.outputs / "output.log").read_bytes() == log.read_bytes()
    log.write_bytes(random_bytes(3 * BLOCK_BYTES))  # other bytes from the beginning on
    place.sync()
    assert (place.outputs / "output.log").read_bytes() == log.read_bytes()


def test_output_names_that_could_mean_something_else_are_left_there_and_said(place: Place) -> None:
    place.create(outputs=["**"])
    names = [b"plain", b"two\nlines", b"\xff\xfe", b"esc\x1b[2J"]
    for name in names:
        (place.remote / "work").joinpath(os.fsdecode(name)).write_bytes(b"x")
    outputs = place.sync().outputs
    assert "work/plain" in outputs.fetched
    assert len(outputs.skipped) == 3
    assert [p.name for p in (place.outputs / "work").iterdir()] == ["plain"]


def test_the_last_sync_is_done_once_all_is_home(place: Place) -> None:
    place.create()
    bad = place.save(1, {"model": b"1"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"?")
    place.end()
    assert not place.sync().final
    again = place.sync()  # it is not tried again yet, and that is not taken for being home
    assert (again.final, again.pending, again.troubles) == (False, (bad,), ())
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.failures) == (False, 2)
    (place.remote / "outbox" / bad / "model").write_bytes(b"1")
    assert place.sync(insist=True).final
    assert run_sync.find(place.database, place.run_id).final_done


@pytest.mark.parametrize("state", ["submitted", "succeeded"])
def test_a_sync_of_what_was_resumed_meanwhile_is_not_the_last(place: Place, state: str) -> None:
    place.create()
    place.end()
    place.sync()
    runs.record(place.database, place.run_id, Verdict(state, None, None, 9, 9), submission=2)
    run_sync.reopen(place.database, place.run_id)
    entry = place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0]
    outcome = place.sync(looked=Look(entry, ended=True, submission=1))
    assert outcome.missing == f"{place.run_id} was submitted again in the meantime"
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.next_due_at is None) == (False, False)


def test_a_quarantined_manifest_does_not_hold_back_the_last_sync(place: Place) -> None:
    place.create()
    entry = {"path": "../x", "size": 1, "sha256": "a" * 64}
    place.save_raw(json.dumps({"format": 1, "run_id": "x", "step": 1, "created_at": 1.0, "files": [entry]}), {})
    place.end()
    assert place.sync().final
    assert place.sync().final


def test_what_keep_home_deleted_here_does_not_come_again_and_is_no_loss(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0}, keep_remote=5)
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
        place.sync()
    assert place.home_steps() == [3]
    items = judge_host(place.database, place.session, place.home)
    assert [(item.what.split()[0], item.lost) for item in items] == [("checkpoint-1", False), ("checkpoint-2", False)]


def test_a_checkpoint_deleted_by_hand_at_home_comes_again(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    (folder,) = place.sync().published
    shutil.rmtree(folder)
    assert [path.name for path in place.sync().published] == ["checkpoint-1"]


def test_the_same_step_twice_gives_two_checkpoints(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"}, created_at=1.0)
    place.sync()
    digest = place.save(1, {"model": b"again"}, created_at=2.0)
    (second,) = place.sync().published
    assert second.name == f"checkpoint-1@{digest[:8]}"
    assert (place.published / "checkpoint-1" / "model").read_bytes() == b"1"


def test_what_thinned_checkpoints_left_in_staging_is_cleared(place: Place) -> None:
    place.create()
    stale = place.home.staging(place.run_id, "f" * 64)
    stale.mkdir(parents=True)
    (stale / "model").write_bytes(b"half")
    (stale.parent / f"{'f' * 64}.blocks").write_text("")
    staging.incoming(stale).mkdir(parents=True)
    place.sync()
    assert leftovers(place) == [] or not any(place.published.glob(".staging/*"))


@both_ways
def test_many_files_come_in_batches(place: Place) -> None:
    place.create()
    files: dict[str, bytes] = {f"shard-{number:04}": b"%d" % number for number in range(450)}
    place.save(1, files)
    (folder,) = place.sync().published
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "MANIFEST.json"} == files


def test_every_byte_that_comes_is_counted_against_the_limits(place: Place) -> None:
    from armada.config.hosts import Host
    from armada.sync.transfer.bandwidth import SharedLimit

    place.create()
    place.home.hosts_file.write_text("bwlimit: 1G\nhosts: {local: {bwlimit: 900M}}\n")
    place.session.host = Host(name="local", local=True, bwlimit="900M")
    place.save(1, {"model": random_bytes(40_000_000)})
    taken: dict[float, int] = {}
    original = SharedLimit.reserve

    def count(self: SharedLimit, size_bytes: int) -> float:
        taken[self.bytes_per_s] = taken.get(self.bytes_per_s, 0) + size_bytes
        return original(self, size_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedLimit, "reserve", count)
        outcome = place.sync()
    came = outcome.size_bytes + outcome.outputs.size_bytes
    assert taken == {1e9: came, 9e8: came}


def test_a_run_that_ends_while_others_are_brought_gets_its_last_sync_all_the_same(place: Place) -> None:
    """The host was looked at while it ran; what it saved afterwards is not taken for not being there."""
    place.create()
    looked = Look(place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0], ended=False)
    place.save(1, {"model": b"1"})
    place.end()
    assert not place.sync(looked=looked).final
    assert run_sync.find(place.database, place.run_id).failures == 0
    last = place.sync()
    assert last.final


def test_a_run_of_which_the_host_still_hashes_a_checkpoint_is_not_home(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.end("failed")
    (run,) = runs.every(place.database)
    seen = look_at(place.database, place.session, [run])[place.run_id]
    outcome = place.sync(looked=Look({**seen.entry, "finishing": 2}, ended=True))
    assert (outcome.final, outcome.finishing, len(outcome.published)) == (False, 2, 1)
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.reason) == (
        False,
        f"2 checkpoints of {place.run_id}, whose supervisor died, still being hashed on its host",
    )
    assert place.sync().final
    assert place.home_steps() == [1]


class Order:
    """Which checkpoints came, in their order."""

    def __init__(self) -> None:
        self.came: list[str] = []

    def transfer(self, what: str, seen: TransferProgress) -> None: ...

    def done(self, what: str) -> None:
        place = Path(what.partition(" (")[0])
        self.came.append(f"{place.parent.parent.name} {place.name.removeprefix('checkpoint-')}")


def test_runs_of_one_host_take_turns_a_checkpoint_at_a_time(place: Place) -> None:
    place.create()
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
    bad = place.save(4, {"model": b"4"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"?")
    place.run_id = "tune-2"
    place.create()
    for step in (10, 20):
        place.save(step, {"model": b"%d" % step})
    place.end()
    order = Order()
    first, second = sync_host(place.database, place.session, place.home, ["tune-1", "tune-2"], listener=order)
    assert order.came == ["tune-2 20", "tune-1 3", "tune-2 10", "tune-1 2", "tune-1 1"]
    assert (len(first.published), len(second.published), second.final) == (3, 2, True)
    assert (first.pending, [trouble.step for trouble in first.troubles]) == ((bad,), [4])
    records = run_sync.every(place.database)
    assert (records["tune-1"].failures, records["tune-2"].final_done) == (1, True)
    assert records["tune-1"].failing_since is not None  # what came after it does not make it good
    assert "spec.json" in first.outputs.fetched


class Meanwhile(Order):
    """Something happens while the first checkpoint comes."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._act = act

    def done(self, what: str) -> None:
        super().done(what)
        if len(self.came) == 1:
            self._act()


def test_a_run_that_saves_more_and_ends_while_it_is_synced_is_not_called_failing(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})

    def go_on() -> None:
        digest = place.save(2, {"model": b"2"})
        entry = {"digest": digest, "step": 2, "size_bytes": 1, "file_count": 1, "created_at": time.time()}
        (first,) = checkpoints.of_run(place.database, place.run_id)
        known = {name: getattr(first, name) for name in entry}
        checkpoints.record_outbox(place.database, place.run_id, [known, entry])  # as the daemon's watcher does
        place.end()

    outcome = place.sync(listener=Meanwhile(go_on))
    assert (len(outcome.published), len(outcome.pending), outcome.final) == (1, 1, False)
    record = run_sync.find(place.database, place.run_id)
    assert (record.failures, record.failing_since) == (0, None)
    assert place.sync().final


def test_what_a_run_saves_right_before_its_end_comes_although_its_host_was_asked_for_both_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    original = place.session.call_all

    def crossing(questions: Sequence[Question]) -> list[dict[str, Any] | ArmadaError]:
        answers = original(questions)
        place.save(1, {"model": b"1"})  # after the listing was made, before the state was read
        place.end()
        return answers

    monkeypatch.setattr(place.session, "call_all", crossing)
    outcome = place.sync()
    assert (len(outcome.published), outcome.saw_end, outcome.final) == (1, True, True)


def test_a_run_that_becomes_due_meanwhile_does_not_wait_for_all_that_another_has_to_bring(place: Place) -> None:
    place.create()
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
    place.run_id = "tune-2"
    place.create()
    order = Order()
    clock = [time.time()]

    def news() -> list[str]:
        clock[0] += 10.0
        if len(order.came) == 1:
            place.save(10, {"model": b"10"})
        if len(order.came) == 3:
            place.save(20, {"model": b"20"})
        return ["tune-2"] if len(order.came) in (1, 3) else []

    sync_host(place.database, place.session, place.home, ["tune-1"], listener=order, now=lambda: clock[0], news=news)
    assert order.came == ["tune-1 3", "tune-1 2", "tune-2 10", "tune-1 1", "tune-2 20"]


def test_trouble_with_one_run_of_a_host_does_not_keep_the_others(place: Place) -> None:
    place.create()
    place.run_id = "tune-2"
    place.create()
    place.save(1, {"model": b"1"})
    place.home.run("tune-1").mkdir(parents=True)
    (place.home.run("tune-1") / "checkpoints").write_text("a file where a folder should be")
    first, second = sync_host(place.database, place.session, place.home, ["tune-1", "tune-2"])
    assert [trouble.cause for trouble in first.troubles] == ["other"]
    assert [path.name for path in second.published] == ["checkpoint-1"]
