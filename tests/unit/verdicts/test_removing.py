"""Whether a run's folder is still what home judged, row by row of the table."""

from __future__ import annotations

import pytest
from armada_agent.verdicts.removing import FolderSeen, why_not_since

JUDGED = FolderSeen(submission=2, attempt=3, checkpoints=frozenset("ab"), announced=1)


@pytest.mark.parametrize(
    ("judged", "now", "says"),
    [
        (JUDGED, JUDGED, None),
        (JUDGED, JUDGED._replace(checkpoints=frozenset("a"), announced=0), None),
        (JUDGED, JUDGED._replace(attempt=2), None),
        (JUDGED, JUDGED._replace(submission=3), "was submitted again"),
        (JUDGED, JUDGED._replace(submission=1), "was submitted again"),
        (JUDGED, JUDGED._replace(attempt=4), "began again"),
        (JUDGED, JUDGED._replace(checkpoints=frozenset("abc")), "got a checkpoint"),
        (JUDGED, JUDGED._replace(announced=2), "got a checkpoint"),
        (JUDGED._replace(submission=None, attempt=None), JUDGED._replace(submission=3, attempt=4), None),
        (JUDGED._replace(checkpoints=None), JUDGED._replace(checkpoints=frozenset("abc")), None),
        (JUDGED._replace(checkpoints=None), JUDGED._replace(announced=2), "got a checkpoint"),
        (JUDGED._replace(announced=None), JUDGED._replace(announced=2), None),
        (JUDGED._replace(announced=0), JUDGED._replace(announced=None), None),
    ],
)
def test_a_folder_goes_only_as_it_was_judged(judged: FolderSeen, now: FolderSeen, says: str | None) -> None:
    refusal = why_not_since("run-1", judged, now)
    assert (None if refusal is None else refusal.what) == (
        None if says is None else f"run-1 {says} since it was looked at; nothing was deleted"
    )
