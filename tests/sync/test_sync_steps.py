"""What one sync of a run fetches, tries again, counts and leaves alone."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from typing import Any

import pytest

from armada.errors import ArmadaError
from armada.foundation.progress import NullProgress
from armada.protocol.sync import RunListing
from armada.store import checkpoints, run_sync, runs, transfers
from armada.store.checkpoints import Checkpoint
from armada.sync.checkpoints.repair import repair
from armada.sync.checkpoints.verify import Finding
from armada.sync.context import SyncContext
from armada.sync.runs.outbox_listing import OutboxListing
from armada.sync.runs.run_syncer import RunSyncer
from armada.sync.runs.sync_run import record_outcome, try_sync
from armada.sync.schedule.due import LONGEST_TRY_S, NOT_WANTED
from tests.answers import listing
from tests.sync.conftest import Place


def known(place: Place) -> dict[int, Checkpoint]:
    return {checkpoint.step: checkpoint for checkpoint in checkpoints.of_run(place.database, place.run_id)}


def entry(place: Place) -> RunListing:
    return listing(place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0])


@pytest.mark.parametrize("set_back_s", [0.0, 2 * LONGEST_TRY_S], ids=["in time", "its clock is set back"])
def test_wrong_bytes_are_fetched_again_after_a_while_and_when_a_clock_was_set_back(
    place: Place, set_back_s: float
) -> None:
    place.create()
    digest = place.save(1, {"model": b"1"})
    (place.remote / "outbox" / digest / "model").write_bytes(b"?")
    failed_at = time.time()
    assert [trouble.step for trouble in place.sync(now=lambda: failed_at).troubles] == [1]
    (place.remote / "outbox" / digest / "model").write_bytes(b"1")
    assert place.sync(now=lambda: failed_at + 1).pending == (digest,)
    later = failed_at - set_back_s if set_back_s else transfers.of_run(place.database, place.run_id)[digest].next_try_at
    assert len(place.sync(now=lambda: later or 0.0).published) == 1


def test_what_waits_for_the_link_is_neither_given_up_nor_all_home(place: Place) -> None:
    place.create()
    older, _ = (place.save(step, {"model": b"%d" % step}) for step in (1, 2))
    place.end()
    transfers.begin(place.database, place.run_id, older, 1)
    transfers.give_up(place.database, place.run_id, older, "waiting", "the link is down", next_try_at=None)
    syncer = RunSyncer(place.context, NullProgress(), time.time, insist=False)
    outcome = try_sync(syncer, None, None, most=1)
    assert (place.home_steps(), outcome.pending, outcome.left, outcome.final) == ([2], (older,), True, False)
    assert place.sync().final
    assert place.home_steps() == [1, 2]


def test_one_that_is_asked_for_comes_alone_and_nothing_is_deleted_for_it(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0})
    digests = {step: place.save(step, {"model": b"%d" % step}) for step in (1, 2, 3)}
    (place.remote / "output.log").write_text("a word")
    for step in (1, 2):
        assert len(place.sync(only=digests[step]).published) == 1
    again = place.sync(only=digests[2])
    assert (again.published, again.deleted_home, again.deleted_host) == ((), (), ())
    assert place.home_steps() == [1, 2]
    assert not (place.outputs / "output.log").exists()


def test_a_listing_of_a_moment_ago_is_used(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.sync()
    told = entry(place).model_copy(update={"finishing": 2})
    assert place.sync(looked=OutboxListing(told, ended=False)).finishing == 2


def test_one_that_is_gone_from_its_host_is_not_asked_for(place: Place) -> None:
    place.create()
    digest = place.save(1, {"model": b"1"})
    gone = OutboxListing(entry(place).model_copy(update={"outbox": ()}), ended=False)
    checkpoints.record_outbox(place.database, place.run_id, entry(place).outbox)
    outcome = place.sync(only=digest, looked=gone)
    assert (outcome.published, outcome.troubles, outcome.pending) == ((), (), ())


def test_only_what_came_is_counted(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"12345"})
    bad = place.save(2, {"model": b"1234567"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"?")
    outcome = place.sync()
    assert (outcome.size_bytes, outcome.already, outcome.pending) == (5, 0, (bad,))
    assert place.sync().already == 1


@pytest.fixture
def away(place: Place) -> OutboxListing:
    """What its host shows once it has another root than the one the run was submitted to."""
    place.create()
    runs.set_root(place.database, place.run_id, "another")
    return OutboxListing(entry(place).model_copy(update={"exists": False, "outbox": ()}), ended=True)


def test_a_sync_of_what_was_there_fails_while_its_root_is_away(place: Place, away: OutboxListing) -> None:
    place.end()
    with pytest.raises(ArmadaError, match=place.run_id):
        place.sync(looked=away)


def test_a_sync_of_what_nobody_has_seen_there_yet_fails_at_nothing(place: Place, away: OutboxListing) -> None:
    assert place.sync(looked=away).published == ()


def test_a_sync_after_the_last_one_fails_at_no_root_that_is_away_and_forgets_nothing(
    place: Place, away: OutboxListing
) -> None:
    runs.set_root(place.database, place.run_id, place.session.call("sync.look", {"runs": []})["root"])
    place.save(1, {"model": b"1"})
    place.end()
    assert place.sync().final
    runs.set_root(place.database, place.run_id, "another")
    submission = runs.find(place.database, place.run_id).submission
    assert place.sync(looked=replace(away, submission=submission)).published == ()
    assert run_sync.find(place.database, place.run_id).final_done
    assert known(place)[1].on_host


def test_a_run_whose_folder_was_removed_keeps_what_is_said_of_its_end(place: Place, away: OutboxListing) -> None:
    runs.set_state(place.database, place.run_id, "failed", reason="exit_1", message="its words")
    place.sync(looked=replace(away, root="another"))
    assert runs.find(place.database, place.run_id).message == "its words"


def is_settled(place: Place) -> bool:
    """Whether its host has been told that this home has all of the run."""
    return any(home.settled for home in entry(place).homes)


def test_its_host_is_told_that_all_is_home_only_when_it_is(place: Place) -> None:
    place.create()
    bad = place.save(1, {"model": b"1"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"?")
    place.sync()
    assert not is_settled(place)
    place.end()
    assert not place.sync(insist=True).final
    assert not is_settled(place)
    (place.remote / "outbox" / bad / "model").write_bytes(b"1")
    assert place.sync(insist=True).final
    assert is_settled(place)


def test_what_the_rules_do_not_want_holds_up_no_last_sync(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0}, keep_remote=5)
    for step in (1, 2):
        place.save(step, {"model": b"%d" % step})
    place.end()
    outcome = place.sync()
    assert (outcome.final, outcome.pending, place.home_steps()) == (True, (), [2])


def test_one_that_comes_back_to_its_host_after_the_last_listing_keeps_syncs_going(place: Place) -> None:
    place.create()
    digest = place.save(1, {"model": b"1"})
    there = entry(place)
    checkpoints.record_outbox(place.database, place.run_id, there.outbox)
    (place.remote / "outbox" / digest).rename(place.remote / "away")
    place.end()
    outcome = try_sync(RunSyncer(place.context, NullProgress(), time.time, insist=False), None, None, most=None)
    assert outcome.final
    checkpoints.record_outbox(place.database, place.run_id, there.outbox)
    assert not record_outcome(place.context, outcome, time.time(), time.time).final


def test_a_last_sync_reads_nothing_that_nobody_touched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.sync()
    place.end()

    def look_over(*_: object, **__: object) -> list[object]:
        raise AssertionError("everything is read again")

    monkeypatch.setattr("armada.sync.runs.run_syncer.look_over", look_over)
    assert place.sync().final


def test_a_last_sync_mends_what_is_damaged_and_nothing_else(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create()
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
    place.sync()
    for step, data in ((2, b"?"), (3, b"3")):  # of the third only the date is another one
        model = place.published / f"checkpoint-{step}" / "model"
        model.unlink()
        model.write_bytes(data)
    mended: list[int] = []

    def mend(context: SyncContext, finding: Finding, *rest: Any, **more: Any) -> None:
        mended.append(finding.checkpoint.step)
        repair(context, finding, *rest, **more)

    monkeypatch.setattr("armada.sync.runs.run_syncer.repair", mend)
    place.end()
    assert place.sync().final
    assert (mended, (place.published / "checkpoint-2/model").read_bytes()) == ([2], b"2")


def test_only_what_the_rules_do_not_want_says_so(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0}, keep_remote=5)
    gone = place.save(1, {"model": b"1"})
    checkpoints.record_outbox(place.database, place.run_id, entry(place).outbox)
    shutil.rmtree(place.remote / "outbox" / gone)
    for step in (2, 3):
        place.save(step, {"model": b"%d" % step})
    for _ in range(2):
        place.sync()
    troubles = {step: checkpoint.trouble for step, checkpoint in known(place).items()}
    assert troubles == {1: checkpoints.NEVER_CAME, 2: NOT_WANTED, 3: None}


def test_a_sync_of_one_alone_mends_no_other(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.sync()
    model = place.published / "checkpoint-1" / "model"
    model.unlink()
    model.write_bytes(b"?")
    place.end()
    assert len(place.sync(only=place.save(2, {"model": b"2"})).published) == 1
    assert model.read_bytes() == b"?"
    assert place.sync().final
    assert model.read_bytes() == b"1"


@pytest.mark.parametrize("is_changed", [False, True])
def test_what_a_killed_sync_had_published_is_recognised_when_its_host_has_it_no_longer(
    place: Place, is_changed: bool
) -> None:
    place.create()
    digest = place.save(1, {"model": b"1"})
    place.end()
    place.sync()
    (published,) = (checkpoint.home_path for checkpoint in known(place).values())
    assert published is not None
    # As if it had been killed between the last rename and the record.
    with place.database.transaction() as connection:
        connection.execute("UPDATE checkpoints SET home_path = NULL, verified_at = NULL, acknowledged_at = NULL")
        connection.execute("DELETE FROM run_sync")
    shutil.rmtree(place.remote / "outbox" / digest)
    if is_changed:
        (published / "model").chmod(0o600)
        (published / "model").write_bytes(b"2")
    place.sync()
    found = known(place)[1]
    assert (found.digest, found.on_host) == (digest, False)
    assert (found.home_path, found.trouble) == ((None, checkpoints.WAS_HOME) if is_changed else (published, None))
