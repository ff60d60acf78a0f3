"""What a bench says a second one would differ by, and into how many turns it divides a cell."""

from __future__ import annotations

import math
import random

import pytest
from armada_train.bench.spread import spreads
from armada_train.bench.turns import Turn, Turns
from armada_train.specification.values import Measurement
from armada_train.training.step_times import describe_steps, t_95


def test_the_spread_is_that_of_blocks_of_steps() -> None:
    even = describe_steps([0.1] * 40)
    assert even["step_time_s"] == pytest.approx(0.1)
    assert even["spread"] == pytest.approx(0)
    # One half is slower: as independent steps they would promise 7 %, which a second bench would not keep.
    drifting = describe_steps([0.1] * 20 + [0.2] * 20)
    assert 0.2 < drifting["spread"] < 0.8
