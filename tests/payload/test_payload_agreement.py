"""How long ranks wait for each other where one of them works alone."""

from __future__ import annotations

import pytest

from tests.payload.interpreter import Interpreter

pytestmark = pytest.mark.payload

TOLD = """
import json, torch.distributed
from armada_train.training.agreement import Agreement

def new_group(backend, timeout=None):
    return backend, timeout and timeout.total_seconds()

def all_gather_object(found, value, group):
    used.append(group)
    found[:] = [value] * len(found)

def all_reduce(numbers, operation, group):
    used.append(group)

used = []
for fake in (new_group, all_gather_object, all_reduce):
    setattr(torch.distributed, fake.__name__, fake)
torch.distributed.get_world_size = lambda: 2
both = Agreement(2)
print(json.dumps({"gathered": both.gather("it"), "highest": both.highest(3), "used": used, "alone": Agreement(1).gather(1)}))
"""


def test_ranks_wait_a_day_for_what_one_does_alone_and_no_longer_than_torch_does_at_each_step(
    payload_python: Interpreter,
) -> None:
    """With torch's half an hour, two sets of 16 minutes each ended a run whose function kept to its limit."""
    assert payload_python.told(TOLD) == {
        "gathered": ["it", "it"],
        "highest": [3],
        "used": [["gloo", 24 * 3600.0], ["gloo", None]],
        "alone": [1],
    }
