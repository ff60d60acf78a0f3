"""`armada export --merge` and `--gguf`: the merged model that is at home, and llama.cpp's converter where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armada.store import checkpoints, runs
from armada.store.database import Database
from tests.conftest import Armada
from tests.published_run import BASE, ON_HOST, adapter, opened, publish, record, sft_plan

RUN, MERGED = "my-adapter-1", "my-adapter-merged-1"
MODEL = {
    "config.json": b'{"architectures": ["Qwen2ForCausalLM"]}',
    "model.safetensors": b"m" * 500,
    "tokenizer.json": b"{}",
}

CONVERTER = """#!/usr/bin/env python3
# It takes the arguments of llama.cpp's convert_hf_to_gguf.py, and says what it was given.
import argparse, json, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--outfile")
parser.add_argument("--model-name")
args = parser.parse_args()
assert os.path.isabs(args.model) and os.path.isfile(os.path.join(args.model, "config.json"))
print("INFO:hf-to-gguf:Loading model: \\x1b[31m" + args.model_name, flush=True)
MORE
open(args.outfile, "wb").write(b"GGUF" + args.model_name.encode())
"""


@pytest.fixture
def exporting(armada: Armada) -> Armada:
    with opened(armada.folder / "home") as (home, database):
        record(database, RUN, sft_plan(RUN))
        for step in (10, 20):
            publish(database, home, RUN, step, {**adapter(ON_HOST), "adapter_model.safetensors": b"%d" % step})
    return armada


def digest_of(database: Database, step: int) -> str:
    return next(each.digest for each in checkpoints.of_run(database, RUN) if each.step == step)


def merge(armada: Armada, step: int, *, run_id: str = MERGED, is_home: bool = True) -> None:
    with opened(armada.folder / "home") as (home, database):
        said = {"run": RUN, "checkpoint": digest_of(database, step), "dtype": "auto"}
        record(database, run_id, {"format": 1, "name": "merged", "task": "merge", "experiment": {"merge": said}})
        if is_home:
            publish(database, home, run_id, step, MODEL)


def converter(armada: Armada, more: str = "") -> Path:
    path = armada.folder / "convert_hf_to_gguf.py"
    path.write_text(CONVERTER.replace("MORE", more))
    return path


def test_the_merged_model_of_the_asked_checkpoint_is_exported(exporting: Armada) -> None:
    merge(exporting, 20)
    told = exporting.json("export", RUN, "--merge", "--to", "model")
    assert (told["run_id"], told["kind"], told["base_model"], told["gguf"]) == (MERGED, "model", BASE, None)
    assert (exporting.folder / "model" / "model.safetensors").read_bytes() == b"m" * 500
    card = (exporting.folder / "model" / "README.md").read_text()
    assert f"| Merged by | `run {MERGED}` |" in card
    assert exporting.json("export", MERGED, "--merge", "--to", "same")["run_id"] == MERGED


def test_without_a_merge_of_this_very_checkpoint_the_command_that_makes_one_is_named(exporting: Armada) -> None:
    merge(exporting, 10)
    answer = exporting.run("export", RUN, "--merge", "--to", "model")
    assert answer.returncode == 7
    assert f"armada merge {RUN} --checkpoint 20 --follow" in answer.stderr
    assert not (exporting.folder / "model").exists()
    assert exporting.json("export", RUN, "--merge", "--checkpoint", "10", "--to", "model")["run_id"] == MERGED


def test_a_merge_that_is_not_home_is_fetched_first(exporting: Armada) -> None:
    merge(exporting, 20, is_home=False)
    answer = exporting.run("export", RUN, "--merge", "--to", "model")
    assert answer.returncode == 7
    assert f"armada pull {MERGED}" in answer.stderr


def test_the_newest_merge_is_taken_and_a_whole_model_has_none(exporting: Armada) -> None:
    merge(exporting, 20, run_id="first-1")
    merge(exporting, 20, run_id="second-1")
    with opened(exporting.folder / "home") as (home, database):
        newest = max(runs.every(database), key=lambda run: run.created_at).run_id
        record(database, "whole-1", sft_plan("whole-1", lora=None))
        publish(database, home, "whole-1", 5, MODEL)
    assert exporting.json("export", RUN, "--merge", "--to", "model")["run_id"] == newest == "second-1"
    answer = exporting.run("export", "whole-1", "--merge", "--to", "other")
    assert answer.returncode == 2
    assert "there is nothing to merge" in answer.stderr


def test_a_model_is_converted_before_the_folder_gets_its_name(exporting: Armada) -> None:
    merge(exporting, 20)
    path = converter(exporting)
    told = exporting.json("export", RUN, "--merge", "--gguf", "--converter", path.name, "--to", "-my model")
    assert told["gguf"] == str(exporting.folder / "-my model" / "-my model.gguf")
    assert Path(told["gguf"]).read_bytes() == b"GGUF-my model"
    answer = exporting.run("export", MERGED, "--gguf", "--converter", path.name, "--to", "model")
    assert "\x1b" not in answer.stdout
    assert "every byte verified before the conversion)" in answer.stdout
    assert "model.gguf (9 B, made by convert_hf_to_gguf.py; armada cannot verify what it says)" in answer.stdout
    plain = exporting.run("export", MERGED, "--to", "plain")
    assert "every byte verified)" in plain.stdout


def test_the_converter_on_path_is_found(exporting: Armada) -> None:
    merge(exporting, 20)
    converter(exporting).chmod(0o755)
    exporting.env["PATH"] = f"{exporting.folder}:{exporting.env['PATH']}"
    exporting.json("export", MERGED, "--gguf", "--to", "model")
    assert (exporting.folder / "model" / "model.gguf").exists()


def test_a_converter_has_neither_the_hub_nor_its_token(exporting: Armada, monkeypatch: pytest.MonkeyPatch) -> None:
    merge(exporting, 20)
    monkeypatch.setitem(exporting.env, "HF_TOKEN", "hf_s3cret")
    path = converter(exporting, "sys.exit(f\"{os.environ.get('HF_TOKEN')} {os.environ['HF_HUB_OFFLINE']}\")")
    answer = exporting.run("export", MERGED, "--gguf", "--converter", str(path), "--to", "model")
    assert "None 1; nothing was exported" in answer.stderr


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("sys.exit('Model QwenX is not supported \\x1b[31m')", "ended with exit code 1: "),
        ("sys.exit(0)", "wrote no GGUF file"),
        ("open(args.outfile, 'wb').write(b'half'); sys.exit(0)", "wrote no GGUF file"),
    ],
)
@pytest.mark.fault("llama.cpp's converter fails in the middle of an export", "its words are shown; nothing is left")
def test_a_converter_that_fails_leaves_nothing(exporting: Armada, more: str, sentence: str) -> None:
    merge(exporting, 20)
    path = converter(exporting, more)
    answer = exporting.run("export", MERGED, "--gguf", "--converter", str(path), "--to", "model")
    assert (answer.returncode, sentence in answer.stderr) == (1, True), answer.stderr
    assert "\x1b" not in answer.stderr
    assert sorted(each.name for each in exporting.folder.iterdir()) == ["convert_hf_to_gguf.py", "home"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([RUN, "--gguf", "--converter", "there", "--to", "model"], "add --merge"),
        (["own-1", "--gguf", "--converter", "there", "--to", "model"], "is no model that transformers loads"),
        (["coded-1", "--gguf", "--converter", "there", "--to", "model"], "has code of its own (modeling_x.py)"),
        (
            ["named-1", "--gguf", "--converter", "there", "--to", "model"],
            "tokenizer_config.json of checkpoint-1 of named",
        ),
        (
            ["deep-1", "--gguf", "--converter", "there", "--to", "model"],
            "names code of the hub or of its own (auto_map)",
        ),
        (
            ["odd-1", "--gguf", "--converter", "there", "--to", "model"],
            "config.json of checkpoint-1 of odd-1 is no JSON",
        ),
        ([MERGED, "--gguf", "--converter", "nowhere.py", "--to", "model"], "there is no converter at nowhere.py"),
        ([MERGED, "--gguf", "--converter", "home", "--to", "model"], "there is no converter at home"),
        ([MERGED, "--gguf", "--to", "model"], "git clone https://github.com/ggml-org/llama.cpp"),
        ([MERGED, "--gguf", "--converter", "there", "--to", "hf://owner/name"], "--gguf needs a folder"),
        ([MERGED, "--converter", "there", "--to", "model"], "--converter is for --gguf"),
    ],
)
def test_what_cannot_be_converted_is_refused_before_anything_is_copied(
    exporting: Armada, arguments: list[str], sentence: str
) -> None:
    merge(exporting, 20)
    converter(exporting).rename(exporting.folder / "there")
    (exporting.folder / "there").chmod(0o755)
    with opened(exporting.folder / "home") as (home, database):
        named = b'{"auto\\u005fmap": {"AutoTokenizer": ["evil/repo--tok.Tok", null]}}'
        for run_id, files in (
            ("own-1", {"weights.npz": b"n"}),
            ("coded-1", {**MODEL, "modeling_x.py": b"boom()"}),
            ("named-1", {**MODEL, "tokenizer_config.json": named}),
            ("deep-1", {**MODEL, "vision/config.4.json": b'{"a": [{"text_config": %s}]}' % named}),
            ("odd-1", {**MODEL, "config.json": b"{"}),
        ):
            record(database, run_id, {"task": "script", "experiment": {}})
            publish(database, home, run_id, 1, files)
    answer = exporting.run("export", *arguments, "--json")
    assert (answer.returncode, sentence in answer.stderr) == (2, True), answer.stderr
    assert json.loads(answer.stdout)["error"]["kind"] == "UsageError"
    assert not (exporting.folder / "model").exists()
