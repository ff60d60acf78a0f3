"""What starts a run at most once and what ends it, decided from its records alone: nothing is started here."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from armada_agent.engines.engine import Place
from armada_agent.errors import AgentError
from armada_agent.foundation import files, process_identity
from armada_agent.foundation.session import Call, Session
from armada_agent.host import detached, roots, set_aside, setup_lines
from armada_agent.outbox import homes
from armada_agent.paths import RunPaths
from armada_agent.runs import folders, leftover_processes, submissions, unattended, work_data

HERE = process_identity.identify()
DEAD = {**HERE, "pid": 2**22 + 1}
PLACE = Place("s-1", 1, 2)


class Run:
    """A run's records, and what was started for it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = RunPaths(str(root), "alone-1")  # no other test has processes of a run of this name
        self.call = Call(Session(str(root), "agent", 1, sys.stdin.buffer, 0), 1)
        self.started: list[str] = []
        self.write(self.paths.spec, {"run_id": "alone-1", "stop_grace_s": 1.0, "job": {"secrets": ["KEY"]}})
        monkeypatch.setattr(detached, "start", self.start)

    def start(self, command: str, _agent: str, paths: RunPaths, number: int) -> None:
        """As a supervisor that takes the submission at once."""
        self.started.append(f"{command} {number}")
        if command == "supervise":
            self.write(paths.submission(number, "job.json"), {"submission": number, "supervisor": HERE})

    def write(self, path: str, value: object) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value))

    def claim(self, number: int = 1, supervisor: dict[str, Any] | None = None, state: str | None = None) -> None:
        """A submission that was claimed, and that a supervisor may have taken, and its state."""
        self.write(self.paths.submission(number, "claim.json"), {})
        if supervisor is not None:
            self.write(self.paths.submission(number, "job.json"), {"submission": number, "supervisor": supervisor})
        if state is not None:
            self.write(self.paths.state, {"state": state, "submission": number, "attempt": 1, "seq": 1})

    def submit(self, number: int = 1, **params: Any) -> str:
        answer = submissions.submit(self.call, {"run_id": "alone-1", "submission": number, **params})
        return str(answer["outcome"])

    def stop(self, **params: Any) -> str:
        return str(submissions.stop(self.call, {"run_id": "alone-1", "grace_s": 1.0, **params})["outcome"])

    @property
    def request(self) -> dict[str, Any] | None:
        return files.read_json(self.paths.stop)

    @property
    def state(self) -> dict[str, Any]:
        return files.read_json(self.paths.state) or {}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(AgentError) as refusal:
        ask()
    return f"{refusal.value.kind}: {refusal.value.message}"


def test_a_submission_is_started_once_and_its_claim_is_kept(run: Run) -> None:
    assert (run.submit(), run.submit()) == ("started", "already")
    claim = Path(run.paths.submission(1, "claim.json")).read_text()
    Path(run.paths.submission(1, "job.json")).unlink()
    assert run.submit() == "started"  # whoever claimed it was ended before it started anything
    assert Path(run.paths.submission(1, "claim.json")).read_text() == claim
    assert run.started == ["supervise 1", "supervise 1"]


@pytest.mark.parametrize(
    ("supervisor", "state", "follows"),
    [
        (DEAD, "running", True),
        (DEAD, "failed", True),
        (HERE, "running", False),
        (HERE, "failed", True),
        (None, None, False),
        (None, "cancelled", True),
    ],
)
def test_another_submission_follows_only_what_is_over(
    run: Run, monkeypatch: pytest.MonkeyPatch, supervisor: dict[str, Any] | None, state: str | None, follows: bool
) -> None:
    monkeypatch.setattr(work_data, "require_unchanged", lambda *_: None)
    run.claim(1, supervisor, state)
    if follows:
        assert run.submit(2) == "started"
    else:
        assert refused(lambda: run.submit(2)) == "conflict: run alone-1 has submission 1 already"
    assert run.started == (["supervise 2"] if follows else [])


def surroundings(run: Run) -> dict[str, str]:
    """The environment of a process of the run; without the root's mark it would count for every test's run of this name."""
    return {**os.environ, "ARMADA_RUN_ID": run.paths.run_id, "ARMADA_ROOT": run.paths.root}


