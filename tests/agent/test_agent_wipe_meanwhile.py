"""What another home does while a host is wiped: it is put back with all the rest, whatever agent that home has."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_agent.errors import AgentError
from armada_agent.foundation import deletion, files
from armada_agent.foundation.session import Call
from armada_agent.host import roots, set_aside
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths
from armada_agent.runs import folders, observation, submissions
from armada_agent.runs.wipe import wipe

from tests.agent.test_agent_wipe import DEAD, DESKTOP, LAPTOP, call, make

__all__ = ["call"]

Act = Callable[[], object]


class Killed(BaseException):  # no error of anybody's
    """The wipe is no more."""


def die() -> None:
    raise Killed


@pytest.fixture
def around(call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Does something right before, or right after, the folder of runs gets its first other name."""
    runs, rename = str(Path(call.root, "runs")), os.rename

    def do(*, before: Act | None = None, after: Act | None = None) -> None:
        def renaming(source: Any, target: Any, **more: Any) -> None:
            if source != runs:
                rename(source, target, **more)
                return
            monkeypatch.setattr(os, "rename", rename)
            if before is not None:
                before()
            rename(source, target, **more)
            if after is not None:
                after()

        monkeypatch.setattr(os, "rename", renaming)

    return do


def there(call: Call) -> list[str]:
    return [run["run_id"] for run in folders.list_runs(call, {})["runs"]]


def observed(call: Call, run_id: str) -> dict[str, Any]:
    return observation.observe(call, {"runs": [{"run_id": run_id}]})


def submit_again(run: RunPaths) -> None:
    Path(run.submission(2)).mkdir(parents=True)
    Path(run.submission(2, "claim.json")).write_text("{}")
    job = {"submission": 2, "scheduler": "direct", "supervisor": DEAD, "guardian": None, "time": 1.0}
    Path(run.submission(2, "job.json")).write_text(json.dumps(job))


@pytest.mark.fault("another home launches while a host is wiped", "nothing is deleted, and the wipe names the run")
def test_a_run_that_another_home_puts_there_at_that_moment_is_put_back_with_all_the_rest(
    call: Call, around: Callable[..., None]
) -> None:
    make(call, "wiped-1", DEAD, "failed")
    Path(call.root, "envs").mkdir()
    name = roots.identify(call.root)
    around(before=lambda: make(call, "wiped-9", DEAD, "succeeded"))
    with pytest.raises(AgentError, match="wiped-9 was put here while the host was checked; nothing was deleted") as no:
        wipe(call, {})
    assert (no.value.kind, no.value.hint) == ("conflict", "run the same command again: it checks that, too")
    assert there(call) == ["wiped-1", "wiped-9"]
    assert (Path(call.root, "envs").is_dir(), roots.identify(call.root)) == (True, name)
    assert "runs" in wipe(call, {})["removed"]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (submit_again, "wiped-1 was submitted again while the host was checked; nothing was deleted"),
        (lambda run: Path(run.checkpoint("c" * 64)).mkdir(), "wiped-1 got a checkpoint while the host was checked"),
        (lambda run: Path(run.outbox, ".new-7").mkdir(), "wiped-1 got a checkpoint while the host was checked"),
        (lambda run: homes.register(run, DESKTOP), "ann@desktop .* has not fetched the end of its logs and outputs"),
        (lambda run: Path(run.folder, "../notes.txt").write_text("mine"), "notes.txt was put here while"),
    ],
)
def test_what_came_to_a_run_at_that_moment_is_put_back(
    call: Call, around: Callable[..., None], act: Callable[[RunPaths], object], words: str
) -> None:
    run = make(call, "wiped-1", DEAD, "failed")
    around(before=lambda: act(run))
    with pytest.raises(AgentError, match=words):
        wipe(call, {"home": LAPTOP})
    assert (there(call), Path(run.state).exists()) == (["wiped-1"], True)


