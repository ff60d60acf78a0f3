"""A mistake in an experiment's file is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from armada.config.experiments import load_experiment
from armada.config.tasks.command import Command
from armada.errors import ConfigError
from tests.unit.config.experiments import COMMAND, SCRIPT, SFT, load, load_sft, refused

WRONG: list[tuple[str, str, int, str, str | None]] = [
    ("task: sft", "tsk: sft", 2, "unknown key `tsk`", "did you mean `task`?"),
    (
        "task: sft",
        "task: stf",
        2,
        "`task` must be 'sft', 'pretrain', 'dpo', 'reward', 'kto', 'grpo', 'distill', 'script' or 'command', not 'stf'",
        "did you mean sft?",
    ),
    (
        "task: sft",
        "task: sft\nsync: {transfer: rsnyc}",
        3,
        "must be 'auto', 'rsync' or 'stream'",
        "did you mean rsync?",
    ),
    ("task: sft", "task: sft\nsync: {transport: rsync}", 3, "unknown key", "did you mean `sync.transfer`?"),
    ("name: qwen-lora", "name: 5", 1, "`name` must be text, not 5", 'put quotes around it: "5"'),
    ("name: qwen-lora", "name: true", 1, "`name` must be text, not true", 'put quotes around it: "true"'),
    ("task: sft", "task: sft\nenvironment: {NCCL_DEBUG: INFO}", 3, "variables belong in `env`", "write env: instead"),
    (
        "task: sft",
        "task: sft\nenvironment: r.txt",
        3,
        "`environment` must be profile or a mapping, not 'r.txt'",
        "write environment: {requirements: r.txt}",
    ),
    ("task: sft", "task: sft\nmodules: [cuda]", 3, "unknown key `modules`", "did you mean `setup`?"),
    ("task: sft", "task: sft\nsetup: module load cuda", 3, "`setup` must be a list", None),
    ("task: sft", 'task: sft\nsetup: ["a\\nb"]', 3, "one line", None),
    ("task: sft", "task: sft\nenvironment: [a]", 3, "must be profile or a mapping, not", "write environment: profile"),
    ("name: qwen-lora", "name: ' '", 1, "must not be empty", None),
    ("train: {", "trian: {", 5, "unknown key `trian`", "did you mean `train`?"),
    ("max_steps: 200", "max_stps: 200", 5, "unknown key `train.max_stps`", "did you mean `train.max_steps`?"),
    ("max_steps: 200", "max_steps: 1, lr: 1.0", 5, "unknown key `train.lr`", "did you mean `train.learning_rate`?"),
    ("max_steps: 200", "max_steps: 1, max_seq_length: 9", 5, "unknown key", "did you mean `train.max_length`?"),
    (
        "max_steps: 200",
        "max_steps: '200'",
        5,
        "must be a whole number, not '200'",
        "leave the quotes out: max_steps: 200",
    ),
    (
        "max_steps: 200",
        "max_steps: 2, sharding: fsdp, logits: whole",
        5,
        "`train.logits` whole does not go with `train.sharding: fsdp`, which divides the output head",
        "tiles, or leave it out",
    ),
    ("max_steps: 200", "max_steps: 2, logits: all", 5, "must be 'auto', 'tiles' or 'whole', not 'all'", None),
    (
        "task: sft",
        "task: sft\ncheckpoint: {in_background: true}\ndeepspeed: ds.json",
        3,
        "`checkpoint.in_background` does not go with `deepspeed`: DeepSpeed writes its checkpoints itself",
        "leave it out, or `train: {sharding: fsdp}`",
    ),
    (
        "max_steps: 200",
        "max_steps: 2, sharding: zero2}\ncheckpoint: {in_background: true",
        6,
        "`checkpoint.in_background` does not go with `train.sharding: zero2`",
        "leave it out, or `train: {sharding: fsdp}`",
    ),
    (
        "max_steps: 200",
        "max_steps: 2, optimizer: lion}\ncheckpoint: {in_background: true",
        6,
        "`checkpoint.in_background` does not go with `train.optimizer: lion`",
        "leave it out, or use adamw or adafactor",
    ),
    ("max_steps: 200", "max_steps: 0", 5, "`train.max_steps` must be at least 1, not 0", None),
    ("max_steps: 200", "max_steps: 9999999999999999999999", 5, "less than 2147483648", None),
    ("max_steps: 200", "max_steps: 1.0", 5, "must be a whole number, not 1.0", None),
    ("max_steps: 200", "max_steps: true", 5, "must be a whole number, not true", None),
    ("max_steps: 200", "max_steps: 1, max_length: 7", 5, "at least 8", None),
    ("max_steps: 200", "max_steps: 1, learning_rate: 0", 5, "more than 0", None),
    ("max_steps: 200", "max_steps: 1, learning_rate: .nan", 5, "a finite number", None),
    ("max_steps: 200", "max_steps: 1, learning_rate: .inf", 5, "a finite number", None),
    ("max_steps: 200", "max_steps: 1, micro_batch_size: atuo", 5, "must be a whole number or 'auto', not 'atuo'", None),
    ("max_steps: 200", "max_steps: 1, micro_batch_size: 0", 5, "must be at least 1 or 'auto', not 0", None),
    ("max_steps: 200", "max_steps: 1, warmup_steps: 1.5", 5, "`train.warmup_steps` must be", None),
    ("max_steps: 200", "max_steps: 1, warmup_steps: 2", 5, "is more than max_steps", None),
    (
        "max_steps: 200",
        "max_steps: 9, lr_scheduler: constant, warmup_steps: 1",
        5,
        "ignores warmup",
        "lr_scheduler: constant_with_warmup",
    ),
    (
        "max_steps: 200",
        "max_steps: 9, lr_floor: 0.1, lr_scheduler: linear",
        5,
        "`train.lr_floor` belongs to cosine",
        None,
    ),
    ("max_steps: 200", "max_steps: 9, decay_steps: 3", 5, "`train.decay_steps` belongs to warmup_stable_decay", None),
    (
        "max_steps: 200",
        "max_steps: 9, lr_scheduler: warmup_stable_decay, decay_steps: 6, warmup_steps: 4",
        5,
        "6 and 4 of warm-up are more than max_steps, 9",
        None,
    ),
    ("max_steps: 200", "max_steps: 9, optimizer: adamw_torch", 5, "no optimizer adamw_torch", "it is called adamw"),
    ("max_steps: 200", "max_steps: 9, optimizer: adamv", 5, "'adamv'", "did you mean adamw?"),
    ("max_steps: 200", "max_steps: 9, optimizer: 3", 5, "`train.optimizer` must be a name, or {name: adamw", None),
    (
        "max_steps: 200",
        "max_steps: 9, lr_scheduler: wsd",
        5,
        "has no schedule wsd",
        "lr_scheduler: warmup_stable_decay",
    ),
    (
        "max_steps: 200",
        "max_steps: 9, optimizer: {name: sgd, betas: [0.9, 0.95]}",
        5,
        "`train.optimizer.betas` does not belong to sgd",
        "it takes momentum",
    ),
    ("max_steps: 200", "max_steps: 9, optimizer: {betas: [0.9, 1]}", 5, "less than 1", None),
    ("max_steps: 200", "max_steps: 9, optimizer: {betas: [0.9]}", 5, "`train.optimizer.betas", None),
    ("max_steps: 200", "max_steps: 9, eval_batch_size: 0", 5, "`train.eval_batch_size` must be at least 1", None),
    (
        "max_steps: 200",
        "max_steps: 9, stop_early: {}",
        5,
        "`train.stop_early` needs train.eval_every_steps",
        "train.eval_every_steps: 100",
    ),
    (
        "max_steps: 200",
        "max_steps: 9, eval_every_steps: 3, stop_early: {metric: eval_accuracy}",
        5,
        "eval_accuracy is never computed by `task: sft`",
        "choose eval_loss",
    ),
    (
        ", eval: [{path: data/eval.jsonl}]}\ntrain: {global_batch_size: 16, max_steps: 200}",
        "}\ntrain: {global_batch_size: 16, max_steps: 200, stop_early: {}}",
        5,
        "`train.stop_early` waits for eval_loss, and data.eval is empty",
        None,
    ),
    ("max_steps: 200", "max_steps: 9, stop_early: 3", 5, "`train.stop_early` must be", None),
    ("max_steps: 200", "max_steps: 1, long_samples: cut", 5, "'drop', 'truncate' or 'split', not 'cut'", None),
    ("max_steps: 200", "max_steps: 1, drop_limit: 2", 5, "`train.drop_limit` must be at most 1", None),
    ("max_steps: 200", "max_steps: 1, sample_packing: true", 5, "unknown key", "did you mean `train.packing`?"),
    ("max_steps: 200", "max_steps: 1, packing: true, group_by_length: true", 5, "nothing to group", None),
    ("max_steps: 200", "max_steps: 1, neftune_alpha: 0", 5, "more than 0", None),
    ("max_steps: 200", "max_steps: 1, packing_strategy: bfd", 5, "unknown key", "did you mean `train.packing`?"),
    ("max_steps: 200", "max_steps: 1, kernels: ligr", 5, "'none', 'liger' or 'hub'", "did you mean liger?"),
    ("max_steps: 200", "max_steps: 1, compile: 1", 5, "must be true or false", None),
    (
        "{path: data/train.jsonl, weight: 1.0}",
        "{weight: 1.0}",
        4,
        "`data.train[0]` needs one of `path`, `hub` and `hook`",
        None,
    ),
    ("{path: data/train.jsonl, weight: 1.0}", "{hook: a.b}", 4, "must be `module:function`, not 'a.b'", None),
    ("{path: data/train.jsonl, weight: 1.0}", "{hub: 'a b/c'}", 4, "must be a dataset's id on the hub", None),
    (
        "{path: data/train.jsonl, weight: 1.0}",
        "{path: data/train.jsonl, split: train}",
        4,
        "`data.train[0].split` belongs to a dataset of the `hub`",
        "leave it out",
    ),
    ("{path: data/train.jsonl, weight: 1.0}", "{hook: a:b}", 4, "has a hook, which comes from `code`", "code: ."),
    ("{path: data/eval.jsonl}", "{hook: a:b}", 4, "cannot be a hook", None),
    ("{path: data/eval.jsonl}]", "{path: data/eval.jsonl}], workers: -1", 4, "at least 0", None),
    (", max_steps: 200", "", 5, "`train` needs `max_steps` or `epochs`", None),
    ("global_batch_size: 16, ", "", 5, "`train.global_batch_size` is missing", None),
    ("{path: data/train.jsonl, weight: 1.0}", "{path: data/none.jsonl}", 4, "there is no file", None),
    ("{path: data/train.jsonl, weight: 1.0}", "{path: data}", 4, "there is no file", None),
    ("weight: 1.0", "weight: 0", 4, "`data.train[0].weight` must be more than 0", None),
    ("weight: 1.0", "wieght: 1.0", 4, "unknown key `data.train[0].wieght`", "did you mean `data.train[0].weight`?"),
    ("[{path: data/train.jsonl, weight: 1.0}]", "[]", 4, "`data.train` must be filled", None),
    ("[{path: data/train.jsonl, weight: 1.0}]", "data/train.jsonl", 4, "`data.train` must be a list", None),
    ("[{path: data/train.jsonl, weight: 1.0}]", "[data/train.jsonl]", 4, "`data.train[0]` must be a mapping", None),
    ("Qwen/Qwen2.5-0.5B-Instruct", "./none", 3, "there is no folder", None),
    ("Qwen/Qwen2.5-0.5B-Instruct", "a/b/c", 3, "neither a folder nor a hub id", None),
    ("Qwen/Qwen2.5-0.5B-Instruct", "'$(touch x)'", 3, "neither a folder nor a hub id", None),
    ("Qwen/Qwen2.5-0.5B-Instruct", "[a]", 3, "`model` must be a hub id", None),
    ("Qwen/Qwen2.5-0.5B-Instruct", "{tny: {}}", 3, "unknown key `model.tny`", "did you mean `model.tiny`?"),
    (
        "Qwen/Qwen2.5-0.5B-Instruct",
        "{tiny: {heads: 3}}",
        3,
        "`model.tiny.hidden_size` must be a multiple of heads",
        None,
    ),
    ("model: Qwen/Qwen2.5-0.5B-Instruct\n", "", 1, "`model` is missing", None),
]


ADDED: list[tuple[str, str, str | None]] = [
    ("learning_rate: 1.0", "unknown key `learning_rate`", "did you mean `train.learning_rate`?"),
    ("zzz: 1", "unknown key `zzz`", "known here: name, task"),
    ("origin: x", "unknown key `origin`", None),
    ("name: again", "the key 'name' is here for the second time", None),
    ("command: [a]", "`command` belongs to `task: command`", "leave it out"),
    ("code: none", "`code`: there is no folder", None),
    ("code: e.yaml", "`code`: there is no folder", None),
    ("lora: {r: 8, alhpa: 1}", "unknown key `lora.alhpa`", "did you mean `lora.alpha`?"),
    ("lora: {use_dora: true}", "unknown key `lora.use_dora`", "did you mean `lora.dora`?"),
    ("lora: {dropout: 1}", "less than 1", None),
    ("lora: {init: pissa_niter_4}", "`lora.init` must be true, 'gaussian', 'pissa' or 'olora'", None),
    ("lora: {target_modules: all}", "'all-linear' or a list", None),
    ("lora: {target_modules: []}", "'all-linear' or filled", None),
    ("lora: {target_modules: [q_proj, lm_head]}", "must not hold lm_head", None),
    ("checkpoint: {every_steps: 0}", "at least 1", None),
    ("checkpoint: {every_minutes: 0}", "more than 0", None),
    ("resume: {accept_change: true}", "unknown key", "did you mean `resume.accept_changes`?"),
    ("resume: {accept_changes: 1}", "must be true or false", None),
    ("start_from: {}", "`start_from` needs either `run` or `path`", None),
    ("start_from: {run: a, path: data}", "`start_from` needs either `run` or `path`", None),
    ("start_from: {path: data, checkpoint: 5}", "`start_from.checkpoint` belongs to `run`", "leave it out"),
    ("start_from: {run: a, checkpoint: worst}", "`start_from.checkpoint` must be", None),
    ("start_from: {run: a, optimizer: true}", "`start_from.optimizer` must be false or 'moments'", None),
    ("start_from: {path: nowhere}", "`start_from.path`: there is no folder", None),
    ("evaluation: {samples: -1}", "at least 0", None),
    ("evaluation: {max_new_tokens: 5}", "unknown key", "did you mean `evaluation.sample_tokens`?"),
    ("checkpoint: {save_steps: 5}", "unknown key", "did you mean `checkpoint.every_steps`?"),
    ("resources: {gpus: al}", "`resources.gpus` must be 'all' or a whole number, not 'al'", None),
    ("resources: {gpus: -1}", "at least 0", None),
    ("resources: {gpus: 2, processes: 3}", "`resources.processes` must be 2", None),
    ("resources:", "`resources` must be a mapping, not null", None),
    ("tracking: {wandb: false}", "must be 'auto', 'online', 'offline' or 'off', not false", "wandb: off"),
    ("secrets: [lower]", "must be the NAME of a variable", None),
    ("secrets: ['A=value']", "cannot be the name", None),
    ("secrets: [A, A]", "twice", None),
    ("secrets: A", "`secrets` must be a list", None),
    ("env: {CUDA_VISIBLE_DEVICES: 1}", "set by armada itself", "choose GPUs with `resources.gpus`"),
    ("env: {ARMADA_RUN_ID: x}", "set by armada itself", "choose another name"),
    ("env: {A: 1.5}", "`env.A` must be text, not 1.5", 'put quotes around it: "1.5"'),
    ("env: {A: true}", "`env.A` must be text, not true", None),
    ("env: {'a b': x}", "cannot be the name", None),
    ("stop_grace_s: -1", "at least 0", None),
]


@pytest.mark.parametrize(("old", "new", "line", "words", "hint"), WRONG)
def test_what_is_wrong_is_told_with_its_line(
    project: Path, old: str, new: str, line: int, words: str, hint: str | None
) -> None:
    assert old in SFT
    error = refused(project, SFT.replace(old, new))
    assert words in error.message
    assert (error.path, error.line) == (project / "e.yaml", line)
    assert hint is None or hint in (error.hint or "")


@pytest.mark.parametrize(("added", "words", "hint"), ADDED)
def test_what_is_added_wrongly_is_told_with_its_line(project: Path, added: str, words: str, hint: str | None) -> None:
    error = refused(project, SFT + added + "\n")
    assert words in error.message
    assert (error.path, error.line) == (project / "e.yaml", 6)
    assert hint is None or hint in (error.hint or "")


def test_of_several_errors_each_has_a_line_with_its_own_remedy(project: Path) -> None:
    text = "name: 5\ntask: sft\nmodell: x\ntrain: {max_steps: many}\nmodel: tiny\ndata: {train: [{path: a.jsonl}]}\n"
    error = refused(project, text)
    first, second, third, last = str(error).splitlines()
    assert first.endswith(':1: `name` must be text, not 5 (put quotes around it: "5")')
    assert second.endswith(":3: unknown key `modell` (did you mean `model`?)")
    assert third.endswith(":4: `train.max_steps` must be a whole number, not 'many'")
    assert last.endswith("`train.global_batch_size` is missing")
    assert error.hint is None, "below the last line, it would be read as the remedy of that"


@pytest.mark.parametrize("key", ["model: a/b", "train: {}", "lora: {}", "evaluation: {}"])
def test_a_command_with_training_keys_says_so(project: Path, key: str) -> None:
    error = refused(project, COMMAND + key + "\n")
    assert "belongs to `task: sft`" in error.message
    assert error.line == 4


def test_every_key_of_another_task_is_named_with_its_line(project: Path) -> None:
    error = refused(project, COMMAND + "model: a/b\nscript: train.py\ndeepspeed: ds.json\n")
    assert str(error).splitlines() == [
        f"{project / 'e.yaml'}:4: `model` belongs to `task: sft`; a command brings its own training (leave it out)",
        f"{project / 'e.yaml'}:5: `script` belongs to `task: script` (leave it out, or write task: script)",
        f"{project / 'e.yaml'}:6: `deepspeed` applies to trainings and scripts: a command is started as it is",
    ]


def test_a_key_that_says_nothing_may_be_another_tasks(project: Path) -> None:
    """`--set train=` makes a command of a training's file."""
    taken_away = [f"{key}=" for key in ("model", "train", "data")]
    command = load(project, SFT, "task=command", "command=[echo, hi]", *taken_away)
    assert isinstance(command, Command)
    training = load_sft(project, SFT + "command:\narguments: []\ncheckpoint:\nstall_after:\n")
    assert (training.checkpoint.every_steps, training.stall_after) == (100, "30m")


