"""What a host's readers do grows with the bytes that a job wrote, and not with their square."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_agent.engines import htcondor_log
from armada_agent.engines.engine import Handed
from armada_agent.foundation import files
from armada_agent.metrics import event_files
from armada_agent.paths import RunPaths
from armada_agent.verdicts import output
from armada_agent.verdicts.cause import Facts, Said, find_cause

from tests.agent.watched_run import WatchedRun
from tests.work import assert_linear

LEAST = 40_000
EVENT = "001 (003.000.000) 2026-01-01 00:00:01 Job executing\n...\n"
HEAD = "Traceback (most recent call last):\n"


def repeated(part: bytes, size: int) -> bytes:
    return (part * (size // len(part) + 1))[:size]


def piece(kind: int, data: bytes = b"") -> bytes:
    """A piece of a record in a file of W&B."""
    check = zlib.crc32(data, zlib.crc32(bytes([kind]))) & 0xFFFFFFFF
    return struct.pack("<IHB", check, len(data), kind) + data


def wandb_pieces(data: bytes, size: int) -> bytes:
    """A file of W&B with one record that begins and does not end, in pieces of the same data."""
    parts = [b":W&B\0\0\0", piece(2, b"a")]
    length = sum(map(len, parts))
    while length < size:
        left = 32768 - length % 32768
        parts.append(b"\0" * left if left < 7 + len(data) else piece(3, data))
        length += len(parts[-1])
    return b"".join(parts)


def events(data: bytes, size: int) -> bytes:
    """An event file of records with the same content."""
    length = struct.pack("<Q", len(data))
    checks = [struct.pack("<I", event_files.masked_crc(part)) for part in (length, data)]
    return repeated(length + checks[0] + data + checks[1], size)


WRITTEN: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "a log of dictionaries": ("output.log", lambda size: repeated(b"{'loss': 1.0, 'epoch': 1.0}\n", size // 2)),
    "a log of a bar": ("output.log", lambda size: repeated(b"\r 50%|###   | 5/10 [00:01<00:01]", size)),
    "a log of one line": ("output.log", lambda size: b"{'loss': " * (size // 9)),
    "a log of empty lines": ("output.log", lambda size: b"\n" * size),
    "a log of quotes": ("output.log", lambda size: repeated(b"{'" + b"'" * 8000 + b"}\n", size)),
    "reports": ("reported.jsonl", lambda size: repeated(b'{"step": 1, "values": {"loss": 1.0}}\n', size)),
    "reports nested": ("reported.jsonl", lambda size: repeated(b"[" * 30_000 + b"\n", size)),
    "reports of half a line": ("reported.jsonl", lambda size: repeated(b'{"step": 1', size)),
    "reports of numbers": ("reported.jsonl", lambda size: repeated(b'{"step": ' + b"9" * 60_000 + b"}\n", size)),
    "reports of names": ("reported.jsonl", lambda size: b"".join(
        b'{"step": %d, "values": {"n%d": %d}}\n' % (n, n, n) for n in range(size // 38))),
    "a table": ("work/a.csv", lambda size: b"step,loss\n" + b"".join(b"%d,0.5\n" % n for n in range(size // 36))),
    "a table of quotes": ("work/a.csv", lambda size: b'step,loss\n' + repeated(b'"' * 9000 + b"\n", size)),
    "a table of columns": ("work/a.csv", lambda size: repeated(b"," * 9000 + b"\n", size)),
    "JSON lines": ("work/a.jsonl", lambda size: repeated(b'{"a": {"b": {"c": 1}}, "a": 2, "step": 1}\n', size)),
    "scalars": ("work/events.out.tfevents.1", lambda size: events(b"\x10\x01", size)),
    "large events": ("work/events.out.tfevents.1", lambda size: events(b"x" * 2_000, size)),
    "no events": ("work/events.out.tfevents.1", lambda size: b"\0" * size),
    "W&B's empty pieces": ("work/wandb/run-1-a/run-a.wandb", lambda size: wandb_pieces(b"", size)),
    "W&B's short pieces": ("work/wandb/run-1-a/run-a.wandb", lambda size: wandb_pieces(b"x", size)),
    "W&B's zeros": ("work/wandb/run-1-a/run-a.wandb", lambda size: b":W&B\0\0\0" + b"\0" * size),
    "a state": ("work/trainer_state.json", lambda size: json.dumps(
        {"log_history": [{"step": n, "loss": 1.0} for n in range(size // 27)]}).encode()),
    "a state of numbers": ("work/trainer_state.json", lambda size: b"[" + repeated(b"7" * 90 + b",", size) + b"7]"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_metrics_of_any_kind_cost_what_their_bytes_cost(tmp_path: Path, name: str) -> None:
    place, content = WRITTEN[name]

    def work(size: int) -> Callable[[], object]:
        folder = tmp_path / str(size)
        run = WatchedRun(folder, metrics=["*.csv", "*.jsonl"])
        file = run.folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content(size))
        return lambda: run.look(final=True)

    assert_linear(work, LEAST)


GROWING = [each for each in WRITTEN if not each.endswith(("numbers", "zeros", "state", "no events"))]
"""Not zeros, which mean space without content yet: each look reads up to 1 MiB of them again. Not what is read as a whole."""


@pytest.mark.parametrize("name", GROWING)
def test_metrics_that_grow_are_not_read_again(tmp_path: Path, name: str) -> None:
    """A look after each piece of 40 KB: twice as many pieces cost twice as much."""
    place, content = WRITTEN[name]

    def work(size: int) -> Callable[[], object]:
        whole = content(size)
        run = WatchedRun(tmp_path / str(size), metrics=["*.csv", "*.jsonl"])
        file = run.folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

        def grow() -> None:
            with file.open("ab", buffering=0) as stream:
                for at in range(0, len(whole), LEAST):
                    stream.write(whole[at : at + LEAST])
                    run.look(final=True)

        return grow

    assert_linear(work, 2 * LEAST)


TEXTS: dict[str, Callable[[int], str]] = {
    "heads": lambda size: HEAD * (size // len(HEAD)),
    "indented heads": lambda size: (" " + HEAD) * (size // len(HEAD)),
    "ranks": lambda size: "".join(f"[rank{n}]: {HEAD}[rank{n}]: ValueError: no\n" for n in range(size // 70)),
    "empty lines": lambda size: "x Root Cause (first observed failure):" + "\n" * size,
    "one line": lambda size: "x" * size,
    "signals": lambda size: "Sending process 77 closing signal\n" * (size // 34),
    "long numbers": lambda size: (
        ("Sending process " + "7" * 5000 + " closing signal\n(pid: " + "8" * 5000 + ")\n") * (size // 10_000)
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_cause_of_a_failure_is_found_in_time_that_grows_with_what_was_printed(name: str) -> None:
    def work(size: int) -> Callable[[], object]:
        text = TEXTS[name](size)
        said = Said(0, "exception", "ValueError: no", text.split("\n"))
        return lambda: [find_cause(Facts(1, first, [], text, [], False)) for first in (None, said)]

    assert_linear(work, 50_000)


def test_a_pattern_that_searches_all_of_the_output_does_not_run_over_ends_of_lines() -> None:
    """It would run over all empty lines once more at each of them: minutes for 256 KB."""
    assert "\\s" not in output._BLOCK.pattern  # noqa: SLF001


LINES: dict[str, Callable[[int], bytes]] = {
    "short lines": lambda size: b"{}\n" * (size // 3),
    "empty lines": lambda size: b"\n" * size,
    "long lines": lambda size: repeated(b"x" * 60_000 + b"\n", size),
    "longer lines": lambda size: repeated(b"x" * 79_999 + b"\n", size),
    "one line": lambda size: b"x" * size,
}


@pytest.mark.parametrize("name", LINES)
def test_lines_for_home_are_read_once(tmp_path: Path, name: str) -> None:
    def work(size: int) -> Callable[[], object]:
        path = tmp_path / str(size)
        path.write_bytes(LINES[name](size))

        def read() -> None:
            offset, before = 0, -1
            while offset != before:
                before = offset
                _, _, offset = files.read_lines(str(path), offset)

        return read

    assert_linear(work, 8 * LEAST)


@pytest.mark.parametrize("event", [EVENT, "...\n", "\n...\n", "012 (003.000.000) x\n" + "\tCode 1\n" * 99])
def test_an_event_log_is_read_once(tmp_path: Path, event: str) -> None:
    def work(size: int) -> Callable[[], object]:
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        handed = Handed(RunPaths(str(tmp_path), "a-1"), 1, {"job_id": "3.0"})
        log = Path(handed.file("job.log"))
        log.parent.mkdir(parents=True)
        log.write_text(event * (size // len(event)) + "...\n")
        return lambda: [htcondor_log.Log(handed).read() for _ in range(3)]

    assert_linear(work, LEAST)


def test_an_event_log_larger_than_any_is_not_read_into_memory(tmp_path: Path) -> None:
    handed = Handed(RunPaths(str(tmp_path), "a-1"), 1, {"job_id": "3.0"})
    path = Path(handed.file("job.log"))
    path.parent.mkdir(parents=True)
    path.write_text(EVENT)
    log = htcondor_log.Log(handed)
    assert (log.read()["state"], log.error) == ("running", None)
    os.truncate(path, 1 << 36)
    log = htcondor_log.Log(handed)
    assert log.read()["state"] == "running"
    assert log.error is not None
    assert "grew by more than 16 MB" in log.error


def test_a_state_with_a_number_longer_than_any_is_not_read(tmp_path: Path) -> None:
    """Before Python 3.11, the time that one takes grows with the square of its digits."""
    run = WatchedRun(tmp_path)
    (run.work / "trainer_state.json").write_text(
        '{"log_history": [{"step": 1, "loss": 1.0}], "max_steps": %s}' % ("7" * 200)
    )
    run.look(final=True)
    assert run.lines() == []
