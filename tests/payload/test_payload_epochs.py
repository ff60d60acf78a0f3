"""The end of an epoch on several ranks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from armada_train.data.epochs import doubt_about_epochs
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Batch

from tests.payload.payload_run import make_training


def doubt(rows: int, *, micro: int, processes: int, **schedule: Any) -> str | None:
    settings = parse_training(Section(make_training(Path("/data/train.jsonl")), "training")).schedule
    whole = {"epochs": 2.0, "max_steps": None, **schedule}
    return doubt_about_epochs(rows, Batch(8, micro, 1, processes), dataclasses.replace(settings, **whole))


def test_rows_that_several_ranks_take_twice_are_said() -> None:
    said = doubt(13, micro=4, processes=2)
    assert said is not None
    assert said.startswith(
        "13 rows are not a multiple of the 8 that 2 ranks take at once: in the last step of each epoch 3 rows come"
    )
    assert "7 rows come a second time" in (doubt(9, micro=4, processes=2) or "")


@pytest.mark.parametrize(
    ("rows", "more"),
    [
        (13, {"micro": 8, "processes": 1}),
        (16, {"micro": 4, "processes": 2}),
        (13, {"micro": 4, "processes": 2, "epochs": None, "max_steps": 1}),  # its end is not reached
        (13, {"micro": 4, "processes": 2, "epochs": 0.5}),
    ],
)
def test_where_no_row_is_taken_twice_nothing_is_said(rows: int, more: dict[str, Any]) -> None:
    assert doubt(rows, **more) is None
