"""What a machine remembers of a job in doubt from one poll to the next, and what it takes from other machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from armada_agent.engines.engine import Handed, scheduler_status
from armada_agent.engines.job_activity import Memory, has_begun, last_word
from armada_agent.paths import RunPaths
from armada_agent.verdicts import liveness

FAILED = scheduler_status(liveness.ENDED, 7.0, detail="FAILED", reason="exit_1")


class Doubted:
    """A submission, what its job writes, and the machines that poll."""

    def __init__(self, folder: Path) -> None:
        self.paths = RunPaths(str(folder), "a-1")
        self.handed = Handed(self.paths, 1, {"job_id": "11", "time": 1.0})
        Path(self.paths.submission(1)).mkdir(parents=True)

    def at(self, seconds: float, boot: str = "one") -> Memory:
        return Memory(self.handed, lambda: {"boot": boot, "seconds": seconds})

    def poll(self, seconds: float, word: str = liveness.MISSING, boot: str = "one") -> Memory:
        memory = self.at(seconds, boot)
        memory.follow(word, seconds, self.paths)
        return memory

    def beat(self, text: str = "{}\n") -> None:
        with Path(self.paths.telemetry).open("a") as stream:
            stream.write(text)

    def write(self, name: str, value: object) -> None:
        place = Path(self.paths.folder, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.fixture
def job(tmp_path: Path) -> Doubted:
    return Doubted(tmp_path)


def ended(memory: Memory, job: Doubted) -> str | None:
    told = memory.recall_end(job.paths)
    return None if told is None else str(told["detail"])


def test_each_machine_counts_for_itself_and_loses_nothing_of_the_other(job: Doubted) -> None:
    job.poll(1000.0)
    assert job.at(5.0, "two").watch == {}
    job.poll(5.0, boot="two")
    assert (job.at(1001.0).watch["since"], job.at(6.0, "two").watch["since"]) == (1000.0, 5.0)
    job.poll(1060.0)
    assert job.at(1061.0).lasted_s == 60.0


def test_a_second_question_is_asked_again_only_once_its_answer_is_old_or_the_job_wrote(job: Doubted) -> None:
    asked: list[float] = []

    def ask(memory: Memory) -> dict[str, Any] | None:
        def answer() -> dict[str, Any]:
            asked.append(memory.now_s)
            return {"recorded": None}

        return memory.ask_second(job.paths.root, answer)

    for seconds in (1000.0, 1020.0, 1050.0, 1065.0):
        told = ask(job.poll(seconds))
        assert told is not None
        assert told["recorded"] is None
    assert asked == [1000.0, 1065.0]
    job.beat()
    memory = job.poll(1070.0)
    assert memory.second is None
    ask(memory)
    assert asked[2:] == [1070.0]


def test_a_second_answer_whose_time_cannot_be_read_is_asked_for_again(job: Doubted) -> None:
    job.poll(1000.0)
    place = Path(job.handed.file("liveness.json"))
    kept = json.loads(place.read_text())
    kept["readers"][0]["second"] = {"at": "noon", "recorded": 1}
    place.write_text(json.dumps(kept))
    told = job.at(3000.0).ask_second(job.paths.root, lambda: {"recorded": 2})
    assert told == {"recorded": 2, "at": 3000.0}


def test_an_end_is_remembered_until_the_job_writes(job: Doubted) -> None:
    job.poll(1000.0).note_end(FAILED)
    assert (ended(job.at(1001.0), job), ended(job.at(5.0, "two"), job)) == ("FAILED", "FAILED")
    job.beat()
    assert ended(job.at(1002.0), job) is None
    job.poll(1003.0).note_end({**FAILED, "detail": "TIMEOUT"})
    assert ended(job.at(1004.0), job) == "TIMEOUT"


@pytest.mark.parametrize("forgets", ["one", "two", "three"])
def test_an_end_is_forgotten_on_all_machines(job: Doubted, forgets: str) -> None:
    job.poll(1000.0, boot="one").note_end(FAILED)
    if forgets == "three":
        job.poll(1000.0, boot="two").note_end(FAILED)
    job.at(1001.0, boot=forgets).forget_end()
    assert [ended(job.at(1002.0, boot), job) for boot in ("one", "two", "three")] == [None] * 3


@pytest.mark.parametrize(
    ("said", "seen_at"),
    [
        (FAILED, 7.0),
        ({**FAILED, "seen_at": "noon"}, None),
        ({**FAILED, "seen_at": 1e30}, None),
        ({**FAILED, "seen_at": -1}, None),
        ({**FAILED, "state": "running"}, "no end"),
        ("FAILED", "no end"),
        (None, "no end"),
    ],
)
def test_a_record_of_an_end_that_is_damaged_is_none_or_has_no_time(job: Doubted, said: Any, seen_at: object) -> None:
    job.poll(1000.0).note_end(said)
    told = job.at(1001.0).recall_end(job.paths)
    assert ("no end" if told is None else told["seen_at"]) == seen_at


def test_dates_that_were_doubted_once_are_doubted_for_as_long_as_they_stay(job: Doubted) -> None:
    assert not job.at(1000.0).doubts([1, 2])
    memory = job.at(1000.0)
    memory.doubt([1, 2])
    memory.follow(liveness.MISSING, 1, job.paths)
    assert (job.at(1001.0).doubts([1, 2]), job.at(1001.0).doubts([1, 3])) == (True, False)
    job.poll(1002.0)
    assert job.at(1003.0).doubts([1, 2])
    assert not job.at(1003.0, "two").doubts([1, 2])


def test_when_the_job_wrote_last_is_known_only_of_what_was_seen(job: Doubted) -> None:
    assert job.poll(1000.0).changed_s is None
    job.beat()
    job.poll(1010.0)
    assert job.poll(1030.0).changed_s == 20.0


@pytest.mark.parametrize(
    ("state_of", "run_of", "exit_", "wrote"),
    [
        (0, 1, None, liveness.BEGUN),  # its state is yet to be written
        (0, None, {"submission": 1, "state": "requeued"}, liveness.GOES_BACK),  # stopped before its process was noted
        (1, None, {"submission": 7, "state": "requeued"}, liveness.UNBEGUN),
        (1, None, None, liveness.BEGUN),
        (0, None, None, liveness.UNBEGUN),
        (1, 1, {"submission": 1, "state": "failed"}, liveness.UNBEGUN),
        (1, 1, "{", liveness.BEGUN),
    ],
)
def test_the_records_of_an_attempt_say_whose_it_is_and_the_state_only_without_them(
    job: Doubted, state_of: int, run_of: int | None, exit_: Any, wrote: str
) -> None:
    job.write("state.json", {"state": "running", "submission": state_of})
    Path(job.paths.attempt(1)).mkdir(parents=True)
    if run_of is not None:
        job.write("attempts/1/run.json", {"attempt": 1, "submission": run_of})
    if exit_ is not None:
        job.write("attempts/1/exit.json", exit_)
    assert last_word(job.paths, 1) == wrote


def test_a_submission_has_begun_once_an_attempt_of_it_is_recorded(job: Doubted) -> None:
    assert not has_begun(job.paths, 1)
    Path(job.paths.attempt(1)).mkdir(parents=True)
    assert not has_begun(job.paths, 1)
    for text, begun in (({"submission": 7}, False), ({"submission": 1}, True), ("{", True)):
        job.write("attempts/1/run.json", text)
        assert has_begun(job.paths, 1) is begun
