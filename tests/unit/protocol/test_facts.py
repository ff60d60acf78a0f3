"""What a host says of itself: refused where it does not fit, and read as unknown where the store holds it."""

from __future__ import annotations

from typing import Any

import pytest

from armada.errors import UnexpectedAnswer
from armada.protocol.facts import AskFacts, Facts
from armada.protocol.message import parse
from armada.protocol.recorded import recorded_facts
from tests.host_facts import ANSWER, GPU, answer, facts


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cpu_count": "8"}, "cpu_count"),
        ({"cpu_count": 0}, "cpu_count"),
        ({"disk": {"total_bytes": 1}}, "disk.free_bytes"),
        ({"disk": {"total_bytes": 1, "free_bytes": -1}}, "disk.free_bytes"),
        ({"disk": {"total_bytes": 1, "free_bytes": 10**30}}, "disk.free_bytes"),
        ({"time": 1e18}, "time"),
        ({"time": float("nan")}, "time"),
        ({"tools": None}, "tools"),
        ({"gpus": [{"processes": [{"pid": "x", "run_id": None}]}]}, "gpus.0.processes.0.pid"),
        ({"doubts": "x"}, "doubts"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_host_method_and_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UnexpectedAnswer) as refused:
        facts(**changes)
    assert refused.value.host == "box"
    assert f"the answer to host.facts does not fit: {field}: " in str(refused.value)


def test_a_field_that_is_missing_is_named() -> None:
    lacking = {name: value for name, value in ANSWER.items() if name != "hostname"}
    with pytest.raises(UnexpectedAnswer, match="hostname: is missing"):
        parse(Facts, lacking, host="box", method=AskFacts.method)


def test_what_an_older_agent_does_not_say_is_empty_and_what_a_newer_one_adds_is_ignored() -> None:
    older = {name: value for name, value in ANSWER.items() if name not in {"left_out", "doubts", "root_id", "queue"}}
    found = parse(Facts, {**older, "added_later": 1}, host="box", method=AskFacts.method)
    assert (found.left_out, found.doubts, found.root_id, found.queue.waiting) == ((), (), None, ())


def test_what_is_shown_to_people_is_sanitized() -> None:
    evil = "x\x1b]52;c;!\x07"
    found = facts(user=evil, doubts=[evil], gpus=[{"name": evil}])
    assert not any("\x1b" in text for text in (found.user, *found.doubts, found.gpus[0].name))


def test_the_store_keeps_all_that_a_host_said() -> None:
    said = answer(gpus=[{"processes": [{"pid": 1, "run_id": "r-1"}]}])
    assert recorded_facts(said).gpus is not None
    kept = facts(gpus=[{"processes": [{"pid": 1, "run_id": "r-1"}]}]).as_json()
    assert list(kept) == list(said)
    assert kept["disk"] == said["disk"]


@pytest.mark.parametrize(
    "stored",
    [None, [], 7, {}, {"gpus": 7}, {"gpus": [{}]}, {"gpus": [7], "machine": [1], "environments": [2]}, {"queue": "x"}],
)
def test_of_recorded_facts_that_make_no_sense_nothing_is_known(stored: object) -> None:
    found = recorded_facts(stored)
    assert (found.hardware, found.environments, found.queue) == (None, None, None)


def test_what_fits_of_recorded_facts_is_kept() -> None:
    found = recorded_facts(
        {"machine": "x86_64", "gpus": [GPU, {"name": "T4", "index": "x"}], "disk": {"free_bytes": 1e9}}
    )
    assert found.hardware is not None
    assert [gpu.name for gpu in found.hardware.gpus] == [GPU["name"], "T4"]
    assert found.gpus is not None
    assert [gpu.index for gpu in found.gpus] == [0, None]
    assert found.disk is not None
    assert (found.disk.free_bytes, found.disk.total_bytes) == (1e9, None)
