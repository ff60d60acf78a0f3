"""`task: distill`: a student of a teacher keeps the promises of every training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armada_train.failure import PayloadFailure
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section

from tests.payload.comparing import copy_of, ends_as, killed, on_two_ranks, resumes_to_the_bit
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, make_training, write_jsonl

pytestmark = pytest.mark.payload

LORA = {"r": 8, "alpha": 16, "target_modules": "all-linear", "rslora": True}
TEACHER = {"tiny": {"hidden_size": 64, "layers": 1, "heads": 4, "kv_heads": 2, "intermediate_size": 96}}

# What a person would write with TRL alone: its trainer with the answers of the data, which is in trl.experimental.
TRL = """
import functools, json, sys
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.experimental.gkd import GKDConfig, GKDTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

model, teacher, data, out, lora, beta, temperature = (json.loads(word) for word in sys.argv[1:])
tokenizer = AutoTokenizer.from_pretrained(model)
rows = []
for row in map(json.loads, open(data)):
    prompt, answer = tokenizer(row["prompt"])["input_ids"], tokenizer(row["completion"])["input_ids"]
    answer += [tokenizer.eos_token_id]
    rows.append({"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer})
# This release's compute_loss forgets to pass its temperature on.
GKDTrainer.generalized_jsd_loss = staticmethod(
    functools.partial(GKDTrainer.generalized_jsd_loss, temperature=temperature)
)
torch.manual_seed(5)
student, taught = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32) for path in (model, teacher))
arguments = GKDConfig(
    output_dir=out, per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=6, learning_rate=5e-3,
    lr_scheduler_type="cosine", seed=5, data_seed=5, bf16=False, use_cpu=True, logging_steps=1, max_length=64,
    activation_checkpointing=False, report_to="none", save_strategy="no", disable_tqdm=True, disable_dropout=False,
    lmbda=0.0, beta=beta,
)
adapter = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, use_rslora=True, target_modules="all-linear")
made = GKDTrainer(
    model=student, teacher_model=taught, args=arguments, train_dataset=Dataset.from_list(rows),
    peft_config=adapter if lora else None, processing_class=tokenizer,
    data_collator=DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id),
)
made.train()
print("losses", json.dumps({line["step"]: line["loss"] for line in made.state.log_history if "loss" in line}))
"""


def answers(count: int) -> list[dict[str, Any]]:
    """Make prompts and answers of several lengths."""
    return [
        {
            "prompt": f"What is {n} plus one?" + " Tell me." * (n % 3) + "\n",
            "completion": f"It is {n + 1}." * (1 + n % 4),
        }
        for n in range(count)
    ]


def make_distill(folder: Path, **changes: Any) -> dict[str, Any]:
    """Build the specification of a short training, in one process; two steps are an epoch."""
    objective = {"name": "distill", "teacher": TEACHER, "beta": 0.5, **changes.pop("objective", {})}
    train = write_jsonl(folder / "distill.jsonl", changes.pop("rows", answers(19)))
    evaluation = write_jsonl(folder / "distill-eval.jsonl", answers(7))
    training = make_training(
        train,
        evaluation,
        train={"max_steps": 6, "max_length": 96, "eval_every_steps": 3} | changes.pop("train", {}),
        batch={"global": 8, "micro": 4, "accumulation": 2, "processes": 1} | changes.pop("batch", {}),
        checkpoint={"every_steps": 3, "keep_last": 3},
        **{"lora": LORA, **changes},
    )
    return training | {"objective": objective}


FORMS: dict[str, dict[str, Any]] = {
    "adapter": {"objective": {"temperature": 2.0}},
    "every weight": {"lora": None},
    "forward KL": {"objective": {"beta": 0.0}},
    "own answers": {"objective": {"lmbda": 0.5, "max_completion_length": 8}},
}


@pytest.fixture(scope="module")
def trained(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], PayloadRun]:
    """Train in one process, to the end; once for all tests that read the results."""
    made: dict[str, PayloadRun] = {}

    def train(form: str) -> PayloadRun:
        if form not in made:
            folder = tmp_path_factory.mktemp("distill")
            made[form] = PayloadRun(
                folder / "run", payload_python, make_distill(folder, **copy_of(FORMS[form]))
            ).prepare()
            made[form].train()
        return made[form]

    return train


def forms(*chosen: str) -> pytest.MarkDecorator:
    """The first is tried always, and the others at night."""
    return pytest.mark.parametrize(
        "form", [chosen[0], *(pytest.param(form, marks=pytest.mark.long) for form in chosen[1:])]
    )


@forms("adapter", "every weight", "forward KL")
def test_it_equals_trls_own_trainer(payload_python: Interpreter, tmp_path: Path, trained: Any, form: str) -> None:
    run = trained(form)
    objective = run.training["objective"]
    words = (
        *(str(run.path / "model"), str(run.path / "teacher"), run.training["data"]["train"][0]["path"]),
        *(str(tmp_path / "trl"), bool(run.training["lora"]), objective["beta"], objective.get("temperature", 1.0)),
    )
    told = payload_python.finish("-c", TRL, *map(json.dumps, words), cwd=tmp_path)
    assert told.code == 0, told.output
    found = json.loads(next(line for line in told.output.splitlines() if line.startswith("losses ")).partition(" ")[2])
    assert run.losses() == pytest.approx({int(step): loss for step, loss in found.items()}, rel=1e-5)


@forms("own answers", "adapter", "every weight")
def test_a_run_that_was_killed_resumes_to_the_bit_in_a_later_epoch(tmp_path: Path, trained: Any, form: str) -> None:
    run = trained(form)
    again = killed(run, tmp_path / "again")
    assert "resuming from checkpoint-3" in again.train().output
    ends_as(again, run)
    assert again.steps_in("outbox", ".new-") == [3, 6]


def test_step_and_evaluation_do_not_depend_on_how_rows_are_batched(make_run: Any, trained: Any) -> None:
    one = trained("adapter")
    training = copy_of(one.training)
    training["batch"] = {"global": 8, "micro": 8, "accumulation": 1, "processes": 1}
    training["train"]["eval_batch_size"] = 1
    training["model"] = {"path": str(one.path / "model")}
    training["objective"]["teacher"] = {"path": str(one.path / "teacher")}
    run = make_run(training)
    run.train()
    assert run.losses() == pytest.approx(one.losses(), rel=1e-5)
    for ours, others in zip(run.lines("eval"), one.lines("eval"), strict=True):
        assert ours["eval_tokens"] == others["eval_tokens"] > 7
        assert ours["eval_loss"] == pytest.approx(others["eval_loss"], rel=1e-5)
        assert ours["eval_entropy"] == pytest.approx(others["eval_entropy"], rel=1e-5)


@pytest.mark.long
def test_two_ranks_train_as_one(make_run: Any, trained: Any) -> None:
    one = trained("adapter")
    run = make_run(on_two_ranks(one))
    run.train(launcher=True)
    losses, alone = run.losses(), one.losses()  # the third step ends the epoch: a rank without a last row gets another
    assert [losses[1], losses[2]] == pytest.approx([alone[1], alone[2]], rel=1e-5)
    assert run.lines("eval")[0]["eval_tokens"] == one.lines("eval")[0]["eval_tokens"]
    assert run.summary["eval_loss_before"] == pytest.approx(one.summary["eval_loss_before"], rel=1e-5)


@pytest.mark.long
def test_two_ranks_sample_at_the_same_steps_and_resume_to_the_bit(tmp_path: Path, make_run: Any, trained: Any) -> None:
    run = make_run(on_two_ranks(trained("own answers")))
    run.train(launcher=True)
    resumes_to_the_bit(run, tmp_path / "again")


def test_its_curves_say_how_much_the_student_wrote(trained: Any) -> None:
    lines = trained("own answers").lines("train")
    shares = [line["completions/share"] for line in lines]
    assert any(0 < share < 1 for share in shares), shares
    assert all(math.isfinite(line["entropy"]) for line in lines)
    for line, share in zip(lines, shares, strict=True):
        assert ("completions/mean_length" in line) == (share > 0)
        assert 1 <= line.get("completions/mean_length", 1) <= 8


@pytest.mark.long
def test_a_larger_teacher_of_the_same_tokenizer_loses_its_unused_words(
    make_run: Any, tmp_path: Path, trained: Any
) -> None:
    one = trained("adapter")
    student, teacher = one.path / "model", tmp_path / "teacher"
    grow = (
        "import sys; from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; "
        "made = M.from_pretrained(sys.argv[1]); made.resize_token_embeddings(384, mean_resizing=False); "
        "made.save_pretrained(sys.argv[2]); T.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])"
    )
    assert one.python.finish("-c", grow, str(one.path / "teacher"), str(teacher), cwd=tmp_path).code == 0
    training = copy_of(one.training)
    training["model"], training["objective"]["teacher"] = {"path": str(student)}, {"path": str(teacher)}
    training["train"]["max_steps"], training["train"]["lr_scheduler"] = 1, "constant"
    run = make_run(training)
    run.train()
    assert run.losses()[1] == pytest.approx(one.losses()[1], rel=1e-5)
    training["model"], training["objective"]["teacher"] = {"path": str(teacher)}, {"path": str(student)}
    (again := make_run(training, "again")).finish()
    assert again.failure["reason"] == "bad_spec"
    assert "has 320 words, and the student 384: it has no probability for the others" in again.failure["message"]


def test_a_teacher_with_other_tokens_is_refused_before_a_model_is_loaded(
    tmp_path: Path, make_run: Any, trained: Any
) -> None:
    one = trained("adapter")
    training = copy_of(one.training)
    training["objective"]["teacher"] = {"path": str(one.path / "teacher")}
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"prompt": "zyx ", "completion": "zyx wvu " * 9}] * 19)
    training["data"]["train"][0]["path"] = str(rows)
    run = make_run(training)  # whose tiny student learns other tokens from these rows
    run.finish_python("-m", "armada_train", "prepare", str(run.spec_file))
    assert run.failure["reason"] == "bad_spec"
    assert "has other tokens than the student" in run.failure["message"]
    assert "take a teacher of the same family" in run.failure["message"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"teacher": None}}, "`training.distill.teacher` names nobody who teaches"),
        ({"objective": {"teacher": {}}}, "must hold either `path` or `tiny`"),
        ({"objective": {"beta": 1.5}}, "`training.distill.beta` must be at most 1"),
        ({"objective": {"lmbda": -0.1}}, "`training.distill.lmbda` must be a number of at least 0"),
        ({"objective": {"temperature": 0}}, "`training.distill.temperature` must be a number above 0"),
        ({"objective": {"lmbda": 1, "max_completion_length": 96}}, "`training.train.max_length` 96 holds a prompt"),
        ({"objective": {"bta": 1}}, "did you mean `beta`?"),
        ({"deepspeed": "{}"}, "`training.deepspeed` does not go with `task: distill`"),
        ({"train": {"packing": True}}, "`training.train.packing` does not go with `task: distill`"),
        ({"lora": {**LORA, "modules_to_save": ["lm_head"]}}, "`lm_head` does not go with `task: distill`"),
        ({"model": {"path": "/a/student"}}, "is tiny, which only goes with a tiny `training.model`"),
    ],
)
def test_what_does_not_go_with_a_teacher_is_refused_before_torch(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PayloadFailure) as caught:
        parse_training(Section(make_distill(tmp_path, **copy_of(changes)), "training"))
    assert caught.value.reason == "bad_spec"
    assert message in caught.value.message


def test_plain_text_has_no_prompt_that_a_student_could_answer(tmp_path: Path, make_run: Any) -> None:
    rows = [{"text": f"Chapter {n}. It was a quiet day."} for n in range(19)]
    run = make_run(make_distill(tmp_path, rows=rows, objective={"lmbda": 0.5, "max_completion_length": 8}))
    run.finish_python("-m", "armada_train", "prepare", str(run.spec_file))
    assert run.failure["reason"] == "data_error"
    assert "text" in run.failure["message"]


def test_the_loss_of_a_step_is_the_mean_over_the_tokens_that_the_student_wrote(
    make_run: Any, tmp_path: Path, trained: Any
) -> None:
    one, teacher = trained("adapter"), tmp_path / "teacher"
    flatten = (
        "import sys; from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; "
        "made = M.from_pretrained(sys.argv[1]); made.lm_head.weight.data.zero_(); "
        "made.save_pretrained(sys.argv[2]); T.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])"
    )
    assert one.python.finish("-c", flatten, str(one.path / "teacher"), str(teacher), cwd=tmp_path).code == 0
    training = copy_of(one.training)
    training["model"] = {"path": str(one.path / "model")}
    training["batch"] = {"global": 8, "micro": 8, "accumulation": 1, "processes": 1}
    own = {"beta": 1.0, "temperature": 1.0, "lmbda": 1.0, "max_completion_length": 8, "teacher": {"path": str(teacher)}}
    training["objective"] |= own
    training["train"]["max_steps"] = 2
    run = make_run(training)
    run.train()
    for line in run.lines("train"):  # the reverse KL to a teacher for which all 320 words are alike
        assert line["loss"] == pytest.approx(math.log(320) - line["entropy"], rel=1e-4)
        assert line["completions/share"] == 1


@pytest.mark.long
@pytest.mark.parametrize("lora", [pytest.param(LORA, id="adapter"), pytest.param(None, id="every weight")])
def test_in_bf16_its_losses_are_nearly_those_of_fp32(make_run: Any, trained: Any, lora: dict[str, Any] | None) -> None:
    one = trained("adapter" if lora else "every weight")
    training = copy_of(one.training) | {"precision": "bf16", "model": {"path": str(one.path / "model")}}
    training["objective"]["teacher"] = {"path": str(one.path / "teacher")}
    training["train"]["max_steps"] = 2
    run = make_run(training)
    accelerate = run.accelerate_file
    accelerate.write_text(accelerate.read_text().replace('mixed_precision: "no"', 'mixed_precision: "bf16"'))
    run.train()
    assert run.losses()[1] == pytest.approx(one.losses()[1], rel=0.02)
    assert run.lines("eval")[-1]["eval_loss"] > 0
