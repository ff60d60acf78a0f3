"""What a job writes into a file that it began anew."""

from __future__ import annotations

import json

import pytest

from armada.store import metrics
from armada.store.database import Database
from tests.unit.monitor.observations import LINE, entry, see


def lines_of(*points: tuple[int, float]) -> str:
    return "".join(json.dumps({**LINE, "step": step, "loss": loss}) + "\n" for step, loss in points)


@pytest.mark.parametrize("now", [[(2, 5.0)], [], [(1, 5.0), (2, 5.0), (3, 5.0)]], ids=["shorter", "empty", "as long"])
def test_a_file_that_its_job_began_anew_is_read_from_its_beginning(
    database: Database, now: list[tuple[int, float]]
) -> None:
    before, text = lines_of((1, 9.0), (2, 8.0), (3, 7.0)), lines_of(*now)
    assert see(database, entry(metrics={"text": before, "next_offset": len(before)})).metrics_offset == len(before)
    seen = see(database, entry(metrics={"text": text, "next_offset": len(text), "offset": 0}))
    assert seen.metrics_offset == len(text)
    assert dict(metrics.curve(database, "q-aaaaaa", "loss")) == {1: 9.0, 2: 8.0, 3: 7.0, **dict(now)}
    more = lines_of((4, 4.0))
    see(database, entry(metrics={"text": more, "next_offset": len(text) + len(more)}))
    assert metrics.curve(database, "q-aaaaaa", "loss")[-1] == (4, 4.0)
