"""What retention keeps and deletes, at home and on the host, and which checkpoints keep their optimizer."""

from __future__ import annotations

import json
import shutil
import time

import pytest

from armada.config.sync import SyncSettings
from armada.foundation.progress import NullProgress
from armada.store import checkpoints, runs
from armada.sync.checkpoints.apply_retention import plan_home
from armada.sync.checkpoints.published import PARTIAL, read_published
from armada.sync.checkpoints.selection import choose_checkpoint
from armada.sync.release.judge import judge_host
from armada.sync.runs.outbox_listing import look_at
from armada.sync.runs.run_syncer import RunSyncer
from armada.sync.runs.sync_run import try_sync
from armada.sync.schedule.due import NOT_WANTED
from tests.sync.conftest import OPTIMIZER, Place, leftovers


def test_retention_at_home_keeps_the_newest_the_best_and_the_last(place: Place) -> None:
    place.create(keep_home={"last": 2, "best": 1, "every_steps": 100})
    for step, loss in ((50, 0.1), (60, 0.9), (100, 0.8), (120, 0.7), (130, 0.6)):
        place.save(step, {"model": b"%d" % step}, eval_loss=loss)
        outcome = place.sync()
    assert place.home_steps() == [50, 100, 120, 130]
    assert [p.name for p in outcome.deleted_home] == []
    assert sorted(p.name for p in place.published.iterdir() if p.name.startswith("checkpoint")) == [
        "checkpoint-100", "checkpoint-120", "checkpoint-130", "checkpoint-50"]  # fmt: skip
    assert leftovers(place) == []
    assert place.sync().published == ()  # what was deleted does not come back


def test_what_the_settings_do_not_want_is_not_fetched_and_stays_on_the_host(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0})
    digests = [place.save(step, {"model": b"%d" % step}) for step in (1, 2, 3)]
    place.sync()
    assert place.home_steps() == [3]
    assert place.host_digests() == set(digests)
    assert not (place.remote / "outbox" / f"{digests[0]}.ack").exists()


def test_where_the_newest_is_broken_on_the_host_the_one_before_it_comes_until_the_newest_can(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0})
    digests = [place.save(step, {"model": b"%d" % step}, created_at=step) for step in (1, 2, 3)]
    for broken in digests[1:]:
        (place.remote / "outbox" / broken / "model").write_bytes(b"?")
    outcome = place.sync()
    assert [path.name for path in outcome.published] == ["checkpoint-1"]
    assert {trouble.step for trouble in outcome.troubles} == {2, 3}
    assert place.sync().published == ()
    (place.remote / "outbox" / digests[2] / "model").write_bytes(b"3")
    assert [path.name for path in place.sync(insist=True).published] == ["checkpoint-3"]
    assert place.home_steps() == [3]


def syncer(place: Place) -> RunSyncer:
    return RunSyncer(place.context, NullProgress(), time.time, insist=False)


def test_what_comes_instead_of_a_broken_one_counts_as_left_where_only_so_many_may_come(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0})
    digests = [place.save(step, {"model": b"%d" % step}, created_at=step) for step in (1, 2)]
    (place.remote / "outbox" / digests[1] / "model").write_bytes(b"?")
    first = try_sync(syncer(place), None, None, most=1)
    assert (first.published, first.left) == ((), True)
    second = try_sync(syncer(place), None, None, most=1)
    assert ([path.name for path in second.published], second.left) == (["checkpoint-1"], False)


def test_the_host_keeps_as_many_as_it_should_and_never_what_is_not_home(place: Place) -> None:
    place.create(keep_remote=1)
    digests = [place.save(step, {"model": b"%d" % step}, eval_loss=step) for step in (1, 2, 3, 4)]
    (place.remote / "outbox" / digests[1] / "model").write_bytes(b"?")  # never comes home
    outcome = place.sync()
    assert set(outcome.deleted_host) == {digests[2]}  # 1 is the best, 2 is not home, 4 is the newest
    assert place.host_digests() == {digests[0], digests[1], digests[3]}
    assert not any(path.name.startswith(".trash") for path in (place.remote / "outbox").iterdir())


def test_what_the_last_attempt_wrote_stays_at_home_where_its_host_s_clock_was_set_back(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0}, keep_remote=1)
    for step, attempt, at in ((10, 1, 100.0), (20, 1, 200.0), (15, 2, 50.0), (16, 2, 60.0)):
        place.save(step, {"model": b"%d" % step}, attempt=attempt, created_at=at)
        place.sync()
    assert place.home_steps() == [16, 20]
    assert {c.attempt for c in checkpoints.of_run(place.database, place.run_id)} == {1, 2}


