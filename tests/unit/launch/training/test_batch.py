from __future__ import annotations

import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armada.errors import PreflightRefused
from armada.launch.training.batch import Batch, dividing_values, resolve_batch

_sizes = st.integers(1, 5000)
_counts = st.integers(1, 64)


@pytest.mark.parametrize(
    ("asked", "batch"),
    [
        ((16, 4, 8, 2), Batch(16, 4, 2, 2)),
        ((16, "auto", 4, 2), Batch(16, 4, 2, 2)),
        ((16, "auto", 4, 8), Batch(16, 2, 1, 8)),
        ((12, "auto", 8, 1), Batch(12, 6, 2, 1)),
        ((17, "auto", 4, 1), Batch(17, 1, 17, 1)),
        ((1, "auto", 8, 1), Batch(1, 1, 1, 1)),
    ],
)
def test_a_batch_is_split_exactly(asked: tuple[int, int, int, int], batch: Batch) -> None:
    assert resolve_batch(*asked) == batch


@given(size=_sizes, micro=_counts | st.just("auto"), profile_micro=_counts, processes=_counts)
def test_it_is_exact_or_refused_with_values_that_divide(
    size: int, micro: int | Literal["auto"], profile_micro: int, processes: int
) -> None:
    try:
        batch = resolve_batch(size, micro, profile_micro, processes)
    except PreflightRefused as refused:
        hint = refused.hint or ""
        offers = {
            key: [int(n) for n in re.findall(r"\d+", text)]
            for key, text in re.findall(r"([\w.]+)(?: \(GPUs\))?: ([^;]+)", hint.partition(": ")[2])
        }
        assert offers["train.global_batch_size"]
        for offer in offers["train.global_batch_size"]:
            assert resolve_batch(offer, micro, profile_micro, processes).global_ == offer
        for offer in offers.get("train.micro_batch_size", []):
            assert resolve_batch(size, offer, profile_micro, processes).micro == offer
        for offer in offers.get("processes", []):
            assert resolve_batch(size, micro, profile_micro, offer).processes == offer
    else:
        assert batch.global_ == size
        assert batch.micro * batch.accumulation * batch.processes == size
        assert batch.processes == processes
        assert batch.micro <= profile_micro if micro == "auto" else batch.micro == micro


@given(size=_sizes, profile_micro=_counts, processes=_counts)
def test_auto_takes_the_largest_micro_batch_that_fits(size: int, profile_micro: int, processes: int) -> None:
    if size % processes:
        with pytest.raises(PreflightRefused):
            resolve_batch(size, "auto", profile_micro, processes)
        return
    batch = resolve_batch(size, "auto", profile_micro, processes)
    assert not any(size % (micro * processes) == 0 for micro in range(batch.micro + 1, profile_micro + 1))


def test_the_refusal_names_near_values() -> None:
    with pytest.raises(PreflightRefused) as refused:
        resolve_batch(30, 4, 8, 2)
    assert "train.global_batch_size 30 is not a multiple of micro_batch_size 4 × processes 2" in refused.value.message
    assert refused.value.hint == (
        "any one of these works: train.global_batch_size: 32 or 24; train.micro_batch_size: 3 or 5"
    )
    assert dividing_values(32, 4, 3).processes == (2, 4)


@pytest.mark.parametrize("asked", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, "auto", 1, 0)])
def test_nothing_below_one_is_taken(asked: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        resolve_batch(*asked)
