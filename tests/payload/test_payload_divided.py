"""FSDP2 on two CPU ranks for the tasks beside `sft`: policy, reference and teacher divided, with the losses of replicas."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import PayloadFailure
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from tests.payload.comparing import ADAPTER, killed, read_floats
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, read_jsonl
from tests.payload.test_payload_distill import answers, make_distill
from tests.payload.test_payload_merge import finish, merge
from tests.payload.test_payload_tasks import LORA, make_task

pytestmark = pytest.mark.payload

Made = Callable[..., PayloadRun]


def make(task: str, lora: Mapping[str, Any] | None, word: str, folder: Path, **objective: Any) -> dict[str, Any]:
    """Two ranks; the evaluation's last batch is for one of them alone."""
    schedule: dict[str, Any] = {
        "sharding": word,
        "eval_batch_size": 2,
        "activation_checkpointing": task in {"dpo", "kto"},
    }
    changes: dict[str, Any] = {"lora": lora, "train": schedule, "objective": objective}
    if task != "reward":
        changes["evaluation"] = {"samples": 1, "sample_tokens": 3}
    training = (
        make_task(task, folder, **changes) if task != "distill" else make_distill(folder, rows=answers(24), **changes)
    )
    return training | {"batch": {"global": 8, "micro": 2, "accumulation": 2, "processes": 2}}


