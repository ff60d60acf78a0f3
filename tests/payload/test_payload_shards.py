"""The list of a checkpoint's shards, and what of it is noticed without torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from armada_train.checkpoints import complete, shards
from armada_train.failure import PayloadFailure
from armada_train.model.warmstart import check_start
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section
from armada_train.specification.values import Training

from tests.payload.payload_run import make_training

BIG = 3 << 20


def save(folder: Path, seed: int = 0) -> Path:
    """Write what two ranks write; one of the shards is too large to be hashed whole."""
    for part in (shards.MODEL, shards.OPTIMIZER):
        (folder / part).mkdir(parents=True)
        for rank in range(2):
            content = bytes([seed + rank]) * (BIG if rank else 100)
            (folder / part / f"__{rank}_0.distcp").write_bytes(content)
        (folder / part / ".metadata").write_bytes(b"m")
    (folder / "trainer_state.json").write_text('{"global_step": 4}')
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
        ({"objective": {"name": "kto"}}, "fsdp does not go with `task: kto`"),
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