def test_a_command_in_one_string_is_told_how_to_ask_for_a_shell(project: Path) -> None:
    error = refused(project, "name: c\ntask: command\ncommand: echo hi\n")
    assert 'command: [sh, -c, "echo hi"]' in (error.hint or "")
    assert error.line == 3


@pytest.mark.parametrize("command", ["", "command: []", "command: [sleep, 1]"])
def test_other_wrong_commands_are_refused(project: Path, command: str) -> None:
    assert "command" in refused(project, f"name: c\ntask: command\n{command}\n").message


def test_evaluating_on_nothing_is_refused(project: Path) -> None:
    text = SFT.replace(", eval: [{path: data/eval.jsonl}]", "").replace(
        "max_steps: 200", "max_steps: 2, eval_every_steps: 1"
    )
    error = refused(project, text)
    assert "`train.eval_every_steps` has nothing to evaluate" in error.message
    assert error.line == 5


def test_a_secret_that_is_also_in_env_is_refused(project: Path) -> None:
    assert "keep one of them" in refused(project, SFT + "env: {A: x}\nsecrets: [A]\n").message


@pytest.mark.parametrize(
    ("key", "value"), [("checkpoint", "{pattern: ./out/ckpt-*}"), ("sync", '{outputs: ["*.txt", "out/**"]}')]
)
def test_results_behind_a_link_to_the_host_are_refused(project: Path, key: str, value: str) -> None:
    text = f"{COMMAND}\n{key}: {value}\nfiles:\n  out: "
    said = refused(project, f"{text}host:/nas/out\n")
    assert "lies behind the link `files.out`, from which nothing comes home" in said.message
    assert said.hint == "save to another folder"
    load(project, f"{text}https://example.org/x\n")
    load(project, f"{text}host:/nas/out\n".replace("out: host", "outer: host"))


