"""Two homes on one host: what one has not fetched stays there, whatever the other asks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from armada.config.hosts import Host
from armada.errors import Conflict
from armada.home import own
from armada.paths import HomePaths
from armada.recovery.host_runs import read_host
from armada.rpc.session import HostSession
from armada.store import checkpoints, runs
from armada.store.database import Database
from armada.sync.release.judge import judge_host, losses
from tests.sync.conftest import Place


@pytest.fixture
def other(place: Place, tmp_path: Path) -> Iterator[Place]:
    """A second home, on another folder, whose `local` is the first one's host. It knows nothing of any run."""
    home = HomePaths(tmp_path / "other" / "config", tmp_path / "other" / "state")
    home.make()
    host = Host(name="local", root=str(place.home.local_root))
    with Database(home.store) as database, HostSession(host, home, patience_s=0.0) as session:
        yield Theirs(home, database, session, host_root=place.home.local_root)


class Theirs(Place):
    """A place whose host is not below its home."""

    def __init__(self, home: HomePaths, database: Database, session: HostSession, *, host_root: Path) -> None:
        super().__init__(home, database, session)
        self._root = host_root

    @property
    def remote(self) -> Path:
        return self._root / "runs" / self.run_id


def recover(place: Place) -> None:
    read_host(place.database, place.session, lambda _: None)


def lost(place: Place) -> list[str]:
    return [item.what for item in losses(judge_host(place.context))]


def three(place: Place, **sync: object) -> list[str]:
    place.create(**sync)
    place.sync()
    return [place.save(step, {"model": b"%d" % step * 10}, created_at=1e9 + step) for step in (1, 2, 3)]


def test_one_home_prunes_only_what_the_other_has_fetched(place: Place, other: Place) -> None:
    first, second, third = three(place, keep_remote=1)
    recover(other)
    assert place.sync().deleted_host == ()
    assert place.host_digests() == {first, second, third}
    assert set(other.sync().deleted_host) == {first, second}
    assert other.home_steps() == [1, 2, 3]
    place.sync()
    assert place.host_digests() == {third}
    assert place.home_steps() == [1, 2, 3]


def test_a_home_that_the_host_could_not_register_is_told_so_with_each_sync(place: Place) -> None:
    place.create()
    (place.remote / "homes").write_text("in the way")
    place.save(1, {"model": b"1"})
    troubles = {trouble.cause: trouble.error for trouble in place.sync().troubles}
    told = troubles["disk_host"]
    assert "did not record that this home wants tune-1 (Not a directory)" in told.message
    assert "another home may delete there what is not here yet" in told.message
    assert told.hint == (
        "free some space on local, or make its root folder writable; then run `armada sync now tune-1`"
    )
    assert place.home_steps() == [1]  # it came all the same
    (place.remote / "homes").unlink()
    assert place.sync().troubles == ()


def test_a_home_that_was_forgotten_by_name_keeps_nothing_until_it_speaks_again(place: Place, other: Place) -> None:
    first, second, third = three(place, keep_remote=1)
    recover(other)
    place.sync()
    answer = place.session.call("homes.forget", {"home": own(place.home).as_json(), "forget": own(other.home).id})
    assert answer == {"runs": [place.run_id]}
    other.session.call("homes.enroll", {"home": own(other.home).as_json(), "run_ids": [place.run_id]})
    assert place.sync().deleted_host == ()
    place.session.call("homes.forget", {"home": own(place.home).as_json(), "forget": own(other.home).id})
    assert set(place.sync().deleted_host) == {first, second}
    assert place.host_digests() == {third}


def test_what_a_home_does_not_want_it_does_not_keep_for_ever(place: Place, other: Place) -> None:
    three(place, keep_remote=1, keep_home={"last": 1, "best": 0})
    recover(other)
    other.sync()
    other.sync()  # it has seen that it is not alone
    assert other.home_steps() == [3]
    for digest in place.host_digests():
        words = place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0]["homes"]
        theirs = next(home for home in words if home["id"] == own(other.home).id)
        assert digest in theirs["held"] + theirs["unwanted"]


