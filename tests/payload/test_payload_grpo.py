"""`task: grpo`: a model that is trained on its own completions keeps the promises of every training."""

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

from tests.payload.comparing import ends_as, killed, on_two_ranks, resumes_to_the_bit
from tests.payload.interpreter import Interpreter
from tests.payload.payload_run import PayloadRun, make_training, read_jsonl, write_jsonl

pytestmark = pytest.mark.payload

LORA = {"r": 8, "alpha": 16, "target_modules": "all-linear", "rslora": True}

JUDGES = '''
import math, time

def short(completions, answer, **_):
    """Prefers short completions, and the answer's own letters."""
    return [sum(letter in text for letter in answer[at]) - len(text) / 50 for at, text in enumerate(completions)]

async def vowels(completions, **_):
    return [sum(text.count(vowel) for vowel in "aeiou") / 10 for text in completions]

def raises(prompts, completions, **_):
    if any("3 plus" in prompt for prompt in prompts):
        raise KeyError("no answer")
    return [0.0] * len(prompts)

def nan(prompts, completions, **_):
    return [math.nan if "3 plus" in prompt else 0.0 for prompt in prompts]

def nothing(completions, **_):
    return [None] * len(completions)

def few(completions, **_):
    return [0.0]

def hangs(completions, **_):
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass

def solution(completions, solution):
    return [0.0] * len(completions)
'''

# What a person would write with TRL alone.
TRL = """
import json, sys
import torch, trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, ".")
model, data, out, lora = (json.loads(word) for word in sys.argv[1:])
from judges import short, vowels
rows = [json.loads(line) for line in open(data)]
torch.manual_seed(5)
policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
arguments = trl.GRPOConfig(
    output_dir=out, per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=6, learning_rate=5e-3,
    lr_scheduler_type="cosine", seed=5, data_seed=5, bf16=False, use_cpu=True, logging_steps=1,
    activation_checkpointing=False, report_to="none", save_strategy="no", disable_tqdm=True,
    num_generations=4, max_completion_length=8, reward_weights=[1.0, 0.5], beta=0.05,
)
adapter = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, use_rslora=True, target_modules="all-linear")
made = trl.GRPOTrainer(
    model=policy, args=arguments, train_dataset=Dataset.from_list(rows), peft_config=adapter if lora else None,
    processing_class=AutoTokenizer.from_pretrained(model), reward_funcs=[short, vowels],
)
made.train()
told = {line["step"]: [line["loss"], line["reward"], line["kl"]] for line in made.state.log_history if "loss" in line}
print("told", json.dumps(told))
"""


def questions(count: int) -> list[dict[str, Any]]:
    """Make prompts of several lengths with a column for who judges."""
    return [
        {"prompt": f"What is {n} plus one?" + " Tell me." * (n % 3) + "\n", "answer": str(n + 1)} for n in range(count)
    ]


def make_grpo(folder: Path, **changes: Any) -> dict[str, Any]:
    """Build the specification of a short training, in one process."""
    objective = {
        "name": "grpo",
        "rewards": [{"function": "judges:short"}, {"function": "judges:vowels", "weight": 0.5}],
        "num_generations": 4,
        "max_completion_length": 8,
        "beta": 0.05,
        **changes.pop("objective", {}),
    }
    train = write_jsonl(folder / "grpo.jsonl", changes.pop("rows", questions(5)))
    evaluation = write_jsonl(folder / "grpo-eval.jsonl", questions(3))
    training = make_training(
        train,
        evaluation,
        train={"max_steps": 6, "max_length": 64, "eval_every_steps": 3} | changes.pop("train", {}),
        batch={"global": 8, "micro": 4, "accumulation": 2, "processes": 1},
        checkpoint={"every_steps": 3, "keep_last": 3},
        **{"evaluation": {"samples": 1, "sample_tokens": 4}, "lora": LORA, **changes},
    )
    return training | {"objective": objective}


def begin(run: PayloadRun) -> PayloadRun:
    """Put the judges into the run's code."""
    (run.path / "work" / "judges.py").write_text(JUDGES)
    return run


@pytest.fixture(scope="module")
def trained(payload_python: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., PayloadRun]:
    """Train in one process, to the end; once for all tests that look at it."""
    made: dict[bool, PayloadRun] = {}

    def train(lora: dict[str, Any] | None = LORA) -> PayloadRun:
        key = lora is not None
        if key not in made:
            folder = tmp_path_factory.mktemp("grpo")
            made[key] = begin(PayloadRun(folder / "run", payload_python, make_grpo(folder, lora=lora)).prepare())
            made[key].train()
        return made[key]

    return train