def test_a_listing_that_another_sync_overtook_is_not_believed(place: Place) -> None:
    place.create(keep_remote=1)
    first, *_ = [place.save(step, {"model": b"%d" % step}) for step in (1, 2, 3)]
    (run,) = runs.every(place.database)
    looked = look_at(place.database, place.session, [run])[place.run_id]
    assert first in place.sync().deleted_host
    second = place.sync(looked=looked)
    assert (second.published, second.deleted_host) == ((), ())
    there = {c.digest for c in checkpoints.of_run(place.database, place.run_id) if c.on_host}
    assert there == place.host_digests()


def test_nothing_goes_on_the_host_whose_copy_at_home_is_short(place: Place) -> None:
    place.create(keep_remote=5)
    digests = [place.save(step, {"model": b"%d" % step * 10}) for step in (1, 2, 3)]
    place.sync()
    copy = place.published / "checkpoint-1" / "model"
    copy.chmod(0o644)
    copy.write_bytes(b"short")
    spec = json.loads(place.database.connection.execute("SELECT spec FROM runs").fetchone()[0])
    spec["sync"]["keep_remote"] = 1
    place.database.connection.execute("UPDATE runs SET spec = ?", (json.dumps(spec),))
    assert set(place.sync().deleted_host) == {digests[1]}


def test_the_agent_deletes_nothing_that_was_not_acknowledged_and_never_the_newest(place: Place) -> None:
    place.create()
    first, second = (place.save(step, {"model": b"%d" % step}) for step in (1, 2))
    answer = place.session.call("outbox.prune", {"run_id": place.run_id, "digests": [first, second]})
    assert answer["pruned"] == []
    assert set(answer["refused"]) == {first, second}
    for digest in (first, second):
        place.session.call("outbox.ack", {"run_id": place.run_id, "digest": digest})
    answer = place.session.call("outbox.prune", {"run_id": place.run_id, "digests": [first, second]})
    assert (answer["pruned"], set(answer["refused"])) == ([first], {second})


def test_only_the_newest_keeps_its_optimizer_where_that_is_asked(place: Place) -> None:
    place.create(include_optimizer="last")
    place.save(1, {"model": b"1", **OPTIMIZER})
    place.sync()
    assert (place.published / "checkpoint-1" / "optimizer.pt").exists()
    place.save(2, {"model": b"2", **OPTIMIZER})
    place.sync()
    old, new = place.published / "checkpoint-1", place.published / "checkpoint-2"
    assert not (old / "optimizer.pt").exists()
    assert json.loads((old / PARTIAL).read_text())["left_out"] == sorted(OPTIMIZER)
    assert (new / "optimizer.pt").exists()
    assert not (new / PARTIAL).exists()
    digests = {c.step: c.digest for c in checkpoints.of_run(place.database, place.run_id)}
    _, files = read_published(old, digests[1])
    assert [file.path for file in files] == ["model"]


def test_the_youngest_keeps_its_optimizer_although_a_former_attempt_was_farther(place: Place) -> None:
    place.create(include_optimizer="last")
    now = time.time()
    place.save(90, {"model": b"1", **OPTIMIZER}, created_at=now - 50)
    place.save(100, {"model": b"2", **OPTIMIZER}, created_at=now - 40)
    place.save(60, {"model": b"3", **OPTIMIZER}, created_at=now - 10)  # gone back to 50, with other settings
    place.sync()
    whole = {p.parent.name for p in place.published.glob("checkpoint-*/optimizer.pt")}
    assert whole == {"checkpoint-100", "checkpoint-60"}


def test_no_optimizer_comes_where_none_is_asked_for(place: Place) -> None:
    place.create(include_optimizer=False)
    place.save(1, {"model": b"1", **OPTIMIZER})
    (folder,) = place.sync().published
    assert sorted(p.name for p in folder.iterdir()) == ["MANIFEST.json", PARTIAL, "model"]


def test_an_optimizer_that_would_be_removed_again_is_not_fetched(place: Place) -> None:
    place.create(include_optimizer="last")
    older, _ = (place.save(step, {"model": b"m", **OPTIMIZER, "optimizer.pt": b"%d" % step}) for step in (1, 2))
    (place.remote / "outbox" / older / "optimizer.pt").write_bytes(b"?")  # nobody notices
    assert place.sync().troubles == ()
    assert place.home_steps() == [1, 2]


