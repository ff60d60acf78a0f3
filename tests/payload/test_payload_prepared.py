"""Data that is tokenised once: found again, shared by runs, whole or not there; and `prepare`, which only does that."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from armada_agent.runs.beside_work import is_ours
from armada_train.data.prepared import ROWS, Cache, check_once, name
from armada_train.failure import PayloadFailure

from tests.payload.interpreter import wait_for_end
from tests.payload.payload_run import PayloadRun, chat, chats, make_training, write_jsonl
from tests.waiting import eventually

INGREDIENTS = {"data": "abc"}


def make_rows(folder: Path) -> dict[str, Any]:
    (folder / ROWS).write_bytes(b"rows")
    return {"rows": 1}


def open_cache(folder: Path, said: list[str] | None = None) -> Cache:
    return Cache(folder, lambda: None, (said if said is not None else []).append)


# --- the folder ----------------------------------------------------------------------------------------------------


def test_what_was_made_is_found_and_other_ingredients_are_another_folder(tmp_path: Path) -> None:
    cache = open_cache(tmp_path / "prepared")
    assert cache.find(INGREDIENTS) is None
    made = cache.obtain(INGREDIENTS, make_rows)
    found = cache.obtain(INGREDIENTS, lambda _: pytest.fail("it is there"))
    assert (made.is_new, found.is_new) == (True, False)
    assert (found.folder, found.facts["rows"], found.facts["made_from"]) == (made.folder, 1, INGREDIENTS)
    assert cache.obtain({"data": "abd"}, make_rows).folder != made.folder


def test_two_runs_that_need_the_same_make_it_once(tmp_path: Path) -> None:
    begun, waits = threading.Event(), threading.Event()
    made = []

    def make_slowly(folder: Path) -> dict[str, Any]:
        made.append(folder)
        begun.set()
        assert waits.wait(60)
        return make_rows(folder)

    first = threading.Thread(target=lambda: open_cache(tmp_path).obtain(INGREDIENTS, make_slowly))
    first.start()
    assert begun.wait(60)
    second = Cache(tmp_path, waits.set, lambda _: None)  # it says that it waits: only then the first goes on
    found = second.obtain(INGREDIENTS, make_slowly)
    first.join()
    assert len(made) == 1
    assert not found.is_new


def test_what_a_killed_run_left_is_made_anew(tmp_path: Path) -> None:
    key = name(INGREDIENTS)
    (tmp_path / f".new-{key}-of-somebody-killed").mkdir()
    (tmp_path / key).mkdir()
    cache = open_cache(tmp_path)
    made = cache.obtain(INGREDIENTS, make_rows)
    assert made.is_new
    made.rows.write_bytes(b"ro")  # a disk that lost the end
    assert cache.obtain(INGREDIENTS, make_rows).is_new
    assert made.rows.read_bytes() == b"rows"
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.is_dir()) == [key]


def test_what_fails_leaves_nothing_and_a_full_disk_is_called_by_its_name(tmp_path: Path) -> None:
    def fill_the_disk(folder: Path) -> dict[str, Any]:
        (folder / ROWS).write_bytes(b"ro")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(PayloadFailure) as caught:
        open_cache(tmp_path).obtain(INGREDIENTS, fill_the_disk)
    assert caught.value.reason == "disk_full"
    assert str(tmp_path) in caught.value.message
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]


def test_files_are_read_through_once_per_content(tmp_path: Path) -> None:
    checked = []
    for hashes in (["a", "b"], ["b"], ["b", "c"], ["a", "c"]):
        check_once(tmp_path, hashes, lambda asked=hashes: checked.append(asked))  # type: ignore[misc]
    assert checked == [["a", "b"], ["b", "c"]]
    with pytest.raises(ZeroDivisionError):
        check_once(tmp_path, ["d"], lambda: print(1 / 0))
    check_once(tmp_path, ["d"], lambda: checked.append(["d"]))
    assert checked[-1] == ["d"]


# --- with the tokenizer --------------------------------------------------------------------------------------------


def prepare(run: PayloadRun) -> tuple[int, str]:
    """Run `armada_train prepare` on a run's spec."""
    ended = run.finish_python("-m", "armada_train", "prepare", str(run.spec_file))
    return ended.code, ended.output