each_form = pytest.mark.parametrize(
    "lora", [pytest.param(LORA, id="adapter"), pytest.param(None, id="every weight", marks=pytest.mark.long)]
)


@each_form
def test_it_equals_trls_own_trainer(
    payload_python: Interpreter, tmp_path: Path, trained: Any, lora: dict[str, Any] | None
) -> None:
    run = trained(lora)
    (tmp_path / "judges.py").write_text(JUDGES)
    words = (str(run.path / "model"), run.training["data"]["train"][0]["path"], str(tmp_path / "trl"), bool(lora))
    told = payload_python.finish("-c", TRL, *map(json.dumps, words), cwd=tmp_path)
    assert told.code == 0, told.output
    found = json.loads(next(line for line in told.output.splitlines() if line.startswith("told ")).partition(" ")[2])
    ours = {str(line["step"]): [line["loss"], line["reward"], line["kl"]] for line in run.lines("train")}
    assert ours.keys() == found.keys()
    for step, values in found.items():
        assert ours[step] == pytest.approx(values, rel=1e-5, abs=1e-7), step


@each_form
def test_a_run_that_was_killed_resumes_to_the_bit_in_a_later_epoch(
    tmp_path: Path, trained: Any, lora: dict[str, Any] | None
) -> None:
    run = trained(lora)
    again = killed(run, tmp_path / "again")
    assert "resuming from checkpoint-3" in again.train().output
    ends_as(again, run)
    assert again.steps_in("outbox", ".new-") == [3, 6]


def test_its_curves_and_samples_say_what_a_loss_cannot(trained: Any) -> None:
    run = trained()
    line, judged = run.lines("train")[-1], run.lines("eval")[-1]
    for name in ("reward", "reward_std", "frac_reward_zero_std", "entropy", "kl", "completions/mean_length"):
        assert math.isfinite(line[name]), name
    assert {"clip_ratio/region_mean", "rewards/short/mean", "rewards/vowels/std"} <= line.keys()
    assert judged["eval_loss"] == -judged["eval_reward"]
    both = judged["eval_rewards/short/mean"] + 0.5 * judged["eval_rewards/vowels/mean"]
    assert judged["eval_reward"] == pytest.approx(both)
    assert judged["eval_completions"] == 12
    samples = read_jsonl(run.path / "samples.jsonl")
    assert [sample["step"] for sample in samples] == [0, 3, 6]
    assert (samples[0]["prompt"], samples[0]["expected"]) == ("What is 0 plus one?\n", "1")


def test_two_ranks_judge_and_evaluate_as_one_and_resume_to_the_bit(tmp_path: Path, make_run: Any, trained: Any) -> None:
    one = trained()
    run = begin(make_run(on_two_ranks(one)))
    run.train(launcher=True)
    before, alone = run.lines("eval")[0], one.lines("eval")[0]  # the same model: each prompt has a chance of its own
    told = {name for name in alone if name.startswith("eval_")} - {"eval_seconds"}
    assert {name: before[name] for name in told} == pytest.approx({name: alone[name] for name in told}, rel=1e-6)
    assert run.lines("train")[0]["num_tokens"] == pytest.approx(one.lines("train")[0]["num_tokens"], rel=0.2)
    resumes_to_the_bit(run, tmp_path / "again")


WRONG = {
    "raises": "reward function judges:raises raised KeyError: 'no answer'; for the prompt of grpo-eval.jsonl:3 "
    '("What is 3 plus one?\\n")',
    "nan": 'reward function judges:nan returned NaN for the prompt of grpo-eval.jsonl:3 ("What is 3 plus one?\\n")',
    "nothing": "reward function judges:nothing returned null for the prompt of grpo-eval.jsonl:1",
    "few": "reward function judges:few returned 1 numbers for 4 completions, of which the first is for the prompt of",
    "hangs": "reward function judges:hangs took more than 0.2 s (`grpo.reward_timeout`) for the prompt of grpo-eval.jsonl:1",
    "solution": "reward function judges:solution needs `solution`, and the rows have no such column (answer)",
    "gone": "reward function judges:gone: ",
}


@pytest.mark.parametrize(
    "judge", [name if name in {"nan", "hangs"} else pytest.param(name, marks=pytest.mark.long) for name in WRONG]
)
def test_a_judge_that_fails_is_named_with_the_prompt(tmp_path: Path, make_run: Any, judge: str) -> None:
    objective = {"rewards": [{"function": f"judges:{judge}"}], "reward_timeout_s": 0.2}
    training = make_grpo(tmp_path, objective=objective)
    write_jsonl(tmp_path / "grpo-eval.jsonl", [*questions(2), *questions(4)[3:]])
    run = begin(make_run(training))
    ended = run.finish()
    assert ended.code != 0
    assert WRONG[judge] in run.failure["message"]
    assert "Traceback" not in run.failure["message"]


