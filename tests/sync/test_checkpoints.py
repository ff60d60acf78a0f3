"""Checkpoints come home from this machine's own agent: verified, shared, published, reported."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from armada.store import checkpoints, files_home, transfers
from armada.sync.checkpoints.proof import prove
from armada.sync.transfer.block_writer import BLOCK_BYTES
from armada.sync.transfer.chosen_transfer import ChosenTransfer
from armada.sync.transfer.staging import incoming
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


def published_without_record(place: Place) -> tuple[str, Path]:
    """A checkpoint as a sync leaves it that dies between the rename and the record, and one of its files with another byte."""
    place.create()
    digest = place.save(1, {"model": b"1" * 1000, "config.json": b"{}"})
    (folder,) = place.sync().published
    place.database.connection.execute(
        "UPDATE checkpoints SET home_path = NULL, verified_at = NULL, acknowledged_at = NULL"
    )
    place.database.connection.execute("DELETE FROM files_home")
    (place.remote / "outbox" / f"{digest}.ack").unlink()
    (folder / "model").chmod(0o644)
    (folder / "model").write_bytes(b"1" * 999 + b"2")
    return digest, folder


@both_ways
def test_what_changed_of_a_published_checkpoint_before_its_record_is_fetched_again(place: Place) -> None:
    digest, folder = published_without_record(place)
    kept = (folder / "config.json").stat().st_ino
    outcome = place.sync()
    assert (outcome.published, outcome.troubles) == ((folder,), ())
    assert (folder / "model").read_bytes() == b"1" * 1000
    assert (folder / "model").stat().st_mode & 0o777 == 0o444
    assert (folder / "config.json").stat().st_ino == kept
    assert (place.remote / "outbox" / f"{digest}.ack").exists()
    assert leftovers(place) == []


def test_a_published_checkpoint_that_changed_before_its_record_everywhere_does_not_count_as_home(place: Place) -> None:
    digest, folder = published_without_record(place)
    (place.remote / "outbox" / digest / "model").write_bytes(b"3" * 1000)
    (trouble,) = place.sync().troubles
    assert "model does not match its manifest" in trouble.error.message
    assert place.home_steps() == []
    assert (folder / "config.json").exists()
    assert not (place.remote / "outbox" / f"{digest}.ack").exists()


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
    damaged.write_bytes(bytes([shared[0] ^ 1]) + shared[1:])
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


def test_space_that_other_transfers_are_about_to_fill_does_not_count_as_free(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1" * 100_000})
    transfers.begin(place.database, place.run_id, "f" * 64, 10**18)
    (trouble,) = place.sync().troubles
    assert (trouble.cause, "that are arriving now" in trouble.error.message) == ("disk_home", True)
    long_ago = time.time() - 100  # the process that carried it was killed
    place.database.connection.execute("UPDATE transfers SET updated_at = ?", (long_ago,))
    assert len(place.sync(insist=True).published) == 1


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
    incoming(stale).mkdir(parents=True)
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


def edit(path: Path) -> None:
    """Give a published file another first byte in place, as somebody does who may write everything."""
    with path.open("r+b") as stream:
        stream.write(b"X")


def proofs(place: Place) -> dict[int, str]:
    return {c.step: prove(place.database, c).value for c in checkpoints.of_run(place.database, place.run_id)}


def test_a_shared_file_that_is_changed_while_the_rest_arrives_is_not_taken_as_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(keep_remote=1)
    place.save(1, {"config.json": b"A" * 100, "model": b"1"}, created_at=1.0)
    place.sync()
    place.save(2, {"config.json": b"A" * 100, "model": b"2"}, created_at=2.0)
    bring = ChosenTransfer.bring

    def while_it_arrives(self: ChosenTransfer, *given: Any) -> Any:
        edit(place.published / "checkpoint-1" / "config.json")
        return bring(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(ChosenTransfer, "bring", while_it_arrives)
        outcome = place.sync()
    assert outcome.deleted_host == ()
    assert len(place.host_digests()) == 2
    assert proofs(place) == {1: "damaged", 2: "damaged"}
    place.end()
    assert place.sync().final, "they came again"
    assert proofs(place) == {1: "proven", 2: "proven"}
    assert (place.published / "checkpoint-2" / "config.json").read_bytes() == b"A" * 100


def test_a_file_that_is_changed_while_another_is_read_is_not_proven(place: Place) -> None:
    place.create()
    place.save(1, {"a": b"A" * 100, "b": b"1"})
    place.sync()
    (checkpoint,) = checkpoints.of_run(place.database, place.run_id)
    folder = place.published / "checkpoint-1"
    for name in ("a", "b"):
        os.utime(folder / name)  # both have to be read again

    def told(name: str) -> None:
        if name == "b":
            edit(folder / "a")

    assert prove(place.database, checkpoint, told).value == "damaged"
    assert proofs(place) == {1: "damaged"}
