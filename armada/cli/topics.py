"""The topics of `armada help`: short pages for the terminal, made from the tables and models that the program itself uses."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING

from armada.errors import EXIT_CODES, UsageError
from armada.verdicts.states import STATE_GLYPHS, STATE_MEANINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from armada.config.key_list import Key

_WIDEST = 100


def _width() -> int:
    return max(40, min(_WIDEST, shutil.get_terminal_size().columns)) - 1


def _paragraph(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _width(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _terms(rows: Iterable[tuple[str, str]]) -> str:
    """Words with what they mean beside them; a long word has its meaning on the next line."""
    listed = list(rows)
    column = min(22, max(len(word) for word, _ in listed)) + 4
    lines = []
    for word, meaning in listed:
        filled = textwrap.wrap(meaning, max(30, _width() - column), break_on_hyphens=False) or [""]
        start = f"  {word}".ljust(column)
        if len(start) > column:
            lines.append(start)
            start = " " * column
        lines += [(start + filled[0]).rstrip(), *(" " * column + line for line in filled[1:])]
    return "\n".join(lines)


def _keys(keys: Iterable[Key]) -> str:
    """Each key with what it may be, and below that what it means."""
    lines = []
    for key in keys:
        notes = [key.kind, "required" if key.is_required else "", f"default {key.default}" if key.default else ""]
        said = "; ".join(filter(None, notes))
        lines.append(f"  {key.name}{f': {said}' if said else ''}")
        if key.meaning:
            lines.append(_paragraph(key.meaning, "      "))
    return "\n".join(lines)


def _exit_codes(_rest: list[str]) -> str:
    return "\n".join(f"{code:>4}  {meaning}" for code, meaning in EXIT_CODES.items())


def _json(_rest: list[str]) -> str:
    import json

    from armada.cli.shapes import all_schemas

    return json.dumps(all_schemas(), indent=1)


def _states(_rest: list[str]) -> str:
    intro = "The state of a run, as `armada ps` lists it. `armada why RUN` shows the evidence for it."
    rows = [(f"{STATE_GLYPHS[state]} {state}", meaning) for state, meaning in STATE_MEANINGS.items()]
    after = (
        "A word behind the state is its reason, such as `failed: oom`. The age in the column SEEN says how old the state "
        "is: if a host does not answer, the last known state stays."
    )
    return "\n\n".join([_paragraph(intro), _terms(rows), _paragraph(after)])


_EXAMPLES = {
    "sft": """\
  name: my first adapter
  task: sft
  model: Qwen/Qwen2.5-0.5B-Instruct
  data: {train: [{path: train.jsonl}]}
  train: {global_batch_size: 16, epochs: 1}
  lora: {r: 16}""",
    "pretrain": """\
  name: more of my field
  task: pretrain
  model: Qwen/Qwen2.5-0.5B
  data: {train: [{path: documents.jsonl}]}
  train: {global_batch_size: 16, epochs: 1, max_length: 2048}""",
    "dpo": """\
  name: the answers I prefer
  task: dpo
  model: Qwen/Qwen2.5-0.5B-Instruct
  data: {train: [{path: pairs.jsonl}]}
  train: {global_batch_size: 16, epochs: 1, learning_rate: 5.0e-6}
  dpo: {beta: 0.1}
  lora: {r: 16}""",
    "reward": """\
  name: a judge of answers
  task: reward
  model: Qwen/Qwen2.5-0.5B-Instruct
  data: {train: [{path: pairs.jsonl}]}
  train: {global_batch_size: 16, epochs: 1, learning_rate: 1.0e-5}
  lora: {r: 16}""",
    "kto": """\
  name: thumbs up and down
  task: kto
  model: Qwen/Qwen2.5-0.5B-Instruct
  data: {train: [{path: judged.jsonl}]}
  train: {global_batch_size: 16, micro_batch_size: 4, epochs: 1, learning_rate: 1.0e-6}
  kto: {beta: 0.1}
  lora: {r: 16}""",
    "grpo": """\
  name: answers that my judges like
  task: grpo
  code: .
  model: Qwen/Qwen2.5-0.5B-Instruct
  data: {train: [{path: prompts.jsonl}]}
  train: {global_batch_size: 64, max_steps: 200, max_length: 1024, learning_rate: 1.0e-6}
  grpo: {rewards: ["judges:correct"], num_generations: 8, max_completion_length: 512}
  lora: {r: 16}""",
    "distill": """\
  name: a small model that answers as a large one
  task: distill
  model: Qwen/Qwen2.5-0.5B-Instruct
  data: {train: [{path: chats.jsonl}]}
  train: {global_batch_size: 16, epochs: 1, learning_rate: 1.0e-5}
  distill: {teacher: Qwen/Qwen2.5-7B-Instruct, beta: 0.5}""",
    "script": """\
  name: my own trainer
  task: script
  code: .
  script: train.py
  arguments: [--lr, "1e-4"]
  checkpoint: {pattern: "out/checkpoint-*"}""",
    "command": """\
  name: nightly evaluation
  task: command
  code: .
  command: [python3, evaluate.py]""",
}
_TASKS = {
    "sft": "trains a language model on your data; you write no code",
    "pretrain": "trains a language model further on plain text",
    "dpo": "trains a language model to prefer one answer to another, from pairs of answers",
    "reward": "trains a model that scores answers, from pairs of answers",
    "kto": "trains a language model towards good answers and away from bad ones, judged one by one",
    "grpo": "trains a language model on its own completions, by what your functions or a reward model say of them",
    "distill": "trains a small language model towards the probabilities of a larger one, its teacher",
    "script": "runs a training script of yours under accelerate, once per GPU",
    "command": "runs any command",
}


def _experiment(rest: list[str]) -> str:
    from armada.config.key_list import keys_of_task
    from armada.config.tasks.registry import TASKS

    if rest:
        if rest[0] not in TASKS or len(rest) > 1:
            raise UsageError(f"there is no task {' '.join(rest)!r}", hint=f"armada help experiment {' | '.join(TASKS)}")
        head = f"Every key of an experiment with `task: {rest[0]}`, which {_TASKS[rest[0]]}. An example:"
        return "\n\n".join([_paragraph(head), _EXAMPLES[rest[0]], _keys(keys_of_task(rest[0]))])
    intro = (
        "An experiment is a YAML file that says what to run. `armada init` writes a first one. It names no host: "
        "`armada launch --host NAME FILE` chooses one, and checks the file without starting anything where you add "
        "`--dry-run`. Relative paths are relative to the file."
    )
    tops = {task: [key for key in keys_of_task(task) if "." not in key.name] for task in TASKS}
    shared = [key for key in tops["sft"] if all(key.name in {each.name for each in of} for of in tops.values())]
    parts = [_paragraph(intro), "Tasks:", _terms((f"task: {task}", _TASKS[task]) for task in TASKS)]
    parts += ["Keys of every task:", _terms((key.name, _short(key)) for key in shared)]
    for task, keys in tops.items():
        own = [key for key in keys if key.name not in {each.name for each in shared}]
        parts += [f"Keys of `task: {task}`:", _terms((key.name, _short(key)) for key in own)]
    parts.append(
        _paragraph(
            f"`armada help experiment {' | '.join(TASKS)}` lists every key of a task, those below `train` and the like "
            "too. `--set train.seed=7` changes a key for one launch."
        )
    )
    return "\n\n".join(parts)


def _short(key: Key) -> str:
    meaning = key.meaning.partition(". ")[0].rstrip(".")
    return f"{meaning} (required)" if key.is_required else meaning


def _hosts(_rest: list[str]) -> str:
    from armada.config.key_list import keys_of_host

    intro = (
        "Hosts are the machines and clusters that run your experiments. They stand in hosts.yaml, and a project's own in "
        "armada.yaml in its folder. `local` is this machine; it is always there. `armada hosts add NAME user@address:port` "
        "writes an entry and pins the host's key."
    )
    example = """\
  hosts:
    a100-1: {ssh: "root@203.0.113.7:50022", price_per_hour: 14.4}
    lab: {ssh: login.example.org, scheduler: slurm, root: /scratch/me/armada, slurm: {partition: gpu}}"""
    place = "`armada hosts check NAME` logs in and shows what is there. `armada doctor NAME` finds what is wrong."
    parts = [_paragraph(intro), example, _paragraph(place), "Keys of a host:", _keys(keys_of_host())]
    return "\n\n".join(parts)


_FILTERS = (
    ("qwen, qwen*lora", "in the name, id, host, state, task, reason, group or a tag"),
    ("host:a100, host=a100-1", "a part of a field, or the whole field; * ? […] match the whole field"),
    ("tag:arc, group:sweep*", "labels, as whole words or patterns"),
    ("loss<0.4, lr>=1e-5", "numbers; units as in age<2d, lasted>3h, log>10MB, progress<50%"),
    ("created>2026-11-01", "dates and times"),
    ("min(eval_loss)<0.4", "the lowest, highest (max) or newest (last) value of a metric"),
    ("starred, -archived", "conditions; `-`, `!` and `not` negate what follows"),
    ("a b, a or b", "both, or one of them; brackets group: (a or b) c"),
)


def _filters(_rest: list[str]) -> str:
    from armada.filters.keys import ALIASES, RUN_KEYS, SETTING_ALIASES

    intro = (
        "`armada ps EXPR`, `--where EXPR` and the dashboard's `/` take filters, such as 'loss<0.4 tag:arc -host:a100*'. "
        "Write them in single quotes. A value that is not known is never true; a run without a tag, group or note is known to have none."
    )
    kinds = {"text": "text", "word": "labels", "flag": "conditions", "number": "numbers", "duration": "durations"}
    kinds |= {"size": "sizes", "moment": "times"}
    rows = [
        (said, ", ".join(name for name, key in RUN_KEYS.items() if key.kind == kind)) for kind, said in kinds.items()
    ]
    more = (
        "Settings are keys too, whole (`train.learning_rate`) or by their last part (`learning_rate`), and metrics by "
        "their names (`eval_loss`). `armada ps --columns` takes the same keys."
    )
    others = {**ALIASES, **SETTING_ALIASES}.items()
    parts = [_paragraph(intro), _terms(_FILTERS), "Keys:", _terms(rows), _paragraph(more)]
    return "\n\n".join([*parts, "Other names:", _terms(others)])


TOPICS: dict[str, tuple[str, Callable[[list[str]], str]]] = {
    "experiment": ("the keys of an experiment file, by task", _experiment),
    "hosts": ("how hosts.yaml describes hosts; the commands of `armada hosts`", _hosts),
    "filters": ("how `armada ps EXPR` and --where find runs", _filters),
    "states": ("what each state of a run means", _states),
    "exit-codes": ("what each exit code means", _exit_codes),
    "json": ("the JSON Schemas of what --json prints", _json),
}
"""What each topic is about, and what makes its page of the words behind it."""

TAKE_WORDS = frozenset({"experiment"})
"""Topics with further pages."""
