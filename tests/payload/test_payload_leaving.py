"""The end of a training on several ranks: one that has done its work must end, too."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.payload.interpreter import Interpreter, wait_for_end

pytestmark = pytest.mark.payload

# As accelerate does it, again and again: when `end_training` came first, two ranks were seen to wait for ever at the fifth time.
RANK = """
import sys
from types import SimpleNamespace

import torch
from torch.nn.parallel import DistributedDataParallel

from armada_train.leaving import end_process
from armada_train.training.agreement import leave

def end_training():
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()

accelerator = SimpleNamespace(wait_for_everyone=lambda: torch.distributed.barrier(), end_training=end_training)
rank, folder = int(sys.argv[1]), sys.argv[2]
for number in range(30):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/{number}", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    leave(accelerator)
    assert not torch.distributed.is_initialized()
    del model
print("has left")
end_process(0)
"""

# What a destructor of C++ does that finds its thread running: the C library calls it when the interpreter has ended.
ABORTS = "import ctypes; ctypes.CDLL(None).__cxa_atexit(ctypes.CDLL(None).abort, None, None)"


@pytest.mark.takes_long("two processes import torch, and meet thirty times")
def test_ranks_that_have_met_for_the_last_time_end(payload_python: Interpreter, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [payload_python.start(str(script), str(rank), str(tmp_path), fresh=True) for rank in range(2)]
    for rank in ranks:
        ended = wait_for_end(rank)
        assert (ended.code, ended.output.endswith("has left\n")) == (0, True), ended.output


def test_what_a_library_does_when_it_is_unloaded_does_not_change_how_a_training_ended(
    payload_python: Interpreter,
) -> None:
    work = """
import atexit, sys, threading
from armada_train.leaving import end_process
atexit.register(print, "told at exit")
threading.Timer(0.1, print, ["a thread has ended"]).start()
atexit.register(sys.stderr.close)
"""
    assert payload_python.finish("-c", f"{ABORTS}{work}", fresh=True).code == -signal.SIGABRT
    ended = payload_python.finish("-c", f"{ABORTS}{work}end_process(85)", fresh=True)
    assert (ended.code, ended.output) == (85, "a thread has ended\ntold at exit\n")


def test_the_payload_ends_so(payload_python: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("{}")
    payload = "import runpy, sys; sys.argv[1:] = ['prepare', 'spec.json']; runpy.run_module('armada_train', run_name='__main__')"
    ended = payload_python.finish("-c", f"{ABORTS}; {payload}", fresh=True, cwd=tmp_path)
    assert ended.code == 2, ended.output
    assert "armada_train: bad_spec: " in ended.output
