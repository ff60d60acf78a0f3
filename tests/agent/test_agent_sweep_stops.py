"""A stop by a sweep's rule says which rule it was, however the run ends; any other stop is a person's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.conversation import Host
from tests.supervisors import kill_both
from tests.waiting import eventually

WHY = "pruned at step 100: loss 0.9, the best of 2 cells has 0.2"
RULE: dict[str, Any] = {"reason": "pruned", "message": WHY}
LOOP = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"


def ended(host: Host, run_id: str) -> tuple[str, str, str | None]:
    host.await_end(run_id)
    return end_of(host, run_id)


def end_of(host: Host, run_id: str) -> tuple[str, str, str | None]:
    state = host.state(run_id)
    return state["state"], state["reason"], state["message"]


def test_a_running_cell_says_which_rule_stopped_it(this_host: Host) -> None:
    this_host.launch("rule-1", "sh", "-c", LOOP)
    eventually(lambda: "up" in this_host.output("rule-1"))
    this_host.call("run.stop", run_id="rule-1", grace_s=20, **RULE)
    assert ended(this_host, "rule-1") == ("cancelled", "pruned", WHY)


def test_so_does_one_whose_supervisor_was_killed(this_host: Host) -> None:
    this_host.launch("rule-2", "sleep", "1000")
    this_host.await_state("rule-2", "running")
    kill_both(this_host.look("rule-2")["evidence"]["submission"]["job"])
    eventually(lambda: this_host.look("rule-2")["evidence"]["supervisor"] == "dead")
    this_host.call("run.stop", run_id="rule-2", grace_s=1, **RULE)
    assert ended(this_host, "rule-2") == ("cancelled", "pruned", f"{WHY}; stopped after its supervisor had died")


def test_so_does_one_that_had_not_begun(this_host: Host) -> None:
    this_host.create("rule-3", "true")
    told: dict[str, Any] = {"reason": "sweep_stopped", "message": "its sweep ended: its 2 h are over"}
    assert this_host.call("run.stop", run_id="rule-3", grace_s=1, **told)["outcome"] == "cancelled_before_start"
    words = "cancelled before it started; its sweep ended: its 2 h are over"
    assert end_of(this_host, "rule-3") == ("cancelled", "sweep_stopped", words)


@pytest.mark.parametrize(
    "told",
    [
        {"reason": "succeeded", "message": "x"},
        {"reason": "pruned"},
        {"reason": "pruned", "message": "a\0b"},
        {"reason": "pruned", "message": ""},
    ],
)
def test_any_other_word_is_a_persons_stop(this_host: Host, told: dict[str, Any]) -> None:
    this_host.create("rule-4", "true")
    this_host.call("run.stop", run_id="rule-4", grace_s=1, **told)
    assert end_of(this_host, "rule-4") == ("cancelled", "killed_by_user", "cancelled before it started")


def test_a_job_that_writes_its_own_stop_request_makes_up_no_reason(this_host: Host) -> None:
    this_host.launch("rule-5", "sh", "-c", LOOP)
    eventually(lambda: "up" in this_host.output("rule-5"))
    request = {"time": 1, "grace_s": 1, "submission": 1, "reason": {"a": 1}, "message": ["x"]}
    (this_host.folder("rule-5") / "stop.json").write_text(json.dumps(request))
    assert ended(this_host, "rule-5") == ("cancelled", "killed_by_user", None)


@pytest.mark.parametrize("rule", [RULE, {"budget": "this-host has cost 5 EUR, and its budget is 4 EUR"}])
def test_a_persons_stop_stays_one_whatever_rule_follows(this_host: Host, rule: dict[str, Any]) -> None:
    slow = "trap 'until [ -e go ]; do sleep 0.05; done; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    this_host.launch("rule-6", "sh", "-c", slow)
    eventually(lambda: "up" in this_host.output("rule-6"))
    this_host.call("run.stop", run_id="rule-6", grace_s=30)
    assert this_host.call("run.stop", run_id="rule-6", grace_s=30, **rule)["outcome"] == "stopping"
    (this_host.folder("rule-6") / "work" / "go").touch()
    assert ended(this_host, "rule-6") == ("cancelled", "killed_by_user", None)


def test_a_person_may_stop_what_a_rule_has_told_to_stop(this_host: Host) -> None:
    this_host.create("rule-7", "true")
    stop = this_host.folder("rule-7") / "stop.json"
    stop.write_text(json.dumps({"time": 1, "grace_s": 1, "submission": 1, **RULE}))
    this_host.call("run.stop", run_id="rule-7", grace_s=1)
    assert end_of(this_host, "rule-7") == ("cancelled", "killed_by_user", "cancelled before it started")