def test_every_optimizer_comes_where_all_are_asked_for(place: Place) -> None:
    place.create(include_optimizer=True)
    for step in (1, 2):
        place.save(step, {"model": b"%d" % step, **OPTIMIZER})
    place.sync()
    assert {p.parent.name for p in place.published.glob("*/optimizer.pt")} == {"checkpoint-1", "checkpoint-2"}


def test_a_checkpoint_that_a_person_asked_for_comes_with_its_optimizer(place: Place) -> None:
    place.create(include_optimizer=False)
    asked, _ = (place.save(step, {"model": b"%d" % step, **OPTIMIZER}) for step in (1, 2))
    (run,) = runs.every(place.database)
    looked = look_at(place.database, place.session, [run])[place.run_id]
    checkpoints.record_outbox(place.database, place.run_id, looked.entry.outbox)
    checkpoints.pin(place.database, place.run_id, asked)
    place.sync()
    assert {p.parent.name for p in place.published.glob("*/optimizer.pt")} == {"checkpoint-1"}


def test_what_keep_home_deleted_here_does_not_come_again_and_is_no_loss(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 0}, keep_remote=5)
    for step in (1, 2, 3):
        place.save(step, {"model": b"%d" % step})
        place.sync()
    assert place.home_steps() == [3]
    items = judge_host(place.context)
    assert [(item.what.split()[0], item.lost) for item in items] == [("checkpoint-1", False), ("checkpoint-2", False)]


def test_the_best_is_the_best_by_the_metric_that_the_experiment_names(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 1})
    spec = json.loads(place.database.connection.execute("SELECT spec FROM runs").fetchone()[0])
    spec["training"] = {"train": {"best_metric": {"name": "eval_math_accuracy", "goal": "max"}}}
    place.database.connection.execute("UPDATE runs SET spec = ?", (json.dumps(spec),))
    for step, loss, accuracy in ((1, 0.1, 0.2), (2, 0.9, 0.7), (3, 0.8, 0.5)):
        with (place.remote / "metrics.jsonl").open("a") as stream:
            line = {"kind": "eval", "step": step, "time": time.time(), "attempt": 1, "eval_math_accuracy": accuracy}
            stream.write(json.dumps(line) + "\n")
        place.save(step, {"model": b"%d" % step}, eval_loss=loss)
        place.sync()
    assert place.home_steps() == [2, 3]
    (run,) = runs.every(place.database)
    assert choose_checkpoint(place.database, None, run, "best").step == 2
    reasons = {plan.candidate.step: plan.reason for plan in plan_home(place.database, run.run_id, SyncSettings())}
    assert reasons[2] == "the best: eval_math_accuracy 0.7"


def test_an_evaluation_that_gave_no_number_makes_no_checkpoint_the_best(place: Place) -> None:
    place.create(keep_home={"last": 1, "best": 1})
    for step, loss in ((1, 0.5), (2, float("nan")), (3, float("-inf")), (4, 0.9)):
        with (place.remote / "metrics.jsonl").open("a") as stream:
            stream.write(
                json.dumps({"kind": "eval", "step": step, "time": 1.0, "attempt": 1, "eval_loss": loss}) + "\n"
            )
        place.save(step, {"model": b"%d" % step})
        place.sync()
    assert place.home_steps() == [1, 4]


def test_what_its_host_no_longer_has_is_counted_at_home_all_the_same(place: Place) -> None:
    place.create(keep_home={"last": 2, "best": 0}, keep_remote=1)
    for step in (1, 2, 3, 4):
        place.save(step, {"model": b"%d" % step})
        place.sync()
    assert place.home_steps() == [3, 4]
    assert len(place.host_digests()) == 1


@pytest.mark.parametrize("is_on_host", [True, False])
def test_what_retention_deleted_before_it_was_killed_is_not_called_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, is_on_host: bool
) -> None:
    place.create(keep_home={"last": 1, "best": 0})
    first = place.save(1, {"model": b"1"})
    place.sync()
    place.save(2, {"model": b"2"})
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "mark_not_home", killed)
        with pytest.raises(KeyboardInterrupt):
            place.sync()
    assert place.home_steps() == [1, 2]
    if not is_on_host:
        shutil.rmtree(place.remote / "outbox" / first)
    place.sync()
    assert [(c.step, c.trouble) for c in checkpoints.of_run(place.database, place.run_id)] == [
        (1, NOT_WANTED),
        (2, None),
    ]
    assert leftovers(place) == []


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
