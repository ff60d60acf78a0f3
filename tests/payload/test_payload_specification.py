from __future__ import annotations

import copy
import json
import typing
from pathlib import Path
from typing import Any

import pytest
from armada_train.checkpoints.manifest import compare, describe_settings
from armada_train.data.hashes import hash_data
from armada_train.failure import PayloadFailure
from armada_train.specification.early_stop import METRICS, EarlyStop
from armada_train.specification.optimizers import OPTIMIZERS, parse_optimizer
from armada_train.specification.parser import parse_training, read_specification
from armada_train.specification.section import Section
from armada_train.training.libraries import needed_packages

from armada.config.optimizers import OF_ADAMW, TAKES, OptimizerName
from armada.config.tasks.bundled import BundledTraining
from armada.config.tasks.distill import Distill
from armada.config.tasks.dpo import Dpo
from armada.config.tasks.grpo import Grpo
from armada.config.tasks.kto import Kto
from armada.config.tasks.pretrain import Pretrain
from armada.config.tasks.reward import Reward
from armada.config.tasks.sft import Sft
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


def test_what_was_sent_is_the_same_below_another_root_and_a_folder_of_the_hosts_is_not() -> None:
    def settings(root: str, content: str) -> dict[str, Any]:
        model = f"{root}/models/{content}"
        return {"model": model, "grpo.rewards": [{"model": f"{model}/judge", "name": "judge", "weight": 1.0}]}

    one, other = "ab" * 32, "cd" * 32
    assert compare(settings("/root/.armada", one), settings("/scratch/me/armada", one)) == []
    assert len(compare(settings("/root/.armada", one), settings("/root/.armada", other))) == 2
    assert len(compare(settings("/data/first", "judge"), settings("/data/second", "judge"))) == 2


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
        ("train.lr_floor", 1, "must be below 1, and 0 except with cosine and warmup_stable_decay, not 1.0"),
        ("train.decay_steps", 5, "`training.train.decay_steps` belongs to warmup_stable_decay"),
        ("train.optimizer", {"name": "adam"}, "`training.train.optimizer.name` must be one of adamw, "),
        ("train.optimizer", {"name": "lion_8bit"}, "lion_8bit needs a GPU"),
        ("train.optimizer", {"name": "sgd", "betas": [0.9, 0.9]}, "`training.train.optimizer.betas` does not belong to sgd"),
        ("train.optimizer", {"betas": [0.9, 1]}, "must be two numbers from 0 to below 1, not [0.9, 1]"),
        ("train.optimizer", {"name": "sgd", "momentum": 1}, "must be below 1, not 1.0"),
        ("train.logits", "auto", "`training.train.logits` must be one of tiles, whole"),
        ("train.eval_batch_size", 0, "must be a whole number of at least 1, not 0"),
        ("train.stop_early", {}, "`training.train.stop_early`: eval_loss is never computed, because data.eval is empty"),
        ("train.stop_early", {"metric": "loss"}, "`training.train.stop_early.metric` must be the name of a metric"),
        ("train.stop_early", {"patience": 0}, "`training.train.stop_early.patience` must be a whole number of at least 1"),
        ("train.stop_early", {"min_delta": float("nan")}, "must be a number of at least 0, not nan"),
        ("train.stop_early", {"patienc": 3}, "did you mean `patience`?"),
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
        ("checkpoint.in_background", 1, "`training.checkpoint.in_background` must be"),
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


def test_a_choice_of_the_optimizer_is_what_transformers_is_told() -> None:
    def told(**settings: Any) -> dict[str, Any]:
        return parse_optimizer(Section(settings, "training.train.optimizer")).arguments()

    assert told(name="adamw") == {}  # as ever: fused AdamW
    assert told(betas=[0.9, 0.95], eps=1e-8) == {"adam_beta1": 0.9, "adam_beta2": 0.95, "adam_epsilon": 1e-8}
    assert told(name="sgd", momentum=0.9) == {"optim": "sgd", "optim_args": "momentum=0.9"}
    assert told(name="rmsprop", eps=1e-7)["optim_args"] == "eps=1e-07"
    assert told(name="torchao_adamw_8bit") == {"optim": "adamw_torch_8bit"}


def test_a_cosine_with_a_floor_and_8_bit_states_are_read(tmp_path: Path) -> None:
    training = make_training(Path("/data/train.jsonl"), train={"lr_floor": 0.1, "optimizer": {"name": "adamw_8bit"}})
    training |= {"device": "cuda", "precision": "bf16", "lora": {"r": 8, "alpha": 16, "quantize": "nf4"}}
    found = read(tmp_path, training)
    assert (found.schedule.lr_floor, found.schedule.decay_steps) == (0.1, None)
    assert needed_packages(found) == {"peft": "lora", "bitsandbytes": "lora.quantize"}


