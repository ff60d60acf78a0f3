"""How a script on several processes ends when it is told to: with its own exit code, if it left by itself."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from armada_train.training.rank_ends import LeftCodes

from tests.payload.interpreter import wait_for_end
from tests.payload.payload_run import make_training

pytestmark = pytest.mark.payload

# Each rank has a word: the code that it leaves with after SIGTERM, once it has saved; or the signal that it dies of.
SCRIPT = """
import os, pathlib, signal, sys
rank = int(os.environ["RANK"])
word = sys.argv[1 + rank]

def leave(*_):
    if word.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[word])
    pathlib.Path(f"saved-{rank}").touch()
    os._exit(int(word))

signal.signal(signal.SIGTERM, signal.SIG_DFL if word == "SIGTERM" else leave)
pathlib.Path(f"up-{rank}").touch()
while True:
    signal.pause()
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("0", "0"), 85),  # saved, or done: it cannot be told apart, and who is done ends at once when it is resumed
        (("85", "85"), 85),
        (("85", "0"), 85),
        (("85", "3"), 128 + signal.SIGTERM),
        (("85", "SIGTERM"), 128 + signal.SIGTERM),
        (("0", "SIGKILL"), 128 + signal.SIGTERM),
    ],
)
def test_ranks_that_left_by_themselves_after_a_signal_decide_the_exit_code(
    make_run: Any, tmp_path: Path, words: tuple[str, str], code: int
) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    run = make_run(make_training(tmp_path / "no-rows.jsonl", batch=batch))
    (run.path / "work" / "s.py").write_text(SCRIPT)
    given = ["--config_file", str(run.accelerate_file), "--spec", str(run.spec_file), "--script", "s.py", "--", *words]
    process = run.start_python("-m", "armada_train.launch", *given)
    work = run.path / "work"
    run.wait_for(process, lambda: len(list(work.glob("up-*"))) == 2, "both ranks were up")
    process.terminate()
    ended = wait_for_end(process)
    assert ended.code == code, ended.output
    assert len(list(work.glob("saved-*"))) == sum(word.isdecimal() for word in words)


class Ranks:
    """Of torchrun: its ranks as it knows them."""

    def __init__(self, *codes: int | None) -> None:
        self.subprocess_handlers = {
            rank: SimpleNamespace(proc=SimpleNamespace(poll=lambda code=code: code)) for rank, code in enumerate(codes)
        }


def torchrun(monkeypatch: pytest.MonkeyPatch, **held: Any) -> LeftCodes:
    """Listen to a torchrun of which only the class exists that ends ranks."""
    name = "torch.distributed.elastic.multiprocessing"
    module = SimpleNamespace(**held)
    for part in ("torch", "torch.distributed", "torch.distributed.elastic"):
        monkeypatch.setitem(sys.modules, part, SimpleNamespace())
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(api=module))
    left = LeftCodes()
    left.listen()
    return left


@pytest.mark.parametrize(
    ("codes", "common"), [((0, 0), 0), ((0, 85), 85), ((0, None), None), ((85, -9), None), ((), None)]
)
def test_codes_are_read_also_when_a_second_signal_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, codes: tuple[int | None, ...], common: int | None
) -> None:
    class Context(Ranks):
        def _close(self, death_sig: int, timeout: int = 30) -> None:
            raise KeyboardInterrupt

    left = torchrun(monkeypatch, SubprocessContext=Context)
    assert left.common() is None
    with pytest.raises(KeyboardInterrupt):
        Context(*codes)._close(15, timeout=1)  # noqa: SLF001 - as torchrun does
    assert left.common() == common


def test_another_torchrun_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torchrun(monkeypatch).common() is None
