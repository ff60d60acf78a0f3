"""What Hugging Face's Trainer prints becomes curves; the recordings are of transformers 5.23 on CPUs."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from armada_agent.metrics import trainer_log, values

from tests import hostile
from tests.agent.conversation import Host, check
from tests.agent.watched_run import RECORDINGS, WatchedRun
from tests.chance import dice
from tests.waiting import eventually

EVERY_OTHER = list(range(2, 31, 2))


@pytest.fixture
def run(tmp_path: Path) -> WatchedRun:
    return WatchedRun(tmp_path)


def recorded(name: str) -> str:
    return (RECORDINGS / f"trainer-{name}.log").read_bytes().decode()


@pytest.mark.parametrize(
    ("name", "losses", "evaluations", "total"),
    [
        ("bar", EVERY_OTHER, [10, 20, 30], 30),
        ("late", [25], [0, 10, 20, 30], 30),  # an evaluation before the first step, and before the first loss
        ("resume", [], [40], 40),
        ("nan", [2, 4, 6], [6], 6),
        ("info", [2, 4, 6, 8, 10, 12], [10, 12], 12),  # no bar, but the Trainer says how many steps an epoch has
    ],
)
def test_each_printed_dictionary_gets_the_step_it_was_printed_at(
    name: str, losses: list[int], evaluations: list[int], total: int
) -> None:
    found, _, last = trainer_log.parse(recorded(name))
    assert [each.step for each in found if "loss" in each.numbers] == losses
    assert [each.step for each in found if "eval_loss" in each.numbers] == evaluations
    assert [each.kind for each in found][-1] == "summary"
    assert last == total
    assert not any(each.is_counted for each in found)


def test_a_log_that_names_no_step_has_its_losses_counted() -> None:
    found, step, total = trainer_log.parse(recorded("plain"))
    assert [each.step for each in found if "loss" in each.numbers] == list(range(1, 16))
    assert all(each.is_counted for each in found)
    assert (step, total) == (None, None)


def test_a_distance_that_one_line_contradicts_is_used_again_when_later_lines_confirm_it() -> None:
    reader = trainer_log.TrainerLog()
    reader.learn(1500, 4500, 10, 500)
    printed = list(range(500, 900, 10))  # the attempt repeats the step of its checkpoint, and prints two decimals
    found = [reader.step_of({"loss": 0.5, "epoch": round(step / 1500, 2)}) for step in printed]
    assert found[2:] == printed[2:]


def test_numbers_are_read_as_texts_as_numbers_and_as_numpy_prints_them() -> None:
    line = (
        "{'loss': 0.41, 'grad_norm': '1.5e-3', 'learning_rate': 1e-05, 'x': np.float64(0.5), 'y': tensor(2.5, device='cuda:0'), "
        "'inf': inf, 'nan': nan, 'neg': -inf, 'text': 'no', 'list': [1, 2], 'true': True, 'none': None, 'epoch': 0.3, 'step': 7}"
    )
    ((step, numbers, kind, is_counted),) = trainer_log.parse(f"[rank0]: {line}\n")[0]
    assert (step, kind, is_counted) == (7, None, False)
    assert math.isnan(numbers.pop("nan"))
    expected = {"loss": 0.41, "grad_norm": 0.0015, "learning_rate": 1e-05, "x": 0.5, "inf": math.inf, "neg": -math.inf}
    assert numbers == expected | {"y": 2.5, "epoch": 0.3}


@pytest.mark.parametrize(
    "line",
    [
        "{'model': 'x', 'lr': 3}",
        "config = {'loss_weight': 1.0}",
        "{'loss': 0.5",
        "{'loss': " + "(" * 5000 + "}",
        "{'loss': 0.5, 'x': '" + "y" * 9000 + "'}",
        "{'" * 4000,
        "{'loss': {'a': 1}}",
    ],
)
def test_what_only_looks_like_a_dictionary_of_the_trainers_is_none(line: str) -> None:
    assert [each for each in trainer_log.parse(line)[0] if each.numbers.get("loss")] == []


def test_a_log_that_comes_in_pieces_of_any_size_tells_the_same(tmp_path: Path) -> None:
    whole = recorded("bar")
    expected = [(each.step, each.numbers["loss"]) for each in trainer_log.parse(whole)[0] if "loss" in each.numbers]
    chance = dice(71)
    for number in range(20):
        run = WatchedRun(tmp_path / str(number))
        rest = whole.encode()
        while rest:
            size = chance.choice([1, 7, 60, 300, 2000])
            with run.log.open("ab") as stream:
                stream.write(rest[:size])
            rest = rest[size:]
            if chance.random() < 0.2:
                run.look()
        run.look(final=True)
        steps = [step for step, _ in run.curve("loss")]
        assert len(steps) == len(expected)
        assert [value for _, value in run.curve("loss")] == [value for _, value in expected]
        # A look may fall between a dictionary and the bar after it; two looks do, and then the bar before counts.
        assert all(abs(step - right) <= 2 for step, (right, _) in zip(steps, expected, strict=True))


def test_curves_are_written_as_the_payload_writes_them(run: WatchedRun) -> None:
    run.print(recorded("bar"))
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == EVERY_OTHER
    assert [step for step, _ in run.curve("eval_loss")] == [10, 20, 30]
    assert (run.watch.step, run.watch.total) == (30, 30)
    assert {line["source"] for line in run.lines()} == {"log"}
    assert {line["kind"] for line in run.lines()} == {"train", "eval", "summary"}
    check(json.loads((run.folder / "curves.json").read_text()), "files", "curves.json")
    assert run.findings() == []


def test_pace_and_tokens_are_those_of_the_last_moments(run: WatchedRun) -> None:
    for step in (10, 20, 30):
        run.print(f"{{'loss': 1.0, 'num_tokens': {step * 100}, 'epoch': 0.1, 'step': {step}}}\n")
        run.look()
    first, *later = run.lines()
    assert "step_time_s" not in first
    assert [(line["step_time_s"], line["tokens_per_s"]) for line in later] == [(0.1, 1000.0), (0.1, 1000.0)]


def test_a_loss_that_is_no_number_is_said_once(run: WatchedRun) -> None:
    run.print(recorded("nan"))
    run.look(final=True)
    assert all(math.isnan(value) for _, value in run.curve("loss"))
    assert run.findings() == ["the loss is not a number at step 2 (nan)"]


def test_counted_steps_are_said_and_join_no_evaluation_with_a_checkpoint(run: WatchedRun) -> None:
    run.print(recorded("plain"))
    run.look(final=True)
    assert run.curve("eval_loss") == []
    assert [step for step, _ in run.curve("counted/eval_loss")] == [5, 10, 15]
    assert all(line["steps"] == "counted" for line in run.lines())
    (said,) = run.findings()
    assert "names no steps" in said


def test_one_line_with_a_step_deletes_no_counted_curve(run: WatchedRun) -> None:
    run.print("".join(f"{{'loss': {1 - step / 10}, 'learning_rate': 0.001}}\n" for step in range(5)))
    run.look(final=True)
    run.print("{'step': 500, 'loss': 0.3}\n")
    run.look(final=True)
    run.begin()
    run.print("{'step': 501, 'loss': 0.2}\n")
    run.look(final=True)
    assert [step for step, _ in run.curve("loss")] == [1, 2, 3, 4, 5, 500, 501]
    assert {line["kind"] for line in run.lines()} == {"train"}


def test_a_new_attempt_reads_only_what_is_printed_from_then_on_and_a_step_may_be_redone(run: WatchedRun) -> None:
    run.print("{'loss': 1.0, 'step': 1}\n{'loss': 0.9, 'step': 2}\n")
    run.look(final=True)
    run.print("never read: {'loss': 5.0, 'step': 9}\n")
    run.begin()
    run.print("{'loss': 0.8, 'step': 2}\n")
    run.look(final=True)
    assert run.curve("loss") == [(1, 1.0), (2, 0.9), (2, 0.8)]
    assert [line["attempt"] for line in run.lines()] == [1, 1, 2]


def test_a_supervisor_that_takes_over_reads_on_where_the_killed_one_stopped(run: WatchedRun) -> None:
    run.print("{'loss': 1.0, 'step': 1}\n")
    run.look()
    run.now += 100
    run.look()
    run.print("{'loss': 0.9, 'step': 2}\n")
    run.take_over()
    run.look()
    assert run.curve("loss") == [(1, 1.0), (2, 0.9)]


@pytest.mark.parametrize("mark", [None, 5, {}, {"offset": 5}, {"offset": -1, "head": ""}, {"offset": "5", "head": ""}])
def test_a_supervisor_that_takes_over_without_a_position_repeats_no_line_of_earlier_attempts(
    run: WatchedRun, mark: Any
) -> None:
    run.print("{'loss': 1.0, 'step': 1}\n")
    run.look(final=True)
    run.begin()
    record = run.folder / "curves.json"
    kept = json.loads(record.read_text())
    kept["sources"]["log"] = mark
    record.write_text(json.dumps(kept))
    run.take_over()
    run.print("{'loss': 0.9, 'step': 2}\n")
    run.look(final=True)
    assert run.curve("loss") == [(1, 1.0), (2, 0.9)]


def test_a_job_that_writes_metrics_itself_is_left_alone(run: WatchedRun) -> None:
    own = '{"kind": "train", "step": 1, "time": 5.0, "attempt": 1, "loss": 3.0}\n'
    Path(run.paths.metrics).write_text(own)
    run.print(recorded("bar"))
    run.look(final=True)
    assert Path(run.paths.metrics).read_text() == own
    assert (run.watch.step, run.watch.total) == (None, None)  # or it would be shown for ever


def test_lines_that_a_killed_supervisor_wrote_and_did_not_count_are_not_taken_for_the_jobs(run: WatchedRun) -> None:
    run.print("{'loss': 1.0, 'step': 1}\n")
    run.look()
    kept = json.loads((run.folder / "curves.json").read_text())
    assert kept["recorder"]["size"] == 0  # it was killed before it kept that it had written
    run.take_over()
    run.print("{'loss': 0.9, 'step': 2}\n")
    run.look()
    assert (2, 0.9) in run.curve("loss")


def test_names_are_clean_and_few(run: WatchedRun) -> None:
    many = ", ".join(f"'m{number}': {number}.0" for number in range(100))
    run.print(f"{{'loss': 1.0, 'step': 1, 'a\x1b[2J b\u202e': 1.0, '{'k' * 90}': 2.0, 'kind': 3.0, {many}}}\n")
    run.look(final=True)
    (line,) = run.lines()
    names = set(line) - {"kind", "step", "time", "attempt", "source"}
    assert len(names) == values.MOST_NAMES
    assert {"loss", "a_b", "k" * values.LONGEST_NAME} <= names
    assert line["kind"] == "train"
    told = "the job has more than 64 metrics; the others are not drawn"
    assert [each for each in run.findings() if "metrics" in each] == [told], "one record alone can have too many"


def test_whatever_a_log_holds_is_read_in_time_that_grows_with_its_length(run: WatchedRun) -> None:
    chance = dice(72)
    for _ in range(0, hostile.CASES, 100):
        run.print_bytes("\n".join(hostile.line(chance) for _ in range(100)).encode("utf-8", "surrogatepass") + b"\n")
        run.look(final=True)
    parts = [
        "{'loss': " * 900,
        "'" * 9000,
        "1%|" + "x" * 9000,
        "9" * 70_000,
        "\x1b[" * 4000,
        "{'loss': '" + "9" * 39 + "e9'}",
    ]
    run.print_bytes("\n".join(parts).encode("utf-8", "surrogatepass") + b"\n" + chance.randbytes(200_000) + b"\n")
    run.print("{'loss': 1.0, 'step': 1}\n")
    run.look(final=True)
    assert run.curve("loss")[-1] == (1, 1.0)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "gone"])
def test_what_lies_in_the_place_of_the_log_or_the_curves_harms_nobody(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    for name in ("output.log", "metrics.jsonl"):
        run = WatchedRun(tmp_path / kind / name)
        run.print("{'loss': 1.0, 'step': 1}\n")
        place = run.folder / name
        place.unlink(missing_ok=True)
        if kind == "link":
            place.symlink_to(outside)
        elif kind == "pipe":
            os.mkfifo(place)
        elif kind == "folder":
            place.mkdir()
        run.look()
        run.look(final=True)
    assert outside.read_text() == ""


def test_a_log_that_grows_faster_than_it_is_read_is_passed_over_and_that_is_said(run: WatchedRun) -> None:
    with run.log.open("wb") as stream:
        stream.truncate(200_000_000)  # a hole: nothing is written
    run.print("\n{'loss': 1.0, 'step': 1}\n")
    run.look()
    run.look(final=True)
    assert run.curve("loss") == [(1, 1.0)]
    assert "grows faster" in run.findings()[0]


def test_a_script_on_a_host_shows_its_steps_and_losses_while_it_runs(some_host: Host) -> None:
    script = (
        "import sys, time, os\n"
        "for step in (1, 2):\n"
        "    print('\\r 50%%|#####     | %d/4 [00:00<00:00]' % step, file=sys.stderr, end='')\n"
        "    print(\"\\r      \\r{'loss': '%.2f', 'epoch': '0.1'}\" % (1 / step), flush=True)\n"
        "    print('\\r 50%%|#####     | %d/4 [00:00<00:00]' % step, file=sys.stderr, end='', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.02)\n"
    )
    some_host.launch("script-1", sys.executable, "-u", "-c", script, watch={"checkpoints": None, "resume": []})

    def beat() -> bool:
        evidence = some_host.look("script-1")["evidence"] or {}
        heartbeat = evidence.get("heartbeat") or {}
        return (heartbeat.get("step"), heartbeat.get("total_steps")) == (2, 4)

    eventually(beat)
    text = eventually(lambda: some_host.look("script-1")["metrics"]["text"])
    (some_host.folder("script-1") / "work" / "go").touch()
    assert some_host.await_end("script-1")["state"] == "succeeded"
    text = some_host.look("script-1")["metrics"]["text"]
    assert [(line["step"], line["loss"]) for line in map(json.loads, text.splitlines())] == [(1, 1.0), (2, 0.5)]
    check(json.loads((some_host.folder("script-1") / "curves.json").read_text()), "files", "curves.json")


def test_the_bundled_payload_writes_its_own(this_host: Host) -> None:
    script = "echo \"{'loss': 1.0, 'step': 1}\"; sleep 0"
    watch: dict[str, Any] = {"checkpoints": None, "resume": []}
    this_host.launch("sft-1", "sh", "-c", script, watch=watch, task="sft", training={"model": {}})
    this_host.await_end("sft-1")
    assert this_host.look("sft-1")["metrics"]["text"] == ""