def test_a_run_that_comes_once_the_others_are_set_aside_stays_beside_them(
    call: Call, around: Callable[..., None]
) -> None:
    make(call, "wiped-1", DEAD, "failed")
    name = roots.identify(call.root)
    around(after=lambda: make(call, "wiped-9", DEAD, "succeeded"))
    with pytest.raises(AgentError, match="wiped-9 was put here while the host was checked; nothing was deleted"):
        wipe(call, {})
    assert (there(call), roots.identify(call.root)) == (["wiped-1", "wiped-9"], name)


def test_nothing_is_overwritten_where_the_name_of_a_run_was_taken(call: Call, around: Callable[..., None]) -> None:
    make(call, "wiped-1", DEAD, "failed")
    other = make(call, "wiped-2", DEAD, "failed")
    around(after=lambda: make(call, "wiped-1", DEAD, "succeeded"))
    with pytest.raises(AgentError, match="wiped-1 was put here while the host was checked; nothing was deleted"):
        wipe(call, {})
    assert '"succeeded"' in Path(RunPaths(call.root, "wiped-1").state).read_text()
    assert Path(other.state).exists()
    (kept,) = Path(call.root, ".aside").glob("*/wiped-1/state.json")
    assert '"failed"' in kept.read_text()


@pytest.mark.fault("a wipe is killed before it judged what it set aside", "the runs are put back, and none is deleted")
@pytest.mark.parametrize("finds", ["a look", "a list", "a wipe"])
def test_what_a_killed_wipe_had_not_judged_is_put_back(call: Call, around: Callable[..., None], finds: str) -> None:
    run = make(call, "wiped-1", DEAD, "failed")
    homes.register(run, LAPTOP)
    around(before=lambda: homes.register(run, DESKTOP), after=die)
    with pytest.raises(Killed):
        wipe(call, {"home": LAPTOP})
    if finds == "a wipe":
        with pytest.raises(AgentError, match=r"ann@desktop .* has not fetched"):
            wipe(call, {"home": LAPTOP})
    elif finds == "a look":
        assert [each["exists"] for each in observed(call, "wiped-1")["runs"]] == [True]
    assert (there(call), Path(run.state).exists()) == (["wiped-1"], True)


def test_what_a_killed_wipe_had_judged_is_deleted_by_the_next_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    make(call, "wiped-1", DEAD, "failed")
    name = roots.identify(call.root)
    with monkeypatch.context() as patched:
        patched.setattr(files, "fsync_folder", lambda _folder: die())
        with pytest.raises(Killed):
            wipe(call, {})
    assert (there(call), Path(call.root, ".trash-runs", "wiped-1").exists()) == ([], True)
    assert (observed(call, "wiped-1")["root"], observed(call, "wiped-1")["runs"][0]["exists"]) == (name, False)
    wipe(call, {})
    assert not Path(call.root).exists()


def test_no_run_is_taken_for_removed_while_it_is_set_aside(call: Call, around: Callable[..., None]) -> None:
    make(call, "wiped-1", DEAD, "failed")
    seen: list[dict[str, Any]] = []

    def look_twice() -> None:
        seen.append(observed(call, "wiped-1"))
        make(call, "wiped-9", DEAD, "failed")
        seen.append(observed(call, "wiped-1"))

    around(after=look_twice)
    with pytest.raises(AgentError, match="wiped-9 was put here"):
        wipe(call, {})
    for answer in seen:
        (run,) = answer["runs"]
        assert run["exists"], run
        assert "set aside by `armada hosts release --wipe`, which has not decided yet" in run["findings"][0]
    assert seen[0]["root"] is None


def test_nothing_is_put_on_a_host_that_is_being_wiped(call: Call, around: Callable[..., None]) -> None:
    make(call, "wiped-1", DEAD, "failed")
    words = r"everything of armada's below .* is being deleted \(armada hosts release --wipe\); nothing was started"

    def begin() -> None:
        for begins, named in ((folders.create, "wiped-9"), (submissions.submit, "wiped-1")):
            with pytest.raises(AgentError, match=words):
                begins(call, {"run_id": named, "submission": 2})

    around(before=begin, after=begin)
    assert "runs" in wipe(call, {})["removed"]


