"""Which sync of a run is its last: only one that saw the run's end and brought all of it."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from armada.foundation.progress import NullProgress
from armada.store import checkpoints, run_sync, runs
from armada.sync.checkpoints.apply_retention import tidy
from armada.sync.context import HostContext
from armada.sync.release.judge import judge_host, judge_run, list_run, losses
from armada.sync.runs.outbox_listing import LAG_S, OutboxListing, look_at
from armada.sync.runs.preview import preview
from armada.sync.runs.run_syncer import RunSyncer
from armada.sync.runs.sync_run import record_outcome, try_sync
from armada.sync.schedule.due import due
from armada.verdicts.release import Item
from armada.verdicts.states import Verdict
from tests.answers import listing, outbox
from tests.sync.conftest import Place


def test_no_sync_is_the_last_one_of_a_run_whose_end_is_guessed(place: Place) -> None:
    place.create()
    runs.set_state(place.database, place.run_id, "failed", reason="gone")
    run = runs.find(place.database, place.run_id)
    since = run.guessed_at or 0.0
    for later_s, is_last in ((60.0, False), (8 * 86_400.0, True)):
        assert look_at(place.database, place.session, [run], since + later_s)[run.run_id].ended is is_last


def test_no_sync_is_the_last_one_of_a_run_that_returned_after_its_batch_system_had_told_its_end(place: Place) -> None:
    place.create()
    told = Verdict("failed", "node_failure", None, 0, 0, only_told=True)
    runs.record(place.database, place.run_id, told, observed_at=1.0, told_at=time.time())
    assert not place.sync().final
    assert not runs.find(place.database, place.run_id).ended


def test_the_last_sync_is_done_once_all_is_home(place: Place) -> None:
    place.create()
    bad = place.save(1, {"model": b"1"})
    (place.remote / "outbox" / bad / "model").write_bytes(b"?")
    place.end()
    assert not place.sync().final
    again = place.sync()  # it is not tried again yet, and that is not taken for being home
    assert (again.final, again.pending, again.troubles) == (False, (bad,), ())
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.failures) == (False, 2)
    (place.remote / "outbox" / bad / "model").write_bytes(b"1")
    assert place.sync(insist=True).final
    assert run_sync.find(place.database, place.run_id).final_done


def test_an_announced_checkpoint_that_nobody_hashes_is_left_there_after_the_last_sync(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    (place.remote / "outbox" / ".new-7").mkdir()
    place.sync()
    assert run_sync.find(place.database, place.run_id).left_there == 0, "its job may have it hashed yet"
    place.end()
    outcome = place.sync()
    assert (outcome.final, outcome.left_there) == (True, 1)
    folder = place.home.local_root / "runs"
    folder.rename(place.home.local_root / "disk")  # no longer mounted
    folder.mkdir()
    (item,) = losses(judge_host(place.context))
    assert "but 1 other file may be there only" in item.what


def test_what_cannot_be_read_on_the_host_is_neither_home_nor_gone(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    unseen, manifest = _unreadable(place, 2)
    place.end()
    outcome = place.sync()
    words = f"1 checkpoint of {place.run_id} on its host whose MANIFEST.json cannot be read there"
    assert (outcome.final, outcome.missing) == (False, words)
    (place.remote / "outbox" / unseen / "MANIFEST.json").write_text(manifest)
    assert place.sync(insist=True).final
    assert place.home_steps() == [1, 2]


def test_a_known_checkpoint_whose_manifest_cannot_be_read_any_more_is_not_gone_from_its_host(place: Place) -> None:
    place.create()
    digest, manifest = _unreadable(place, 1)
    known_before = {"digest": digest, "step": 1, "size_bytes": 1, "file_count": 1, "created_at": 1.0}
    checkpoints.record_outbox(place.database, place.run_id, outbox([known_before]))
    checkpoints.record_outbox(place.database, place.run_id, ())  # as an earlier release had it
    assert checkpoints.of_run(place.database, place.run_id)[0].nowhere == checkpoints.NEVER_CAME
    place.end()
    outcome = place.sync()
    (known,) = checkpoints.of_run(place.database, place.run_id)
    assert (known.on_host, known.nowhere, outcome.final) == (True, None, False)
    assert [item.what.partition(":")[0] for item in _judged(place)] == [
        "checkpoint-1 is only there, and cannot be fetched"
    ]
    (place.remote / "outbox" / digest / "MANIFEST.json").write_text(manifest)
    assert place.sync(insist=True).final
    assert (place.home_steps(), _judged(place)) == ([1], [])


def test_a_preview_of_an_outbox_that_cannot_be_listed_takes_no_checkpoint_for_gone(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.sync()
    outbox_of = place.remote / "outbox"
    outbox_of.rename(place.remote / "elsewhere")
    outbox_of.symlink_to("elsewhere")
    preview(HostContext(place.database, place.session, place.home), [place.run_id])
    assert [c.on_host for c in checkpoints.of_run(place.database, place.run_id)] == [True]


def _unreadable(place: Place, step: int) -> tuple[str, str]:
    """Save a checkpoint of whose manifest half is there; return its digest and its manifest."""
    digest = place.save(step, {"model": b"%d" % step})
    path = place.remote / "outbox" / digest / "MANIFEST.json"
    manifest = path.read_text()
    path.write_text(manifest[:40])
    return digest, manifest


def _judged(place: Place) -> list[Item]:
    answer = list_run(place.context)
    assert answer is not None
    return judge_run(place.context, answer)


@pytest.mark.fault("a host's disk is restored to before a run was resumed", "no sync of what it shows is the last one")
@pytest.mark.parametrize(
    ("shown", "seen_s_ago", "is_last"),
    [(1, 1, False), (1, 2 * LAG_S, True), (2, 1, True), (3, 2 * LAG_S, False), (0, 1, True)],
)
def test_a_sync_of_what_a_host_shows_of_another_submission_is_not_the_last(
    place: Place, shown: int, seen_s_ago: float, *, is_last: bool
) -> None:
    """A host that shows none may have refused the only one. One that shows less for long has lost the rest."""
    place.create()
    place.save(1, {"model": b"1"})
    ended = Verdict("succeeded", None, None, 9, 9)
    runs.record(place.database, place.run_id, ended, submission=2, observed_at=time.time() - seen_s_ago)
    if shown:
        claim = place.remote / "submissions" / str(shown) / "claim.json"
        claim.parent.mkdir(parents=True)
        claim.write_text("{}")
    run = runs.find(place.database, place.run_id)
    assert look_at(place.database, place.session, [run])[place.run_id].ended is is_last
    if shown != 3:
        outcome = place.sync()
        assert outcome.final is is_last
        assert is_last or "shows an earlier submission" in str(outcome.missing)
        record = run_sync.find(place.database, place.run_id)
        assert (record.final_done, record.failures, due(place.database, time.time() + 7.0)) == (
            is_last,
            not is_last,
            [],
        )


@pytest.mark.parametrize("state", ["submitted", "succeeded"])
def test_a_sync_of_what_was_resumed_meanwhile_is_not_the_last(place: Place, state: str) -> None:
    place.create()
    place.end()
    place.sync()
    runs.record(place.database, place.run_id, Verdict(state, None, None, 9, 9), submission=2)
    run_sync.reopen(place.database, place.run_id)
    entry = place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0]
    outcome = place.sync(looked=OutboxListing(listing(entry), ended=True, submission=1))
    assert outcome.missing == f"{place.run_id} was submitted again in the meantime"
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.next_due_at is None) == (False, False)


@pytest.mark.parametrize("when", ["before it is recorded", "afterwards"])
def test_a_checkpoint_that_appears_after_the_last_listing_keeps_syncs_going(place: Place, when: str) -> None:
    """A stop by somebody else may have the host take what a script left; its look then finds that."""
    place.create()
    place.save(1, {"model": b"1"})
    place.end()
    syncer = RunSyncer(place.context, NullProgress(), time.time, insist=False)
    outcome = try_sync(syncer, None, None, most=None)
    assert outcome.final
    if when == "afterwards":
        assert record_outcome(place.context, outcome, time.time(), time.time).final
    place.save(2, {"model": b"2"})
    entry = place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0]
    checkpoints.record_outbox(place.database, place.run_id, listing(entry).outbox)
    if when == "before it is recorded":
        outcome = record_outcome(place.context, outcome, time.time(), time.time)
        assert outcome.missing == f"{place.context.host} has found another checkpoint of {place.run_id} in the meantime"
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.failures) == (False, 0)
    assert place.sync().final
    assert place.home_steps() == [1, 2]
    checkpoints.record_outbox(place.database, place.run_id, listing(entry).outbox)  # an older answer that comes late
    assert run_sync.find(place.database, place.run_id).final_done


def test_what_was_deleted_at_home_is_not_all_home(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.end()
    place.sync()
    (checkpoint,) = checkpoints.of_run(place.database, place.run_id)
    shutil.rmtree(checkpoint.home_path or "")
    tidy(place.database, place.context.home, place.run_id)  # a sync that is killed after this must not say "all home"
    assert not run_sync.find(place.database, place.run_id).final_done
    assert place.sync().final
    assert place.home_steps() == [1]


def test_a_quarantined_manifest_does_not_hold_back_the_last_sync(place: Place) -> None:
    place.create()
    entry = {"path": "../x", "size": 1, "sha256": "a" * 64}
    place.save_raw(json.dumps({"format": 1, "run_id": "x", "step": 1, "created_at": 1.0, "files": [entry]}), {})
    place.end()
    assert place.sync().final
    assert place.sync().final


def test_a_run_that_ends_while_others_are_brought_gets_its_last_sync_all_the_same(place: Place) -> None:
    """The host was looked at while it ran; what it saved afterwards is not taken for not being there."""
    place.create()
    looked = OutboxListing(
        listing(place.session.call("sync.look", {"runs": [{"run_id": place.run_id}]})["runs"][0]), ended=False
    )
    place.save(1, {"model": b"1"})
    place.end()
    assert not place.sync(looked=looked).final
    assert run_sync.find(place.database, place.run_id).failures == 0
    last = place.sync()
    assert last.final


def test_a_run_of_which_the_host_still_hashes_a_checkpoint_is_not_home(place: Place) -> None:
    place.create()
    place.save(1, {"model": b"1"})
    place.end("failed")
    (run,) = runs.every(place.database)
    seen = look_at(place.database, place.session, [run])[place.run_id]
    outcome = place.sync(looked=OutboxListing(seen.entry.model_copy(update={"finishing": 2}), ended=True))
    assert (outcome.final, outcome.finishing, len(outcome.published)) == (False, 2, 1)
    record = run_sync.find(place.database, place.run_id)
    assert (record.final_done, record.reason) == (
        False,
        f"2 checkpoints of {place.run_id} still being hashed on its host",
    )
    assert place.sync().final
    assert place.home_steps() == [1]