@pytest.mark.payload
@pytest.mark.takes_long("a preparation and three trainings, one of two ranks")
def test_a_training_finds_what_prepare_made_and_is_the_same_as_without(
    chat_files: tuple[Path, Path], tmp_path: Path, make_run: Any
) -> None:
    train = {"max_steps": 4, "packing": True, "max_length": 64, "drop_limit": 0.5}
    training = make_training(*chat_files, train=train)
    alone = make_run(training, "alone")
    alone.train()
    shared = {**training, "prepared": str(tmp_path / "prepared")}
    preparing = make_run(shared, "preparing")
    code, output = prepare(preparing)
    assert code == 0, output
    assert "2 tokenised in" in output
    assert [path.name for path in preparing.path.iterdir() if not is_ours(path.name, of_task=True)] == []
    report = json.loads((preparing.path / "report.json").read_text())["parts"]
    assert (report["train"]["rows"], report["eval"]["rows"], report["train"]["too_long"]) == (64, 13, 0)
    assert 0 < report["train"]["trained"] < report["train"]["tokens"]
    line = next(line for line in output.splitlines() if line.startswith("train: 64 rows of p50 "))
    assert "0.0% dropped" in line
    assert line.endswith(f"{report['train']['trained'] / report['train']['tokens']:.1%} of them trained on")
    assert preparing.heartbeat(0)["phase"] == "ended"
    assert not (preparing.path / "checkpoints").exists()

    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    for run in (make_run(shared, "training"), make_run({**shared, "batch": batch}, "ranks")):
        ended = run.train(launcher=True)
        assert "data: all reused from an earlier preparation" in ended.output
        assert run.losses() == pytest.approx(alone.losses(), rel=1e-5)
        assert not (run.path / "prepared").exists()

    code, output = prepare(preparing)
    assert code == 0, output
    assert "data: all reused from an earlier preparation" in output


@pytest.mark.payload
def test_of_hooks_only_what_is_evaluated_can_be_prepared(
    chat_files: tuple[Path, Path], tmp_path: Path, make_run: Any
) -> None:
    training = make_training(chat_files[0], chat_files[1], data={"train": [{"hook": "puzzles:sample"}]})
    run = make_run({**training, "prepared": str(tmp_path / "prepared")})
    hook = "def sample(index, rng):\n    return {'messages': [{'role': 'assistant', 'content': str(rng.random())}]}\n"
    (run.path / "work" / "puzzles.py").write_text(hook)
    code, output = prepare(run)
    assert code == 0, output
    assert "train: made by hooks while training; the first 8 samples are p50 " in output
    assert "eval: 13 rows" in output


@pytest.mark.payload
def test_a_wrong_line_is_named_by_prepare_too(tmp_path: Path, make_run: Any) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps(chat("q", "a")) + "\n{\n")
    run = make_run(make_training(broken))
    code, output = prepare(run)
    assert code == 2
    assert f"{broken}:2: not JSON" in output
    assert run.failure["reason"] == "data_error"


@pytest.mark.payload
def test_several_processes_tokenise_the_same_rows_in_the_same_order_as_one(
    undisturbed: PayloadRun, tmp_path: Path
) -> None:
    program = """
import sys
from collections import Counter
from pathlib import Path
from armada_train.data import tokenising
from armada_train.data.encodings import TOKENS
from armada_train.data.rows import Files
from armada_train.specification.values import Source
from armada_train.data.tokens import load_tokenizer
tokenising.available_cpus = lambda: 3
tokenizer, source, target = load_tokenizer(sys.argv[1]), Source(Path(sys.argv[2])), Path(sys.argv[3])
written = []
for size in (0, 1 << 30):
    folder = target / str(size)
    folder.mkdir(parents=True)
    rows = Files([source]).rows(source, Counter())
    facts = tokenising.tokenise_rows(rows, TOKENS, size, tokenizer, None, folder, lambda: None, print)
    written.append(((folder / "rows.arrow").read_bytes(), facts))
assert written[0] == written[1]
print(facts["rows"])
"""
    rows = write_jsonl(tmp_path / "rows.jsonl", chats(2000))
    model = str(undisturbed.path / "model")
    ended = undisturbed.python.finish("-c", program, model, str(rows), str(tmp_path / "made"))
    assert ended.output.endswith("2000\n"), ended.output


