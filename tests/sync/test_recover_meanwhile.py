"""A recovery and a sync at once: what the sync mends while the recovery reads is not put aside as wrong."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.foundation.progress import NullProgress
from armada.recovery.recover import Recovery, _read_home
from armada.store import checkpoints, files_home
from armada.store.integrity import examine
from armada.sync.checkpoints.lock import only_one
from tests.sync.conftest import Place

RIGHT, WRONG = b"one", b"two"


@pytest.fixture
def file(place: Place) -> Path:
    """A file of a checkpoint at home that the store does not know there."""
    place.create(keep_remote=5)
    digest = place.save(1, {"model.bin": RIGHT})
    (folder,) = place.sync().published
    files_home.forget(place.database, folder)
    checkpoints.mark_not_home(place.database, place.run_id, digest, None)
    return folder / "model.bin"


def put(file: Path, data: bytes) -> None:
    file.unlink(missing_ok=True)
    file.write_bytes(data)


def recovering(place: Place, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> Recovery:
    """Recover, while something happens after the folder was read, and before the recovery has the run's lock."""

    @contextlib.contextmanager
    def waiting(*words: Any) -> Iterator[bool]:
        meanwhile()
        with only_one(*words) as waited:
            yield waited

    monkeypatch.setattr("armada.recovery.recover.only_one", waiting)
    recovery = Recovery(examine(place.home.store))
    _read_home(place.database, place.home, recovery, NullProgress(), dry_run=False, read_data=True)
    return recovery


def test_what_a_sync_mends_and_records_meanwhile_is_not_put_aside(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(file, WRONG)
    recovery = recovering(place, monkeypatch, place.sync)
    assert (recovery.wrong, recovery.recognised, recovery.already) == ([], [], 1)
    assert (file.read_bytes(), place.home_steps()) == (RIGHT, [1])


@pytest.mark.parametrize("of_the_same_size", [True, False])
def test_what_is_mended_meanwhile_and_not_recorded_is_read_again(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch, of_the_same_size: bool
) -> None:
    put(file, WRONG if of_the_same_size else b"longer")
    recovery = recovering(place, monkeypatch, lambda: put(file, RIGHT))
    assert (recovery.wrong, [each.place for each in recovery.recognised]) == ([], [file.parent])


def test_what_is_damaged_meanwhile_is_not_recognised(place: Place, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recovery = recovering(place, monkeypatch, lambda: put(file, WRONG))
    ((aside, why),) = recovery.wrong
    assert (recovery.recognised, why) == ([], "model.bin does not match its manifest")
    assert (aside / "model.bin").read_bytes() == WRONG


def test_what_stays_wrong_is_put_aside(place: Place, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(file, WRONG)
    recovery = recovering(place, monkeypatch, lambda: None)
    assert ([path.name[:18] for path, _ in recovery.wrong], place.home_steps()) == (["wrong-checkpoint-1"], [])


def refuse(patch: pytest.MonkeyPatch, name: str) -> None:
    """Have reading a file of home fail for now, as on a network file system whose server is away."""
    digest, read = hashlib.file_digest, Path.read_bytes

    def file_digest(stream: Any, algorithm: str) -> Any:
        if Path(f"/proc/self/fd/{stream.fileno()}").readlink().name == name:
            raise OSError(errno.EIO, "Input/output error")
        return digest(stream, algorithm)

    def read_bytes(path: Path) -> bytes:
        if path.name == name:
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    patch.setattr(hashlib, "file_digest", file_digest)
    patch.setattr(Path, "read_bytes", read_bytes)


@pytest.mark.parametrize("name", ["model.bin", "MANIFEST.json"])
def test_what_its_disk_cannot_read_stays_and_is_recognised_once_it_can(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        refuse(patch, name)
        recovery = recovering(place, patch, lambda: None)
    assert (recovery.wrong, recovery.unreadable) == ([], [(file.parent, "Input/output error")])
    assert file.exists()
    recovery = recovering(place, monkeypatch, lambda: None)
    assert [each.place for each in recovery.recognised] == [file.parent]
    assert place.home_steps() == [1]


def test_a_sync_concludes_nothing_of_what_its_disk_cannot_read(
    place: Place, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(place.remote / "outbox")
    with monkeypatch.context() as patch:
        refuse(patch, "model.bin")
        (trouble,) = place.sync().troubles
    assert f"{file.parent} cannot be read" in trouble.error.message
    assert not place.sync(insist=True).troubles
    assert place.home_steps() == [1]