def test_what_comes_while_the_rest_is_deleted_keeps_the_agent(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    make(call, "wiped-1", DEAD, "failed")
    Path(call.root, "agent").mkdir()
    delete = deletion.delete_folder

    def deleting(folder: str, known_as: str) -> None:
        delete(folder, known_as)
        if known_as == str(Path(call.root, "runs")):
            monkeypatch.setattr(deletion, "delete_folder", delete)
            make(call, "wiped-9", DEAD, "succeeded")

    monkeypatch.setattr(deletion, "delete_folder", deleting)
    with pytest.raises(AgentError, match="wiped-9 was put here while older files were deleted; it stays, and so does"):
        wipe(call, {})
    assert (there(call), Path(call.root, "agent").exists()) == (["wiped-9"], True)
    assert "agent" in wipe(call, {})["removed"]


def test_a_claim_makes_no_folder_anew_of_a_run_that_is_set_aside(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run, runs = make(call, "wiped-1"), Path(call.root, "runs")
    monkeypatch.setattr(submissions, "read_stop_request", lambda _paths: runs.rename(Path(call.root, "away")) and None)
    with pytest.raises(FileNotFoundError):
        submissions.claim_first(run)
    assert not runs.exists()


def test_two_wipes_of_a_root_follow_one_another(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    make(call, "wiped-1", DEAD, "failed")
    os.close(files.lock(str(Path(call.root, ".wipe.lock"))) or 0)
    monkeypatch.setattr(files, "lock", lambda _path, timeout_s=None: None)
    with pytest.raises(AgentError, match="another armada is deleting everything below"):
        wipe(call, {})
    assert there(call) == ["wiped-1"]


def test_a_wipe_that_waited_for_another_one_holds_the_lock_that_others_see(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = files.lock

    def after_the_other(path: str, timeout_s: float | None = None) -> int | None:
        monkeypatch.setattr(files, "lock", take)
        descriptor = take(path, timeout_s)
        Path(path).unlink()
        return descriptor

    monkeypatch.setattr(files, "lock", after_the_other)
    with set_aside.alone(call.root, 5.0):
        assert files.is_locked(str(Path(call.root, ".wipe.lock")))
    assert not files.is_locked(str(Path(call.root, ".wipe.lock")))


class TestMountPoint:
    """The folder of runs is a file system of its own: it cannot be renamed, and what is in it can."""

    @pytest.fixture(autouse=True)
    def mounted(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> Callable[[Act], None]:
        runs, rename = str(Path(call.root, "runs")), os.rename
        acts: list[Act] = []

        def renaming(source: Any, target: Any, **more: Any) -> None:
            inside = [os.path.commonpath([runs, path]) == runs and path != runs for path in (source, target)]
            if runs in (source, target):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), runs)
            if inside[0] != inside[1]:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source)
            for act in acts[:1]:
                acts.clear()
                act()
            rename(source, target, **more)

        monkeypatch.setattr(os, "rename", renaming)
        return acts.append

    def test_it_is_emptied_and_stays(self, call: Call) -> None:
        make(call, "wiped-1", DEAD, "failed")
        roots.identify(call.root)
        answer = wipe(call, {})
        assert ("runs" in answer["removed"], there(call)) == (True, [])
        assert list(Path(call.root).glob("**/*")) in ([], [Path(call.root, "runs")])

    def test_what_comes_at_that_moment_is_put_back(self, call: Call, mounted: Callable[[Act], None]) -> None:
        run = make(call, "wiped-1", DEAD, "failed")
        name = roots.identify(call.root)
        mounted(lambda: make(call, "wiped-9", DEAD, "succeeded"))
        with pytest.raises(AgentError, match="wiped-9 was put here while the host was checked; nothing was deleted"):
            wipe(call, {})
        assert (there(call), roots.identify(call.root)) == (["wiped-1", "wiped-9"], name)
        assert not Path(run.folder, "..", ".aside").exists()

    def test_a_killed_wipe_loses_nothing(self, call: Call, mounted: Callable[[Act], None]) -> None:
        make(call, "wiped-1", DEAD, "failed")
        make(call, "wiped-2", DEAD, "failed")
        name = roots.identify(call.root)
        mounted(die)
        with pytest.raises(Killed):
            wipe(call, {})
        assert (there(call), roots.identify(call.root)) == (["wiped-1", "wiped-2"], name)
