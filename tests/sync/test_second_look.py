"""What comes to a host while home reads its own copies: `rm` and a wipe delete nothing that home did not judge."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from armada.cli.release import _wipe
from armada.errors import Conflict, LinkLost, OutcomeUnknown
from armada.protocol.sync import Output, RunListing
from armada.rpc.session import HostSession
from armada.store import runs
from armada.sync.release import judge, second_look
from armada.sync.release.second_look import look_again, see_ground, what_came
from tests.simulation import removing
from tests.simulation.removing import remove_run
from tests.sync.conftest import Place


@pytest.fixture
def home(place: Place) -> Place:
    """A run that ended, all of which is at home."""
    place.create(keep_home={"last": 5})
    place.save(1, {"model.bin": b"one"})
    place.sync()
    place.end()
    place.sync()
    return place


def remove(place: Place) -> None:
    remove_run(place.database, place.home, place.session, runs.find(place.database, place.run_id))


def resume(place: Place) -> None:
    place.save(2, {"model.bin": b"two"})
    folder = place.remote / "submissions" / "2"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claim.json").write_text("{}")
    state = {"state": "failed", "submission": 2, "attempt": 2, "seq": 99}
    (place.remote / "state.json").write_text(json.dumps(state))


@pytest.mark.parametrize("act", [resume, lambda place: place.save(2, {"model.bin": b"two"})], ids=["resumed", "saved"])
@pytest.mark.parametrize("moment", ["home reads", "the request is under way"])
def test_a_checkpoint_that_comes_while_rm_judges_stays(
    home: Place, monkeypatch: pytest.MonkeyPatch, act: Any, moment: str
) -> None:
    judge_run, ask = judge.judge_run, HostSession.call

    def reading(*words: Any) -> Any:
        found = judge_run(*words)
        act(home)
        return found

    def asking(session: HostSession, request: Any, *more: Any, **named: Any) -> Any:
        if getattr(request, "method", "") == "run.remove":
            act(home)
        return ask(session, request, *more, **named)

    if moment == "home reads":
        monkeypatch.setattr(judge, "judge_run", reading)
    else:
        monkeypatch.setattr(HostSession, "call", asking)
    with pytest.raises(Conflict, match=r"(was submitted again|got a checkpoint) since it was looked at; nothing was"):
        remove(home)
    assert len(list((home.remote / "outbox").glob("*/model.bin"))) == 2
    assert runs.is_known(home.database, home.run_id)


@pytest.mark.parametrize("has", ["a submission", "a checkpoint"])
def test_a_folder_that_was_not_seen_and_comes_back_while_rm_runs_is_not_deleted(
    home: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has: str
) -> None:
    if has == "a submission":
        shutil.rmtree(home.remote / "outbox")
        (home.remote / "submissions" / "1").mkdir(parents=True)
        (home.remote / "submissions" / "1" / "claim.json").write_text("{}")
        state = {"state": "failed", "submission": 1, "attempt": 1, "seq": 99}
        (home.remote / "state.json").write_text(json.dumps(state))
    away, ask = home.remote.rename(tmp_path / "away"), HostSession.call

    def asking(session: HostSession, request: Any, *more: Any, **named: Any) -> Any:
        if getattr(request, "method", "") == "run.remove":
            away.rename(home.remote)
        return ask(session, request, *more, **named)

    monkeypatch.setattr(HostSession, "call", asking)
    with pytest.raises(Conflict, match="its folder was not found, and is seen now"):
        remove(home)
    assert (home.remote / "spec.json").exists()
    assert runs.is_known(home.database, home.run_id)


@pytest.mark.parametrize("force", [False, True])
def test_a_link_that_is_lost_once_rm_asked_says_neither_that_the_files_stay_nor_that_they_are_gone(
    home: Place, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    ask = HostSession.call

    def asking(session: HostSession, request: Any, *more: Any, **named: Any) -> Any:
        answer = ask(session, request, *more, **named)
        if getattr(request, "method", "") == "run.remove":
            raise LinkLost("the link broke", host="local")
        return answer

    options = argparse.Namespace(force=force, without_host=False, other_home=False, dry_run=False)
    monkeypatch.setattr(removing, "_OPTIONS", options)
    with monkeypatch.context() as broken:
        broken.setattr(HostSession, "call", asking)
        with pytest.raises(OutcomeUnknown, match="it is unknown whether the files of tune-1 were deleted on local"):
            remove(home)
    assert runs.is_known(home.database, home.run_id)
    assert not home.remote.exists()
    remove(home)
    assert not runs.is_known(home.database, home.run_id)


def test_what_did_not_change_is_removed(home: Place) -> None:
    remove(home)
    assert not home.remote.exists()
    assert not runs.is_known(home.database, home.run_id)


def test_an_agent_that_compares_nothing_is_asked_once_more_before(home: Place) -> None:
    entry = judge.list_run(home.context)
    assert entry is not None
    told = look_again(home.context, entry)
    assert (len(told.checkpoints), told.announced, told.submission, told.attempt) == (
        1,
        0,
        entry.submission,
        entry.attempt,
    )
    (home.remote / "output.log").write_text("a line more\n")
    with pytest.raises(Conflict, match="wrote files since it was looked at; nothing was deleted"):
        look_again(home.context, entry)


LISTED = RunListing(
    run_id="a", exists=True, submission=1, attempt=1, outputs=(Output(path="l", size_bytes=1, mtime=1.0),)
)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, None),
        ({"outputs": ()}, None),
        ({"attempt": None}, None),
        ({"submission": 2}, "was submitted again"),
        ({"attempt": 2}, "began again"),
        ({"unreadable": ("a" * 64,)}, "got a checkpoint"),
        ({"announced": 1}, "got a checkpoint"),
        ({"finishing": 1}, "got a checkpoint"),
        ({"outputs": (Output(path="l", size_bytes=1, mtime=2.0),)}, "wrote files"),
        ({"others": {"count": 1, "size_bytes": 0}}, "wrote files"),
        ({"problem": "unreadable"}, "wrote files"),
    ],
)
def test_what_came_to_a_run(change: dict[str, Any], says: str | None) -> None:
    now = RunListing.model_validate({**dict(LISTED), **change})
    assert what_came(LISTED, now) == says


@pytest.mark.fault("a job is requeued while home reads its copies", "the host is not released, and not wiped")
@pytest.mark.parametrize("change", ["began again", "got a checkpoint"])
def test_what_comes_to_a_judged_run_keeps_its_host(home: Place, change: str) -> None:
    (home.remote / "attempts" / "1").mkdir(parents=True, exist_ok=True)
    ground = see_ground(home.session)
    assert judge.losses(judge.judge_host(home.context, listed=ground.listed)) == []
    if change == "began again":
        (home.remote / "attempts" / "2").mkdir()
    else:
        home.save(2, {"model.bin": b"two"})
    assert [item.what for item in judge.came_since(home.context, ground.listed)] == [
        f"it {change} while the host was checked"
    ]
    with pytest.raises(Conflict, match=f"{home.run_id} {change} since it was looked at; nothing was deleted"):
        _wipe(home.context, ground)
    assert home.remote.exists()


def test_a_wipe_tells_what_home_judged_of_each_run(home: Place) -> None:
    ground = see_ground(home.session)
    judge.judge_host(home.context, listed=ground.listed)
    request: dict[str, Any] = second_look.wipe_of(home.context, ground).as_params()
    (told,) = request["runs"]
    entry = judge.list_run(home.context)
    assert entry is not None
    assert told == {
        "run_id": home.run_id,
        "attempt": entry.attempt,
        "announced": 0,
        "checkpoints": [each.digest for each in entry.outbox],
    }
    assert "runs" in _wipe(home.context, ground)


def test_a_wipe_names_what_home_judged(home: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = see_ground(home.session)
    request = second_look.wipe_of(home.context, ground).as_params()
    assert request["root"] == ground.root is not None
    assert [each["run_id"] for each in request["runs"]] == [home.run_id]  # type: ignore[attr-defined]  # a list of objects
    (home.remote.parent / "came-1").mkdir()
    with pytest.raises(Conflict, match="came-1 was put here while the host was checked; nothing was deleted"):
        _wipe(home.context, ground)
    (home.remote.parent / "came-1").rmdir()
    with pytest.raises(Conflict, match="another root is here than the one that was checked"):
        _wipe(home.context, ground._replace(root="another"))
    assert home.remote.exists()
    assert "runs" in _wipe(home.context, ground)
