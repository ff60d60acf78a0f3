"""TensorBoard's event files: recorded from PyTorch's writer under the Trainer (transformers 5.23), and from TensorBoard's own."""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from armada_agent.metrics import event_files, wire

from tests import hostile
from tests.agent.conversation import Host
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice

NAME = "events.out.tfevents.1.vm.2.0"


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def recorded(kind: str) -> bytes:
    return (RECORDINGS / f"tensorboard-{kind}.tfevents").read_bytes()


def place(run: WatchedRun, folder: str = "runs") -> Path:
    found = run.work / folder / NAME
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def record(data: bytes) -> bytes:
    """Frame an event as TFRecord does."""
    length = struct.pack("<Q", len(data))
    checks = (struct.pack("<I", event_files.masked_crc(part)) for part in (length, data))
    return length + next(checks) + data + next(checks)


def scalar(step: int, tag: str, value: float, moment: float = 5.0) -> bytes:
    name = tag.encode()
    inner = b"\x0a" + bytes([len(name)]) + name + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    return record(
        b"\x09" + struct.pack("<d", moment) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    )


def test_what_the_trainer_reports_is_drawn_under_armadas_names(run: WatchedRun) -> None:
    place(run).write_bytes(recorded("torch"))
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [2, 4, 6, 8, 10, 12]
    assert [step for step, _ in run.curve("eval_loss")] == [10, 12]
    assert {"grad_norm", "learning_rate", "epoch", "train_loss"} <= {name for line in run.lines() for name in line}
    assert run.curve("epoch")[0] == (2, 0.1)
    assert run.lines()[0]["time"] > 1.7e9
    assert run.watch.step == 12
    assert run.findings() == []


def test_scalars_that_are_tensors_are_read_and_a_nan_is_one(run: WatchedRun) -> None:
    place(run).write_bytes(recorded("tensors"))
    run.look(final=True)
    assert run.curve("loss") == [(5, 1.0), (10, 0.5), (15, pytest.approx(1 / 3))]
    assert math.isnan(run.curve("eval_loss")[0][1])


def test_a_file_that_comes_in_pieces_of_any_size_tells_the_same_once(tmp_path: Path) -> None:
    whole, chance = recorded("torch"), dice(76)
    for number in range(10):
        run = WatchedRun(tmp_path / str(number))
        file = place(run)
        rest = whole
        while rest:
            size = chance.choice([1, 13, 200, 3000])
            with file.open("ab") as stream:
                stream.write(rest[:size])
            rest = rest[size:]
            if chance.random() < 0.1:
                run.look(final=chance.random() < 0.3)
            if chance.random() < 0.05:
                run.watch.finish()
                run.begin()
        run.look(final=True)
        assert [step for step, _ in run.curve("loss")] == [2, 4, 6, 8, 10, 12]
        assert run.findings() == []


def test_the_same_tag_of_another_folder_is_another_curve(run: WatchedRun) -> None:
    place(run, "runs/fold-1").write_bytes(scalar(1, "train/loss", 0.5))
    run.look(final=True)
    place(run, "runs/fold-2").write_bytes(scalar(1, "train/loss", 0.25))
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5)]
    assert run.curve("fold-2/train/loss") == [(1, 0.25)]


def test_what_the_log_tells_is_not_told_again(run: WatchedRun) -> None:
    run.print("{'loss': 0.5, 'step': 1}\n")
    place(run).write_bytes(scalar(1, "train/loss", 0.25) + scalar(1, "train/other", 2.0))
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5)]
    assert run.curve("other") == [(1, 2.0)]


def test_what_came_with_the_code_is_not_read_and_the_next_attempt_reads_on(tmp_path: Path) -> None:
    old = tmp_path / "runs" / "script-1" / "work" / "old" / NAME
    old.parent.mkdir(parents=True)
    old.write_bytes(scalar(1, "loss", 9.0))
    run = WatchedRun(tmp_path)
    file = place(run)
    file.write_bytes(scalar(1, "loss", 0.5))
    run.look(final=True)
    run.begin()
    with file.open("ab") as stream:
        stream.write(scalar(2, "loss", 0.25))
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5), (2, 0.25)]


def test_large_records_are_passed_over_and_damaged_ones_are_none(run: WatchedRun) -> None:
    damaged = bytearray(scalar(2, "loss", 0.4))
    damaged[20] ^= 1
    large = record(b"\x22" + b"\x80\x80\x80\x01" + b"x" * (1 << 21))
    parts = [scalar(1, "loss", 0.5), large, bytes(damaged), record(b"\xff" * 50), record(b""), scalar(3, "loss", 0.3)]
    place(run).write_bytes(b"".join(parts))
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5), (3, 0.3)]


@pytest.mark.parametrize("content", [b"x" * 5000, b"\0" * 5000, b"", b"\xff" * 12, scalar(1, "own", 1.0)[:20]])
def test_a_file_that_is_none_is_said_and_the_others_are_read(run: WatchedRun, content: bytes) -> None:
    place(run, "a").write_bytes(content)
    place(run, "b").write_bytes(scalar(1, "loss", 0.5))
    run.look()
    run.look(final=True)
    run.look(final=True)
    assert run.curve("loss") == [(1, 0.5)]
    said = content[:1] in (b"x", b"\xff")
    assert [("not an event file" in each) for each in run.findings()] == [True] * said


def test_bytes_thrown_from_dice_harm_nobody(run: WatchedRun) -> None:
    chance = dice(77)
    whole = recorded("torch")
    for number in range(hostile.CASES):
        run.begin()
        bent = bytearray(whole)
        for _ in range(chance.randrange(1, 30)):
            bent[chance.randrange(len(bent))] = chance.randrange(256)
        place(run, str(number % 30)).write_bytes(bytes(bent))
        list(event_files.scalars(bytes(bent)[12 : 12 + chance.randrange(300)]))
        run.look(final=True)
    assert not any("no longer read" in said for said in run.findings())


@pytest.mark.parametrize("data", [b"\x80" * 11, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x09\x00", b"\x80"])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"a (field|number)"):
        list(wire.fields(data))


def test_nothing_outside_of_the_work_folder_is_read(tmp_path: Path) -> None:
    run = WatchedRun(tmp_path / "host")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / NAME).write_bytes(scalar(1, "loss", 0.5))
    (run.work / "folder").symlink_to(outside)
    (run.work / NAME).symlink_to(outside / NAME)
    (run.work / "pipe").mkdir()
    os.mkfifo(run.work / "pipe" / NAME)
    run.look(final=True)
    assert run.lines() == []


def test_a_script_on_a_host_has_the_curves_of_its_event_file(some_host: Host, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(recorded("torch"))
    watch: dict[str, Any] = {"checkpoints": None, "resume": []}
    some_host.launch("script-1", "sh", "-c", f"mkdir runs; cp {source} runs/{NAME}", watch=watch)
    some_host.await_end("script-1")
    look = some_host.look("script-1")
    assert look["evidence"]["heartbeat"]["step"] == 12
    assert '"source": "tensorboard"' in look["metrics"]["text"]
