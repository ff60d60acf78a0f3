from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.payload.payload_run import PayloadRun, chat, chats, make_training, write_jsonl

pytestmark = pytest.mark.payload


def finish_without_torch(run: PayloadRun) -> str:
    """Let a run end with a refusal, and see in the interpreter's own list that torch was never imported."""
    ended = run.finish(fresh=True, interpreter_options=("-X", "importtime"))
    assert ended.code == 2, ended.output
    imported = {
        line.rpartition("|")[2].strip() for line in ended.output.splitlines() if line.startswith("import time:")
    }
    assert "json" in imported
    assert not imported & {"torch", "transformers", "trl", "datasets", "numpy"}
    said = [line for line in ended.output.splitlines() if line.startswith("armada_train: ")]
    assert said == [f"armada_train: {run.failure['reason']}: {run.failure['message']}"]
    return run.failure["message"]


def test_a_wrong_value_is_refused_before_torch_is_imported(chat_files: tuple[Path, Path], make_run: Any) -> None:
    run = make_run(make_training(*chat_files, train={"learning_rate": "fast"}))
    assert finish_without_torch(run) == "`training.train.learning_rate` must be a number above 0, not 'fast'"
    assert run.failure["reason"] == "bad_spec"


def test_a_line_that_is_not_json_is_named_by_file_and_line(
    chat_files: tuple[Path, Path], tmp_path: Path, make_run: Any
) -> None:
    broken = tmp_path / "broken.jsonl"
    lines = chat_files[0].read_text().splitlines()
    lines[16] = '{"messages": [}'
    broken.write_text("\n".join(lines))
    run = make_run(make_training(broken))
    assert finish_without_torch(run).startswith(f"{broken}:17: not JSON: ")
    assert run.failure["reason"] == "data_error"


def test_another_number_of_processes_than_planned_is_refused(chat_files: tuple[Path, Path], make_run: Any) -> None:
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    run = make_run(make_training(*chat_files, batch=batch))
    assert "started 1 process(es), but the batch is planned for 2" in finish_without_torch(run)
    assert run.failure["reason"] == "world_mismatch"


def test_a_package_that_the_environment_lacks_is_named(chat_files: tuple[Path, Path], make_run: Any) -> None:
    run = make_run(make_training(*chat_files, attention="flash_attention_2"))
    assert "flash_attn (or kernels)" in finish_without_torch(run)
    assert run.failure["reason"] == "env_error"


@pytest.mark.parametrize("own_code", [True, False])
def test_an_architecture_that_transformers_does_not_know_is_refused_before_rows_are_tokenised(
    undisturbed: PayloadRun, chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path, own_code: bool
) -> None:
    shutil.copytree(undisturbed.path / "model", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text()) | {"model_type": "nobodys"}
    if own_code:
        config["auto_map"] = {"AutoConfig": "nobodys.Config", "AutoModelForCausalLM": "nobodys.Model"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    run = make_run(make_training(*chat_files, model={"path": str(tmp_path / "model")}))
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "bad_spec"
    assert run.failure["message"].startswith(f"the model {tmp_path}/model needs code that transformers ")
    assert "rows of" not in ended.output


def test_data_that_is_all_too_long_is_a_data_error(chat_files: tuple[Path, Path], make_run: Any) -> None:
    run = make_run(make_training(chat_files[0], train={"max_length": 4}))
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "data_error"
    assert run.failure["message"].startswith(
        "no rows are left: 64 of 64 train rows dropped: 64 longer than max_length 4"
    )


def test_more_dropped_than_the_limit_is_a_data_error_with_percentiles(tmp_path: Path, make_run: Any) -> None:
    rows = [*chats(18), chat("Say it.", "word " * 300), chat("Again.", "word " * 300), chat("And.", "word " * 300)]
    run = make_run(make_training(write_jsonl(tmp_path / "train.jsonl", rows)))
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "data_error"
    message = run.failure["message"]
    assert "more than train.drop_limit, 10%, would be dropped: 3 of 21 train rows" in message
    assert re.search(r"p50 \d+, p90 \d+, p95 \d+, p99 \d+, longest \d+ tokens", message)
    assert run.path.joinpath("checkpoints").exists() is False


@pytest.mark.parametrize(("policy", "key", "sentence"), [
    ("truncate", "truncated_samples", "3 of 21 train rows cut to max_length 256, which took"),
    ("split", "split_samples", "3 of 21 train rows split at max_length 256"),
])  # fmt: skip
def test_long_samples_are_cut_or_split_only_when_asked_and_counted(
    tmp_path: Path, make_run: Any, policy: str, key: str, sentence: str
) -> None:
    rows = [*chats(18), *[chat("Say it.", f"word {n} " * 300) for n in range(3)]]
    train = {"max_steps": 1, "long_samples": policy}
    run = make_run(make_training(write_jsonl(tmp_path / "train.jsonl", rows), train=train))
    ended = run.train()
    assert (run.summary["dropped_samples"], run.summary[key]) == (0, 3)
    assert any(finding.startswith(sentence) for finding in run.summary["findings"])
    trained = int(ended.output.partition(" training rows")[0].rpartition(" ")[2])
    assert trained == 21 if policy == "truncate" else trained > 24
