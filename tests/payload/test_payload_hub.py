"""Datasets by their id, as far as it goes without the hub: from the host's cache, and refusals that say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from armada_train.data.hub import hash_hub
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Hub

from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, make_training

FILL_CACHE = """
import json, shutil, sys
from pathlib import Path
import datasets
rows = [{"prompt": f"{n} plus one is ", "completion": f"{n + 1}"} for n in range(20)]
Path("rows.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
made = Path(datasets.load_dataset("json", data_files="rows.jsonl", split="train").cache_files[0]["filename"])
target = Path(datasets.config.HF_DATASETS_CACHE) / "armada___numbers" / "default" / "0.0.0" / sys.argv[1]
target.mkdir(parents=True)
shutil.copy(made, target / "numbers-train.arrow")
info = json.loads((made.parent / "dataset_info.json").read_text())
(target / "dataset_info.json").write_text(json.dumps({**info, "dataset_name": "numbers", "builder_name": "parquet"}))
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def hub_cache(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> None:
    """HF_HOME as it is once somebody on the host has loaded armada/numbers, at one commit."""
    ended = payload_python.finish("-c", FILL_CACHE, COMMIT, cwd=tmp_path_factory.mktemp("hub"))
    assert ended.code == 0, ended.output


def run_on(make_run: Any, **hub: str) -> PayloadRun:
    run: PayloadRun = make_run(make_training(Path("/unused"), data={"train": [{"hub": hub}]}, train={"max_steps": 2}))
    run.environment = {"HF_HUB_OFFLINE": "1"}
    return run


@pytest.mark.payload
@pytest.mark.parametrize("revision", [{}, {"revision": COMMIT}])
def test_a_dataset_in_the_hosts_cache_is_trained_on_without_the_hub(
    make_run: Any, hub_cache: None, revision: dict[str, str]
) -> None:
    run = run_on(make_run, id="armada/numbers", **revision)
    ended = run.train()
    assert "train: 20 rows" in ended.output


@pytest.mark.payload
@pytest.mark.parametrize(("hub", "message"), [
    ({"id": "armada/absent"}, "armada/absent (train) cannot be loaded: Couldn't reach 'armada/absent' on the Hub"),
    ({"id": "armada/numbers", "config": "other"}, "its `config`, `split` and `revision` must exist"),
    ({"id": "armada/numbers", "revision": "f" * 40}, f"has commit {COMMIT}, not `revision` ffff"),
    ({"id": "armada/numbers", "revision": "main"}, f"has commit {COMMIT}, not `revision` main"),
])  # fmt: skip
def test_what_cannot_be_had_is_said_and_no_other_commit_is_taken_for_it(
    make_run: Any, hub_cache: None, hub: dict[str, str], message: str
) -> None:
    run = run_on(make_run, **hub)
    ended = run.finish()
    assert ended.code == 2, ended.output
    assert run.failure["reason"] == "data_error"
    assert message in run.failure["message"]


def test_a_commit_says_what_the_rows_are_without_loading_them() -> None:
    hashes = {
        hash_hub(Hub(name, split, config, revision))
        for name in ("a/b", "a/c")
        for split in ("train", "test")
        for config in (None, "x")
        for revision in ("0" * 40, "1" * 40)
    }
    assert len(hashes) == 16


def test_a_dataset_of_the_hub_is_read_from_the_specification() -> None:
    source = {"hub": {"id": "a/b", "split": "train[:5%]", "revision": None}, "weight": 2.0}
    training = parse_training(Section(make_training(Path("/t"), data={"train": [source]}), "training"))
    assert training.train_data[0].hub == Hub("a/b", "train[:5%]")
    assert not training.data_is_local
