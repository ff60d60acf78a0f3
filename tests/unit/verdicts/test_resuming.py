"""From which checkpoint an attempt resumes, row by row of the tables."""

from __future__ import annotations

import itertools

import pytest
from armada_agent.verdicts.resuming import LEFT, OUTBOX, WORK, Candidate, Kept, choose, find_lost


def there(name: str, step: int, taken: int | None, place: str = OUTBOX, why_not: str | None = None) -> Candidate:
    return Candidate(name, place, step, taken, why_not)


CHANGED = "it changed since it was taken"
OWN = there("own", 1, 0, WORK)
COPY = there("copy", 1, 0)


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([], None),
        ([OWN, COPY], "own"),
        ([there("own", 1, 0, WORK, CHANGED), COPY], "copy"),
        ([there("own", 1, 0, WORK, CHANGED)], None),
        ([there("aside", 9, None, LEFT, "it may be incomplete")], None),
        ([there("aside", 9, None, LEFT, "it may be incomplete"), COPY], "copy"),
    ],
    ids=["none", "both", "changed", "changed only", "aside only", "aside"],
)
def test_of_one_checkpoint_the_jobs_own_files_count_while_they_are_what_was_taken(
    candidates: list[Candidate], chosen: str | None
) -> None:
    found = choose(candidates).chosen
    assert (found.path if found is not None else None) == chosen


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        ([there("a", 5, 0), there("b", 3, 1)], "b"),  # taken last: the script was resumed from an earlier one
        ([there("a", 5, 0), there("b", 3, 1), there("u", 4, None)], "u"),
        ([there("a", 5, 0), there("b", 3, 1), there("u", 3, None)], "b"),
        ([there("u", 4, None), there("v", 6, None)], "v"),
        ([there("u", 4, None), there("v", 4, None)], "v"),  # whoever looks says the same
        ([there("b", 3, 1, why_not=CHANGED), there("a", 5, 0)], "a"),
    ],
)
def test_the_last_that_was_noted_counts_unless_nobody_noted_one_of_a_higher_step(
    candidates: list[Candidate], chosen: str
) -> None:
    for order in itertools.permutations(candidates):
        found = choose(order).chosen
        assert found is not None
        assert found.path == chosen


def test_each_other_one_has_a_reason() -> None:
    aside = there("aside", 9, None, LEFT, "it may be incomplete")
    found = choose([OWN, COPY, there("a", 0, None), aside])
    assert found.chosen is OWN
    assert found.reasons == [
        "copy, step 1: its work folder has it, too",
        "a, step 0: step 1 counts",
        "aside, step 9: it may be incomplete",
    ]


@pytest.mark.parametrize(
    ("kept", "own", "lost"),
    [
        ([], [], None),
        ([Kept("a", 5, 1)], [], "a"),
        ([Kept("a", 5, 1)], [4], "a"),
        ([Kept("a", 5, 1)], [5], None),
        ([Kept("a", 5, 1)], [4, 6], None),
        ([Kept("a", 0, 1)], [], "a"),
        ([Kept("a", 9, 1), Kept("b", 7, 2)], [6], "b"),  # the second attempt went on from an earlier one
        ([Kept("a", 9, 1), Kept("b", 7, 2)], [7], None),
    ],
)
def test_what_a_training_lost_is_the_newest_that_the_outbox_has(
    kept: list[Kept], own: list[int], lost: str | None
) -> None:
    found = find_lost(kept, own)
    assert (found.digest if found is not None else None) == lost
