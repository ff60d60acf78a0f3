"""Write the model card of an export: README.md with YAML front matter, from the run's plan, its data and its losses."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from armada import __version__
from armada.config.tasks.registry import TRAININGS
from armada.export.data import describe_data, hub_datasets
from armada.export.loading import how_to_load
from armada.export.subject import Kind
from armada.foundation.sanitize import sanitize_line
from armada.foundation.secrets import without_secrets
from armada.foundation.validation import finite, mapping
from armada.store import metrics
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.export.subject import Subject
    from armada.store.database import Database

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_MOST_ARGUMENTS = 100


def make_card(database: Database, subject: Subject, where: str) -> str:
    """Return the text of README.md.

    Args:
        database: The store, for the losses.
        subject: The export.
        where: The name from which the model is loaded: a folder or a repository.
    """
    run, checkpoint = subject.run, subject.checkpoint
    title = sanitize_line(subject.plan.get("name") or run.name, 200)
    facts = [
        ("Task", _task(subject)),
        ("Base model", subject.base or "none: the run created its own model"),
        ("Checkpoint", f"step {checkpoint.step} of run {subject.training_id}"),
        ("Files", f"{counted(len(subject.files), 'file')}, {amount(subject.size_bytes)}"),
        ("Made with", f"armada {__version__}"),
    ]
    if subject.training_id != run.run_id:
        facts.insert(3, ("Merged by", f"run {run.run_id}"))
    if subject.base is None and subject.kind is Kind.FILES:
        facts = [fact for fact in facts if fact[0] != "Base model"]
    parts = [_front_matter(subject), f"# {_plain(title)}", _table(("", ""), facts)]
    if code := how_to_load(subject, where):
        parts += ["## How to load it", f"```python\n{code}\n```"]
    if losses := _losses(database, subject):
        parts += ["## Losses", _table(("Loss", "Value"), losses)]
    if data := describe_data(subject):
        rows = [
            (item.use, item.name, item.sha256 or "", "" if item.rows is None else f"{item.rows:,}") for item in data
        ]
        parts += ["## Data", _table(("Use", "Name", "SHA-256", "Rows"), rows)]
    if settings := _settings(subject.plan):
        parts += ["## Settings", _table(("Setting", "Value"), settings)]
    return "\n\n".join(parts) + "\n"


def _task(subject: Subject) -> str:
    task = sanitize_line(subject.plan.get("task") or subject.run.task, 40)
    return {Kind.ADAPTER: f"{task} (LoRA adapter)", Kind.MODEL: f"{task} (whole model)"}.get(subject.kind, task)


def _front_matter(subject: Subject) -> str:
    """Return the front matter that the hub reads. JSON strings are YAML, so no text of a host can add a key."""
    lines = []
    base = subject.base
    if base is not None and _HUB_ID.fullmatch(base):
        relation = "adapter" if subject.kind is Kind.ADAPTER else "finetune"
        lines += [f"base_model: {_quoted(base)}", f"base_model_relation: {relation}"]
    if datasets := hub_datasets(subject.plan):
        lines += ["datasets:", *(f"- {_quoted(each)}" for each in datasets)]
    if subject.kind is not Kind.FILES:
        lines.append(f"library_name: {'peft' if subject.kind is Kind.ADAPTER else 'transformers'}")
    task = subject.plan.get("task")
    if task in TRAININGS:
        lines.append(f"pipeline_tag: {'text-classification' if task == 'reward' else 'text-generation'}")
    tags = ["armada", *(["lora"] if subject.kind is Kind.ADAPTER else [])]
    return "\n".join(["---", *lines, "tags:", *(f"- {tag}" for tag in tags), "---"])


def _quoted(text: str) -> str:
    return json.dumps(sanitize_line(text, 200))


def _losses(database: Database, subject: Subject) -> list[tuple[str, str]]:
    """Return the last losses up to the checkpoint's step, and the best evaluation loss of the run."""
    found = []
    for title, name in (("training", "loss"), ("evaluation", "eval_loss")):
        points = metrics.curve(database, subject.training_id, name)
        until = [(step, value) for step, value in points if step <= subject.checkpoint.step]
        if until:
            found.append((f"last {title} loss, at step {until[-1][0]}", metrics.figure(until[-1][1])))
    measured = [
        (value, step)
        for step, value in metrics.curve(database, subject.training_id, "eval_loss")
        if finite(value) is not None and value is not None
    ]
    if measured:
        value, step = min(measured)
        found.append((f"best evaluation loss of the run, at step {step}", metrics.figure(value)))
    return found


def _settings(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the hyperparameters by the experiment's keys; of a user's own trainer, its script and arguments."""
    training = mapping(plan.get("training"))
    if "train" in training:
        sections = {"train": training.get("train"), "batch": training.get("batch"), "lora": training.get("lora")}
        found = [
            (f"{section}.{key}", _value(value))
            for section, values in sections.items()
            for key, value in mapping(values).items()
            if value is not None
        ]
        return [*found, ("precision", _value(training.get("precision")))]
    experiment = mapping(plan.get("experiment"))
    found = [(key, _value(experiment[key])) for key in ("script",) if isinstance(experiment.get(key), str)]
    for key in ("arguments", "command"):
        words = experiment.get(key)
        if isinstance(words, list) and words:
            found.append((key, " ".join(without_secrets([str(word) for word in words[:_MOST_ARGUMENTS]]))))
    return found


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    lines += [f"| {_plain(row[0])} | {' | '.join(map(_code, row[1:]))} |" for row in rows]
    return "\n".join(lines)


def _code(text: str) -> str:
    """Return text as code in a table's cell, where nothing in it is markup."""
    plain = sanitize_line(text, 1000).replace("`", "'").replace("|", "¦").strip()
    return f"`{plain}`" if plain else ""


def _plain(text: str) -> str:
    """Return text in which no character is markup."""
    return re.sub(r"([\\`*{}\[\]<>#|!&]|(?<!\w)_|_(?!\w))", r"\\\1", sanitize_line(text, 200))