HOLD_AT_THE_FIRST_ROWS = """
import runpy, sys, time
from pathlib import Path
from armada_train.reporting.heartbeat import Heartbeat

once, started = Heartbeat.beat, Path(sys.argv.pop(1))


def beat(self, *given, **options):
    once(self, *given, **options)
    while any(rows.stat().st_size for rows in started.glob(".new-*/rows.arrow")):
        Path("reached").touch()
        time.sleep(0.01)


Heartbeat.beat = beat
runpy.run_module("armada_train", run_name="__main__", alter_sys=True)
"""


@pytest.mark.payload
@pytest.mark.takes_long("two preparations with workers that import torch anew")
def test_a_killed_preparation_leaves_no_process_and_the_next_one_ends_it(tmp_path: Path, make_run: Any) -> None:
    # More than 2 MB, which several processes tokenise.
    rows = write_jsonl(tmp_path / "rows.jsonl", [chat("word " * 200, "it is " * 50 + str(n)) for n in range(1600)])
    assert rows.stat().st_size > 2_000_000
    run = make_run({**make_training(rows, train={"max_length": 512}), "prepared": str(tmp_path / "prepared")})
    started = tmp_path / "prepared"
    process = run.start_python("-c", HOLD_AT_THE_FIRST_ROWS, str(started), "prepare", str(run.spec_file))
    run.wait_for(process, (run.path / "work" / "reached").exists, "the first rows")
    assert len(_session_of(process.pid)) > 1
    process.kill()
    wait_for_end(process)
    eventually(lambda: not _session_of(process.pid), "its workers to see that it is gone")
    assert list(started.glob(".new-*"))
    code, output = prepare(run)
    assert code == 0, output
    assert not list(started.glob(".new-*"))
    assert "train: 1,600 rows" in output


def _session_of(pid: int) -> list[str]:
    """List the processes that are alive of the session that a process leads."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _parent, _group, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it ended meanwhile
            continue
        if session == str(pid) and state != "Z":
            found.append(folder.name)
    return found


@pytest.mark.payload
def test_prompts_that_look_different_before_their_completion_are_counted(tmp_path: Path, make_run: Any) -> None:
    rows = [
        {"prompt": "a" * 3, "completion": "a" * 5 + str(n)} for n in range(16)
    ]  # the tokenizer learns long runs of a
    rows += [{"prompt": "What?\n", "completion": "That."}] * 4
    run = make_run(make_training(write_jsonl(tmp_path / "rows.jsonl", rows), train={"max_steps": 1}))
    run.train()
    assert any(
        finding.startswith("16 train rows: the end of the prompt is tokenised differently before its completion")
        for finding in run.summary["findings"]
    )


@pytest.mark.payload
def test_a_template_without_the_end_of_the_turn_and_padding_that_is_the_end_are_said(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], tmp_path: Path, make_run: Any
) -> None:
    program = """
import shutil, sys
from transformers import AutoTokenizer
shutil.copytree(sys.argv[1], sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
inside = "{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
assert inside in tokenizer.chat_template
outside = "{{ message['content'] }}{% endgeneration %}{{ '<|im_end|>' }}"
tokenizer.chat_template = tokenizer.chat_template.replace(inside, outside)
tokenizer.pad_token = tokenizer.eos_token
tokenizer.save_pretrained(sys.argv[2])
"""
    model = tmp_path / "model"
    changed = undisturbed.python.finish("-c", program, str(undisturbed.path / "model"), str(model))
    assert changed.code == 0, changed.output
    training = {**make_training(chat_files[0], train={"max_steps": 1}), "model": {"path": str(model)}}
    run = make_run(training)
    ended = run.train()
    assert run.summary["findings"] == [
        "the chat template excludes the end of the assistant's turn from the loss, so the model may not learn to stop",
        "padding and end are both '<|im_end|>': tools that mask padding also mask the end",
    ]
    assert f"finding: {run.summary['findings'][0]}" in ended.output


@pytest.mark.payload
def test_chats_for_a_model_whose_template_marks_nothing_are_refused(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], tmp_path: Path, make_run: Any
) -> None:
    program = """
import shutil, sys
from transformers import AutoTokenizer
shutil.copytree(sys.argv[1], sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
tokenizer.save_pretrained(sys.argv[2])
"""
    model = tmp_path / "model"
    changed = undisturbed.python.finish("-c", program, str(undisturbed.path / "model"), str(model))
    assert changed.code == 0, changed.output
    run = make_run({**make_training(chat_files[0]), "model": {"path": str(model)}})
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "data_error"
    assert "{% generation %}" in run.failure["message"]
