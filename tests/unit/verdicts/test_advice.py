"""What to do next, by state and reason."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from armada.verdicts.advice import Situation, for_host_budget, is_host_budget, next_steps

NOW = Situation(run_id="a-1", host="a100", state="failed", reason="exit_1")


def commands(**changes: Any) -> list[str]:
    steps = next_steps(dataclasses.replace(NOW, **changes))
    assert all(step.words for step in steps)
    return [step.command for step in steps if step.command]


def test_a_failed_run_is_read_and_resumed_from_its_newest_checkpoint() -> None:
    assert commands() == ["armada logs a-1 --tail 200", "armada resume a-1"]
    (*_, last) = next_steps(Situation("a-1", "a100", "failed", "exit_1", resumes_from=30))
    assert last.words == "resume it from step 30"
    assert next_steps(NOW)[-1].words == "run it again from its beginning, because it has no checkpoint"
    unused = next_steps(dataclasses.replace(NOW, has_checkpoint=True))[-1]
    assert unused.words == "run it again from its beginning, because its experiment has no `resume`"


@pytest.mark.parametrize("reason", ["oom", "nan_loss", "missing_module", "missing_file", "data_error"])
def test_what_would_fail_again_is_launched_again_after_a_change(reason: str) -> None:
    assert "armada launch --host a100 'my exp.yaml'" in commands(reason=reason, experiment="my exp.yaml")
    first = next_steps(Situation("a-1", "a100", "failed", reason))[0]
    assert first.command is None
    assert "launch it again" in first.words


@pytest.mark.parametrize("reason", ["host_oom", "disk_full", "network", "signal_SIGKILL", "supervisor_lost"])
def test_what_its_surroundings_did_is_resumed(reason: str) -> None:
    asked = commands(reason=reason, experiment="exp.yaml")
    assert asked[-1] == "armada resume a-1"
    assert not [command for command in asked if command.startswith("armada launch")]


def test_of_a_job_that_its_site_removed_one_asks_who_did_it() -> None:
    assert "who removed it" in next_steps(dataclasses.replace(NOW, state="cancelled", reason="removed"))[0].words
    assert commands(state="cancelled", reason="removed")[-1] == "armada resume a-1"


def test_a_full_disk_gets_its_checkpoints_home_first() -> None:
    assert commands(reason="disk_full", only_there=2)[:2] == ["armada sync now a-1", "armada doctor a100"]


def test_what_is_done_is_brought_home_once() -> None:
    assert commands(state="succeeded", reason=None, only_there=1) == ["armada pull a-1"]
    assert commands(state="succeeded", reason=None) == []


def test_a_job_that_may_outlive_its_hosts_disk_is_stopped() -> None:
    assert commands(state="unknown", reason="put_back") == ["armada stop a-1", "armada doctor a100"]


def test_stopped_processes_are_woken_where_they_are() -> None:
    first = next_steps(Situation("a-1", "a100", "running", None, stopped=(41, 42)))[0]
    assert (first.words, first.command) == ("continue its stopped processes, on a100", "kill -CONT 41 42")


@pytest.mark.parametrize(("state", "first"), [("queued", "armada logs -f a-1"), ("unknown", "armada doctor a100")])
def test_one_that_has_not_ended_is_followed_or_looked_for(state: str, first: str) -> None:
    assert commands(state=state, reason=None)[0] == first


def test_a_stalled_run_is_ended_and_started_again() -> None:
    asked = commands(state="running", reason="stalled")
    assert asked == ["armada logs a-1 --tail 50", "armada logs -f a-1", "armada stop a-1", "armada resume a-1"]


def test_a_cell_that_no_host_has_is_handed_over_again_and_not_resumed() -> None:
    again = "armada sweep exp.yaml --host a100 --grid 'train.seed=1,2'"
    assert commands(reason="submit_refused", handed_over_by=again) == ["armada doctor a100", again]


def test_a_run_that_its_hosts_budget_stopped_is_not_told_of_its_own_budget() -> None:
    own = next_steps(Situation("a-1", "a100", "failed", "budget", resumes_from=30))
    assert "larger `budget`" in own[0].words
    first, *others = for_host_budget("a100", own)
    assert first.command == "armada hosts set a100 --budget MONEY"
    assert [step.command for step in others] == ["armada logs a-1 --tail 200", "armada resume a-1"]
    assert is_host_budget("a100", "a100 has cost 1.06 EUR, and its budget is 0.50 EUR")
    assert not is_host_budget("a100", "its budget (2.00 EUR) is spent: it ran for 2 h")
    assert not is_host_budget("a100", None)