def test_every_mistake_is_told_at_once(project: Path) -> None:
    error = refused(project, SFT.replace("max_steps: 200", "max_steps: 0, seed: x") + "zzz: 1\n")
    assert "train.max_steps" in error.message
    assert f"{project / 'e.yaml'}:5: `train.seed`" in error.message
    assert f"{project / 'e.yaml'}:6: unknown key `zzz`" in error.message


def test_a_missing_experiment_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_experiment(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SCRIPT + "data: {train: [{hub: a/b}]}\n", "`data.train[0]` needs `path`: a script reads files"),
        (SCRIPT + "data: {train: [{path: train.py, weight: 2}]}\n", "a script mixes its data itself"),
        (SCRIPT + "data: {train: [{path: train.py}], workers: 2}\n", "a script reads its data itself"),
        (SCRIPT + "data: {train: [{path: none}]}\n", "there is no file"),
        (SCRIPT + "model: Qwen/x\n", "belongs to `task: sft`; a script brings its own training"),
        (SCRIPT.replace("script: train.py\n", ""), "is missing; `task: script` needs the script"),
        (SCRIPT.replace("code: .\n", ""), "is missing; `task: script` needs the script"),
        (SCRIPT.replace("train.py", "/train.py"), "must be a file below `code`"),
        (SCRIPT.replace("train.py", "../train.py"), "must be a file below `code`"),
        (SCRIPT.replace("train.py", "-c"), "must be a file below `code`"),
        (SCRIPT.replace("train.py", "none.py"), "there is no file"),
        (SCRIPT + "checkpoint: {pattern: /out/*}\n", "below the folder the job works in"),
        (SCRIPT + "checkpoint: {pattern: a/../../b}\n", "below the folder the job works in"),
        (SCRIPT + "checkpoint: {pattern: 'a/**'}\n", "must name each level"),
        (SCRIPT + "checkpoint: {every_steps: 5}\n", "a job of your own decides itself when it saves"),
        (SCRIPT + "checkpoint: {pattern: a, every_steps: 5}\n", "a job of your own decides when it saves"),
        (SCRIPT + "resume: [--resume]\ncheckpoint: {pattern: a}\n", "must say where the checkpoint goes"),
        (SCRIPT + 'resume: [--resume, "{checkpoint}"]\n', "needs `checkpoint.pattern`"),
        (SCRIPT + "resume: {accept_changes: true}\n", "belongs to `task: sft`"),
        (COMMAND + "script: train.py\n", "belongs to `task: script`"),
        (SFT + "arguments: [a]\n", "belongs to `task: script`"),
        (SFT + "checkpoint: {pattern: a}\n", "finds the checkpoints of scripts and commands"),
        (SFT + 'resume: ["{checkpoint}"]\n', "`task: sft` finds its checkpoint"),
    ],
)
def test_keys_of_another_kind_of_task_are_refused(project: Path, text: str, words: str) -> None:
    (project / "train.py").touch()
    assert words in str(refused(project, text))


@pytest.mark.parametrize("task", ["[]", "{}", "[sft]", "{sft: 1}", "5"])
def test_a_task_that_is_no_word_is_refused_with_its_line(project: Path, task: str) -> None:
    error = refused(project, f"name: x\ntask: {task}\n")
    assert (
        error.line,
        "`task` must be 'sft', 'pretrain', 'dpo', 'reward', 'kto', 'grpo', 'distill', 'script' or 'command'"
        in str(error),
    ) == (
        2,
        True,
    ), error
