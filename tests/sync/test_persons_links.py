"""A link that a person put in the place of a folder at home: it stays, and nothing behind it is deleted, moved or replaced."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pytest

from armada.cli.context import Context
from armada.cli.verify import verify
from armada.errors import ArmadaError
from armada.store import runs
from armada.sync.transfer.chosen_transfer import ChosenTransfer
from tests.sync.conftest import OPTIMIZER, Place


def moved_away(folder: Path, target: Path) -> Path:
    """Move a folder elsewhere, as a person does, and leave a link to it; its new place."""
    shutil.move(folder, target)
    for path in target.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    folder.symlink_to(target)
    return target


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def one_stays(place: Place) -> Place:
    """A run of which one checkpoint stays at home; the first one is there, and has folders."""
    place.create(keep_remote=5, keep_home={"last": 1, "best": 0})
    place.save(1, {"model": b"1", "sub/x": b"xx", "sub/deep/y": b"yy"}, created_at=1.0)
    place.sync()
    return place


def test_retention_deletes_nothing_behind_a_link_in_a_checkpoint(one_stays: Place, tmp_path: Path) -> None:
    first = one_stays.published / "checkpoint-1"
    mine = moved_away(first / "sub", tmp_path / "mine")
    (mine / "x").write_bytes(b"edited")
    (mine / "deep" / "y").unlink()
    one_stays.save(2, {"model": b"2"}, created_at=2.0)
    outcome = one_stays.sync()
    assert (outcome.deleted_home, outcome.troubles, one_stays.home_steps()) == ((first,), (), [2])
    assert content(mine) == {"x": b"edited"}
    assert (mine / "deep").is_dir()
    assert [path.name for path in first.iterdir()] == ["sub"]
    assert (first / "sub").is_symlink()


def test_retention_leaves_a_link_in_the_place_of_a_file(one_stays: Place, tmp_path: Path) -> None:
    first = one_stays.published / "checkpoint-1"
    (tmp_path / "mine").write_bytes(b"1")
    (first / "model").unlink()
    (first / "model").symlink_to(tmp_path / "mine")
    one_stays.save(2, {"model": b"2"}, created_at=2.0)
    assert one_stays.sync().deleted_home == (first,)
    assert (first / "model").read_bytes() == b"1"


def test_retention_leaves_a_checkpoint_that_a_person_moved_elsewhere_and_linked(
    one_stays: Place, tmp_path: Path
) -> None:
    first = one_stays.published / "checkpoint-1"
    mine = moved_away(first, tmp_path / "mine")
    (mine / "notes").write_bytes(b"notes")
    before = content(mine)
    one_stays.save(2, {"model": b"2"}, created_at=2.0)
    outcome = one_stays.sync()
    assert (outcome.deleted_home, outcome.troubles, one_stays.home_steps()) == ((), (), [1, 2])
    assert (content(mine), first.is_symlink()) == (before, True)


def test_a_link_in_the_place_of_the_trash_takes_no_checkpoint(one_stays: Place, tmp_path: Path) -> None:
    (one_stays.published / ".trash").symlink_to(tmp_path)
    one_stays.save(2, {"model": b"2"}, created_at=2.0)
    with pytest.raises(ArmadaError, match=r"\.trash is a link"):
        one_stays.sync()
    assert (one_stays.published / "checkpoint-1" / "model").read_bytes() == b"1"


def test_optimizer_states_behind_a_link_stay(place: Place, tmp_path: Path) -> None:
    place.create(keep_remote=5, include_optimizer="last")
    for step in (1, 2):
        files = {"model": b"%d" % step, **{f"state/{name}": data for name, data in OPTIMIZER.items()}}
        place.save(step, files, created_at=float(step))
        place.sync()
        if step == 1:
            moved_away(place.published / "checkpoint-1" / "state", tmp_path / "mine")
    assert set(content(tmp_path / "mine")) == set(OPTIMIZER)


def test_a_repair_replaces_nothing_behind_a_link_and_says_so(
    one_stays: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = one_stays.published / "checkpoint-1"
    mine = moved_away(first / "sub", tmp_path / "mine")
    (mine / "x").write_bytes(b"my")
    (first / "model").unlink()
    options = argparse.Namespace(read_data=True, no_repair=False, json=False)
    assert verify(Context(), [runs.find(one_stays.database, one_stays.run_id)], options)
    assert (content(mine)["x"], (first / "model").read_bytes()) == (b"my", b"1")
    assert f"{first / 'sub'} is a link" in capsys.readouterr().out


def test_what_is_damaged_behind_a_link_is_not_fetched_at_every_sync(
    one_stays: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = one_stays.published / "checkpoint-1"
    mine = moved_away(first / "sub", tmp_path / "mine")
    (mine / "x").write_bytes(b"my")
    (first / "model").unlink()
    bring, fetched = ChosenTransfer.bring, list[str]()

    def noting(self: ChosenTransfer, run_id: str, source: str, staging: Path, files: Any, progress: Any) -> Any:
        fetched.extend(file.path for file in files)
        return bring(self, run_id, source, staging, files, progress)

    monkeypatch.setattr(ChosenTransfer, "bring", noting)
    one_stays.end()
    for _ in range(2):
        outcome = one_stays.sync()
        assert ("is a link" in outcome.troubles[0].error.message, outcome.final) == (True, False)
    assert fetched == ["model"]


def test_a_file_behind_a_link_is_no_source_of_another_checkpoint(one_stays: Place, tmp_path: Path) -> None:
    mine = moved_away(one_stays.published / "checkpoint-1" / "sub", tmp_path / "mine")
    one_stays.run_settings(keep_home={"last": 5})
    one_stays.save(2, {"model": b"2", "sub/x": b"xx"}, created_at=2.0)
    assert one_stays.sync().troubles == ()
    found = (mine / "x").stat()
    assert (found.st_nlink, found.st_mode & 0o777) == (1, 0o600)


def test_staging_behind_a_link_is_not_tidied_and_takes_nothing(one_stays: Place, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_bytes(b"mine")
    (one_stays.published / ".staging").symlink_to(tmp_path / "mine")
    one_stays.save(2, {"model": b"2"}, created_at=2.0)
    (trouble,) = one_stays.sync().troubles
    assert ".staging is a link" in trouble.error.message
    assert content(tmp_path / "mine") == {"thesis": b"mine"}
    (one_stays.published / ".staging").unlink()
    assert one_stays.sync(insist=True).troubles == ()
    assert one_stays.home_steps() == [2]


def test_outputs_behind_a_link_stay_and_the_link_is_set_aside(place: Place, tmp_path: Path) -> None:
    place.create(outputs=["results/**"])
    there = place.remote / "work" / "results"
    (there / "a").mkdir(parents=True)
    (there / "a" / "scores.csv").write_text("first")
    (there / "a" / "b.csv").write_text("b")
    place.sync()
    mine = moved_away(place.outputs / "work" / "results", tmp_path / "mine")
    (mine / "a" / "scores.csv").write_text("my own table")
    (mine / "a" / "b.csv").write_text("mine")
    (there / "a" / "scores.csv").write_text("the second, which is longer")
    outcome = place.sync()
    assert (outcome.troubles, outcome.outputs.kept) == ((), ("work/results",))
    assert content(mine) == {"a/scores.csv": b"my own table", "a/b.csv": b"mine"}
    (link,) = (place.home.run(place.run_id) / "replaced").glob("*/work/results")
    assert link.readlink() == mine
    assert (place.outputs / "work/results/a/scores.csv").read_text() == "the second, which is longer"


def test_outputs_that_were_seen_through_a_link_come_again_before_all_is_at_home(place: Place, tmp_path: Path) -> None:
    place.create(outputs=["results/**"])
    there = place.remote / "work" / "results"
    there.mkdir(parents=True)
    for name in ("a", "b"):
        (there / name).write_text(name)
    place.sync()
    moved_away(place.outputs / "work" / "results", tmp_path / "mine")
    place.sync()  # sees both behind the link
    (there / "a").write_text("longer")
    place.end()
    assert not place.sync().final
    assert place.sync().final
    assert (place.outputs / "work" / "results" / "b").read_text() == "b"


def test_a_link_in_the_place_of_an_output_is_set_aside(place: Place, tmp_path: Path) -> None:
    place.create(outputs=["*.csv"])
    place.remote.joinpath("work").mkdir(exist_ok=True)
    place.remote.joinpath("work", "a.csv").write_text("a")
    place.sync()
    here = place.outputs / "work" / "a.csv"
    here.unlink()
    (tmp_path / "mine").write_text("mine")
    here.symlink_to(tmp_path / "mine")
    assert place.sync().outputs.kept == ("work/a.csv",)
    (link,) = (place.home.run(place.run_id) / "replaced").rglob("a.csv")
    assert (link.readlink(), here.read_text(), (tmp_path / "mine").read_text()) == (tmp_path / "mine", "a", "mine")


def test_outputs_do_not_arrive_behind_a_link(place: Place, tmp_path: Path) -> None:
    place.create(outputs=["*.csv"])
    place.remote.joinpath("work").mkdir(exist_ok=True)
    place.remote.joinpath("work", "a.csv").write_text("a")
    place.outputs.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.csv").write_text("mine")
    (place.outputs / ".staging").symlink_to(tmp_path)
    (trouble,) = place.sync().troubles
    assert ".staging is a link" in trouble.error.message
    assert (tmp_path / "work" / "a.csv").read_text() == "mine"
