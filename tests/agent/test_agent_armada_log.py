"""What a script says by `import armada_log` becomes curves, on any Python; nothing that goes wrong with it reaches the training."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from pathlib import Path
from typing import Any

import armada_log
import pytest
from armada_agent.metrics import library, records

from tests import hostile
from tests.agent.conversation import Host
from tests.agent.watched_run import WatchedRun
from tests.chance import dice
from tests.waiting import eventually

WATCH: dict[str, Any] = {"checkpoints": None, "resume": []}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedRun:
    """A run whose job is this process."""
    made = WatchedRun(tmp_path)
    monkeypatch.setenv("ARMADA_LOG_FILE", made.paths.reported)
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    return made


def said(run: WatchedRun) -> list[dict[str, Any]]:
    text = Path(run.paths.reported).read_text()
    return [json.loads(line) for line in text.splitlines() if line]


def test_numbers_steps_and_progress_arrive(run: WatchedRun) -> None:
    armada_log.progress(0, 40)
    armada_log.log(1, loss=0.5, lr=1e-5, tokens=1000)
    armada_log.log(2, {"eval/loss": 0.25, "train/acc": 1}, loss=0.4)
    run.look()
    assert run.curve("loss") == [(1, 0.5), (2, 0.4)]
    assert run.curve("learning_rate") == [(1, 1e-5)]
    assert run.curve("eval_loss") == [(2, 0.25)]
    assert run.curve("acc") == [(2, 1.0)]
    assert (run.watch.step, run.watch.total) == (2, 40)
    armada_log.progress(30, 40)
    run.look()
    assert run.watch.step == 30


def test_speed_is_that_of_the_tokens_since_the_call_before(run: WatchedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for step, moment in ((1, 100.0), (2, 102.0), (3, 104.0)):
        monkeypatch.setattr("armada_log.time.time", lambda moment=moment: moment)
        armada_log.log(step, loss=1.0, tokens=500)
    run.look()
    assert run.curve("tokens_per_s") == [(2, 250.0), (3, 250.0)]
    assert run.curve("step_time_s") == [(2, 2.0), (3, 2.0)]


def test_what_is_said_counts_before_what_is_printed(run: WatchedRun) -> None:
    run.print("{'loss': 9.0, 'grad_norm': 2.0, 'step': 1}\n")
    armada_log.log(1, loss=0.5)
    run.look()
    run.print("{'loss': 8.0, 'grad_norm': 3.0, 'step': 2}\n")
    run.look()
    assert run.curve("loss") == [(1, 0.5)]
    assert run.curve("grad_norm") == [(1, 2.0), (2, 3.0)]


def test_only_the_first_rank_writes_unless_asked(run: WatchedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    armada_log.log(1, loss=0.5)
    armada_log.progress(1, 2)
    assert not Path(run.paths.reported).exists()
    armada_log.log(1, every_rank=True, loss=0.5)
    run.look()
    assert run.curve("rank1/loss") == [(1, 0.5)]


def test_away_from_armada_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARMADA_LOG_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    armada_log.log(1, loss=0.5)
    armada_log.progress(1)
    assert list(tmp_path.iterdir()) == []


class _Tensor:
    def __float__(self) -> float:
        return 0.25


class _Broken:
    def __float__(self) -> float:
        raise RuntimeError("CUDA error")

    def __str__(self) -> str:
        raise RuntimeError("CUDA error")


def test_whatever_is_logged_nothing_is_raised_and_what_is_a_number_arrives(run: WatchedRun) -> None:
    odd: Any = _Broken()
    armada_log.log(odd, loss=1.0)
    armada_log.log(1, odd)
    armada_log.progress(odd, odd)
    armada_log.log(2, {odd: 1.0})
    armada_log.log(3, loss=_Tensor(), text="no", none=None, broken=odd, nan=math.nan, big=10**400)
    armada_log.log(4, {"x" * 100_000: 1.0})
    armada_log.log(-1, loss=1.0)
    run.look()
    assert run.curve("loss") == [(3, 0.25)]
    assert math.isnan(run.curve("nan")[0][1])


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "missing folder"])
def test_where_nothing_can_be_written_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place = tmp_path / "missing" / "file" if kind == "missing folder" else tmp_path / "file"
    outside = tmp_path / "outside"
    outside.touch()
    {"folder": place.mkdir, "link": lambda: place.symlink_to(outside), "pipe": lambda: os.mkfifo(place)}.get(
        kind, int
    )()
    monkeypatch.setenv("ARMADA_LOG_FILE", str(place))
    armada_log.log(1, loss=1.0)
    assert not outside.read_text()


def test_lines_of_threads_and_forks_do_not_mix(run: WatchedRun) -> None:
    def work(offset: int) -> None:
        for step in range(200):
            armada_log.log(offset + step, loss=1.0, other=2.0)

    children = []
    for number in range(3):
        child = os.fork()
        if not child:
            work(10_000 * (number + 1))
            os._exit(0)
        children.append(child)
    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        os.waitpid(child, 0)
    assert len({record["step"] for record in said(run)}) == 1200


def test_the_next_attempt_reads_only_what_is_new(run: WatchedRun) -> None:
    armada_log.log(1, loss=1.0)
    armada_log.log(2, loss=0.9)
    run.look(final=True)
    run.begin()
    armada_log.log(2, loss=0.8)
    run.look(final=True)
    assert run.curve("loss") == [(1, 1.0), (2, 0.9), (2, 0.8)]


def test_lines_that_are_none_are_counted_and_the_others_are_read(run: WatchedRun) -> None:
    chance = dice(73)
    with Path(run.paths.reported).open("wb", buffering=0) as stream:
        for number in range(hostile.CASES):
            stream.write(hostile.line(chance).encode("utf-8", "surrogatepass") + b"\n")
            stream.write(json.dumps({"step": number, "time": 5.0, "values": {"loss": 1.0}}).encode() + b"\n")
            if number % 100 == 0:
                run.look(final=True)
        stream.write(b"x" * 300_000 + b"\n")
        stream.write(b'{"step": 1e3, "values": {"loss": "0.5"}}\n{"step": 7, "values": {"loss": 0.25}}')
    run.look(final=True)
    run.watch.finish()
    assert [step for step, _ in run.curve("loss")] == [*range(hostile.CASES), 1000, 7]
    first, *_, last = run.findings()
    assert first.startswith("armada_log: a record cannot be read")
    assert "records could not be read for curves" in last


@pytest.mark.parametrize("line", [b"[" * 60_000, b'{"a": ' * 40, b"9" * 50_000, b"\xff\xfe{}", b"null", b"[1]"])
def test_what_is_no_record_is_refused_by_the_parser(line: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        records.parse(line)


def test_the_module_comes_behind_all_that_the_job_has_of_its_own(run: WatchedRun) -> None:
    environment = {"PYTHONPATH": "/payload:/own"}
    library.use(run.paths, environment)
    # `armada_train.launch` takes the first out again, and scripts keep the rest.
    assert environment["PYTHONPATH"] == f"/payload:/own:{run.paths.library}"
    assert environment["ARMADA_LOG_FILE"] == run.paths.reported


def test_a_job_on_a_host_imports_it(some_python: str, some_host: Host) -> None:
    script = "import armada_log; armada_log.progress(1, 3); armada_log.log(3, loss=float('inf'), lr=0.5)"
    some_host.launch("script-1", some_python, "-c", script, watch=WATCH)
    assert some_host.await_end("script-1")["state"] == "succeeded", some_host.output("script-1")
    look = some_host.look("script-1")
    (line,) = map(json.loads, look["metrics"]["text"].splitlines())
    assert (line["step"], line["loss"], line["learning_rate"]) == (3, math.inf, 0.5)
    beat = look["evidence"]["heartbeat"]
    assert (beat["step"], beat["total_steps"]) == (3, 3)


def test_a_job_that_says_how_far_it_is_counts_as_alive_though_it_prints_nothing(this_host: Host) -> None:
    script = (
        "import armada_log, os, time\n"
        "step = 0\n"
        "while not os.path.exists('go'):\n"
        "    step += 1; armada_log.progress(step); time.sleep(0.05)\n"
    )
    this_host.launch("script-1", sys.executable, "-c", script, watch=WATCH)

    def beat() -> dict[str, Any]:
        found: dict[str, Any] = (this_host.look("script-1")["evidence"] or {}).get("heartbeat") or {}
        return found

    first = eventually(lambda: beat() if beat().get("step") else None)
    assert first is not None
    eventually(lambda: beat()["step"] > first["step"] and beat()["time"] > first["time"])
    (this_host.folder("script-1") / "work" / "go").touch()
    assert this_host.await_end("script-1")["state"] == "succeeded"
