"""A cluster's answer as lines for a person, whatever the host puts into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from armada.config.hosts import Host
from armada.monitor.queue import allowance_moved, describe_allowance, describe_queue, look_at_queue
from armada.protocol.runs import Allowance, Quota
from armada.protocol.scheduler import ClusterQueue
from tests.answers import Answering

if TYPE_CHECKING:
    from armada.rpc.session import HostSession


def part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": "up", "time_limit": "1-00:00:00", "nodes": 2, "cpus": 16, "cpus_free": 15} | {
        "gpus": 8,
        "gpus_free": 5,
        **more,
    }


def queue(**more: Any) -> ClusterQueue:
    said = {"time": 1000.0, "partitions": [part("boost")], "mine": {"RUNNING": 1}, "others": {}, "error": None} | {
        "quota": None,
        **more,
    }
    return ClusterQueue.model_validate(said)


def look(text: str, *, answered: bool = True) -> Allowance:
    return Allowance(time=1.0, text=text, answered=answered)


class Answers(Answering):
    """A session with a cluster that gives one answer."""

    host = Host(name="hpc", ssh="hpc", scheduler="htcondor")

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    def said(self, method: str, params: dict[str, Any], /, **_: Any) -> dict[str, Any]:
        return self.answer


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
    found = look_at_queue(cast("HostSession", Answers(answer)))
    assert found is not None
    lines = describe_queue(found, "htcondor", 0.0)
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
    assert allowance_moved(Quota(before=look(before), after=look(after))) == moved


def test_an_allowance_nobody_could_ask_for_has_no_difference() -> None:
    quota = Quota(before=look("left 5"), after=look("saldo: exit code 1", answered=False))
    assert allowance_moved(quota) is None
    assert describe_allowance(quota) == ["before: left 5", "after: could not be asked: saldo: exit code 1"]


def test_an_allowance_before_the_end_says_what_is_missing() -> None:
    assert describe_allowance(Quota(before=look("left 5\nof 7"), after=None)) == [
        "before: left 5",
        "        of 7",
        "after: not asked yet",
    ]
