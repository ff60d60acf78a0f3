"""The list of a checkpoint's shards, and what of it is noticed without torch."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_train.checkpoints import complete, shards
from armada_train.checkpoints.manifest import write_manifest
from armada_train.checkpoints.resume import find_resume
from armada_train.failure import PayloadFailure
from armada_train.model.warmstart import check_start
from armada_train.runfolder import RunFolder
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Training

from tests.payload.payload_run import make_training

BIG = 3 << 20
STATE = '{"global_step": 4, "max_steps": 8, "train_batch_size": 1, "log_history": []}'


def save(folder: Path, seed: int = 0) -> Path:
    """Write what two ranks write; one of the shards is too large to be hashed whole."""
    for part in (shards.MODEL, shards.OPTIMIZER):
        (folder / part).mkdir(parents=True)
        for rank in range(2):
            content = bytes([seed + rank]) * (BIG if rank else 100)
            (folder / part / f"__{rank}_0.distcp").write_bytes(content)
        (folder / part / ".metadata").write_bytes(b"m")
    (folder / "trainer_state.json").write_text(STATE)
    shards.write_listing(folder, 2)
    return folder


def test_a_whole_checkpoint_has_no_defect(tmp_path: Path) -> None:
    folder = save(tmp_path / "checkpoint-4")
    assert shards.is_sharded(folder)
    assert complete.find_defect(folder) is None
    assert complete.has_weights(folder)
    assert complete.missing_states(folder, 2)[0] == "scheduler.pt"


def replace_middle(folder: Path) -> None:
    path = folder / shards.OPTIMIZER / "__1_0.distcp"
    path.write_bytes(path.read_bytes()[: BIG // 2] + b"\xff" * (BIG - BIG // 2))


def cut(folder: Path) -> None:
    with (folder / shards.MODEL / "__1_0.distcp").open("r+b") as file:
        file.truncate(BIG - 1)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (
        lambda folder: (folder / shards.MODEL / "__1_0.distcp").unlink(),
        "pytorch_model_fsdp_0/__1_0.distcp is missing",
    ),
    "cut": (cut, "pytorch_model_fsdp_0/__1_0.distcp is truncated"),
    "of another save": (replace_middle, "optimizer_0/__1_0.distcp is not the one that this checkpoint was saved with"),
    "unlisted": (lambda folder: (folder / shards.NAME).unlink(), "shards.json is missing or unreadable"),
    "no list": (lambda folder: (folder / shards.NAME).write_text("[1]"), "shards.json is missing or unreadable"),
    "no files": (
        lambda folder: (folder / shards.NAME).write_text('{"format": 1, "files": {}}'),
        "lists nothing of pytorch_model_fsdp_0",
    ),
    "elsewhere": (
        lambda folder: (folder / shards.NAME).write_text(
            json.dumps({"format": 1, "files": {"pytorch_model_fsdp_0/../../passwd": {}}})
        ),
        "shards.json is missing or unreadable",
    ),
    "no entry": (
        lambda folder: (folder / shards.NAME).write_text(
            json.dumps({"format": 1, "files": {f"{p}/__0_0.distcp": 3 for p in (shards.MODEL, shards.OPTIMIZER)}})
        ),
        "pytorch_model_fsdp_0/__0_0.distcp is truncated",
    ),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_shard_that_is_missing_cut_or_of_another_save_is_named(how: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "checkpoint-4")
    harm, said = WRONG[how]
    harm(folder)
    assert said in (complete.find_defect(folder) or "")


def parse(tmp_path: Path, **train: object) -> Training:
    return parse_training(Section(make_training(tmp_path / "t.jsonl", train=train), "training"))


def test_weights_in_shards_start_no_other_training(tmp_path: Path) -> None:
    folder = save(tmp_path / "checkpoint-4")
    training = make_training(tmp_path / "t.jsonl", start_from={"path": str(folder)})
    training["lora"] = None
    with pytest.raises(PayloadFailure, match="its weights are in shards: `armada merge` that run"):
        check_start(parse_training(Section(training, "training")))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"objective": {"name": "distill", "teacher": {"tiny": {}}, "lmbda": 0.1}}, "does not go with `distill.lmbda`"),
        ({"deepspeed": "ds.json", "device": "cuda"}, "does not go with `training.deepspeed`"),
        ({"lora": {"modules_to_save": ["lm_head"]}}, "`training.lora.modules_to_save` does not go with"),
        ({"start_from": {"path": "/x", "optimizer": "moments"}}, "divides the moments otherwise"),
        (
            {"lora": {"quantize": "nf4"}, "device": "cuda", "precision": "bf16"},
            "fsdp does not go with `lora.quantize`",
        ),
        ({"train": {"sharding": "zero3"}}, "zero3 needs `training.deepspeed`"),
        ({"train": {"sharding": "all"}}, "`training.train.sharding` must be"),
    ],
)
def test_the_payload_refuses_by_itself_what_does_not_go_with_shards(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    training = make_training(tmp_path / "t.jsonl", train={"sharding": "fsdp"})
    for key, value in changes.items():
        training[key] = {**training[key], **value} if isinstance(value, dict) and key in training else value
    with pytest.raises(PayloadFailure) as refused:
        parse_training(Section(training, "training"))
    assert refused.value.reason == "bad_spec"
    assert said in refused.value.message


def test_one_process_divides_nothing(tmp_path: Path) -> None:
    alone = parse(tmp_path, sharding="fsdp")
    assert not alone.is_sharded
    assert not alone.needs_all_ranks


def resumable(folder: Path, *, deepspeed: bool, word: str | None, processes: int = 2) -> None:
    """Write a checkpoint of step 4, as a training with or without DeepSpeed does."""
    settings = {"batch.processes": processes} | ({"train.sharding": word} if word else {})
    checkpoint = folder / "checkpoints" / "checkpoint-4"
    (checkpoint / "global_step4").mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(STATE)
    header = b"{}      "
    (checkpoint / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    names = [*complete.random_states(processes), "scheduler.pt"]
    if deepspeed:
        (checkpoint / "latest").write_text("global_step4")
        (checkpoint / "global_step4" / "mp_rank_00_model_states.pt").write_text("m")
        names += [f"global_step4/zero_pp_rank_{rank}_optim_states.pt" for rank in range(processes)]
    else:
        names.append("optimizer.pt")
    for name in names:
        with zipfile.ZipFile(checkpoint / name, "w") as file:
            file.writestr("x", "x")
    write_manifest(checkpoint, settings)


@pytest.mark.parametrize(
    ("saved", "now", "said"),
    [
        ({"deepspeed": True, "word": "zero2"}, "zero3", "was saved by DeepSpeed (zero2, 2 processes)"),
        ({"deepspeed": True, "word": "zero2", "processes": 4}, "zero2", "was saved by DeepSpeed (zero2, 4 processes)"),
        ({"deepspeed": True, "word": "zero3"}, "fsdp", "was saved by DeepSpeed (zero3, 2 processes)"),
        ({"deepspeed": False, "word": None}, "zero2", "was saved by a training without DeepSpeed"),
        ({"deepspeed": True, "word": "zero2"}, "zero2", None),
        ({"deepspeed": True, "word": None}, "none", None),
    ],
)
def test_states_of_deepspeed_are_resumed_by_their_like_or_refused(
    saved: dict[str, Any], now: str, said: str | None, tmp_path: Path
) -> None:
    resumable(tmp_path, **saved)
    by_deepspeed = now.startswith("zero") or (saved["deepspeed"] and now == "none")
    more: dict[str, Any] = {"deepspeed": "/ds.json", "device": "cuda"} if by_deepspeed else {}
    batch = {"global": 8, "micro": 4, "accumulation": 1, "processes": 2}
    changes = {"resume": {"accept_changes": True}, "batch": batch, "train": {"sharding": now}}
    training = parse_training(Section(make_training(tmp_path / "t.jsonl", **changes, **more), "training"))
    run = RunFolder(tmp_path)
    settings = {"batch.processes": 2} | ({"train.sharding": now} if now != "none" else {})
    if said is None:
        assert find_resume(training, run, settings).checkpoint is not None
        return
    with pytest.raises(PayloadFailure) as refused:
        find_resume(training, run, settings)
    assert refused.value.reason == "resume_mismatch"
    assert said in refused.value.message
    assert "`start_from`" in refused.value.message
