"""What destroying a host would lose, line by line: one run, of which the host shows one more thing each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from armada.home import own
from armada.store import checkpoints, runs
from armada.sync.checkpoints.proof import Prover
from armada.sync.release import judge
from armada.sync.schedule.due import NOT_WANTED
from armada.verdicts.proof import Proof
from tests.answers import outbox
from tests.unit.sync.release.worlds import CHECKPOINT, CLAIMED, DIGEST, OTHER, RUN, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_host_whose_only_run_has_ended_and_left_nothing_loses_nothing(world: World) -> None:
    world.insert()
    assert world.judge() == []


LIVES = ["its job is running"]
MAY_BEGIN = ["nothing there says that its job has started or ended: it may still start"]


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        ({"supervisor": "alive"}, LIVES),
        ({"supervisor": "unknown"}, LIVES),
        ({"supervisor": "dead", "processes": 1}, LIVES),
        ({"supervisor": "a word of a newer agent", "processes": 0}, LIVES),
        ({}, LIVES),
        ({"supervisor": "none", "submission": CLAIMED}, MAY_BEGIN),  # its scheduler may start it any moment
        ({"supervisor": "none", "submission": {**CLAIMED, "claimed": False}}, []),
        ({"supervisor": "dead", "submission": {**CLAIMED, "job": {"submission": 1}}}, []),
        ({"supervisor": "none", "submission": CLAIMED, "state": {"state": "cancelled"}}, []),
        (
            {
                "supervisor": "none",
                "submission": {**CLAIMED, "number": 2},
                "state": {"state": "cancelled", "submission": 2},
            },
            [],
        ),
        # Handed over once more, and nobody knows whether its scheduler took it: the end is the submission's before.
        (
            {
                "supervisor": "none",
                "submission": {**CLAIMED, "number": 2},
                "state": {"state": "cancelled", "submission": 1},
            },
            MAY_BEGIN,
        ),
    ],
)
def test_a_job_that_lives_or_may_begin_would_be_lost(world: World, evidence: dict[str, Any], said: list[str]) -> None:
    world.insert()
    world.evidence = evidence
    assert world.lost() == said


def test_what_is_put_there_while_the_host_is_looked_at_would_be_lost(world: World) -> None:
    world.insert()
    world.to_come = ["new-bbbbbb"]
    assert world.lost() == ["it was launched or resumed while the host was checked"]
    world.listed, world.to_come, world.resumed = [RUN], [], 1
    assert world.lost() == ["it was launched or resumed while the host was checked"]
    world.resumed = 0
    assert world.lost() == []


@pytest.mark.parametrize(
    ("attempt", "change", "said"),
    [
        (1, {}, []),
        (1, {"evidence": {"attempt": {"number": 2}}}, ["it began again while the host was checked"]),
        (2, {"evidence": {"attempt": {"number": 2}}}, []),
        (None, {"evidence": {"attempt": {"number": 2}}}, []),  # an older agent listed no attempt
        (1, {"outbox": [CHECKPOINT]}, ["it got a checkpoint while the host was checked"]),
        (1, {"unreadable": [DIGEST]}, ["it got a checkpoint while the host was checked"]),
        (1, {"exists": False, "evidence": None}, []),  # another process removed it
    ],
)
def test_what_comes_to_a_run_while_the_host_is_looked_at_would_be_lost(
    world: World, monkeypatch: pytest.MonkeyPatch, attempt: int | None, change: dict[str, Any], said: list[str]
) -> None:
    """Its batch system had told its end, and somebody requeued the job: the submission is the same."""
    world.insert()
    world.look = {"attempt": attempt} if attempt is not None else {}
    looks: list[str] = []

    def later(method: str, params: dict[str, Any], /, **more: Any) -> Any:
        answer = World.said(world, method, params, **more)
        looks.extend([method] if method == "run.observe" else [])
        if method == "run.observe" and len(looks) > 1:
            (run,) = answer["runs"]
            evidence = change.get("evidence", {})
            changed = {**run, **change, "evidence": evidence and {**(run["evidence"] or {}), **evidence}}
            return {**answer, "runs": [changed]}
        return answer

    monkeypatch.setattr(world, "said", later)
    assert world.lost() == said
    assert len(looks) == 2


@pytest.mark.parametrize("supervisor", ["unknown", "dead", "none"])
def test_a_job_that_its_scheduler_only_no_longer_lists_may_live(world: World, supervisor: str) -> None:
    world.insert()
    world.evidence = {"supervisor": supervisor, "processes": 0, "scheduler": {"state": "gone"}}
    assert world.lost() == [
        "its scheduler no longer lists its job, and no end was recorded: it may still run",
    ]


def test_what_is_announced_may_yet_be_hashed_while_the_job_lives(world: World) -> None:
    world.insert()
    world.look = {"announced": 1, "finishing": 0}
    assert world.lost() == ["1 checkpoint announced that cannot be hashed"]
    world.evidence = {"supervisor": "alive"}
    assert world.lost() == ["its job is running", "1 checkpoint announced and still being hashed"]


UNREAD = f"checkpoint-5 is only there, and cannot be fetched: outbox/{DIGEST}/MANIFEST.json there cannot be read"


def test_a_checkpoint_whose_manifest_cannot_be_read_would_be_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.insert()
    world.look = {"unreadable": [DIGEST]}
    assert world.lost() == [UNREAD.replace("checkpoint-5", "a checkpoint")]
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    assert world.lost() == [UNREAD]
    checkpoints.mark_trouble(world.database, RUN, DIGEST, NOT_WANTED)
    assert world.lost() == [UNREAD]  # home has nothing in its place
    kept = {**CHECKPOINT, "digest": "e" * 64, "step": 6}
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT, kept]))
    checkpoints.mark_home(world.database, RUN, "e" * 64, world.paths.run(RUN) / "checkpoints" / "checkpoint-6")
    monkeypatch.setattr(Prover, "prove", lambda _, each: Proof.PROVEN if each.step == 6 else Proof.MISSING)
    assert [(item.what, item.lost) for item in world.judge()] == [(UNREAD + "; sync.keep_home excludes it", False)]


@pytest.mark.parametrize(
    ("here", "lost"),
    [
        (Proof.PROVEN, []),
        (
            Proof.DAMAGED,
            [UNREAD.replace("only there, and cannot be fetched", "damaged at home, and cannot be fetched again")],
        ),
        (Proof.MISSING, [UNREAD]),
    ],
)
def test_a_checkpoint_that_cannot_be_read_there_is_lost_unless_it_is_proven_at_home(
    world: World, monkeypatch: pytest.MonkeyPatch, here: Proof, lost: list[str]
) -> None:
    world.insert()
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    monkeypatch.setattr("armada.sync.release.judge.Prover.prove", lambda *_: here)
    world.look = {"unreadable": [DIGEST]}
    assert world.lost() == lost


def test_another_home_lacks_a_checkpoint_that_cannot_be_read_there(world: World) -> None:
    world.insert()
    world.look = {"homes": [{**OTHER, "held": []}], "unreadable": [DIGEST]}
    assert any("has not fetched 1 checkpoint" in what for what in world.lost())
    world.look = {"homes": [OTHER], "unreadable": [DIGEST]}
    assert not any("has not fetched" in what for what in world.lost())


def test_a_run_whose_records_cannot_be_read_may_live(world: World) -> None:
    world.insert()
    world.evidence = None
    assert world.lost() == ["its records there cannot be read: it is unknown whether its job is alive"]


def test_a_run_of_which_this_home_knows_nothing_would_be_lost(world: World) -> None:
    assert world.lost() == ["another home started it, and this home has no record of it"]


@pytest.mark.parametrize("method", ["sync.look", "run.observe"])
@pytest.mark.parametrize(
    "seen",
    [
        None,
        7,
        [],
        [None],
        [{"run_id": RUN, "exists": False}],
        [{"run_id": RUN}],
        [{"run_id": "q-222222", "exists": True}],
    ],
    ids=["no list", "a number", "left out", "no object", "not there", "nobody says", "another"],
)
def test_a_run_that_was_listed_and_is_not_seen_any_more_would_be_lost(world: World, method: str, seen: object) -> None:
    world.insert()
    assert world.lost() == []
    world.vanished = {method: seen}
    assert world.lost() == ["it was there a moment ago, but is missing now"]


def test_what_another_home_has_not_fetched_would_be_lost(world: World) -> None:
    world.insert()
    world.look = {"homes": [{**OTHER, "id": own(world.paths).id, "settled": False}, OTHER]}
    assert world.lost() == []
    world.look = {"homes": [{**OTHER, "settled": False}]}
    assert world.lost() == ["ann@desktop (home bbbbbbbb), has not fetched the end of its logs and outputs"]
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    world.look = {"homes": [{**OTHER, "held": []}], "outbox": [CHECKPOINT]}
    assert "ann@desktop (home bbbbbbbb), has not fetched 1 checkpoint" in world.lost()
    for words in ({"held": [DIGEST]}, {"held": [], "unwanted": [DIGEST]}):
        world.look = {"homes": [{**OTHER, **words}], "outbox": [CHECKPOINT]}
        assert world.lost() == ["checkpoint-5 (7 B) is only there"]


def test_a_checkpoint_that_is_only_there_would_be_lost_unless_home_keeps_others_in_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.insert()
    world.look = {"outbox": [CHECKPOINT]}
    assert world.lost() == ["checkpoint-5 (7 B) is only there"]
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    assert world.lost() == ["checkpoint-5 (7 B) is only there"]
    checkpoints.mark_trouble(world.database, RUN, DIGEST, NOT_WANTED)
    assert world.lost() == ["checkpoint-5 (7 B) is only there"]  # home has nothing in its place
    kept = {**CHECKPOINT, "digest": "e" * 64, "step": 6}
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT, kept]))
    checkpoints.mark_home(world.database, RUN, "e" * 64, world.paths.run(RUN) / "checkpoints" / "checkpoint-6")
    assert world.lost() == ["checkpoint-5 (7 B) is only there"]  # nor there
    monkeypatch.setattr(Prover, "prove", lambda _, each: Proof.PROVEN if each.step == 6 else Proof.MISSING)
    (item,) = world.judge()
    assert (item.lost, item.what) == (False, "checkpoint-5 (7 B) is only there; sync.keep_home excludes it")


def test_a_checkpoint_that_is_damaged_at_home_would_be_lost(world: World) -> None:
    world.insert()
    place = world.paths.run(RUN) / "checkpoints" / "checkpoint-5"
    place.mkdir(parents=True)
    (place / "MANIFEST.json").write_text("{}")
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    checkpoints.mark_home(world.database, RUN, DIGEST, place)
    world.look = {"outbox": [CHECKPOINT]}
    assert world.lost() == ["checkpoint-5 is damaged at home: the only intact copy is there"]


@pytest.mark.parametrize(
    ("look", "words"),
    [
        ({"announced": 2, "finishing": 2}, "2 checkpoints announced and still being hashed"),
        ({"announced": 2, "finishing": 1}, "2 checkpoints announced that cannot be hashed"),
        (
            {"outputs": [{"path": "output.log", "size_bytes": 3, "mtime": 1.0}]},
            "not home of its logs and outputs: 1 file (3 B): output.log",
        ),
        (
            {"outputs": [{"path": "../x", "size_bytes": 3, "mtime": 1.0}]},
            "file names that cannot be transferred: 1 output, such as '../x'",
        ),
        ({"problem": "no such folder"}, "its files there cannot be listed: no such folder"),
        ({"truncated": True}, "it has more outputs than can be listed, or folders that let nobody in"),
        (
            {"others": {"count": 1, "size_bytes": 3, "examples": ["work/x"]}},
            "1 file it wrote (3 B), that no sync.outputs names: work/x",
        ),
        (
            {"outside": {"count": 1, "examples": ["out/step-2"]}},
            "of its checkpoints, 1 link leads out of its work folder, and so did not come home: out/step-2",
        ),
        (
            {"outside": {"count": 7, "examples": ["a\x1b[2J", "b", "c", "d"]}},
            "of its checkpoints, 7 links lead out of its work folder, and so did not come home: a\ufffd[2J, b, c",
        ),
        (
            {"others": {"count": 1, "size_bytes": 3}},
            "1 file it wrote (3 B), that no sync.outputs names: ",
        ),
    ],
)
def test_what_of_a_run_is_not_home_would_be_lost(world: World, look: dict[str, Any], words: str) -> None:
    world.insert()
    world.look = look
    assert world.lost() == [words]


@pytest.mark.parametrize(
    "look",
    [
        {"others": {"count": 1, "size_bytes": 3, "examples": ["work/x"]}},
        {"outside": {"count": 1, "examples": ["out/step-2"]}},
    ],
)
def test_files_that_nobody_named_are_counted_unless_a_person_says_otherwise(world: World, look: dict[str, Any]) -> None:
    world.insert()
    world.look = look
    assert [item.lost for item in world.judge(ignore_work=True)] == [False]
    for nothing in ("many", {"count": 0}):
        world.look = {"others": nothing}
        assert world.judge() == []


def test_what_a_person_says_does_not_count_is_not_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.insert()
    world.look = {"others": {"count": 1, "size_bytes": 3, "examples": ["work/x"]}}
    asked: list[object] = []

    def without(context: object, _prover: object, _outputs: object, unnamed: object) -> object:
        asked.append(context)
        return unnamed

    monkeypatch.setattr("armada.sync.release.judge.without_those_at_home", without)
    world.judge(ignore_work=True)
    assert asked == []
    world.judge()
    assert len(asked) == 1


def test_what_of_a_removed_run_still_lives_is_no_listing(world: World) -> None:
    """A host that shows its processes, but lists nothing of it."""
    world.insert()
    runs.set_root(world.database, RUN, "r")
    world.vanished = {
        "run.observe": [{"run_id": RUN, "exists": False, "evidence": None, "remains": {"processes": 2}}],
        "sync.look": [],
    }
    (what,) = world.lost()
    assert what == "it was there a moment ago, but is missing now"


def test_scraps_of_a_run_that_another_home_started_are_told_and_stop_no_release(world: World) -> None:
    world.vanished = {"run.observe": [{"run_id": RUN, "exists": False, "remains": {"processes": 2}}]}
    assert world.lost() == ["it was there a moment ago, but is missing now"]


@pytest.mark.parametrize(
    "odd",
    [
        {"created_at": True},
        {"created_at": []},
        {"created_at": 10**400},
        {"submission": -1},
        {"submission": "1"},
        {"state": None},
    ],
    ids=["yes", "a list", "too large", "below 0", "a text", "no state"],
)
def test_a_run_whose_record_in_the_list_cannot_be_read_is_no_run_that_is_gone(
    world: World, odd: dict[str, Any]
) -> None:
    """Its job may have written into its folder, or its host's disk is broken."""
    world.insert()
    runs.set_root(world.database, RUN, "r")
    world.look = {"outbox": [CHECKPOINT]}
    world.vanished = {"run.list": [{"run_id": RUN, "submission": 1, **odd}]}
    assert world.lost() == ["checkpoint-5 (7 B) is only there"]


