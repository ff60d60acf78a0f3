"""Adapters merged into their base: the same losses, loadable by anybody, home like a checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Armada
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import TINY, PayloadRun, chats, make_training, write_jsonl
from tests.payload.prepared import output, prepare_environment

pytestmark = pytest.mark.payload

LORAS: dict[str, dict[str, Any]] = {
    "rslora": {"rslora": True},
    "dora": {"dora": True, "rslora": False},
    "pissa": {"init": "pissa"},
    "dora over pissa": {"dora": True, "init": "pissa"},
}


def merge(run: PayloadRun, step: int, folder: Path, **changes: Any) -> PayloadRun:
    """Merge what is in a run's outbox, by the payload alone."""
    adapter = run.path / "outbox" / f".new-{step}"
    rows = [source["path"] for source in run.training["data"]["eval"]]
    request = {
        "adapter": str(adapter),
        "base": None,
        "precision": run.training["precision"],
        "step": step,
        "rows": rows,
    }
    merged = PayloadRun(folder, run.python, run.training)
    (folder / "work").mkdir(parents=True)
    spec = {"format": 1, "run_id": "merge-1", "training": {"merge": request | changes}}
    (folder / "spec.json").write_text(json.dumps(spec))
    return merged


def finish(merged: PayloadRun, *, fresh: bool = False) -> tuple[int, str]:
    ended = merged.finish_python("-m", "armada_train.merge", "--spec", str(merged.spec_file), fresh=fresh)
    return ended.code, ended.output


@pytest.mark.parametrize("kind", LORAS)
def test_the_merged_model_has_the_eval_loss_of_the_training(
    kind: str, chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path
) -> None:
    training = make_training(*chat_files, lora=LORAS[kind], train={"max_steps": 6, "learning_rate": 0.02})
    trained = make_run(training, "trained")
    trained.train()
    after = trained.summary["eval_loss_after"]
    assert abs(after - trained.summary["eval_loss_before"]) > 0.05  # an adapter that did nothing would prove nothing

    merged = merge(trained, 6, tmp_path / "merged")
    code, said = finish(merged)
    assert code == 0, said
    assert merged.summary["loss_merged"] == pytest.approx(merged.summary["loss_unmerged"], abs=1e-4)
    assert merged.summary["compared_tokens"] > 100
    folder = merged.path / "outbox" / ".new-6"
    assert json.loads((folder / ".announce.json").read_text())["kind"] == "final"
    assert not list(folder.glob("adapter*"))

    # The training's own evaluation of it, as a model that somebody loads by its path: every weight, before any step.
    again = make_training(*chat_files, model={"path": str(folder)}, lora=None, train={"max_steps": 1})
    again["lora"] = None
    loaded = make_run(again, "loaded")
    loaded.train()
    assert loaded.summary["eval_loss_before"] == pytest.approx(after, abs=1e-4)


@pytest.mark.takes_long(
    "a training, its base written anew, then merges in two precisions, each of which compares losses"
)
def test_a_base_in_16_bits_is_written_so_only_where_that_is_exact_enough(
    chat_files: tuple[Path, Path], make_run: Any, tmp_path: Path, payload_python: Interpreter
) -> None:
    # Trained until it is sure of its answers: then rounding its weights to 16 bits shows in the loss.
    trained = make_run(make_training(*chat_files, train={"max_steps": 16, "learning_rate": 0.02}), "trained")
    trained.train()
    base = trained.path / "outbox" / ".new-16" / "base_model"
    script = (
        "import sys, torch; from transformers import AutoModelForCausalLM as M; "
        "M.from_pretrained(sys.argv[1], dtype=torch.bfloat16).save_pretrained(sys.argv[2])"
    )
    half = tmp_path / "half"
    shutil.copytree(base, half)
    halved = payload_python.finish("-c", script, str(base), str(half))
    assert halved.code == 0, halved.output
    merged = merge(trained, 16, tmp_path / "auto", base=str(half), rows=["/gone.jsonl", str(chat_files[1])])
    code, said = finish(merged)
    assert code == 0, said
    assert merged.summary["dtype"] == "float32"
    assert abs(merged.summary["loss_merged"] - merged.summary["loss_unmerged"]) <= 1e-4
    assert any(finding.startswith("not compared on gone.jsonl") for finding in merged.summary["findings"])
    assert any("written as bfloat16 the loss is" in finding for finding in merged.summary["findings"])

    merged = merge(trained, 16, tmp_path / "asked", base=str(half), dtype="bfloat16")
    code, said = finish(merged)
    assert code == 0, said
    assert merged.summary["dtype"] == "bfloat16"
    assert any("use float32, which is exact" in finding for finding in merged.summary["findings"])
    config = json.loads((merged.path / "outbox" / ".new-16" / "config.json").read_text())
    assert config["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"dtype": "int8"}, "bad_spec", "must be one of auto, float32"),
        ({"adapter": "/nowhere"}, "env_error", "/nowhere holds no adapter_config.json"),
        ({"base": "/nowhere"}, "env_error", "the base model /nowhere is not on this host"),
        ({"memory_bytes": 1000}, "env_error", "merging needs about"),
        ({"extra": 1}, "bad_spec", "`training.merge.extra` is not known"),
    ],
)
def test_a_merge_that_cannot_be_is_refused_before_torch(
    payload_python: Interpreter, tmp_path: Path, changes: dict[str, Any], reason: str, words: str
) -> None:
    adapter = tmp_path / "run" / "outbox" / ".new-1"
    (adapter / "base_model").mkdir(parents=True)
    for name in ("adapter_config.json", "adapter_model.safetensors", "base_model/config.json"):
        (adapter / name).write_text("{}")
    (adapter / "base_model" / "model.safetensors").write_bytes(b"\0" * 1000)
    run = PayloadRun(tmp_path / "run", payload_python, make_training(tmp_path / "none.jsonl"))
    merged = merge(run, 1, tmp_path / "merged", **changes)
    code, said = finish(merged, fresh=True)
    assert code == 2, said
    assert merged.failure["reason"] == reason
    assert words in merged.failure["message"]


