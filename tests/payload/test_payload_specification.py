from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from armada_train.checkpoints.manifest import compare, describe_settings
from armada_train.data.hashes import hash_data
from armada_train.failure import PayloadFailure
from armada_train.specification.parser import read_specification

from tests.payload.payload_run import make_training


def read(tmp_path: Path, training: Any) -> Any:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"format": 1, "training": training}))
    return read_specification(path)


def change(training: dict[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(training)
    *folders, name = dotted.split(".")
    section = changed
    for folder in folders:
        section = section[folder]
    section[name] = value
    return changed


def test_a_whole_specification_is_read(tmp_path: Path) -> None:
    training = read(tmp_path, make_training(Path("/data/train.jsonl"), Path("/data/eval.jsonl")))
    assert training.batch.overall == 8
    assert training.model.hidden_size == 32
    assert training.model_is_local
    assert training.lora.rslora
    assert training.eval_data[0].path == Path("/data/eval.jsonl")


def test_rows_that_are_read_in_another_way_are_a_change_of_the_data(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a"}\n')
    training = make_training(file)
    before = describe_settings(read(tmp_path, training))
    assert before["data.train"] == [{"sha256": hash_data(file), "weight": 1.0}]  # as in checkpoints of former releases
    training["data"]["train"][0] |= {"format": "text", "columns": {"a": "text"}}
    now = describe_settings(read(tmp_path, training))
    (change_of_data,) = compare(before, now)
    assert 'as {"format": "text", "columns": {"a": "text"}}' in change_of_data


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"format": "csv"}, "`training.data.train[0].format` must be one of messages, sharegpt"),
        ({"format": "preference"}, "preference does not go with `task: sft`, which takes messages"),
        ({"columns": {"a": "b"}}, "`training.data.train[0].columns` must be names of columns"),
        ({"columns": {"a": "text", "b": "text"}}, "one column for each of ours"),
        ({"columns": ["a"]}, "must be an object of texts"),
        ({"template": {"label": "a"}}, "`training.data.train[0].template` must be texts for prompt"),
        ({"template": {"text": 5}}, "must be an object of texts"),
    ],
)
def test_a_form_of_rows_that_cannot_be_is_refused(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    training = make_training(Path("/data/train.jsonl"))
    training["data"]["train"][0] |= keys
    with pytest.raises(PayloadFailure) as caught:
        read(tmp_path, training)
    assert (caught.value.reason, message in caught.value.message) == ("bad_spec", True), caught.value.message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("train.learning_rate", -1, "`training.train.learning_rate` must be a number above 0, not -1"),
        ("train.learning_rate", True, "`training.train.learning_rate` must be a number above 0, not True"),
        ("train.learning_rat", 1, "`training.train.learning_rat` is not known to this payload; did you mean `learning_rate`?"),
        ("train.epochs", 2, "must hold either `max_steps` or `epochs`"),
        ("train.max_steps", None, "must hold either `max_steps` or `epochs`"),
        ("train.warmup_steps", 1.5, "must be a whole number, or a share of the steps below 1, not 1.5"),
        ("train.lr_scheduler", "cosin", "must be one of linear, cosine"),
        ("batch.micro", 3, "micro 3 × accumulation 2 × processes 1 is 6, not global 8"),
        ("batch.micro", 0, "must be a whole number of at least 1, not 0"),
        ("precision", "bf32", "`training.precision` must be one of bf16, fp16, fp32"),
        ("precision", "fp16", "has no loss scaling on a CPU"),
        ("model", {}, "must hold either `path` or `tiny`"),
        ("model.tiny.heads", 5, "hidden_size must divide by 2 × heads"),
        ("data.train", [], "names no file"),
        ("data.train", ["a.jsonl"], "`training.data.train[0]` must be an object"),
        ("data.eval", [{"path": "/e", "weight": 2}], "has no weight"),
        ("lora.init", "pissa_niter_4", "must be one of True, False, gaussian, olora, pissa"),
        ("lora.target_modules", ["q_proj", "lm_head"], "without lm_head"),
        ("lora.target_modules", [], "`all-linear` or a list of names"),
        ("checkpoint.every_steps", 0, "must be a whole number of at least 1"),
        ("tracking.wandb", "yes", "must be one of auto, online, offline, off"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_key(tmp_path: Path, key: str, value: Any, message: str) -> None:
    training = change(make_training(Path("/data/train.jsonl")), key, value)
    with pytest.raises(PayloadFailure) as caught:
        read(tmp_path, training)
    assert caught.value.reason == "bad_spec"
    assert message in caught.value.message


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 2}', '{"format": 1, "training": null}'])
def test_a_file_that_is_no_specification_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(content)
    with pytest.raises(PayloadFailure) as caught:
        read_specification(path)
    assert caught.value.exit_code == 2
