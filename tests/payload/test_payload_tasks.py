"""The tasks beside `sft`: each keeps the promises of a training, and equals TRL's own trainer."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from armada_train.failure import PayloadFailure
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from armada.config.experiments import load_experiment
from armada.config.profiles import load_profile
from armada.config.tasks.bundled import BundledTraining
from armada.export.loading import how_to_load
from armada.export.subject import ADAPTER_CONFIG, Kind
from armada.launch.plans.training import Training, take_data
from armada.launch.training.batch import Batch
from armada.paths import HomePaths, HostPaths
from armada.provision.environment import Environment
from tests.payload.comparing import copy_of, ends_as, killed, on_two_ranks, resumes_to_the_bit, weights
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import TINY, PayloadRun, make_training, read_jsonl, write_jsonl
from tests.payload.test_payload_training import EVALUATE, evaluate_all_ways

pytestmark = pytest.mark.payload

LORA = {"r": 8, "alpha": 16, "target_modules": "all-linear", "rslora": True}

# What a person would write with TRL alone: the rows as they are, the trainer's own preparation.
TRL = """
import json, sys
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
import torch, transformers, trl

task, model, data, out, common, own, lora, packing = (json.loads(word) for word in sys.argv[1:])
rows = [json.loads(line) for line in open(data)]
config, trainer = {
    "pretrain": (trl.SFTConfig, trl.SFTTrainer),
    "dpo": (trl.DPOConfig, trl.DPOTrainer),
    "reward": (trl.RewardConfig, trl.RewardTrainer),
    "kto": (trl.KTOConfig, trl.KTOTrainer),
}[task]
torch.manual_seed(5)
if task == "reward":
    model_class, more = AutoModelForSequenceClassification, {"num_labels": 1}
else:
    model_class, more = AutoModelForCausalLM, {}
load = lambda: model_class.from_pretrained(model, dtype=torch.float32, **more)
policy = load()
arguments = config(
    output_dir=out, per_device_train_batch_size=4, gradient_accumulation_steps=1, max_steps=6, learning_rate=5e-3,
    lr_scheduler_type="cosine", seed=5, data_seed=5, max_length=64, bf16=False, use_cpu=True, logging_steps=1,
    activation_checkpointing=False, report_to="none", save_strategy="no", disable_tqdm=True, **own, **packing,
)
adapter = None
if lora:
    kind = "SEQ_CLS" if task == "reward" else "CAUSAL_LM"
    adapter = LoraConfig(task_type=kind, r=8, lora_alpha=16, use_rslora=True, target_modules="all-linear")
reference = {"ref_model": load()} if task in ("dpo", "kto") and not lora else {}
if task == "kto":  # it takes the rows in the order of the file: give it the order in which any trainer would draw them
    numbers = Dataset.from_dict({"input_ids": [[at] for at in range(len(rows))]})
    plain = transformers.TrainingArguments(output_dir=out, per_device_train_batch_size=4, seed=5, data_seed=5, use_cpu=True)
    drawn = transformers.Trainer(model=load(), args=plain, train_dataset=numbers,
                                 data_collator=lambda batch: {"input_ids": torch.tensor([row["input_ids"] for row in batch])})
    rows = [rows[int(at)] for batch in drawn.get_train_dataloader() for at in batch["input_ids"].flatten()]