def test_an_entry_of_the_list_that_does_not_fit_hides_no_other_run(world: World) -> None:
    world.insert()
    world.look = {"outbox": [CHECKPOINT]}
    world.vanished = {"run.list": [{"run_id": 7}, {"run_id": RUN, "submission": 1}]}
    assert "checkpoint-5 (7 B) is only there" in world.lost()


def test_a_checkpoint_that_is_proven_to_be_home_is_no_loss(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.insert()
    checkpoints.record_outbox(world.database, RUN, outbox([CHECKPOINT]))
    world.look = {"outbox": [CHECKPOINT]}
    monkeypatch.setattr("armada.sync.checkpoints.proof.prove", lambda *_: Proof.PROVEN)
    assert world.judge() == []


def test_the_middle_of_a_log_that_stays_there_would_be_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.insert()
    monkeypatch.setattr("armada.sync.release.judge.left_there", lambda _: (500, 900))
    assert world.lost() == ["500 B in the middle of its log of 900 B are only there (sync.log_limit)"]


def test_code_that_no_revision_holds_is_told_and_no_loss(world: World) -> None:
    world.insert(project={"dirty": True})
    assert [item.lost for item in world.judge()] == [False]


def test_what_lies_among_the_runs_and_is_none_is_named(world: World) -> None:
    world.insert()
    world.strange = ("q-aaaaaa.bak", "notes.txt")
    assert [(item.run_id, item.lost) for item in world.judge()] == [("q-aaaaaa.bak", True), ("notes.txt", True)]
    assert all("is none: somebody renamed a run's folder" in each for each in world.lost())


def test_what_lay_among_the_runs_at_first_is_named_when_its_file_system_went_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = iter([judge.Listed({}, ("q-aaaaaa.bak",)), judge.Listed({}, ())])
    monkeypatch.setattr(judge, "list_there", lambda _: next(there))
    (item,) = world.judge()
    assert (item.run_id, item.lost) == ("q-aaaaaa.bak", True)


def test_what_came_among_the_runs_meanwhile_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    there = iter([judge.Listed({}, ()), judge.Listed({}, ("q-aaaaaa.bak",))])
    monkeypatch.setattr(judge, "list_there", lambda _: next(there))
    (item,) = world.judge()
    assert (item.run_id, item.lost) == ("q-aaaaaa.bak", True)


def test_a_folder_with_the_name_of_a_run_that_is_none_is_named_as_such(world: World) -> None:
    world.vanished = {"run.observe": [{"run_id": RUN, "exists": False}]}  # an empty folder, or a link
    (what,) = world.lost()
    assert "lies among the runs there and is none" in what
    world.insert()
    assert world.lost() == ["it was there a moment ago, but is missing now"]
