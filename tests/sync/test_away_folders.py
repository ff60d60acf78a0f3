"""A run's folder at home whose disk is not mounted is not a folder whose checkpoints a person deleted."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from armada.errors import ArmadaError
from armada.foundation.progress import NullProgress
from armada.recovery.check import check
from armada.store import checkpoints, files_home, run_sync
from armada.store.checkpoints import WAS_HOME, Checkpoint
from armada.sync.checkpoints import recognition
from armada.sync.checkpoints.apply_retention import tidy
from armada.sync.checkpoints.folders import find_away, find_deleted
from armada.sync.checkpoints.proof import prove
from armada.sync.checkpoints.verify import look_over
from armada.sync.errors import FolderAway
from armada.sync.runs.pull import pull
from armada.verdicts.proof import Proof
from tests.sync.conftest import Place


def of(place: Place) -> dict[int, Checkpoint]:
    return {c.step: c for c in checkpoints.of_run(place.database, place.run_id)}


def folder_of(place: Place, level: str) -> Path:
    return {
        "runs": place.home.state / "runs",
        "run": place.home.run(place.run_id),
        "checkpoints": place.published,
    }[level]


class Disk:
    """The disk of one of the folders, which a person unmounts and mounts."""

    def __init__(self, folder: Path, away: Path, *, linked: bool = False) -> None:
        self.folder = folder
        self.away = away / "another-disk"
        self.linked = linked

    def unmount(self) -> None:
        self.folder.rename(self.away)
        if self.linked:
            self.folder.symlink_to(self.folder.with_name("no-disk"))
        else:
            self.folder.mkdir()  # the mount point

    def mount(self) -> None:
        if self.linked:
            self.folder.unlink()
        else:
            shutil.rmtree(self.folder)
        self.away.rename(self.folder)


@pytest.fixture
def two(place: Place) -> Place:
    """Two checkpoints that are home: the first, pinned, has gone from its host since."""
    place.create(keep_remote=1)
    first = place.save(1, {"model": b"1"}, created_at=1.0)
    place.save(2, {"model": b"2"}, created_at=2.0)
    place.sync()
    assert place.home_steps() == [1, 2]
    shutil.rmtree(place.remote / "outbox" / first, ignore_errors=True)
    place.sync()
    checkpoints.pin(place.database, place.run_id, first)
    return place


@pytest.mark.parametrize("linked", [False, True], ids=["mount point", "link"])
@pytest.mark.parametrize("level", ["runs", "run", "checkpoints"])
def test_checkpoints_on_a_disk_that_is_not_mounted_are_not_forgotten(
    two: Place, tmp_path: Path, level: str, linked: bool
) -> None:
    place, before = two, of(two)
    disk = Disk(folder_of(place, level), tmp_path, linked=linked)
    digest = place.save(3, {"model": b"3"}, created_at=3.0)
    disk.unmount()
    below = sorted(disk.folder.rglob("*")) if disk.folder.exists() else []
    for _ in range(2):
        with pytest.raises(ArmadaError, match="its disk may not be mounted") as refused:
            place.sync(insist=True)
        assert str(disk.folder) in str(refused.value)
    assert "its disk may not be mounted" in (run_sync.find(place.database, place.run_id).reason or "")
    assert (sorted(disk.folder.rglob("*")) if disk.folder.exists() else []) == below  # nothing was put there
    assert of(place) == before  # also: still pinned
    assert [prove(place.database, each) for each in before.values()] == [Proof.MISSING, Proof.MISSING]
    assert find_deleted(place.database, list(before.values())) == []
    with pytest.raises(FolderAway):
        tidy(place.database, place.home, place.run_id)
    with pytest.raises(FolderAway):
        look_over(place.database, place.run_id, read_data=True, told=lambda _: None)
    with pytest.raises(FolderAway):
        pull(place.context, progress=NullProgress(), only=before[2])
    assert of(place)[2].home_path == before[2].home_path
    disk.mount()
    place.sync(insist=True)
    assert place.home_steps() == [1, 2, 3]
    assert of(place)[1].pinned
    assert of(place)[3].digest == digest
    assert files_home.proven(
        place.database, place.published / "checkpoint-1" / "model", hashlib.sha256(b"1").hexdigest()
    )


@pytest.mark.parametrize("level", ["run", "checkpoints"])
def test_who_deletes_the_whole_folder_has_deleted_its_checkpoints(two: Place, level: str) -> None:
    shutil.rmtree(folder_of(two, level))
    two.sync()
    assert {step: (c.home_path is not None, c.trouble) for step, c in of(two).items()} == {
        1: (False, WAS_HOME),
        2: (True, None),  # fetched again
    }
    assert find_away(two.database, two.run_id) is None


def test_a_home_of_an_earlier_armada_gets_its_marks_with_the_next_sync(two: Place) -> None:
    forget_marks(two)
    shutil.rmtree(two.published / "checkpoint-1")
    two.sync()
    assert two.home_steps() == [2]
    assert {path.parent.name for path in (two.home.state / "runs").rglob(".mark")} == {
        "runs",
        two.run_id,
        "checkpoints",
    }


def test_in_a_home_of_an_earlier_armada_an_empty_folder_is_no_deletion(two: Place, tmp_path: Path) -> None:
    forget_marks(two)
    disk = Disk(two.published, tmp_path)
    disk.unmount()
    with pytest.raises(FolderAway, match="its disk may not be mounted"):
        two.sync()
    assert two.home_steps() == [1, 2]
    disk.folder.rmdir()  # as the message says, for a person who deleted what was in it
    two.sync()
    assert two.home_steps() == [2]


def test_who_copies_the_folders_without_hidden_files_keeps_the_checkpoints(two: Place) -> None:
    for mark in (two.home.state / "runs").rglob(".mark"):
        mark.unlink()
    shutil.rmtree(two.published / "checkpoint-2")
    two.sync()
    assert two.home_steps() == [1, 2]
    assert len(list((two.home.state / "runs").rglob(".mark"))) == 3


def test_a_folder_with_the_mark_of_another_disk_is_not_the_same(two: Place, tmp_path: Path) -> None:
    two.published.rename(tmp_path / "another-disk")
    two.published.mkdir()
    (two.published / ".mark").write_text("f" * 32 + "\n")
    with pytest.raises(FolderAway):
        two.sync()
    assert two.home_steps() == [1, 2]


def test_a_disk_that_gives_an_error_is_not_a_folder_without_checkpoints(
    two: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Path.iterdir

    def broken(path: Path) -> object:
        if path == two.published:
            raise OSError(5, "Input/output error", str(path))
        return listed(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", broken)
        with pytest.raises(FolderAway, match=r"cannot be read \(Input/output error\)"):
            two.sync()
    assert two.home_steps() == [1, 2]


def test_one_checkpoint_behind_a_link_that_leads_nowhere_is_not_deleted(two: Place, tmp_path: Path) -> None:
    moved = two.published / "checkpoint-1"
    moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "nowhere")
    two.sync()
    assert two.home_steps() == [1, 2]
    assert of(two)[1].pinned
    with pytest.raises(FolderAway, match="cannot be read at home"):
        pull(two.context, progress=NullProgress(), only=of(two)[1])


def test_a_run_is_not_all_at_home_while_a_checkpoint_is_behind_a_link_that_leads_nowhere(
    two: Place, tmp_path: Path
) -> None:
    moved = two.published / "checkpoint-1"
    moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(tmp_path / "nowhere")
    two.end()
    outcome = two.sync()
    assert not outcome.final
    assert "cannot be read at home" in outcome.troubles[0].error.message
    assert not run_sync.find(two.database, two.run_id).final_done
    assert not list(two.remote.rglob("settled.json"))
    assert of(two)[1].home_path is not None
    moved.unlink()
    moved.symlink_to(tmp_path / "elsewhere")
    assert two.sync().final
    assert (run_sync.find(two.database, two.run_id).final_done, of(two)[1].trouble) == (True, None)
    assert list(two.remote.rglob("settled.json"))


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_deleted_checkpoint_that_is_back_is_recognised_by_its_bytes(
    two: Place, tmp_path: Path, is_changed: bool
) -> None:
    (two.published / "checkpoint-1").rename(tmp_path / "trash")
    two.sync()
    assert of(two)[1].trouble == WAS_HOME
    (tmp_path / "trash").rename(two.published / "checkpoint-1")
    if is_changed:
        model = two.published / "checkpoint-1" / "model"
        model.chmod(0o600)
        model.write_bytes(b"2")
    two.sync()
    assert (of(two)[1].home_path is None) is is_changed
    assert of(two)[1].trouble == (WAS_HOME if is_changed else None)


def test_one_that_is_back_and_not_as_it_came_is_read_again_only_once_it_was_touched(
    two: Place, tmp_path: Path, count_reads: Callable[[], int]
) -> None:
    place = two.published / "checkpoint-1"
    place.rename(tmp_path / "trash")
    two.sync()
    (tmp_path / "trash").rename(place)
    (place / "model").chmod(0o600)
    (place / "model").write_bytes(b"2")
    two.sync()
    read = count_reads()
    two.sync()
    assert count_reads() == read
    (place / "model").write_bytes(b"1")
    two.sync()
    assert two.home_steps() == [1, 2]


@pytest.fixture
def count_reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many checkpoints were read to recognise them."""
    read: list[object] = []
    real = recognition._intact  # noqa: SLF001  # what reads all bytes

    def noted(place: Path, checkpoint: Checkpoint) -> object:
        read.append(place)
        return real(place, checkpoint)

    monkeypatch.setattr(recognition, "_intact", noted)
    return lambda: len(read)


def test_the_check_of_the_store_still_names_what_is_not_seen(two: Place, tmp_path: Path) -> None:
    disk = Disk(two.published, tmp_path)
    disk.unmount()
    found = check(two.home).findings
    assert [each.kind for each in found] == ["missing", "missing"]
    assert all("its disk may not be mounted" in each.message for each in found)


def forget_marks(place: Place) -> None:
    """As an earlier armada left it."""
    for mark in (place.home.state / "runs").rglob(".mark"):
        mark.unlink()
    with place.database.transaction() as connection:
        connection.execute("DELETE FROM home_folders")