@pytest.fixture(scope="module")
def trained(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Train a task on two ranks, to the end; once for all tests that look at it."""
    made: dict[str, PayloadRun] = {}

    def train(task: str, lora: Mapping[str, Any] | None, word: str, **objective: Any) -> PayloadRun:
        key = f"{task} {bool(lora)} {word} {objective}"
        if key not in made:
            folder = tmp_path_factory.mktemp("divided")
            made[key] = PayloadRun(
                folder / "run", payload_python, make(task, lora, word, folder, **objective)
            ).prepare()
            (folder / "said").write_text(made[key].train(launcher=True).output)
        return made[key]

    return train


each_task = pytest.mark.parametrize(
    ("task", "lora"),
    [
        pytest.param("dpo", None, id="dpo, every weight"),
        pytest.param("kto", LORA, id="kto, adapter"),
        pytest.param("dpo", LORA, id="dpo, adapter", marks=pytest.mark.long),
        pytest.param("kto", None, id="kto, every weight", marks=pytest.mark.long),
        pytest.param("reward", None, id="reward, every weight", marks=pytest.mark.long),
        pytest.param("reward", LORA, id="reward, adapter", marks=pytest.mark.long),
        pytest.param("distill", None, id="distill, every weight", marks=pytest.mark.long),
        pytest.param("distill", LORA, id="distill, adapter", marks=pytest.mark.long),
    ],
)
"""A second model, and one whose adapter is switched off; the others in `make test-all`."""


@each_task
def test_it_trains_evaluates_and_answers_as_replicas_do(
    trained: Made, task: str, lora: Mapping[str, Any] | None
) -> None:
    replicas, divided = trained(task, lora, "none"), trained(task, lora, "fsdp")
    assert divided.losses() == pytest.approx(replicas.losses(), rel=1e-6)
    for ours, theirs in zip(curves(divided), curves(replicas), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    if task != "reward":
        answers = [[line["generated"] for line in read_jsonl(r.path / "samples.jsonl")] for r in (divided, replicas)]
        assert answers[0] == answers[1]
    said = (divided.path.parent / "said").read_text()
    assert len(halves(said)) == (2 if task == "distill" or (task != "reward" and lora is None) else 1)
    folder = divided.path / "outbox" / ".new-6"
    assert json.loads((folder / "shards.json").read_text())["ranks"] == 2
    if lora is not None:
        adapter, whole = (read_floats(run.path / "outbox" / ".new-6" / ADAPTER) for run in (divided, replicas))
        assert adapter.keys() == whole.keys()
        for name, values in whole.items():
            assert adapter[name] == pytest.approx(values, abs=1e-4), name
    else:
        head = "Qwen2ForSequenceClassification" if task == "reward" else "Qwen2ForCausalLM"
        assert json.loads((folder / "config.json").read_text())["architectures"] == [head]


def curves(run: PayloadRun) -> list[dict[str, float]]:
    """Return what was evaluated at each step, and the objective's own metrics of each step of the training."""
    lines = [*run.lines("eval"), *run.lines("train")]
    return [
        {
            name: value
            for name, value in line.items()
            if name != "eval_seconds" and (name.startswith("eval_") or ("/" in name and not name.startswith("time/")))
        }
        for line in lines
    ]


def halves(said: str) -> list[str]:
    """Return the models of which the first rank holds half."""
    found = re.findall(r"the (.+) is divided among 2 ranks: this one holds ([\d,]+) of its ([\d,]+) parameters", said)
    return [name for name, *counts in found if abs(int_of(counts[0]) * 2 / int_of(counts[1]) - 1) < 0.02]


def int_of(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize(
    ("task", "lora"),
    [
        pytest.param("kto", LORA, id="kto, adapter"),
        *(
            pytest.param(task, lora, id=f"{task}, {'adapter' if lora else 'every weight'}", marks=pytest.mark.long)
            for task in ("dpo", "kto", "reward", "distill")
            for lora in (None, LORA)
            if (task, lora) != ("kto", LORA)
        ),
    ],
)
def test_it_resumes_to_the_bit_on_as_many_ranks(
    trained: Made, tmp_path: Path, task: str, lora: Mapping[str, Any] | None
) -> None:
    straight = trained(task, lora, "fsdp")
    again = killed(straight, tmp_path / "again")
    assert "resuming from checkpoint-3" in again.train(launcher=True).output
    assert again.losses() == straight.losses()
    assert again.summary["eval_loss_after"] == straight.summary["eval_loss_after"]
    names = ["pytorch_model_fsdp_0/__0_0.distcp", "optimizer_0/__1_0.distcp", "rng_state_1.pth"]
    for name in [*names, *([ADAPTER] if lora else [])]:
        both = [(run.path / "checkpoints" / "checkpoint-6" / name).read_bytes() for run in (again, straight)]
        assert both[0] == both[1], name


@pytest.mark.long
@each_task
def test_its_shards_are_resumed_by_one_rank_when_told(
    trained: Made, tmp_path: Path, task: str, lora: Mapping[str, Any] | None
) -> None:
    # The KL term of the loss `kto` is a mean over the micro batches of all ranks: fewer of them have another loss.
    straight = trained(task, lora, "fsdp", **({"loss": "apo_zero_unpaired"} if task == "kto" else {}))
    again = killed(straight, tmp_path / "again")
    again.training = {**straight.training, "resume": {"accept_changes": True}}
    again.training["batch"] = {"global": 8, "micro": 2, "accumulation": 4, "processes": 1}
    again.write_spec()
    again.write_accelerate()
    again.train(launcher=True)
    assert again.losses() == pytest.approx(straight.losses(), rel=1e-5)
    assert again.summary["eval_loss_after"] == pytest.approx(straight.summary["eval_loss_after"], rel=1e-5)


@pytest.mark.long
@each_task
def test_a_whole_checkpoint_is_divided_when_told(
    trained: Made, tmp_path: Path, task: str, lora: Mapping[str, Any] | None
) -> None:
    straight = trained(task, lora, "none")
    again = killed(straight, tmp_path / "again")
    again.training = {**straight.training, "resume": {"accept_changes": True}}
    again.training["train"] = {**straight.training["train"], "sharding": "fsdp"}
    again.write_spec()
    again.write_accelerate()
    assert '`train.sharding` was "none" and is "fsdp"; accepted' in again.train(launcher=True).output
    assert again.losses() == pytest.approx(straight.losses(), rel=1e-5)
    assert (again.path / "checkpoints" / "checkpoint-6" / "shards.json").is_file()


@pytest.mark.long
def test_the_divided_reference_of_a_training_that_starts_from_another_is_that_one(
    trained: Made, tmp_path: Path, make_run: Any
) -> None:
    before = trained("dpo", None, "none")
    training = make("dpo", None, "fsdp", tmp_path)
    training["train"]["max_steps"] = 2
    training["model"] = {"path": str(before.path / "model")}
    training["start_from"] = {"path": str(before.path / "checkpoints" / "checkpoint-6")}
    run = make_run(training)
    run.train(launcher=True)
    assert run.losses()[1] == pytest.approx(math.log(2), abs=1e-6)  # policy and reference are one
    assert run.lines("eval")[0]["eval_rewards/margins"] == 0


@pytest.mark.long
def test_two_replicas_of_two_ranks_each_have_a_divided_reference(make_run: Any, tmp_path: Path) -> None:
    ended = []
    for word in ("none", "fsdp-hybrid"):
        training = make("dpo", None, word, tmp_path)
        training["batch"] = {"global": 8, "micro": 1, "accumulation": 2, "processes": 4}
        run = make_run(training, word)
        said = run.train(launcher=True).output
        ended.append(run)
    assert ended[1].losses() == pytest.approx(ended[0].losses(), rel=1e-6)
    assert len(re.findall(r"is divided among 4 ranks", said)) == 2


@pytest.mark.long
def test_the_joined_shards_of_a_reward_model_score_as_it_did(trained: Made, tmp_path: Path) -> None:
    run = trained("reward", None, "fsdp")
    joined = merge(run, 6, tmp_path / "joined", sharded=True, rows=[])
    code, said = finish(joined)
    assert code == 0, said
    training = {**run.training, "model": {"path": str(joined.path / "outbox" / ".new-6")}}
    training["train"] = {**run.training["train"], "max_steps": 1}
    training["batch"] = {"global": 2, "micro": 2, "accumulation": 1, "processes": 1}
    scored = PayloadRun(tmp_path / "scored", run.python, training).prepare()
    scored.train()
    assert scored.summary["eval_loss_before"] == pytest.approx(run.summary["eval_loss_after"], rel=1e-5)


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        (
            "dpo",
            {"train": {"sharding": "zero3"}},
            "zero3 does not go with `task: dpo`, which fsdp and fsdp-hybrid alone",
        ),
        (
            "dpo",
            {"train": {"sharding": "zero2"}, "checkpoint": {"in_background": True}},
            "`training.checkpoint.in_background` does not go with `train.sharding: zero2`: DeepSpeed writes",
        ),
        ("dpo", {"objective": {"precompute_reference": True}}, "`training.dpo.precompute_reference` does not go with"),
        (
            "kto",
            {"train": {"logits": "whole"}},
            "`training.train.logits` whole does not go with `train.sharding: fsdp`",
        ),
        ("reward", {"lora": {"modules_to_save": ["score"]}}, "which would not add up their gradients"),
        (
            "distill",
            {"objective": {"lmbda": 0.5, "max_completion_length": 8}},
            "does not go with `distill.lmbda`, whose",
        ),
        ("distill", {"train": {"sharding": "zero2"}}, "DeepSpeed would not divide the teacher"),
    ],
)
def test_what_does_not_go_with_a_divided_model_is_refused_before_torch(
    tmp_path: Path, task: str, changes: Mapping[str, Any], message: str
) -> None:
    training = make(task, LORA, "fsdp", tmp_path)
    for key, value in changes.items():
        training[key] = {**training[key], **value}
    if training["train"]["sharding"].startswith("zero"):
        training["deepspeed"] = "ds.json"
    with pytest.raises(PayloadFailure) as caught:
        parse_training(Section(training, "training"))
    assert message in caught.value.message
