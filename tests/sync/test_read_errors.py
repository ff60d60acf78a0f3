"""A sector at home that cannot be read: its file is not right, is fetched again, and stops nothing else."""

from __future__ import annotations

import argparse
import errno
import hashlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.cli.context import Context
from armada.cli.verify import verify
from armada.errors import ArmadaError
from armada.export.subject import _read
from armada.store import checkpoints, runs
from armada.sync.checkpoints.new_folder import copy_verified
from armada.sync.checkpoints.proof import is_doubted, prove
from armada.sync.release.judge import judge_host, losses
from armada.sync.transfer.interface import File
from armada.sync.transfer.rsync_transfer import _StagingArea
from armada.sync.transfer.staging import is_right
from armada.verdicts.proof import Proof
from tests.sync.conftest import Place

SHARED = b"tokenizer" * 100
UNREADABLE = Path("/proc/self/mem")
"""A regular file: reading its beginning fails with EIO, as a bad sector does."""
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/mem is Linux's")


class BadSectors:
    """The inodes whose bytes the disk of home cannot read."""

    def __init__(self) -> None:
        self.inodes: set[int] = set()
        self._digest = hashlib.file_digest

    def add(self, path: Path) -> None:
        """Lose the bytes of a file; its times change, so that somebody reads it."""
        path.chmod(0o600)
        os.utime(path)
        self.inodes.add(path.stat().st_ino)

    def file_digest(self, stream: io.BufferedReader, name: str) -> Any:
        if os.fstat(stream.fileno()).st_ino in self.inodes:
            raise OSError(errno.EIO, "Input/output error")
        return self._digest(stream, name)


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> BadSectors:
    sectors = BadSectors()
    monkeypatch.setattr(hashlib, "file_digest", sectors.file_digest)
    return sectors


@pytest.fixture
def two(place: Place) -> Iterator[Place]:
    """A run whose checkpoint is home, and another with a checkpoint on the host that shares a file with it."""
    place.create()
    place.save(1, {"tok": SHARED, "w": b"1"})
    place.sync()
    other = Place(place.home, place.database, place.session, run_id="tune-2")
    other.create()
    other.save(1, {"tok": SHARED, "w": b"2"})
    yield place
    place.run_id = "tune-1"


@needs_proc
def test_a_file_that_the_disk_cannot_read_is_not_right() -> None:
    assert not is_right(UNREADABLE.parent, File(UNREADABLE.name, 0, hashlib.sha256(b"").hexdigest()))


def test_a_file_that_cannot_be_read_is_no_source_for_the_checkpoints_of_another_run(
    two: Place, bad: BadSectors
) -> None:
    bad.add(two.published / "checkpoint-1" / "tok")
    two.run_id = "tune-2"
    outcome = two.sync()
    assert (outcome.troubles, two.home_steps()) == ((), [1])
    assert (two.published / "checkpoint-1" / "tok").read_bytes() == SHARED


def test_a_file_that_cannot_be_read_is_a_damage_that_the_last_sync_mends(two: Place, bad: BadSectors) -> None:
    path = two.published / "checkpoint-1" / "tok"
    bad.add(path)
    (checkpoint,) = checkpoints.of_run(two.database, two.run_id)
    assert prove(two.database, checkpoint) is Proof.DAMAGED
    two.end()
    assert two.sync().final
    assert path.stat().st_ino not in bad.inodes
    assert path.read_bytes() == SHARED


def test_what_cannot_be_read_is_named_by_a_release_which_judges_the_rest(two: Place, bad: BadSectors) -> None:
    bad.add(two.published / "checkpoint-1" / "w")
    two.end()
    said = [item.what for item in losses(judge_host(two.context))]
    assert [each for each in said if "damaged" in each]
    assert len(said) > 1  # the other run is judged, too


def test_what_cannot_be_read_is_named_by_verify_which_goes_on(
    two: Place, bad: BadSectors, capsys: pytest.CaptureFixture[str]
) -> None:
    two.run_id = "tune-2"
    two.sync()
    bad.add(Place(two.home, two.database, two.session).published / "checkpoint-1" / "w")
    chosen = [runs.find(two.database, each) for each in ("tune-1", "tune-2")]
    damaged = verify(Context(), chosen, argparse.Namespace(read_data=True, no_repair=True, json=False))
    said = capsys.readouterr().out
    assert damaged
    assert "2 checkpoints checked" in said
    assert "checkpoint-1: w" in said


def test_a_damaged_list_of_what_was_left_out_is_a_damage_and_stops_no_release(two: Place) -> None:
    (two.published / "checkpoint-1" / "PARTIAL.json").write_text("{")
    said = [item.what for item in losses(judge_host(two.context))]
    assert [each for each in said if "damaged" in each]


@needs_proc
def test_a_copy_of_what_cannot_be_read_is_refused_as_damaged(two: Place, tmp_path: Path) -> None:
    (checkpoint,) = checkpoints.of_run(two.database, two.run_id)
    place = two.published / "checkpoint-1"
    (place / "sub").symlink_to(UNREADABLE.parent)
    file = File(f"sub/{UNREADABLE.name}", 10, "0" * 64)
    with pytest.raises(ArmadaError, match="is damaged at home"):
        copy_verified(two.database, checkpoint, file, tmp_path / "copy")
    assert is_doubted(checkpoints.of_run(two.database, two.run_id)[0])
    with pytest.raises(ArmadaError, match="is damaged at home"):
        _read(two.database, checkpoint, place, file)


@pytest.mark.parametrize("place", ["stream"], indirect=True)
def test_what_arrived_on_a_bad_sector_is_fetched_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.FileIO):
        failed = False

        def readinto(self, buffer: Any, /) -> int | None:
            if not Failing.failed:
                Failing.failed = True
                raise OSError(errno.EIO, "Input/output error")
            return super().readinto(buffer)

    place.create()
    place.save(1, {"w": b"1" * 100})
    monkeypatch.setattr("armada.sync.transfer.block_writer.io.FileIO", Failing)
    outcome = place.sync()
    assert (Failing.failed, outcome.troubles, place.home_steps()) == (True, (), [1])


def test_what_rsync_brought_onto_a_bad_sector_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: Path) -> io.BufferedReader:
        raise OSError(errno.EIO, "Input/output error", str(path))

    arrivals = _StagingArea(tmp_path / "staging")
    arrivals.incoming.mkdir(parents=True)
    (arrivals.incoming / "w").write_bytes(b"1")
    file = File("w", 1, hashlib.sha256(b"1").hexdigest())
    monkeypatch.setattr("armada.sync.transfer.rsync_transfer.open_regular", failing)
    assert arrivals.verify([file], lambda: None) == [file]
    assert not (arrivals.incoming / "w").exists()