def test_a_metric_that_is_never_computed_cannot_end_a_training(tmp_path: Path) -> None:
    def refusal(**train: Any) -> str:
        training = make_training(Path("/data/t.jsonl"), Path("/data/e.jsonl"), train=train)
        with pytest.raises(PayloadFailure) as caught:
            read(tmp_path, training)
        return str(caught.value.message)

    assert "needs `training.train.eval_every_steps`, which is not set" in refusal(stop_early={})
    rule = {"metric": "eval_accuracy"}
    assert "`task: sft` never computes eval_accuracy; choose eval_loss" in refusal(stop_early=rule, eval_every_steps=5)


def evaluated(*values: float, name: str = "eval_loss") -> list[dict[str, Any]]:
    """A log of evaluations at steps 0, 100, 200, …, with other lines between them."""
    lines = [{"step": 100 * at, name: value, "eval_seconds": 1.0} for at, value in enumerate(values)]
    return [each for line in lines for each in (line, {"step": line["step"], "loss": 9.0})]


def test_a_training_ends_after_as_many_evaluations_without_an_improvement_as_asked() -> None:
    rule = EarlyStop("eval_loss", 3, 0.0)
    assert rule.verdict([]) is None
    assert rule.verdict(evaluated(0.1, 0.9, 0.7, 0.61, 0.7, 0.62)) is None  # the first is before any step
    sentence = "stopped early at step 600: eval_loss did not fall for 3 evaluations; best 0.61 at 300"
    assert rule.verdict(evaluated(0.1, 0.9, 0.7, 0.61, 0.7, 0.61, 0.62)) == sentence
    assert rule.verdict(evaluated(0.1, 0.9, 0.7, 0.61, 0.7, 0.62, 0.60)) is None
    course = (0.1, 0.9, 0.7, 0.61, 0.7, 0.62, 0.60)
    counts = [rule.without_improvement(evaluated(*course[: at + 1])) for at in range(len(course))]
    assert counts == [0, 0, 0, 0, 1, 2, 0]
    repeated = evaluated(0.1, 0.9, 0.7, 0.61, 0.7) + evaluated(0.1, 0.9, 0.7, 0.61, 0.7)
    assert rule.verdict(repeated) is None  # a step counts once, however often it was evaluated


def test_small_steps_add_up_and_what_is_no_number_is_no_improvement() -> None:
    rule = EarlyStop("eval_loss", 2, 0.1)
    assert rule.verdict(evaluated(9, 1.0, 0.95, 0.88, 0.83, 0.77)) is None
    sentence = "stopped early at step 300: eval_loss did not fall by more than 0.1 for 2 evaluations; best 0.96 at 300"
    assert rule.verdict(evaluated(9, 1.0, 0.97, 0.96)) == sentence
    nan = float("nan")
    ended = EarlyStop("eval_loss", 1, 0.0).verdict(evaluated(9, nan))
    assert ended == "stopped early at step 100: eval_loss did not fall for 1 evaluation"
    rises = EarlyStop("eval_accuracy", 1, 0.0, rises=True)
    assert rises.verdict(evaluated(0.9, 0.4, 0.5, name="eval_accuracy")) is None
    ended = rises.verdict(evaluated(0.9, 0.4, 0.5, 0.5, name="eval_accuracy"))
    assert ended == "stopped early at step 300: eval_accuracy did not rise for 1 evaluation; best 0.5 at 200"


def test_home_knows_what_each_task_computes() -> None:
    tasks: dict[str, type[BundledTraining]] = {
        "sft": Sft, "pretrain": Pretrain, "dpo": Dpo, "reward": Reward, "kto": Kto, "grpo": Grpo,
        "distill": Distill,
    }  # fmt: skip
    assert {name: task.eval_metrics for name, task in tasks.items()} == METRICS


def test_moments_are_loaded_only_by_the_optimizer_that_has_such() -> None:
    training = make_training(Path("/data/t.jsonl"), train={"optimizer": {"name": "sgd"}})
    training["start_from"] = {"path": "/runs/checkpoint-5", "optimizer": "moments"}
    with pytest.raises(PayloadFailure, match="the moments are AdamW's, and sgd keeps others"):
        parse_training(Section(training, "training"))


def test_home_and_the_payload_know_the_same_optimizers() -> None:
    assert set(OPTIMIZERS) == set(typing.get_args(OptimizerName))
    assert {name: kind.takes for name, kind in OPTIMIZERS.items()} == {n: TAKES.get(n, OF_ADAMW) for n in OPTIMIZERS}


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 2}', '{"format": 1, "training": null}'])
def test_a_file_that_is_no_specification_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(content)
    with pytest.raises(PayloadFailure) as caught:
        read_specification(path)
    assert caught.value.exit_code == 2