@pytest.mark.takes_long("a training and a merge under their own supervisors, each of which imports torch anew")
def test_armada_merge_brings_the_merged_model_home(armada: Armada, payload_python: Interpreter) -> None:
    prepare_environment(armada, payload_python.path)
    write_jsonl(armada.folder / "train.jsonl", chats(32))
    experiment = {
        "name": "tiny",
        "task": "sft",
        "model": {"tiny": TINY},
        "data": {"train": [{"path": "train.jsonl"}]},
        "train": {"global_batch_size": 4, "max_steps": 3},
        "lora": {"r": 4},
        "tracking": {"wandb": "off"},
    }
    file = armada.write("tiny.yaml", json.dumps(experiment))
    trained = armada.json("launch", "--host", "local", file, "--follow")
    assert trained["state"] == "succeeded", output(armada, trained["run_id"])

    merged = armada.json("merge", trained["run_id"], "--follow")
    assert merged["state"] == "succeeded", output(armada, merged["run_id"])
    assert (merged["task"], merged["host"], merged["name"]) == ("merge", "local", "tiny merged")
    shown = armada.json("show", merged["run_id"])
    (checkpoint,) = shown["checkpoints"]
    home = Path(checkpoint["home_path"])
    names = {path.name for path in home.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names
    assert (checkpoint["step"], shown["spec"]["experiment"]["merge"]["run"]) == (3, trained["run_id"])

    refused = armada.run("merge", merged["run_id"])
    assert refused.returncode == 3
    assert "is a merge, not a `task: sft` training" in refused.stderr
    assert armada.run("merge", trained["run_id"], "--checkpoint", "7").returncode == 7
    whole = armada.write(
        "whole.yaml", json.dumps({**experiment, "lora": None, "train": {"global_batch_size": 4, "max_steps": 1}})
    )
    run_id = armada.json("launch", "--host", "local", whole)["run_id"]
    refused = armada.run("merge", run_id)
    assert refused.returncode == 3
    assert "trained every weight" in refused.stderr
    armada.run("stop", run_id, "--grace", "0")


# As Gemma 3 of 4B and more: what concerns the text is in a part of the configuration.
MAKE_SEEING = """
import sys, torch
from peft import LoraConfig, get_peft_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoTokenizer
tokenizer, base, adapter = AutoTokenizer.from_pretrained(sys.argv[1]), *sys.argv[2:]
torch.manual_seed(0)
text = dict(
    vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, max_position_embeddings=512, initializer_range=0.1,
    eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=1,
)
vision = dict(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14
)
config = CONFIG_MAPPING["gemma3"](
    text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_index=319, boi_token_index=318, eoi_token_index=317
)
model = AutoModelForCausalLM.from_config(config)
model.save_pretrained(base)
lora = LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
get_peft_model(model, lora).save_pretrained(adapter)
tokenizer.save_pretrained(base)
tokenizer.save_pretrained(adapter)
"""


@pytest.mark.parametrize("has_rows", [True, False])
def test_an_adapter_of_a_model_that_sees_is_merged(undisturbed: PayloadRun, tmp_path: Path, has_rows: bool) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    made = undisturbed.finish_python("-c", MAKE_SEEING, str(undisturbed.path / "model"), str(base), str(adapter))
    assert made.code == 0, made.output
    changes: dict[str, Any] = {} if has_rows else {"rows": []}
    merged = merge(undisturbed, 12, tmp_path / "merged", base=str(base), adapter=str(adapter), **changes)
    code, said = finish(merged)
    assert code == 0, said
    assert merged.summary["loss_merged"] == pytest.approx(merged.summary["loss_unmerged"], abs=1e-4)
    assert merged.summary["compared_tokens"] > 100
