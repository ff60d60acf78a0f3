"""Home's disk goes away in the middle of a sync: nothing is taken for deleted, and nothing is put where it was mounted."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from armada.errors import ArmadaError
from armada.rpc.session import HostSession
from armada.store import checkpoints, home_folders, run_sync, transfers
from armada.store.checkpoints import WAS_HOME
from armada.sync.checkpoints import apply_retention, download, folders, optimizers, proof, published, recognition
from armada.sync.checkpoints import repair as repairing
from armada.sync.checkpoints.folders import only_one_there, require_deleted
from armada.sync.checkpoints.repair import repair
from armada.sync.checkpoints.verify import look_over
from armada.sync.errors import FolderAway
from armada.sync.outputs import download as outputs
from armada.sync.runs.acknowledgements import Acknowledger
from armada.sync.transfer.chosen_transfer import ChosenTransfer
from armada.sync.transfer.staging import make_staging
from armada.verdicts.proof import Proof
from tests.sync.conftest import Place
from tests.sync.test_away_folders import Disk, folder_of, of, two

__all__ = ["two"]
STEPS = ("mkdir", "rename", "replace", "unlink", "rmdir")


@pytest.fixture(params=["runs", "run", "checkpoints"])
def disk(two: Place, tmp_path: Path, request: pytest.FixtureRequest) -> Disk:
    return Disk(folder_of(two, request.param), tmp_path)


def interrupting(
    patched: pytest.MonkeyPatch, owner: Any, name: str, disk: Disk, *, before: bool = False, at: int = 1
) -> Callable[[], int]:
    """Have the disk go away at the call number `at` of a function; return how often it was called."""
    real, calls = getattr(owner, name), 0

    @functools.wraps(real)
    def noting(*words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls == at
        if mine and before:
            disk.unmount()
        done = real(*words, **more)
        if mine and not before:
            disk.unmount()
        return done

    patched.setattr(owner, name, noting)
    return lambda: calls


def put_below(disk: Disk) -> list[Path]:
    return sorted(disk.folder.rglob("*"))


SEAMS: dict[str, tuple[Any, str, bool]] = {
    "a trash was emptied": (published, "empty_trash", False),
    "a staging folder is made": (download, "prepare_staging", True),
    "files are fetched": (ChosenTransfer, "bring", True),
    "files were fetched": (ChosenTransfer, "bring", False),
    "it was published": (published, "publish", False),
    "it is read after that": (download, "clear_staging", True),
    "it is acknowledged": (Acknowledger, "acknowledge", True),
    "outputs are fetched": (outputs, "read_index", True),
    "outputs come": (outputs, "_bring_batch", True),
    "outputs came": (outputs, "_bring_batch", False),
    "home is tidied": (apply_retention, "retain_home", True),
    "the host's were proven": (apply_retention, "plan_host", False),
}


@pytest.mark.parametrize("seam", SEAMS)
def test_a_sync_ends_with_what_it_says_of_a_disk_that_is_not_there(
    two: Place, disk: Disk, seam: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = of(two)
    (two.remote / "metrics.jsonl").write_text("{}\n")
    third = two.save(3, {"model": b"3"}, created_at=3.0)
    there = two.host_digests()
    owner, name, is_before = SEAMS[seam]
    with monkeypatch.context() as patched:
        interrupting(patched, owner, name, disk, before=is_before)
        with pytest.raises(FolderAway, match="its disk may not be mounted"):
            two.sync(insist=True)
    assert put_below(disk) == []
    after = of(two)
    assert {step: after[step] for step in before} == before
    assert two.host_digests() == there
    assert "its disk may not be mounted" in (run_sync.find(two.database, two.run_id).reason or "")
    if after[3].home_path is None:
        assert after[3].acknowledged_at is None
        assert (after[3].trouble, transfers.of_run(two.database, two.run_id).get(third)) == (None, None) or (
            transfers.of_run(two.database, two.run_id)[third].state == "waiting"
        )
    disk.mount()
    two.sync()
    assert two.home_steps() == [1, 2, 3]
    assert two.host_digests() == {third}
    assert (two.published / "checkpoint-3" / "model").read_bytes() == b"3"


@pytest.mark.parametrize("owner", [os, HostSession], ids=["steps on the disk", "questions to the host"])
def test_at_whatever_moment_it_goes_away_no_checkpoint_is_lost(
    two: Place, disk: Disk, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in STEPS if owner is os else ("call", "begin"):
        for moment in range(1, 40):
            before = of(two)
            step = max(before) + 1
            two.save(step, {"model": str(step).encode()}, created_at=float(step))
            with monkeypatch.context() as patched:
                calls = interrupting(patched, owner, name, disk, before=True, at=moment)
                try:
                    two.sync(insist=True)
                except (ArmadaError, OSError) as error:
                    assert "its disk may not be mounted" in str(error)  # noqa: PT017  # it may also go to its end
            is_last = calls() < moment
            after = of(two)
            assert all(after[each].home_path == before[each].home_path for each in before)
            assert not list(disk.folder.rglob("checkpoint-*")) or is_last
            if not is_last:
                disk.mount()
                two.sync(insist=True)
            assert two.home_steps() == list(range(1, step + 1))
            for each in range(1, step + 1):
                assert (two.published / f"checkpoint-{each}" / "model").read_bytes() == str(each).encode()
            if is_last:
                break


def test_what_a_disk_takes_along_while_it_is_looked_for_is_not_deleted(
    two: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = of(two)
    interrupting(monkeypatch, folders, "is_deleted", disk, before=True)
    with pytest.raises(FolderAway):
        apply_retention.tidy(two.database, two.home, two.run_id)
    assert of(two) == before
    assert all(each.trouble != WAS_HOME for each in before.values())


def test_one_that_is_asked_for_again_is_not_deleted_if_its_disk_goes_away_meanwhile(
    two: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupting(monkeypatch, folders, "is_deleted", disk, before=True)
    with pytest.raises(FolderAway):
        require_deleted(two.database, of(two)[1])


def test_one_whose_disk_goes_away_while_it_is_read_is_neither_damaged_nor_wrong(
    two: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = two.published / "checkpoint-1" / "model"
    os.utime(place)
    with monkeypatch.context() as patched:
        interrupting(patched, proof, "read_right", disk, before=True)
        assert proof.prove(two.database, of(two)[1]) is Proof.MISSING
    assert of(two)[1].trouble is None
    disk.mount()
    with monkeypatch.context() as patched:
        interrupting(patched, published, "read_published", disk, before=True)
        with pytest.raises(FolderAway):
            look_over(two.database, two.run_id, read_data=True, told=lambda _: None)
    disk.mount()
    assert proof.prove(two.database, of(two)[1]) is Proof.PROVEN


def test_one_that_is_recognised_while_its_disk_goes_away_is_recognised_later(
    two: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = of(two)[1]
    checkpoints.mark_not_home(two.database, two.run_id, first.digest, WAS_HOME)
    with monkeypatch.context() as patched:
        interrupting(patched, recognition, "_intact", disk, before=True)
        with pytest.raises(FolderAway):
            two.sync()
    disk.mount()
    two.sync()
    assert two.home_steps() == [1, 2]


def test_a_repair_puts_nothing_where_the_disk_was(two: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    (two.published / "checkpoint-2" / "MANIFEST.json").chmod(0o600)
    (two.published / "checkpoint-2" / "MANIFEST.json").write_text("{}")
    finding = next(f for f in look_over(two.database, two.run_id, read_data=True, told=lambda _: None) if not f.good)
    with monkeypatch.context() as patched:
        interrupting(patched, repairing, "fetch_manifest", disk)
        with pytest.raises(FolderAway):
            repair(two.context, finding, lambda _: None)
    assert put_below(disk) == []
    disk.mount()
    assert repair(two.context, finding, lambda _: None).good


def test_no_folder_of_a_run_is_made_anew_where_the_disk_of_runs_was(
    two: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(two.home.run(two.run_id))
    disk = Disk(folder_of(two, "runs"), tmp_path)
    marks = home_folders.marks(two.database)
    interrupting(monkeypatch, folders, "_require_above", disk, before=True)
    with pytest.raises(FolderAway), only_one_there(two.database, two.home, two.run_id):
        pass
    assert put_below(disk) == []
    assert home_folders.marks(two.database) == marks


def test_no_staging_folder_is_made_without_the_folder_of_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        make_staging(tmp_path / "checkpoints" / ".staging" / "a")
    assert list(tmp_path.iterdir()) == []


def test_optimizer_states_stay_where_the_disk_goes_away(
    two: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.run_settings(include_optimizer="last")
    asked = []
    monkeypatch.setattr(optimizers, "shrink", lambda *_: asked.append(1))
    interrupting(monkeypatch, apply_retention, "plan_home", disk)
    with pytest.raises(FolderAway):
        two.sync()
    assert asked == []
