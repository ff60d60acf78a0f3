"""What an older copy of a host's disk changes of an end that was seen: nothing, until something else shows life."""

from __future__ import annotations

from typing import Any

import pytest

from armada.monitor.look import Folder, Look
from armada.monitor.observe import record_look
from armada.protocol.observation import Moment, Observation
from armada.store import runs
from armada.store.database import Database
from tests.unit.monitor.observations import ended_by_slurm, entry, of_slurm


def see_in_turn(database: Database, *observations: dict[str, Any]) -> list[runs.Run]:
    """Have one boot of a host answer so, one after the other; what is known of the run after each."""
    known = []
    for seconds, seen in enumerate(observations):
        moment = Moment.model_validate({"boot": "b", "seconds": float(seconds)})
        look = Look(Observation.model_validate(seen), Folder(True, None, ()), moment)
        record_look(database, runs.find(database, seen["run_id"]), look)
        known.append(runs.find(database, seen["run_id"]))
    return known


@pytest.mark.parametrize(
    ("word", "state"),
    [("unknown", "failed"), ("ending", "failed"), ("gone", "failed"), ("pending", "queued"), ("held", "queued")],
)
def test_of_an_older_copy_of_a_disk_only_slurms_queue_revises_an_end_that_slurm_told(
    database: Database, word: str, state: str
) -> None:
    older = of_slurm(word, seq=3)
    older["evidence"]["scheduler"]["seen_at"] = 4e9  # after whatever its supervisor wrote
    _, told, *later = see_in_turn(database, of_slurm("running"), ended_by_slurm(), older, older, older)
    assert (told.state, told.reason, told.is_only_told) == ("failed", "node_failure", True)
    assert [run.state for run in later] == [state] * 3


def test_an_end_stays_with_its_time_and_its_reason_however_often_an_older_copy_of_its_disk_is_seen(
    database: Database,
) -> None:
    ended = entry(state={"state": "failed", "reason": "oom", "message": "no memory", "seq": 6, "ended_at": 9.5})
    ended["evidence"]["state"]["exit_code"] = 3
    older = entry()
    older["evidence"] |= {"supervisor": "dead", "rebooted": True, "processes": 0}
    known, *later = see_in_turn(database, ended, older, older, older)
    assert (known.state, known.reason) == ("failed", "oom")
    for run in later:
        assert (run.state, run.reason, run.ended_at, run.exit_code) == ("failed", "oom", 9.5, 3)
        assert (run.attempt, run.seq) == (known.attempt, known.seq)
        assert run.message == (
            "no memory; its host shows an older state of it than before; its disk may have been restored from a snapshot"
        )
