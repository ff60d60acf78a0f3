"""Which home a home is: moved it stays itself, copied or put back it becomes another and says so once."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from armada.home import copied_from, launched_by, own
from armada.paths import HomePaths


def home_in(folder: Path) -> HomePaths:
    paths = HomePaths(folder / "config", folder / "state")
    paths.make()
    return paths


def copy(source: HomePaths, folder: Path) -> HomePaths:
    shutil.copytree(source.state.parent, folder, symlinks=True)
    return HomePaths(folder / "config", folder / "state")


def test_a_home_stays_the_same_home(tmp_path: Path) -> None:
    paths = home_in(tmp_path / "home")
    first = own(paths)
    assert own(paths) == first
    assert first.path == str(paths.state)
    assert first.label.endswith(f"@{socket.gethostname()}")


def test_two_homes_are_two(tmp_path: Path) -> None:
    assert own(home_in(tmp_path / "a")).id != own(home_in(tmp_path / "b")).id


def test_a_moved_home_keeps_its_id_and_says_where_it_lies_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = own(home_in(tmp_path / "home"))
    (tmp_path / "home").rename(tmp_path / "moved")
    after = own(HomePaths(tmp_path / "moved" / "config", tmp_path / "moved" / "state"))
    assert (after.id, after.path) == (before.id, str(tmp_path / "moved" / "state"))
    assert caplog.records == []


def test_the_same_folder_under_another_name_of_the_machine_or_path_is_one_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home on NFS, used from two machines; a laptop that is called otherwise in another network."""
    paths = home_in(tmp_path / "home")
    before = own(paths)
    (tmp_path / "mount").symlink_to(tmp_path / "home")
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    after = own(HomePaths(tmp_path / "mount" / "config", tmp_path / "mount" / "state"))
    assert after.id == before.id


def test_a_copied_home_gets_an_id_of_its_own_and_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    original = home_in(tmp_path / "home")
    before = own(original)
    copied = copy(original, tmp_path / "copy")
    with caplog.at_level(logging.WARNING):
        after = own(copied)
        assert own(copied) == after
    assert after.id != before.id
    assert own(original) == before
    (record,) = caplog.records
    assert "is a copy of" in record.getMessage()
    assert before.id[:8] in record.getMessage()
    assert f"forget-home HOST {before.id[:8]}" in record.getMessage()


def test_a_copy_knows_all_homes_of_which_it_is_a_copy(tmp_path: Path) -> None:
    paths = home_in(tmp_path / "home")
    first = own(paths)
    assert not copied_from(paths)
    ids = {first.id}
    for _ in range(3):
        paths.home_mark.chmod(0o600)
        third = own(paths)
        assert copied_from(paths) == ids
        ids.add(third.id)


@pytest.mark.parametrize("told", [None, [], {"id": "x"}, {"id": 7, "before": 7}, {"before": [7, "../x", None]}])
def test_what_a_home_was_copied_from_is_believed_only_where_it_can_be(tmp_path: Path, told: object) -> None:
    paths = home_in(tmp_path / "home")
    own(paths)
    record = json.loads(paths.home_record.read_text())
    paths.home_record.write_text(json.dumps(record | {"copy_of": told}))
    assert not copied_from(paths)


def test_a_copy_in_the_place_of_an_original_that_was_moved_away_is_the_copy(tmp_path: Path) -> None:
    before = own(home_in(tmp_path / "home"))
    (tmp_path / "home").rename(tmp_path / "original")
    original = HomePaths(tmp_path / "original" / "config", tmp_path / "original" / "state")
    copied = copy(original, tmp_path / "home")
    assert own(copied).id != before.id
    assert own(original).id == before.id


def test_a_home_put_back_to_its_own_path_is_another_even_with_the_inodes_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system gives free inodes again; what cannot be put back is the moment at which a file got its inode."""
    paths = home_in(tmp_path / "home")
    before = own(paths)
    paths.home_mark.chmod(0o600)  # its ctime is another one; both inodes are the same
    assert own(paths).id != before.id


def test_a_copy_of_hard_links_is_a_copy(tmp_path: Path) -> None:
    original = home_in(tmp_path / "home")
    before = own(original)
    shutil.copytree(tmp_path / "home", tmp_path / "copy", copy_function=os.link)
    assert own(HomePaths(tmp_path / "copy" / "config", tmp_path / "copy" / "state")).id != before.id


def test_processes_that_begin_at_once_are_of_one_home(tmp_path: Path) -> None:
    paths = home_in(tmp_path / "home")
    with ThreadPoolExecutor(8) as pool:
        assert len({home.id for home in pool.map(own, [paths] * 32)}) == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"id": 7}', '{"id": "../../x"}'])
def test_a_damaged_record_makes_a_new_home(tmp_path: Path, damage: str) -> None:
    paths = home_in(tmp_path / "home")
    before = own(paths)
    paths.home_record.write_text(damage)
    assert own(paths).id != before.id
    assert len(own(paths).id) == 32


@pytest.mark.parametrize(
    "told", [None, [], "x", {"id": "x", "label": "a", "path": "b"}, {"id": "a" * 32, "label": 7, "path": "b"}]
)
def test_what_a_plan_says_of_its_home_is_believed_only_where_it_can_be(told: object) -> None:
    assert launched_by({"home": told}) is None


def test_a_launchers_name_cannot_write_on_the_screen() -> None:
    home = launched_by({"home": {"id": "a" * 32, "label": "\x1b[2Jme", "path": "/x"}})
    assert home is not None
    assert "\x1b" not in home.named