made = trainer(
    model=policy, args=arguments, train_dataset=Dataset.from_list(rows), peft_config=adapter,
    processing_class=AutoTokenizer.from_pretrained(model), **reference,
)
made.train()
print("losses", json.dumps({line["step"]: line["loss"] for line in made.state.log_history if "loss" in line}))
"""


def pairs(count: int) -> list[dict[str, Any]]:
    """Make pairs of several lengths, whose shorter answer is preferred."""
    return [
        {
            "prompt": f"What is {n} plus one?" + " Tell me." * (n % 3) + "\n",
            "chosen": f"It is {n + 1}.",
            "rejected": f"I do not know {n}" + " at all" * (n % 4 + 1),
        }
        for n in range(count)
    ]


def chat_pairs(count: int) -> list[dict[str, Any]]:
    """Make the same as chats that begin alike, as many datasets of the hub are."""
    return [
        {
            side: [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row[side]}]
            for side in ("chosen", "rejected")
        }
        for row in pairs(count)
    ]


def judged(count: int) -> list[dict[str, Any]]:
    return [
        {"prompt": row["prompt"], "completion": row["chosen" if at % 3 else "rejected"], "label": bool(at % 3)}
        for at, row in enumerate(pairs(count))
    ]


def documents(count: int) -> list[dict[str, Any]]:
    """Make documents that fill at least as many rows of 64 tokens."""
    return [{"text": f"Chapter {n}. " + "It was a quiet day. " * (1 + n % 7)} for n in range(3 * count)]


ROWS = {"pretrain": documents, "dpo": pairs, "reward": chat_pairs, "kto": judged}


def make_task(task: str, folder: Path, **changes: Any) -> dict[str, Any]:
    """Build the specification of a short training of a task, in one process."""
    objective = changes.pop("objective", {})
    train = write_jsonl(folder / f"{task}.jsonl", ROWS[task](24))
    evaluation = write_jsonl(folder / f"{task}-eval.jsonl", ROWS[task](7))
    schedule = {"max_steps": 6, "max_length": 64, "eval_every_steps": 3} | changes.pop("train", {})
    if task == "pretrain":
        schedule |= {"packing": True, "long_samples": "split"}
    training = make_training(
        train,
        evaluation,
        train=schedule,
        batch={"global": 4, "micro": 4, "accumulation": 1, "processes": 1},
        checkpoint={"every_steps": 3, "keep_last": 3},
        **changes,
    )
    return training | {"objective": {"name": task} | objective}


@pytest.fixture(scope="module")
def trained(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PayloadRun]:
    """Train a task in one process, to the end; once for all tests that look at it."""
    made: dict[str, PayloadRun] = {}

    def train(task: str, lora: dict[str, Any] | None = LORA, **objective: Any) -> PayloadRun:
        key = f"{task} {bool(lora)} {objective}"
        if key not in made:
            folder = tmp_path_factory.mktemp(task)
            training = make_task(task, folder, lora=lora, objective=objective)
            made[key] = PayloadRun(folder / "run", payload_python, training).prepare()
            made[key].train()
        return made[key]

    return train


each_task = pytest.mark.parametrize(
    ("task", "lora"),
    [
        pytest.param("pretrain", None, id="pretrain"),
        pytest.param("dpo", LORA, id="dpo"),
        pytest.param("reward", LORA, id="reward"),
        pytest.param("kto", LORA, id="kto"),
        pytest.param("pretrain", LORA, id="pretrain, adapter", marks=pytest.mark.long),
        pytest.param("dpo", None, id="dpo, every weight", marks=pytest.mark.long),
        pytest.param("reward", None, id="reward, every weight", marks=pytest.mark.long),
        pytest.param("kto", None, id="kto, every weight", marks=pytest.mark.long),
    ],
)
"""Each task in the form that is cheap; the other one in `make test-all`."""


@each_task
def test_a_task_equals_trls_own_trainer(
    payload_python: Interpreter, tmp_path: Path, trained: Any, task: str, lora: dict[str, Any] | None
) -> None:
    run = trained(task, lora)
    own = {"dpo": {"beta": 0.1}}.get(task, {})
    packing = {"packing": True, "packing_strategy": "wrapped"} if task == "pretrain" else {}
    words = (task, str(run.path / "model"), run.training["data"]["train"][0]["path"], str(tmp_path / "trl"))
    given = [*(json.dumps(word) for word in (*words, {}, own, bool(lora), packing))]
    told = payload_python.finish("-c", TRL, *given)
    assert told.code == 0, told.output
    found = json.loads(next(line for line in told.output.splitlines() if line.startswith("losses ")).partition(" ")[2])
    rel = 1e-4 if task == "reward" else 1e-5  # SDPA rounds otherwise with a mask of the padding, which TRL gives it
    assert run.losses() == pytest.approx({int(step): loss for step, loss in found.items()}, rel=rel, abs=1e-7)


@each_task
def test_a_task_that_was_killed_resumes_to_the_bit(
    tmp_path: Path, trained: Any, task: str, lora: dict[str, Any] | None
) -> None:
    run = trained(task, lora)
    again = killed(run, tmp_path / "again")
    assert "resuming from checkpoint-3" in again.train().output
    ends_as(again, run)
    assert again.steps_in("outbox", ".new-") == [3, 6]
    assert again.heartbeat(0)["phase"] == "ended"


def test_a_resume_under_another_beta_is_refused(tmp_path: Path, trained: Any) -> None:
    done = trained("dpo")
    again = killed(done, tmp_path / "again")
    again.training = {**done.training, "objective": {"name": "dpo", "beta": 0.2}}
    again.write_spec()
    assert again.finish().code == 2
    assert again.failure["reason"] == "resume_mismatch"
    assert "`dpo.beta` was 0.1 and is 0.2" in again.failure["message"]


@pytest.mark.parametrize(
    ("task", "objective"),
    [
        pytest.param("dpo", {}, id="dpo"),
        pytest.param("reward", {}, id="reward", marks=pytest.mark.long),
        pytest.param("pretrain", {}, id="pretrain", marks=pytest.mark.long),
        pytest.param("kto", {}, id="kto"),
        pytest.param("kto", {"loss": "apo_zero_unpaired"}, id="kto, another loss", marks=pytest.mark.long),
    ],
)
def test_two_ranks_equal_one_and_the_eval_loss_depends_on_no_batch(
    tmp_path: Path, make_run: Any, trained: Any, task: str, objective: dict[str, Any]
) -> None:
    one = trained(task, None if task == "pretrain" else LORA, **objective)
    training = on_two_ranks(one)
    training["train"]["eval_every_steps"] = None
    run = make_run(training)
    (tmp_path / "evaluate.py").write_text(EVALUATE)
    ways, counted = evaluate_all_ways(run, tmp_path / "evaluate.py")
    if task != "kto" or objective:  # whose KL term pairs the rows of each rank's batch
        assert run.losses() == pytest.approx(one.losses(), rel=1e-4)
    assert ways == pytest.approx([one.summary["eval_loss_before"]] * 4, rel=1e-6)
    if task != "pretrain":
        assert counted == {7}
        assert EVALUATED[task] <= one.lines("eval")[-1].keys() | one.lines("train")[-1].keys()
    if task in {"dpo", "reward"}:
        ours, theirs = ({**r.lines("eval")[-1], **r.lines("train")[-1]} for r in (run, one))
        told = {name for name in theirs if name.startswith(("eval_", "rewards/", "accuracy", "margin"))}
        told -= {"eval_seconds"}
        assert {n: ours[n] for n in told} == pytest.approx({n: theirs[n] for n in told}, rel=1e-3, abs=1e-5)
        assert ours["num_tokens"] == theirs["num_tokens"]


@pytest.mark.long
@pytest.mark.parametrize("precompute", [False, True], ids=["a second model", "computed before"])
def test_two_ranks_have_the_reference_of_one_and_resume_to_the_bit(
    tmp_path: Path, make_run: Any, trained: Any, precompute: bool
) -> None:
    one = trained("dpo", None)
    training = on_two_ranks(one)
    training["objective"]["precompute_reference"] = precompute
    run = make_run(training)
    run.train(launcher=True)
    assert run.losses() == pytest.approx(one.losses(), rel=1e-4)
    assert run.summary["eval_loss_after"] == pytest.approx(one.summary["eval_loss_after"], rel=1e-4)
    resumes_to_the_bit(run, tmp_path / "again")


@pytest.mark.long
@pytest.mark.parametrize("task", ["dpo", "reward", "kto"])
def test_the_switches_of_a_training_go_with_every_task(tmp_path: Path, make_run: Any, task: str) -> None:
    switches = {"group_by_length": True, "neftune_alpha": 5.0, "activation_checkpointing": True, "max_steps": 3}
    training = make_task(task, tmp_path, train=switches, lora={**LORA, "dora": True}, precision="bf16")
    training["batch"] = {"global": 8, "micro": 4, "accumulation": 2, "processes": 1}
    training["data"]["workers"] = 1
    if task != "reward":
        training["evaluation"] = {"samples": 1, "sample_tokens": 3}
    run = make_run(training)
    run.train()
    assert list(run.losses()) == [1, 2, 3]
    if task != "reward":
        (sample, *_) = read_jsonl(run.path / "samples.jsonl")
        assert (sample["prompt"], sample["expected"]) == (
            "What is 0 plus one?\n",
            {"dpo": "It is 1.", "kto": "I do not know 0 at all"}[task],
        )


EVALUATED = {
    "dpo": {"eval_pairs", "eval_rewards/accuracies", "eval_rewards/margins", "rewards/chosen", "rewards/margins"},
    "reward": {"eval_pairs", "eval_accuracy", "eval_margin", "accuracy"},
    "kto": {"eval_rows", "eval_kl", "eval_rewards/chosen", "eval_rewards/rejected", "kl"},
}


def test_every_pair_of_a_step_weighs_the_same_however_it_is_split(tmp_path: Path, make_run: Any) -> None:
    runs = []
    for micro, accumulation in ((8, 1), (4, 2)):
        training = make_task("dpo", tmp_path, train={"max_steps": None, "epochs": 1, "eval_every_steps": None})
        write_jsonl(tmp_path / "dpo.jsonl", pairs(22))  # the last step has six pairs: in two batches four and two
        training["batch"] = {"global": 8, "micro": micro, "accumulation": accumulation, "processes": 1}
        training["data"]["eval"] = []
        runs.append(make_run(training, f"micro-{micro}"))
        runs[-1].train()
    assert len(runs[0].losses()) == 3
    assert runs[1].losses() == pytest.approx(runs[0].losses(), rel=1e-4)


def test_a_reference_that_was_computed_before_is_the_same_and_so_is_the_resume(
    tmp_path: Path, make_run: Any, trained: Any
) -> None:
    plain = trained("dpo")
    training = copy_of(plain.training)
    training["objective"]["precompute_reference"] = True
    run = make_run(training)
    run.train()
    assert run.losses() == pytest.approx(plain.losses(), rel=1e-5)
    assert run.summary["eval_loss_after"] == pytest.approx(plain.summary["eval_loss_after"], rel=1e-5)
    again = killed(run, tmp_path / "again")
    again.train()
    assert weights(again, 6) == weights(run, 6)


def test_the_reference_of_a_training_that_starts_from_another_is_that_one(
    tmp_path: Path, make_run: Any, trained: Any
) -> None:
    before = trained("pretrain", None)
    training = make_task("dpo", tmp_path, lora=None, train={"max_steps": 2, "max_length": 96})
    training["model"] = {"path": str(before.path / "model")}
    training["start_from"] = {"path": str(before.path / "checkpoints" / "checkpoint-6")}
    run = make_run(training)
    run.train()
    assert run.losses()[1] == pytest.approx(math.log(2), abs=1e-6)  # policy and reference are one
    assert run.lines("eval")[0]["eval_rewards/margins"] == 0


def test_a_training_starts_only_from_a_model_with_its_kind_of_head(tmp_path: Path, make_run: Any, trained: Any) -> None:
    judge, writer = trained("reward"), trained("dpo")
    said = {}
    for task, before, model in (("reward", writer, writer), ("sft", judge, judge), ("reward", judge, judge)):
        rows = "reward" if task == "reward" else "pretrain"
        training = make_task(rows, tmp_path, train={"max_length": 128, "max_steps": 1})
        training["objective"] = {"name": task}
        training["model"] = {"path": str(model.path / "model")}
        training["start_from"] = {"path": str(before.path / "checkpoints" / "checkpoint-6")}
        run = make_run(training, f"{task}-from-{before.training['objective']['name']}")
        ended = run.finish()
        said[run.path.name] = ended.output if ended.code == 0 else run.failure["message"]
    for name in ("reward-from-dpo", "sft-from-reward"):
        assert "its adapter belongs to another kind of model" in said[name]
    assert "step 1/1" in said["reward-from-reward"]


def test_prompts_that_leave_no_room_are_counted_and_the_first_is_named(tmp_path: Path, make_run: Any) -> None:
    training = make_task("dpo", tmp_path, train={"max_length": 64, "long_samples": "truncate", "drop_limit": 0.5})
    long = {"prompt": "word " * 200, "chosen": "yes", "rejected": "no"}
    cut = {"prompt": "Why? ", "chosen": "because " * 90, "rejected": "so it is " * 90}
    file = write_jsonl(tmp_path / "dpo.jsonl", [*pairs(20), long, cut, long])
    run = make_run(training)
    ended = run.finish_python("-m", "armada_train", "prepare", str(run.spec_file))
    assert ended.code == 0, ended.output
    assert (
        f"2 train rows have a prompt that alone fills max_length 64, so no completion is left (the first is row {file}:21)"
        in ended.output
    )
    assert "3 of 23 train rows cut to max_length 64" in ended.output
    report = json.loads((run.path / "report.json").read_text())["parts"]["train"]
    assert (report["kept"], report["untrainable"], report["truncated"]) == (21, 2, 3)


@pytest.mark.parametrize(
    ("long", "said"),
    [
        (
            {"prompt": "word " * 200, "chosen": "yes", "rejected": "no"},
            "so no completion is left (the first is row {}:3); raise train.max_length, or leave such rows out",
        ),
        (
            {"prompt": "Why? ", "chosen": "because " * 90, "rejected": "so it is " * 90},
            "tokens); raise train.max_length, or set train.long_samples to truncate",
        ),
    ],
)
def test_pairs_that_are_too_long_are_refused_with_what_would_help(
    tmp_path: Path, make_run: Any, long: dict[str, str], said: str
) -> None:
    training = make_task("dpo", tmp_path)
    file = write_jsonl(tmp_path / "dpo.jsonl", [*pairs(2), *[long] * 3])
    run = make_run(training)
    assert run.finish_python("-m", "armada_train", "prepare", str(run.spec_file)).code == 2
    assert run.failure["reason"] == "data_error"
    assert run.failure["message"].endswith(said.format(file))


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("dpo", {"objective": {"beta": 0}}, "`training.dpo.beta` must be a number above 0, not 0"),
        ("dpo", {"objective": {"loss": "sigmoidal"}}, "`training.dpo.loss` must be one of sigmoid, hinge"),
        ("dpo", {"objective": {"bta": 1}}, "`training.dpo.bta` is not known to this payload; did you mean `beta`?"),
        ("dpo", {"objective": {"loss": "exo_pair"}}, "`training.dpo.label_smoothing` must be above 0"),
        (
            "dpo",
            {"objective": {"name": "dpa"}},
            "`training.objective.name` must be one of sft, pretrain, dpo, reward, kto, grpo, distill",
        ),
        ("dpo", {"train": {"packing": True}}, "`training.train.packing` does not go with `task: dpo`"),
        (
            "kto",
            {"batch": {"global": 1, "micro": 1}},
            "`training.train.micro_batch_size` must be at least 2 with the loss kto",
        ),
        ("kto", {"start_from": {"path": "/a"}}, "`task: kto`: the reference would be the model without that adapter"),
        ("kto", {"lora": {"init": "pissa"}}, "`training.lora.init` pissa does not go with `task: kto`"),
        ("dpo", {"lora": {"init": "olora"}}, "`training.lora.init` olora does not go with `task: dpo`"),
        ("reward", {"train": {"long_samples": "split"}}, "split does not go with `task: reward`"),
        ("reward", {"evaluation": {"samples": 1}}, "a model of `task: reward` generates no text"),
        ("dpo", {"start_from": {"path": "/a"}}, "the reference would be the model without that adapter"),
        ("dpo", {"data": {"train": [{"hook": "a:b"}]}}, "cannot have a hook with `task: dpo`"),
    ],
)
def test_what_does_not_go_with_a_task_is_refused_before_torch(
    tmp_path: Path, task: str, changes: dict[str, Any], message: str
) -> None:
    training = make_task(task, tmp_path)
    for key, value in changes.items():
        training[key] = {**(training.get(key) or {}), **value}
    with pytest.raises(PayloadFailure) as caught:
        parse_training(Section(training, "training"))
    assert caught.value.reason == "bad_spec"
    assert message in caught.value.message


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "example",
    [
        *("pretrain/pretrain.yaml", "preferences/dpo.yaml", "preferences/reward.yaml", "preferences/kto.yaml"),
        *("own-completions/grpo.yaml", "distill/distill.yaml"),
    ],
)
def test_an_example_trains_as_home_plans_it(payload_python: Interpreter, tmp_path: Path, example: str) -> None:
    experiment = load_experiment(EXAMPLES / example, ("train.max_steps=3", "checkpoint.every_steps=3"))
    assert isinstance(experiment, BundledTraining)
    planned = Training(
        experiment,
        load_profile("cpu", HomePaths(tmp_path / "config", tmp_path / "state")),
        HostPaths(PurePosixPath("/armada")),
        Environment("key", ">=3.11", "", None, ready=True),
        Batch(experiment.train.global_batch_size, 4, experiment.train.global_batch_size // 4, 1),
        run_id="e-1",
        title="e",
        gpus=0,
        cores=2,
        data=take_data(experiment.data.paths),
    )
    section: dict[str, Any] = json.loads(json.dumps(planned.section().as_json()))
    section |= {"prepared": str(tmp_path / "prepared"), "model": {"tiny": TINY}}
    for split in ("train", "eval"):
        section["data"][split] = [{"path": str(source.path)} for source in getattr(experiment.data, split)]
    run = PayloadRun(tmp_path / "run", payload_python, section).prepare()
    for file in experiment.code.glob("*.py") if experiment.code is not None else ():
        shutil.copy(file, run.path / "work")
    run.train()
    assert len(run.losses()) == 3
    assert run.summary["eval_loss_after"] != run.summary["eval_loss_before"]
    assert run.steps_in("outbox", ".new-") == [3]


def test_a_reward_model_is_loaded_with_its_head_by_the_lines_of_its_export(
    payload_python: Interpreter, trained: Any
) -> None:
    run = trained("reward")
    folder = run.path / "outbox" / ".new-6"
    files = [SimpleNamespace(path=str(path.relative_to(folder))) for path in folder.rglob("*")]
    documents = {ADAPTER_CONFIG: json.loads((folder / ADAPTER_CONFIG).read_text())}
    plan = {"task": "reward", "training": run.training}
    subject: Any = SimpleNamespace(kind=Kind.ADAPTER, files=files, documents=documents, plan=plan, base=None)
    lines = how_to_load(subject, str(folder))
    assert lines is not None
    assert "AutoModelForSequenceClassification" in lines
    compare = """
from safetensors.torch import load_file
import sys
(saved,) = (weight for name, weight in load_file(sys.argv[1]).items() if "score" in name)
print("its own head", model.base_model.model.score.modules_to_save["default"].weight.equal(saved))
"""
    ended = payload_python.finish("-c", lines + compare, str(folder / "adapter_model.safetensors"))
    assert "its own head True" in ended.output, ended.output
