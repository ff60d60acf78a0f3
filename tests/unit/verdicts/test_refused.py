"""Which submission counts once its host says that it was refused, and what a folder alone says."""

from __future__ import annotations

import pytest

from armada.protocol.records import Evidence
from armada.verdicts.state import shows_no_more, was_refused
from armada.verdicts.states import Verdict


@pytest.mark.parametrize(
    ("refused", "state", "reason", "known", "seen", "expected"),
    [
        (2, "submitted", None, (2, 1, 5), (1, 1, 5), True),
        (2, "unknown", "link_lost", (2, 1, 5), (1, 1, 5), True),
        (2, "failed", "exit_3", (2, 1, 5), (1, 1, 5), True),
        (2, "submitted", None, (2, 1, 5), (1, 1, 6), True),
        (3, "submitted", None, (2, 1, 5), (1, 1, 5), True),
        (None, "submitted", None, (2, 1, 5), (1, 1, 5), False),
        (2, "submitted", None, (3, 1, 5), (1, 1, 5), False),
        (2, "submitted", None, (2, 1, 5), (2, 1, 4), False),
        (2, "submitted", None, (1, 1, 5), (1, 1, 4), False),
        (2, "submitted", None, (2, 1, 5), (1, 1, 4), False),
        (2, "submitted", None, (2, 2, 5), (1, 1, 6), False),
        (2, "queued", None, (2, 1, 5), (1, 1, 5), False),
        (2, "running", None, (2, 1, 5), (1, 1, 5), False),
        (2, "unknown", "put_back", (2, 1, 5), (1, 1, 5), False),
    ],
)
def test_a_submission_that_was_refused_was_never_made_unless_more_of_it_was_seen(
    refused: int | None,
    state: str,
    reason: str | None,
    known: tuple[int, int, int],
    seen: tuple[int, int, int],
    *,
    expected: bool,
) -> None:
    evidence = Evidence.model_validate({} if refused is None else {"refused": refused})
    assert was_refused(evidence, state, reason, known=known, seen=seen) is expected


@pytest.mark.parametrize(
    ("evidence", "state", "expected"),
    [
        ({}, "preparing", True),
        ({"processes": 1}, "preparing", False),
        ({}, "submitted", False),
        (None, "preparing", False),
    ],
)
def test_a_folder_without_a_submission_and_a_process_says_no_more(
    evidence: dict[str, int] | None, state: str, *, expected: bool
) -> None:
    told = None if evidence is None else Evidence.model_validate(evidence)
    assert shows_no_more(told, Verdict(state, None, None, 0, 0)) is expected