def test_rows_may_lack_columns_and_a_function_takes_only_what_it_names(tmp_path: Path, make_run: Any) -> None:
    rows = [{"prompt": f"Count to {n}.", **({"answer": "1"} if n else {})} for n in range(4)]
    judges = "def named(completions, answer):\n    return [float(each is None) for each in answer]\n"
    objective = {"rewards": [{"function": "lacking:named"}], "beta": 0.0}
    training = make_grpo(tmp_path, rows=rows, objective=objective, train={"max_steps": 2, "eval_every_steps": None})
    training["data"]["eval"] = []
    training["evaluation"] = {"samples": 0}
    run = make_run(training)
    (run.path / "work" / "lacking.py").write_text(judges)
    run.train()
    assert sum(line["reward"] for line in run.lines("train")) == pytest.approx(0.5)  # one prompt of four, in two steps
    assert all(line["frac_reward_zero_std"] == 1 and line["loss"] == 0 for line in run.lines("train"))
    assert run.steps_in("outbox", ".new-") == [2]  # a loss of 0 is no reason to end


def test_another_reward_function_is_a_change(tmp_path: Path, trained: Any) -> None:
    again = killed(trained(), tmp_path / "again")
    (again.path / "work" / "judges.py").write_text(JUDGES + "# another\n")
    assert again.finish().code == 2
    assert again.failure["reason"] == "resume_mismatch"
    assert "`grpo.rewards: judges:short` was" in again.failure["message"]


def test_prompts_that_leave_no_room_for_a_completion_are_dropped_and_counted(tmp_path: Path, make_run: Any) -> None:
    rows = [*questions(9), {"prompt": "word " * 70, "answer": ""}]
    training = make_grpo(tmp_path, rows=rows, train={"max_length": 64, "drop_limit": 0.2})
    run = begin(make_run(training))
    ended = run.finish_python("-m", "armada_train", "prepare", str(run.spec_file))
    assert ended.code == 0, ended.output
    assert "1 of 10 train rows dropped: 1 longer than max_length 64 less 8 for the completion" in ended.output


def test_fewer_prompts_than_a_step_takes_are_refused(tmp_path: Path, make_run: Any) -> None:
    run = begin(make_run(make_grpo(tmp_path, rows=questions(1))))
    assert run.finish().code == 2
    assert "a step takes 2 prompts (train.global_batch_size 8 / num_generations 4)" in run.failure["message"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"rewards": []}}, "`training.grpo.rewards` names nobody who judges"),
        ({"objective": {"rewards": [{"function": "a:b", "model": "c"}]}}, "must hold either `function` or `model`"),
        ({"objective": {"num_generations": 1}}, "`training.grpo.num_generations` must be a whole number of at least 2"),
        ({"objective": {"num_generations": 3}}, "`training.train.global_batch_size` 8 counts completions"),
        ({"objective": {"max_completion_length": 64}}, "holds a prompt and its completion"),
        ({"objective": {"vllm": {}}}, "`training.grpo.vllm` needs GPUs"),
        ({"objective": {"vllm": {"mode": "server"}}}, "`training.grpo.vllm.url` belongs to the mode server"),
        ({"objective": {"top_p": 1.5}}, "`training.grpo.top_p` must be at most 1"),
        ({"train": {"sharding": "fsdp"}}, "`training.train.sharding` does not go with `task: grpo`"),
        ({"train": {"long_samples": "truncate"}}, "`training.train.long_samples` must be drop with `task: grpo`"),
        ({"train": {"group_by_length": True}}, "`training.train.group_by_length` does not go with `task: grpo`"),
        ({"lora": {"init": "pissa"}}, "`training.lora.init` pissa does not go with `task: grpo`"),
        ({"start_from": {"path": "/a"}}, "`task: grpo`: the reference would be the model without that adapter"),
    ],
)
def test_what_does_not_go_with_it_is_refused_before_torch(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    training = make_grpo(tmp_path)
    for key, value in changes.items():
        training[key] = {**(training.get(key) or {}), **value}
    with pytest.raises(PayloadFailure) as caught:
        parse_training(Section(training, "training"))
    assert caught.value.reason == "bad_spec"
    assert message in caught.value.message
