"""A checkpoint that is asked for by name comes whole, and stays."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armada.errors import ArmadaError, HostUnreachable
from armada.foundation.progress import NullProgress
from armada.store import checkpoints, runs
from armada.sync.checkpoints import folders
from armada.sync.checkpoints.published import PARTIAL
from armada.sync.checkpoints.selection import choose_checkpoint
from armada.sync.runs import pull as pulling
from armada.sync.runs.pull import Pulled
from armada.sync.runs.pull import pull as pull_now
from armada.sync.schedule.due import NOT_WANTED
from tests.sync.conftest import OPTIMIZER, Place, both_ways, leftovers


def pull(place: Place, step: int) -> Pulled:
    chosen = choose_checkpoint(place.database, place.session, runs.find(place.database, place.run_id), str(step))
    return pull_now(
        place.context,
        progress=NullProgress(),
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


@pytest.mark.fault("PARTIAL.json at home is damaged", "a pull replaces it, and what it brings is whole")
@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_a_list_of_what_was_left_out_that_cannot_be_read_is_replaced(place: Place, text: str) -> None:
    place.create(include_optimizer=False)
    place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    (folder / PARTIAL).write_text(text)
    pull(place, 1)
    assert (folder / "model").read_bytes() == b"1"
    assert (folder / "optimizer.pt").read_bytes() == OPTIMIZER["optimizer.pt"]
    assert not (folder / PARTIAL).exists()


@pytest.mark.fault("PARTIAL.json at home is damaged, and the host has no copy", "it is named, and nothing is deleted")
def test_a_damaged_list_without_a_copy_on_the_host_is_named(place: Place) -> None:
    place.create(include_optimizer=False)
    digest = place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    (folder / PARTIAL).write_text("{")
    shutil.rmtree(place.remote / "outbox" / digest)
    with pytest.raises(ArmadaError, match="is damaged, and could not be repaired: run tune-1 has no checkpoint"):
        pull(place, 1)
    assert (folder / "model").read_bytes() == b"1"


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


def deleting_first(place: Place, monkeypatch: pytest.MonkeyPatch, step: int) -> Path:
    """Have a sync that holds the run's lock delete a checkpoint at home before the pull gets the lock."""
    (known,) = [c for c in checkpoints.of_run(place.database, place.run_id) if c.step == step]
    folder, take = known.home_path, folders.only_one_there
    assert folder is not None

    @contextlib.contextmanager
    def waiting(*words: Any) -> Iterator[bool]:
        with take(*words):
            if folder.exists():
                shutil.rmtree(folder)
                checkpoints.mark_not_home(place.database, place.run_id, known.digest, NOT_WANTED)
            yield True

    monkeypatch.setattr(pulling, "only_one_there", waiting)
    return folder


def test_a_checkpoint_that_a_sync_deletes_before_the_pull_has_the_lock_is_fetched_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(keep_remote=5)
    for step in (1, 2):
        place.save(step, {"model": b"%d" % step})
    place.sync()
    folder = deleting_first(place, monkeypatch, 1)
    assert pull(place, 1).published == (folder,)
    assert [c.step for c in checkpoints.of_run(place.database, place.run_id) if c.pinned] == [1]


def test_a_checkpoint_that_a_sync_deletes_while_the_host_is_away_is_not_said_to_be_home(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.sync()
    run, why = runs.find(place.database, place.run_id), HostUnreachable("no route")

    def from_home() -> Pulled:
        found, _ = pulling.pull_from_home(place.database, place.home, run, "1", why, NullProgress())
        return found

    assert from_home().already == 1
    deleting_first(place, monkeypatch, 1)
    with pytest.raises(HostUnreachable):
        from_home()


def damage(folder: Path) -> Path:
    """Change a file of a published checkpoint, so that somebody reads it."""
    model = folder / "model"
    model.chmod(0o600)
    model.write_bytes(b"?")
    return model


def test_a_checkpoint_that_is_damaged_at_home_is_repaired_when_it_is_asked_for(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1", "tok": b"t"})
    (folder,) = place.sync().published
    model = damage(folder)
    assert pull(place, 1).repaired
    assert model.read_bytes() == b"1"
    assert pull(place, 1) == Pulled((), 0, 1)


def test_a_checkpoint_that_nobody_read_is_read_when_it_is_asked_for(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    (folder,) = place.sync().published
    model = damage(folder)
    (known,) = checkpoints.of_run(place.database, place.run_id)
    checkpoints.mark_trouble(place.database, place.run_id, known.digest, checkpoints.UNREAD)
    assert pull(place, 1).repaired
    assert model.read_bytes() == b"1"
    (known,) = checkpoints.of_run(place.database, place.run_id)
    assert known.is_good_home


def test_a_checkpoint_that_stays_damaged_is_not_called_home(place: Place) -> None:
    place.create()
    digest = place.save(1, {"model": b"1", "tok": b"t"})
    (folder,) = place.sync().published
    damage(folder)
    (place.remote / "outbox" / digest / "model").unlink()
    with pytest.raises(ArmadaError, match="is damaged, and could not be repaired"):
        pull(place, 1)


@pytest.mark.parametrize("word", ["1", None])
def test_a_damaged_checkpoint_is_not_called_home_while_its_host_is_away(place: Place, word: str | None) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    (folder,) = place.sync().published
    place.end()
    place.sync()
    run, why = runs.find(place.database, place.run_id), HostUnreachable("no route")
    damage(folder)
    with pytest.raises(HostUnreachable, match=r"checkpoint-1 .*is damaged at home.*: no route"):
        pulling.pull_from_home(place.database, place.home, run, word, why, NullProgress())


def test_a_damaged_list_of_what_was_left_out_is_no_traceback_and_is_repaired(place: Place) -> None:
    place.create(include_optimizer=False)
    place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    (folder / PARTIAL).write_text("{")
    run, why = runs.find(place.database, place.run_id), HostUnreachable("no route")
    with pytest.raises(HostUnreachable, match="is damaged at home"):
        pulling.pull_from_home(place.database, place.home, run, "1", why, NullProgress())
    assert pull(place, 1).repaired
    assert not (folder / PARTIAL).exists()
    assert {name: (folder / name).read_bytes() for name in OPTIMIZER} == OPTIMIZER
