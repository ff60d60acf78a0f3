"""Why a run needs the user: what is wrong, what it is about, and the command that helps apart from both."""

from __future__ import annotations

from typing import Any

import pytest

from armada.filters.trouble import Copies, Trouble, of_several, trouble
from tests.unit.filters.test_expression import run_of

BUDGET = "its budget of 60 USD is spent; `armada resume qwen-lora-aaaaaa` grants the same again"
FINE = Copies()


def run(**changes: Any) -> Any:
    return run_of(**{"reason": None, "message": None, "archived_at": None} | changes)


@pytest.mark.parametrize(
    ("changes", "here", "kind", "words", "remedy"),
    [
        ({"state": "failed", "reason": "budget", "message": BUDGET}, FINE, "failed", "budget: its budget of 60 USD is spent",
         "`armada resume qwen-lora-aaaaaa` grants the same again"),
        ({"state": "failed"}, FINE, "failed", "no reason recorded", ""),
        ({"state": "failed", "reason": "exit_3"}, FINE, "failed", "its process ended with exit code 3", ""),
        ({"state": "failed", "reason": "exit_1", "message": "no data"}, FINE, "failed",
         "its process ended with exit code 1: no data", ""),
        ({"state": "unknown"}, FINE, "unclear", "its state is unknown", ""),
        ({"state": "running", "reason": "hung"}, FINE, "unclear", "hung", ""),
        ({"state": "running", "unreachable_since": 1.0}, Copies("no room", 2), "unreachable", None, ""),
        ({"state": "running", "loss_not_finite": "NaN"}, FINE, "no_number", "its loss is NaN", ""),
        ({"state": "running"}, Copies("no room; `armada sync retention` frees some", 2), "sync", "sync fails: no room",
         "`armada sync retention` frees some"),
        ({"state": "cancelled"}, Copies(None, 2), "damaged", "2 checkpoints damaged at home",
         "`armada sync verify qwen-lora-aaaaaa --read-data` fetches again what the host still has"),
    ],
)  # fmt: skip
def test_its_kind_its_words_and_its_remedy(
    changes: dict[str, Any], here: Copies, kind: str, words: str | None, remedy: str
) -> None:
    found = trouble(run(**changes), here, urgent=True)
    assert found is not None
    assert (found.kind, found.remedy) == (kind, remedy)
    assert words is None or found.words == words
    assert found.said == (f"{found.words}; {remedy}" if remedy else found.words)


def test_a_run_that_runs_or_whose_end_is_long_ago_needs_nobody() -> None:
    assert trouble(run(state="running"), Copies(None, 2), urgent=True) is None  # its last sync fetches them again
    assert trouble(run(state="failed"), FINE, urgent=False) is None


def test_several_are_counted_and_one_is_said() -> None:
    one, other = Trouble("failed", "oom"), Trouble("sync", "sync fails: no room", "`armada sync retention`")
    assert of_several([], "cells") is None
    assert of_several([other], "cells") == other
    assert of_several([other, other], "cells") == (
        "several", "2 cells need you; one: sync fails: no room; `armada sync retention`", "",
    )  # fmt: skip
    assert of_several([other, one], "runs") == ("several", "2 runs need you; one: oom", "")
