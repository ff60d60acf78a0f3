"""The end of a training on several ranks: one that has done its work must end, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.payload.interpreter import Interpreter, wait_for_end

pytestmark = pytest.mark.payload

# As accelerate does it, again and again: without `leave_groups` two ranks were seen to wait for ever at the fifth time.
RANK = """
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from armada_train.training.agreement import leave_groups

rank, folder = int(sys.argv[1]), sys.argv[2]
for number in range(30):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/{number}", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    torch.distributed.barrier()
    leave_groups()
    assert not torch.distributed.is_initialized()
    del model
leave_groups()
print("has left")
"""


@pytest.mark.takes_long("two processes import torch, and meet thirty times")
def test_ranks_that_have_met_for_the_last_time_end(payload_python: Interpreter, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [payload_python.start(str(script), str(rank), str(tmp_path), fresh=True) for rank in range(2)]
    for rank in ranks:
        ended = wait_for_end(rank)
        assert (ended.code, ended.output.endswith("has left\n")) == (0, True), ended.output
