"""What each task of the bundled trainer takes, and what it refuses with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.experiments import load_experiment
from armada.config.tasks.bundled import BundledTraining
from armada.config.tasks.registry import TRAININGS
from armada.errors import ConfigError

TEXT = """\
name: e
task: {task}
model: {{tiny: {{}}}}
data: {{train: [{{path: d.jsonl}}], eval: [{{path: d.jsonl}}]}}
train: {{global_batch_size: 4, max_steps: 3}}
"""


NEEDED = {
    "grpo": "grpo: {rewards: ['judges.all:short'], num_generations: 2}",
    "distill": "distill: {teacher: {tiny: {}}}",
}
"""What a task cannot do without."""


def load(folder: Path, task: str, *more: str) -> BundledTraining:
    (folder / "d.jsonl").write_text("{}\n")
    file = folder / "e.yaml"
    needed = () if any(line.startswith(f"{task}:") for line in more) else (NEEDED.get(task, "tags: []"),)
    file.write_text(TEXT.format(task=task) + "".join(f"{line}\n" for line in (*needed, *more)))
    experiment = load_experiment(file)
    assert isinstance(experiment, BundledTraining)
    return experiment


GRPO = "grpo: {{rewards: ['judges.all:short'], num_generations: 2, {}}}"


@pytest.mark.parametrize("task", TRAININGS)
def test_every_task_has_the_keys_of_a_training(tmp_path: Path, task: str) -> None:
    found = load(tmp_path, task, "lora: {r: 4}", "checkpoint: {every_steps: 2}")
    assert found.task == task
    assert (found.train.max_steps, found.lora is not None, found.stall_after) == (3, True, "30m")


def test_a_reference_is_in_memory_only_where_nothing_stands_in_for_it(tmp_path: Path) -> None:
    assert load(tmp_path, "dpo").keeps_reference
    assert not load(tmp_path, "dpo", "lora: {r: 4}").keeps_reference
    assert not load(tmp_path, "dpo", "dpo: {precompute_reference: true}").keeps_reference
    assert not load(tmp_path, "reward").keeps_reference
    assert load(tmp_path, "kto").keeps_reference
    assert not load(tmp_path, "kto", "lora: {r: 4}").keeps_reference
    assert not load(tmp_path, "grpo").keeps_reference
    assert load(tmp_path, "grpo", GRPO.format("beta: 0.1")).keeps_reference


def test_pretraining_packs_whatever_train_says(tmp_path: Path) -> None:
    assert load(tmp_path, "pretrain").train_section() == {"packing": True, "long_samples": "split"}
    assert load(tmp_path, "sft").train_section() == {}


@pytest.mark.parametrize(
    ("task", "line", "said"),
    [
        ("dpo", "dpo: {beta: 0}", "`dpo.beta` must be more than 0"),
        ("dpo", "dpo: {beta: .nan}", "`dpo.beta` must be a finite number"),
        ("dpo", "dpo: {loss: sigmiod}", "not 'sigmiod'"),
        ("dpo", "dpo: {loss_type: ipo}", "unknown key `dpo.loss_type`"),
        ("dpo", "dpo: {loss: exo_pair}", "`dpo.label_smoothing` must be above 0"),
        ("dpo", "dpo: {label_smoothing: 0.5}", "less than 0.5"),
        ("dpo", "dpo: 5", "`dpo` must be"),
        ("dpo", "train: {global_batch_size: 4, max_steps: 3, packing: true}", "`train.packing` does not go with"),
        ("reward", "train: {global_batch_size: 4, max_steps: 3, long_samples: split}", "split does not go with"),
        ("reward", "evaluation: {samples: 2}", "the model of `task: reward` generates no text"),
        ("reward", "reward: {center: -1}", "`reward.center` must be more than 0"),
        ("pretrain", "train: {global_batch_size: 4, max_steps: 3, group_by_length: true}", "nothing to group"),
        ("pretrain", "train: {global_batch_size: 4, max_steps: 3, long_samples: truncate}", "cuts long documents"),
        ("pretrain", "code: .\ndata: {train: [{hook: 'a:b'}]}", "cannot have a hook with `task: pretrain`"),
        ("sft", "dpo: {beta: 0.1}", "`dpo`"),
        ("kto", "kto: {loss: dpo}", "must be 'kto' or 'apo_zero_unpaired'"),
        ("kto", "kto: {desirable_weight: 0}", "more than 0"),
        ("kto", "lora: {r: 4}\nstart_from: sft-7k3f9d", "the model without that adapter"),
        ("dpo", "lora: {r: 4}\nstart_from: sft-7k3f9d", "the model without that adapter"),
        ("dpo", "lora: {init: pissa}", "`lora.init` pissa does not go with `task: dpo`"),
        ("kto", "lora: {init: olora}", "`lora.init` olora does not go with `task: kto`"),
        ("grpo", GRPO.format("beta: 0.1") + "\nlora: {init: pissa}", "does not go with `task: grpo`"),
        ("grpo", "grpo: {num_generations: 2}", "`grpo.rewards`"),
        ("grpo", "grpo: {rewards: []}", "`grpo.rewards`"),
        ("grpo", "grpo: {rewards: judges:short}", "`grpo.rewards` must be a list"),
        ("grpo", "grpo: {rewards: [short]}", "must be `module:function`, not 'short'"),
        (
            "grpo",
            "grpo: {rewards: ['judges:short'], num_generations: 2}",
            "`grpo.rewards[0]` is judges:short, which comes from `code`",
        ),
        ("grpo", "grpo: {rewards: ['a.b:c', 'a.b:c'], num_generations: 2}", "`grpo.rewards[1]` 'a.b:c' judges twice"),
        ("grpo", "grpo: {rewards: [{weight: 2}]}", "needs one of `function` and `model`"),
        ("grpo", "grpo: {rewards: [{function: 'a.b:c', weight: .nan}]}", "finite number"),
        (
            "grpo",
            "grpo: {rewards: [{model: ./gone}], num_generations: 2}",
            "`grpo.rewards[0].model`: there is no folder",
        ),
        ("grpo", GRPO.format("temperature: 0"), "`grpo.temperature` must be more than 0"),
        ("grpo", GRPO.format("top_p: 1.1"), "`grpo.top_p`"),
        ("grpo", GRPO.format("loss_type: dapo"), "unknown key `grpo.loss_type`"),
        ("grpo", GRPO.format("vllm: {mode: server}"), "`grpo.vllm.url` is needed with the mode server"),
        ("grpo", GRPO.format("vllm: {url: 'http://a:1'}"), "`grpo.vllm.url` belongs to the mode server"),
        (
            "grpo",
            GRPO.format("max_completion_length: 2048"),
            "`train.max_length` 2048 holds a prompt and its completion",
        ),
        ("grpo", "grpo: {rewards: ['a.b:c'], num_generations: 1}", "`grpo.num_generations`"),
        ("grpo", "grpo: {rewards: ['a.b:c'], num_generations: 3}", "`train.global_batch_size` 4 counts completions"),
        (
            "grpo",
            "train: {global_batch_size: 4, max_steps: 3, sharding: zero2}",
            "`train.sharding` zero2 does not go with",
        ),
        (
            "grpo",
            "train: {global_batch_size: 4, max_steps: 3, long_samples: truncate}",
            "must be drop with `task: grpo`",
        ),
        ("grpo", GRPO.format("beta: 0.1") + "\nlora: {r: 4}\nstart_from: sft-7k3f9d", "without that adapter"),
        ("distill", "distill: {beta: 0.5}", "`distill.teacher`"),
        ("distill", "distill: {teacher: 5}", "`distill.teacher` must be a hub id, a folder, or {tiny: {}}, not 5"),
        ("distill", "distill: {teacher: {path: a/b}}", "`distill.teacher` must be a hub id, a folder, or {tiny: {}}"),
        ("distill", "distill: {teacher: {id: a/b, revision: x}}", "`distill.teacher.revision` is not offered"),
        ("distill", "distill: {teacher: a/b, seq_kd: true}", "`distill.seq_kd` is not offered"),
        ("distill", "distill: {teacher: a/b, load_in_4bit: true}", "`distill.load_in_4bit` is not offered"),
        ("distill", "distill: {teacher: ./gone}", "`distill.teacher`: there is no folder"),
        ("distill", "distill: {teacher: a/b, beta: 1.5}", "`distill.beta`"),
        ("distill", "distill: {teacher: a/b, lambda: 0.5}", "unknown key `distill.lambda`"),
        ("distill", "distill: {teacher: a/b, temperature: 0}", "`distill.temperature` must be more than 0"),
        ("distill", "distill: {teacher: a/b, lmbda: 1, max_completion_length: 2048}", "holds a prompt and its answer"),
        ("distill", "model: a/c", "is a tiny one, which knows nothing"),
        ("distill", "lora: {modules_to_save: [lm_head]}", "lm_head does not go with `task: distill`"),
        (
            "distill",
            "train: {global_batch_size: 4, max_steps: 3, sharding: zero2}",
            "DeepSpeed would not divide the teacher",
        ),
        ("distill", "train: {global_batch_size: 4, max_steps: 3, packing: true}", "`train.packing` does not go with"),
        ("dpo", "dpo: {precompute_reference: true}\nstart_from: sft-7k3f9d", "does not go with start_from"),
    ],
)
def test_what_does_not_go_with_the_task_is_refused_with_its_line(
    tmp_path: Path, task: str, line: str, said: str
) -> None:
    given = line.splitlines()
    with pytest.raises(ConfigError) as caught:
        _load_replacing(tmp_path, task, given)
    assert said in caught.value.message
    assert caught.value.line is not None


def _load_replacing(folder: Path, task: str, lines: list[str]) -> BundledTraining:
    keys = {line.partition(":")[0] for line in lines}
    text = TEXT.format(task=task) + NEEDED.get(task, "")
    kept = [line for line in text.splitlines() if line.partition(":")[0] not in keys]
    (folder / "d.jsonl").write_text("{}\n")
    (folder / "e.yaml").write_text("\n".join([*kept, *lines]) + "\n")
    experiment = load_experiment(folder / "e.yaml")
    assert isinstance(experiment, BundledTraining)
    return experiment