def test_another_submission_does_not_follow_a_job_that_outlived_its_supervisor(run: Run) -> None:
    run.claim(1, DEAD, "running")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=surroundings(run)) as job:
        assert refused(lambda: run.submit(2)) == "conflict: run alone-1 has submission 1 already"
        job.communicate()


@pytest.mark.parametrize(("of", "starts"), [({}, False), ({"submission": 1}, False), ({"submission": 0}, True)])
def test_what_was_stopped_before_is_not_started(run: Run, of: dict[str, int], starts: bool) -> None:
    run.write(run.paths.stop, {"time": 1.0, "grace_s": 1.0, **of})
    if starts:
        assert run.submit() == "started"
    else:
        assert refused(run.submit) == "conflict: run alone-1 was cancelled before it started"
        assert not Path(run.paths.submission(1, "claim.json")).exists()


def test_a_later_submission_brings_its_secrets_or_keeps_those_that_are_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(work_data, "require_unchanged", lambda _, paths: checked.append(paths.run_id))
    assert run.submit(1, secrets={"KEY": "of the first"}) == "started"
    assert (checked, files.read_json(run.paths.secrets)) == ([], {"KEY": "of the first"})
    Path(run.paths.secrets).unlink()
    run.claim(1, DEAD, "failed")
    words = "conflict: secrets of run alone-1 are no longer on its host: KEY"
    assert refused(lambda: run.submit(2, keep_secrets=True)) == words
    assert not Path(run.paths.submission(2, "claim.json")).exists()
    assert run.submit(2, secrets={"KEY": "1"}) == "started"
    assert (checked, files.read_json(run.paths.secrets)) == (["alone-1"], {"KEY": "1"})
    run.claim(2, DEAD, "failed")
    assert run.submit(3, keep_secrets=True) == "started"
    assert files.read_json(run.paths.secrets) == {"KEY": "1"}


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_before_the_claim_leaves_no_secrets(run: Run, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(work_data, "require_unchanged", lambda *_: None)
    if number == 2:
        run.claim(1, DEAD, "failed")
    run.write(run.paths.secrets, {"KEY": "came with the run"})
    with monkeypatch.context() as broken:
        broken.setattr(files, "link_json", full)
        with pytest.raises(OSError, match="No space left"):
            run.submit(number, secrets={"KEY": "1"})
    assert not Path(run.paths.secrets).exists()
    assert run.submit(number, secrets={"KEY": "1"}) == "started"
    assert files.read_json(run.paths.secrets) == {"KEY": "1"}


def test_secrets_that_somebody_took_for_the_former_ones_at_the_moment_of_the_claim_are_written_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are no locks, who forgets those of the former submission does not see who brings others."""
    link = files.link_json

    def meanwhile(path: str, value: object) -> bool:
        Path(run.paths.secrets).unlink()
        return link(path, value)

    monkeypatch.setattr(work_data, "require_unchanged", lambda *_: None)
    monkeypatch.setattr(files, "link_json", meanwhile)
    run.claim(1, DEAD, "failed")
    assert run.submit(2, secrets={"KEY": "2"}) == "started"
    assert files.read_json(run.paths.secrets) == {"KEY": "2"}


@pytest.mark.parametrize(
    ("spec", "words"), [({"job": {"secrets": "KEY"}}, "damaged"), ({"job": {"secrets": [7]}}, "damaged")]
)
def test_a_plan_that_does_not_say_which_secrets_are_needed_starts_nothing_by_itself(
    run: Run, spec: dict[str, Any], words: str
) -> None:
    run.claim(1, DEAD, "failed")
    run.write(run.paths.spec, {"run_id": "alone-1", **spec})
    assert words in refused(lambda: run.submit(2, keep_secrets=True))


def test_a_budget_that_is_spent_is_granted_anew_only_by_a_person(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_data, "require_unchanged", lambda *_: None)
    monkeypatch.setattr(unattended, "Spent", lambda *_: SimpleNamespace(is_over=True))
    run.claim(1, DEAD, "failed")
    run.write(run.paths.secrets, {"KEY": "1"})
    assert "the budget of alone-1 is spent" in refused(lambda: run.submit(2, keep_secrets=True))
    assert run.submit(2) == "started"


class TestFirst:
    """A first submission that a dispatcher or an array starts later."""

    def test_it_is_claimed_once_also_where_its_folder_was_left_without_a_claim(self, run: Run) -> None:
        Path(run.paths.submission(1)).mkdir(parents=True)
        assert submissions.standing_of_first(run.paths) is None
        assert submissions.claim_first(run.paths) == "claimed"
        assert (submissions.claim_first(run.paths), submissions.standing_of_first(run.paths)) == ("already", "already")

    @pytest.mark.parametrize(("of", "outcome"), [({}, "cancelled"), ({"submission": 0}, "claimed")])
    def test_a_stop_that_concerns_it_came_before(self, run: Run, of: dict[str, int], outcome: str) -> None:
        run.write(run.paths.stop, {"time": 1.0, "grace_s": 1.0, **of})
        assert submissions.standing_of_first(run.paths) == ("cancelled" if outcome == "cancelled" else None)
        assert submissions.claim_first(run.paths) == outcome

    def test_only_the_array_that_claimed_it_takes_that_back(self, run: Run) -> None:
        submissions.claim_first(run.paths, PLACE)
        submissions.release_first(run.paths, Place("s-1", 2, 2))
        assert submissions.standing_of_first(run.paths) == "already"
        submissions.release_first(run.paths, PLACE)
        assert submissions.standing_of_first(run.paths) is None
        assert not Path(run.paths.submission(1)).exists()

    def test_it_is_ended_only_where_nobody_has_it(self, run: Run) -> None:
        run.claim()
        assert submissions.conclude_unstarted(run.paths, 1, "never_started", "words")
        assert (run.state["state"], run.state["reason"]) == ("failed", "never_started")
        run.claim(2, HERE, "running")
        assert not submissions.conclude_unstarted(run.paths, 2, "never_started", "words")
        assert run.state["state"] == "running"

    def test_a_refusal_is_not_written_over_an_end(self, run: Run) -> None:
        run.claim(1, None, "cancelled")
        submissions.end_refused(run.paths, "refused")
        assert run.state["state"] == "cancelled"
        Path(run.paths.state).unlink()
        submissions.end_refused(run.paths, "refused")
        assert (run.state["state"], run.state["message"]) == ("failed", "refused")


class TestStop:
    """A stop, by what the records show."""

    @pytest.fixture
    def job(self, run: Run) -> Any:
        """A process of the run, whoever started it."""
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=surroundings(run)) as process:
            yield process
            process.communicate()

    def test_what_has_ended_is_left_alone(self, run: Run) -> None:
        run.claim(1, DEAD, "failed")
        assert (run.stop(), run.request, run.started) == ("already_ended", None, [])

    @pytest.mark.usefixtures("job")
    def test_a_supervisor_that_lives_ends_what_is_left_itself(self, run: Run) -> None:
        run.claim(1, HERE, "failed")
        assert (run.stop(), run.request, run.started) == ("already_ended", None, [])

    @pytest.mark.usefixtures("job")
    def test_what_outlived_its_end_and_its_supervisor_is_ended(self, run: Run) -> None:
        run.claim(1, DEAD, "failed")
        assert (run.stop(), run.started) == ("stopping", ["clear 1"])
        assert run.request is not None

    @pytest.mark.parametrize(("supervisor", "started"), [(DEAD, ["clear 1"]), (HERE, [])])
    def test_an_end_that_only_the_exit_tells_is_written_down(
        self, run: Run, supervisor: dict[str, Any], started: list[str]
    ) -> None:
        run.claim(1, supervisor, "running")
        run.write(run.paths.attempt(1, "run.json"), {"attempt": 1, "submission": 1})
        run.write(run.paths.attempt(1, "exit.json"), {"state": "failed", "reason": "exit_1", "submission": 1})
        assert (run.stop(), run.request, run.started) == ("already_ended", None, started)

    def test_a_dead_supervisors_run_is_cleared_and_a_living_ones_is_left_to_it(self, run: Run) -> None:
        run.claim(1, HERE, "running")
        assert (run.stop(), run.started) == ("stopping", [])
        run.claim(1, DEAD, "running")
        assert (run.stop(), run.started) == ("stopping", ["clear 1"])

    @pytest.mark.parametrize("claimed", [True, False])
    def test_what_nothing_has_started_ends_at_once(self, run: Run, claimed: bool) -> None:
        run.write(run.paths.secrets, {"KEY": "1"})
        if claimed:
            run.claim()
        assert run.stop() == "cancelled_before_start"
        assert (run.state["state"], run.state["submission"]) == ("cancelled", 1 if claimed else 0)
        assert not Path(run.paths.secrets).exists()

    @pytest.mark.parametrize(
        ("before", "outcome"), [(None, "cancelled_before_start"), (1, "already_ended")], ids=["never", "once"]
    )
    def test_it_is_submitted_while_the_stop_is_written(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, before: int | None, outcome: str
    ) -> None:
        if before is not None:
            run.claim(before, HERE, "running")
        write = files.write_json

        def write_json(path: str, value: Any) -> None:
            write(path, value)
            if path == run.paths.stop:
                run.claim((before or 0) + 1)

        monkeypatch.setattr(files, "write_json", write_json)
        assert run.stop() == outcome

    @pytest.mark.parametrize(
        ("params", "kept"),
        [
            ({"budget": "5 h are spent"}, {"budget": "5 h are spent"}),
            ({"budget": 7}, {}),
            ({"reason": "pruned", "message": "it does badly"}, {"reason": "pruned", "message": "it does badly"}),
            ({"reason": "pruned", "message": 7}, {}),
            ({"reason": "a whim", "message": "words"}, {}),
        ],
    )
    def test_why_it_is_stopped_is_kept_where_a_rule_did(
        self, run: Run, params: dict[str, Any], kept: dict[str, Any]
    ) -> None:
        run.claim(1, HERE, "running")
        run.stop(**params)
        told = run.request or {}
        assert {name: told[name] for name in ("budget", "reason", "message") if name in told} == kept
        assert told["submission"] == 1

    RULES = ({"budget": "spent"}, {"reason": "pruned", "message": "it does badly"})

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize(
        ("former", "counts"),
        [
            (None, True),
            ({"submission": 1}, False),
            ({"submission": 0}, True),
            ({"submission": 1, "reason": "pruned", "message": "before"}, True),
        ],
    )
    def test_no_rule_takes_the_place_of_a_person(
        self, run: Run, rule: dict[str, Any], former: dict[str, Any] | None, counts: bool
    ) -> None:
        run.claim(1, HERE, "running")
        if former is not None:
            run.write(run.paths.stop, {"time": 1.0, "grace_s": 1.0, **former})
        run.stop(**rule)
        assert (rule.items() <= (run.request or {}).items()) is counts
        run.stop()
        assert not rule.items() <= (run.request or {}).items()  # a person may always say anew

    @pytest.mark.parametrize(
        ("folder", "lives", "root", "outcome"),
        [
            (False, True, True, "stopping"),
            (False, False, True, "not_found"),
            (False, True, False, "not_found"),
            (True, True, True, "cancelled_before_start"),
        ],
    )
    def test_processes_without_a_folder_are_ended_where_the_root_is_the_one_that_was_meant(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, folder: bool, lives: bool, root: bool, outcome: str
    ) -> None:
        ended: list[str] = []
        monkeypatch.setattr(leftover_processes, "find", lambda *_: [7] if lives else [])
        monkeypatch.setattr(leftover_processes, "start_ending", lambda _, paths, __: ended.append(paths.run_id))
        if not folder:
            Path(run.paths.spec).unlink()
        told = roots.identify(run.call.root) if root else "another"
        if outcome == "not_found":
            assert refused(lambda: run.stop(root=told)).startswith("not_found")
        else:
            assert run.stop(root=told) == outcome
        assert ended == (["alone-1"] if outcome == "stopping" else [])


def test_a_supervisor_that_takes_long_to_start_leaves_the_outcome_unknown_and_a_repeat_finds_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "_TAKE_UP_S", 0.0)
    with pytest.raises(AgentError, match="did not start it within") as refused:
        run.submit()
    assert (refused.value.kind, refused.value.hint) == (
        "outcome_unknown",
        "run the same command again to find out; nothing is started twice",
    )
    assert run.submit() == "already"
    assert run.started == ["supervise 1"]


@pytest.mark.parametrize("failures", [1, 10**6], ids=["for a moment", "for long"])
def test_a_record_that_cannot_be_read_once_a_supervisor_was_started_is_no_refusal(
    run: Run, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    read_json, left = files.read_json, [failures]

    def read(path: str, *limit: Any) -> Any:
        if path.endswith("job.json") and run.started and left[0] > 0:
            left[0] -= 1
            raise files.UnseenError("job.json: [Errno 5] Input/output error")
        return read_json(path, *limit)

    monkeypatch.setattr(submissions, "_TAKE_UP_S", 0.1)
    with monkeypatch.context() as broken:
        broken.setattr(files, "read_json", read)
        if failures == 1:
            assert run.submit() == "started"
        else:
            assert "Input/output error" in refused(run.submit)
            assert refused(run.submit).startswith("outcome_unknown: submission 1 of alone-1")
    assert run.submit() == "already"
    assert run.started == ["supervise 1"]


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing_setup(*_: Any) -> Any:
    raise AgentError("environment", "line 1 of `setup:` failed")


def wiping(*_: Any) -> Any:
    raise AgentError("conflict", "everything of armada's is being deleted; nothing was started")


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (set_aside, "refuse_while_wiped", wiping),
        (set_aside, "put_back_left", full),
        (folders, "_create", full),
        (homes, "register", full),
        (files, "lock", full),
        (setup_lines, "apply", failing_setup),
        (detached, "start", full),
    ],
)
def test_a_repeated_request_that_fails_is_no_refusal_of_what_was_claimed(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    claimed: bool,
    owner: object,
    name: str,
    error: Callable[..., Any],
) -> None:
    """The answer of the first request was lost. Home would otherwise say that nothing was started."""
    spec = {"run_id": "alone-1", "format": 1, "gpus": 0, "stop_grace_s": 1.0, "job": {"argv": ["true"]}, "outbox": {}}
    run.write(run.paths.spec, spec)
    if claimed:
        run.claim()

    def create() -> object:
        return folders.create(run.call, {"run_id": "alone-1", "spec": spec, "submission": 1})

    with monkeypatch.context() as broken:
        broken.setattr(owner, name, error)
        with pytest.raises((AgentError, OSError)) as refusal:
            create()
    kind = refusal.value.kind if isinstance(refusal.value, AgentError) else "io"
    assert (kind == "outcome_unknown") is claimed
    assert not claimed or str(refusal.value).startswith("submission 1 may have been claimed before")
    create()
    assert run.started == ["supervise 1"]


def test_a_claim_that_cannot_be_seen_may_be_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wipe has set the run aside, or its disk does not answer."""
    run.claim()
    monkeypatch.setattr(set_aside, "refuse_while_wiped", wiping)
    assert refused(run.submit).startswith("outcome_unknown")
    aside = set_aside.set_aside(run.call.root)
    assert refused(run.submit).startswith("outcome_unknown")
    set_aside.put_back_all(run.call.root)
    assert aside is not None
    lstat = os.lstat

    def unseen(path: str) -> os.stat_result:
        if path.endswith("claim.json"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return lstat(path)

    with monkeypatch.context() as broken:
        broken.setattr(os, "lstat", unseen)
        assert refused(run.submit).startswith("outcome_unknown")


def test_another_spec_is_a_refusal_also_of_what_was_claimed(run: Run) -> None:
    run.claim()
    spec = {"run_id": "alone-1", "format": 1, "gpus": 0, "stop_grace_s": 1.0, "job": {"argv": ["true"]}, "outbox": {}}
    asked = {"run_id": "alone-1", "spec": spec, "submission": 1}
    assert refused(lambda: folders.create(run.call, asked)) == "conflict: run alone-1 exists here with another spec"
