"""Where a training resumes, row by row of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from armada_train.checkpoints.choice import Choice, Found, choose

WHOLE = Found(Path("checkpoint-30"), None)
LACKS = Found(Path("checkpoint-40"), None, ["optimizer.pt", "rng_state.pth"])
LACKS_TOO = Found(Path("checkpoint-20"), None, ["scheduler.pt"])
BROKEN = Found(Path("checkpoint-50"), "it is marked as incomplete")
SKIPPED = {
    LACKS.checkpoint: "checkpoint-40 is skipped: optimizer.pt is missing or damaged",
    LACKS_TOO.checkpoint: "checkpoint-20 is skipped: scheduler.pt is missing or damaged",
    BROKEN.checkpoint: "checkpoint-50 is skipped: it is marked as incomplete",
}


@pytest.mark.parametrize(
    ("found", "chosen", "missing"),
    [
        ([], None, []),
        ([WHOLE], WHOLE, []),
        ([BROKEN, LACKS, WHOLE], WHOLE, []),
        ([BROKEN, LACKS, LACKS_TOO], LACKS, ["optimizer.pt", "rng_state.pth"]),
        ([BROKEN], None, []),
    ],
)
def test_the_newest_whole_one_counts_and_then_the_newest_with_weights(
    found: list[Found], chosen: Found | None, missing: list[str]
) -> None:
    skipped = [SKIPPED[each.checkpoint] for each in found if each is not WHOLE]
    choice = choose(found)
    assert choice == Choice(chosen.checkpoint if chosen is not None else None, choice.missing, skipped)
    assert list(choice.missing) == missing


def test_nothing_behind_the_chosen_one_is_read() -> None:
    def found() -> Iterator[Found]:
        yield WHOLE
        raise AssertionError

    assert choose(found()).checkpoint == WHOLE.checkpoint
