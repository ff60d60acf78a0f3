"""Who may change or use a host while something goes on there."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from armada.cli.release import WIPED, _begin_clearing
from armada.config.hosts import Host
from armada.config.hosts_file import add_host
from armada.config.hosts_file import change_host as edit
from armada.errors import Conflict
from armada.paths import HomePaths
from armada.provision.admission import admit, change_host, putting
from armada.store.database import Database
from armada.store.running_operations import WIPING, operation

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    found = HomePaths(tmp_path / "config", tmp_path / "state")
    found.make()
    return found


@pytest.mark.parametrize("settings", [{"ssh": "b"}, {"root": "/b"}, {"transport": "openssh"}, {"scheduler": "slurm"}])
def test_what_was_asked_of_a_host_as_it_was_is_not_done_on_another(
    home: HomePaths, tmp_path: Path, settings: dict[str, object]
) -> None:
    database = Database(home.store)
    host = Host(name="box", ssh="a")
    add_host(home, host)
    admit(database, home, tmp_path, host)
    edit(home, "box", {"price_per_hour": 3.0, "profile": "cpu"})
    admit(database, home, tmp_path, host)
    edit(home, "box", settings)
    with pytest.raises(Conflict, match=r"it was changed in hosts\.yaml a moment ago; nothing was started"):
        admit(database, home, tmp_path, host)


@pytest.mark.parametrize(
    ("kind", "keys", "refused"),
    [
        ("launch", ["ssh"], True),
        ("resume", ["root"], True),
        ("provision", ["identity", "profile"], True),
        ("release", ["scheduler"], True),
        ("launch", ["profile", "price_per_hour"], False),
        ("pull", ["ssh"], False),
    ],
)
def test_a_host_does_not_move_under_a_command_that_uses_it(
    home: HomePaths, kind: str, keys: list[str], refused: bool
) -> None:
    database = Database(home.store)
    changed: list[str] = []
    with operation(database, kind=kind, host="box", argv=["armada", kind]):
        if refused:
            with pytest.raises(Conflict, match=f"{kind} .*is still running"):
                change_host(database, "box", lambda: keys, lambda: changed.append("during"))
        else:
            change_host(database, "box", lambda: keys, lambda: changed.append("during"))
        change_host(database, "other", lambda: keys, lambda: changed.append("other"))
    change_host(database, "box", lambda: keys, lambda: changed.append("after"))
    assert changed == [*([] if refused else ["during"]), "other", "after"]


def test_nothing_is_put_on_a_host_until_its_release_has_deleted_all(home: HomePaths, tmp_path: Path) -> None:
    database, host = Database(home.store), Host(name="box", ssh="a")
    add_host(home, host)

    def is_refused() -> bool:
        with contextlib.suppress(Conflict):
            admit(database, home, tmp_path, host)
            return False
        with pytest.raises(Conflict, match=r"is releasing it \(armada hosts release box --wipe\)"):
            admit(database, home, tmp_path, host)
        return True

    with operation(
        database, kind="release", host="box", argv=["armada", "hosts", "release", "box", "--wipe"]
    ) as recorded:
        recorded.stage("judging", "reading what it holds")
        assert not is_refused()
        _begin_clearing(database, recorded, "box", putting(database, "box"))
        assert is_refused()
        recorded.stage("judging", "reading it again, after the question")
        assert is_refused()
        recorded.hold(WIPING)
        recorded.stage("deleting", "3 of 5 folders")
        assert is_refused()
        recorded.hold(WIPED)
        assert not is_refused()
