"""A cluster's answer as lines for a person, whatever the host puts into it."""

from __future__ import annotations

from typing import Any

import pytest

from armada.monitor import queue as queues
from armada.monitor.queue import allowance_moved, describe_allowance
from armada.protocol.runs import Quota
from armada.protocol.scheduler import ClusterQueue


def describe_queue(answer: dict[str, Any], scheduler: str, now: float) -> list[str]:
    return queues.describe_queue(ClusterQueue.model_validate(answer), scheduler, now)


def part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": "up", "time_limit": "1-00:00:00", "nodes": 2, "cpus": 16, "cpus_free": 15} | {
        "gpus": 8,
        "gpus_free": 5,
        **more,
    }


def queue(**more: Any) -> dict[str, Any]:
    return {"time": 1000.0, "partitions": [part("boost")], "mine": {"RUNNING": 1}, "others": {}, "error": None} | {
        "quota": None,
        **more,
    }


def look(text: str, *, answered: bool = True) -> dict[str, Any]:
    return {"time": 1.0, "text": text, "answered": answered}


def test_a_queue_is_partitions_then_jobs() -> None:
    assert describe_queue(queue(), "slurm", 1001.0) == [
        "boost (2 nodes, at most 1-00:00:00): free 15 of 16 cores, 5 of 8 GPUs",
        "my jobs: 1 running · others: none",
    ]


def test_an_old_answer_says_how_old_it_is() -> None:
    assert describe_queue(queue(), "slurm", 1090.0)[-1] == "(as slurm said 1 m 30 s ago)"


def test_an_error_stands_alone_for_partitions_nobody_could_ask_for() -> None:
    lines = describe_queue(queue(partitions=[], error="sinfo: Unable to contact\nslurm controller"), "slurm", 1000.0)
    assert lines == ["⚠ slurm does not answer: sinfo: Unable to contact slurm controller"]


def test_a_partition_that_is_down_says_so() -> None:
    (line, _) = describe_queue(queue(partitions=[part("old", state="down", gpus=0)]), "slurm", 1000.0)
    assert line == "old (2 nodes, at most 1-00:00:00, down): free 15 of 16 cores"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"partitions": "x", "mine": [1], "others": {"R": "many"}, "quota": 7, "time": "now"},
        {"partitions": [None, {}, {"name": {"a": 1}, "cpus": "8", "nodes": True}], "mine": {"\x1b[2J": 3}},
    ],
)
def test_no_answer_of_a_host_breaks_the_lines(answer: dict[str, Any]) -> None:
    lines = describe_queue(answer, "htcondor", 0.0)
    assert lines
    assert not any("\x1b" in line or "\n" in line for line in lines)


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ("hours left: 1,000", "hours left: 987.5", (1000.0, 987.5)),
        ("a 3\nused 12 of 500", "a 3\nused 40 of 500", (500.0, 500.0)),
        ("no number", "1", None),
        ("-3", "4", (-3.0, 4.0)),
    ],
)
def test_the_last_numbers_are_compared(before: str, after: str, moved: tuple[float, float] | None) -> None:
    assert allowance_moved(Quota.model_validate({"before": look(before), "after": look(after)})) == moved


def test_an_allowance_nobody_could_ask_for_has_no_difference() -> None:
    quota = Quota.model_validate({"before": look("left 5"), "after": look("saldo: exit code 1", answered=False)})
    assert allowance_moved(quota) is None
    assert describe_allowance(quota) == ["before: left 5", "after: could not be asked: saldo: exit code 1"]


def test_an_allowance_before_the_end_says_what_is_missing() -> None:
    assert describe_allowance(Quota.model_validate({"before": look("left 5\nof 7"), "after": None})) == [
        "before: left 5",
        "        of 7",
        "after: not asked yet",
    ]