def test_a_copied_home_is_a_second_home_that_holds_what_was_copied(place: Place, tmp_path: Path) -> None:
    first, second, third = three(place, keep_remote=9)
    place.sync()
    before = own(place.home)
    shutil.copytree(place.home.state, tmp_path / "copy" / "state", symlinks=True)
    copied = HomePaths(tmp_path / "copy" / "config", tmp_path / "copy" / "state")
    copied.make()
    host = Host(name="local", root=str(place.home.local_root))
    with Database(copied.store) as database, HostSession(host, copied, patience_s=0.0) as session:
        copy = Theirs(copied, database, session, host_root=place.home.local_root)
        copy.sync()
        (run,) = place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"]
        held = {home["id"]: set(home["held"]) for home in run["homes"]}
        assert held == {before.id: {first, second, third}, own(copied).id: {first, second, third}}
        place.save(4, {"model": b"4"}, created_at=1e9 + 4)
        copy.run_settings(keep_remote=1)
        assert set(copy.sync().deleted_host) == {first, second, third}
        place.save(5, {"model": b"5"}, created_at=1e9 + 5)
        assert copy.sync().deleted_host == ()  # the original has not seen step 4


def test_a_host_with_what_another_home_has_not_fetched_cannot_be_destroyed(place: Place, other: Place) -> None:
    three(place)
    recover(other)
    place.end()
    assert place.sync().final
    assert lost(place) == [next(words for words in lost(place) if "has not fetched 3 checkpoints" in words)]
    assert own(other.home).named in lost(place)[0]
    with pytest.raises(Conflict, match="has not fetched 3 checkpoints"):
        place.session.call("host.wipe", {"home": own(place.home).as_json()})
    assert len(place.host_digests()) == 3
    other.end()
    assert other.sync().final
    assert lost(place) == []
    assert lost(other) == []


def test_a_run_is_not_removed_while_another_home_would_lose_something(place: Place, other: Place) -> None:
    three(place)
    recover(other)
    place.end()
    place.sync()
    question = {"run_id": place.run_id, "home": own(place.home).as_json()}
    with pytest.raises(Conflict, match="has not fetched 3 checkpoints"):
        place.session.call("run.remove", question)
    place.session.call("run.remove", {**question, "despite_homes": True})
    assert not place.remote.exists()


def test_after_a_wipe_the_other_home_says_who_did_it_and_not_that_all_is_home(place: Place, other: Place) -> None:
    three(place)
    recover(other)
    other.sync()
    place.save(4, {"model": b"4"}, created_at=1e9 + 4)
    for each in (place, other):
        each.end()
    place.sync()
    runs_seen = runs.find(other.database, place.run_id)
    checkpoints.record_outbox(other.database, place.run_id, [])  # whatever it saw last
    place.session.call("homes.forget", {"home": own(place.home).as_json(), "forget": own(other.home).id})
    place.session.call("host.wipe", {"home": own(place.home).as_json()})
    assert sorted(path.name for path in place.home.local_root.iterdir()) == ["root.json"]
    other.sync()
    seen = runs.find(other.database, place.run_id)
    assert (seen.state, runs_seen.state) == ("succeeded", "succeeded")
    assert f"its host was wiped by {own(place.home).label} on " in str(seen.message)


def test_a_wiped_host_of_one_home_keeps_nothing(place: Place) -> None:
    three(place)
    place.end()
    place.sync()
    place.session.call("host.wipe", {"home": own(place.home).as_json()})
    assert not place.home.local_root.exists()


def test_a_run_of_the_first_release_is_pruned_as_it_was(place: Place) -> None:
    """Nobody registered, an acknowledgement without a name: what the first release left on a host."""
    first, second, third = three(place)
    shutil.rmtree(place.remote / "homes")
    question = {"run_id": place.run_id}
    place.session.call("outbox.ack", {**question, "digest": first})
    answer = place.session.call("outbox.prune", {**question, "digests": [first, second, third]})
    assert (answer["pruned"], set(answer["refused"])) == ([first], {second, third})


def test_a_store_of_the_first_release_says_again_under_its_name_what_it_holds(place: Place) -> None:
    first, second, third = three(place, keep_remote=9)
    place.sync()
    shutil.rmtree(place.remote / "homes")
    place.run_settings(keep_remote=1)
    assert set(place.sync().deleted_host) == {first, second}
    assert place.host_digests() == {third}


def test_a_host_that_lost_its_word_is_told_again_only_of_what_is_whole(place: Place) -> None:
    _, second, third = three(place, keep_remote=9)
    place.sync()
    shutil.rmtree(place.remote / "homes")
    model = place.published / "checkpoint-1" / "model"
    model.chmod(0o600)
    model.write_bytes(b"?")
    place.sync()
    (run,) = place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"]
    assert set(run["homes"][0]["held"]) == {second, third}
