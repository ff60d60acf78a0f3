"""Write armada.json into every checkpoint: its settings, so that a resume can tell which of them changed.

The Trainer silently resumes under another world size, learning rate or maximum length. The states of the optimizer and
scheduler then override some of the new values, and not others.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from armada_train.data.hashes import hash_data, hash_source
from armada_train.data.hooks import hook_file, load_hook
from armada_train.records import find_object, is_number, is_whole, show
from armada_train.runfolder import replace_json
from armada_train.specification.generation import FREE
from armada_train.specification.objectives import SFT, Objective
from armada_train.specification.optimizers import Optimizer
from armada_train.specification.values import ZERO, Source, TinyModel, Training

NAME = "armada.json"
_FORMAT = 1
_MOST_RANKS = 1 << 16
# These settings of the schedule may change at every start: they affect what is measured, not what is trained.
_FREE = (
    "log_every_steps",
    "eval_every_steps",
    "eval_batch_size",
    "stop_early",
    "best_metric",
    "activation_checkpointing",
    "drop_limit",
)
_DEFAULTS: dict[str, Any] = {
    "optimizer": dataclasses.asdict(Optimizer()),
    "lr_floor": 0.0,
    "decay_steps": None,
    "logits": "tiles",
}
"""Settings that came later: a checkpoint that does not name one was trained with this."""
_CONTENT = re.compile(r"(?<=/)[0-9a-f]{64}(?=/|$)")
"""A folder on a host that is named after what it holds."""

Settings = Mapping[str, Any]


def describe_settings(training: Training) -> dict[str, Any]:
    """Return the settings that a checkpoint's optimizer, random states and data position depend on, by the user's keys.

    Reads the data again to hash it.
    """
    schedule = {key: value for key, value in dataclasses.asdict(training.schedule).items() if key not in _FREE}
    if not training.is_sharded and training.schedule.sharding not in ZERO:  # which is what checkpoints without it are
        del schedule["sharding"]
    for key, default in _DEFAULTS.items():
        if schedule[key] == default:
            del schedule[key]  # which is what checkpoints without it are
    lora = dataclasses.asdict(training.lora) if training.lora else None
    model = dataclasses.asdict(training.model) if isinstance(training.model, TinyModel) else training.model
    settings = {
        "model": model,
        "data.train": [_describe_source(source) for source in training.train_data],
        "batch.global": training.batch.overall,
        "batch.micro": training.batch.micro,
        "batch.accumulation": training.batch.accumulation,
        "batch.processes": training.batch.processes,
        **{f"train.{key}": value for key, value in schedule.items()},
        **({f"lora.{key}": value for key, value in lora.items()} if lora else {"lora": None}),
        "precision": training.precision,
    }
    if training.objective.name != SFT.name:  # which is what checkpoints without it are
        settings["task"] = training.objective.name
        settings |= _describe_objective(training.objective)
    if training.start_from:
        settings["start_from"] = {"path": str(training.start_from.path), "moments": training.start_from.moments}
    content: dict[str, Any] = json.loads(json.dumps(settings))  # as it will be read back: tuples become lists
    return content


def describe_evaluation(training: Training) -> dict[str, Any]:
    """Return what the numbers of an evaluation depend on beside the model: its rows, set by set. Reads them to hash them."""
    sources = [
        {**_describe_source(source), **({"set": source.set} if source.set else {})} for source in training.eval_data
    ]
    content: dict[str, Any] = json.loads(json.dumps({"data.eval": sources}))
    return content


def describe_function(training: Training) -> dict[str, Any]:
    """Return what the numbers of the user's function depend on beside the rows; empty without one. Reads its file to hash it.

    Raises:
        PayloadFailure: `data_error`: it cannot be imported.
    """
    asked = training.evaluation
    if asked.function is None or not training.eval_data:
        return {}
    load_hook(asked.function, "evaluation function")
    return {
        "evaluation.function": f"{asked.function} {hash_data(hook_file(asked.function))[:12]}",
        "evaluation.prompts": asked.prompts,
        "evaluation.sample_tokens": asked.sample_tokens,
        "evaluation.temperature": asked.temperature,
    }


def _describe_objective(objective: Objective) -> dict[str, Any]:
    """Return the task's own settings; of each reward function, the hash of its file, too."""
    found = {f"{objective.name}.{key}": value for key, value in objective.settings.items() if key not in FREE}
    teacher = objective.settings.get("teacher")
    if teacher and "path" in teacher:  # its folder is named after its content, and hosts have it in other places
        found[f"{objective.name}.teacher"] = (
            Path(teacher["path"]).name if teacher["path"][0] == "/" else teacher["path"]
        )
    for judge in objective.settings.get("rewards", ()):
        if "function" in judge:
            found[f"{objective.name}.rewards: {judge['function']}"] = hash_data(hook_file(judge["function"]))
    return found


def write_manifest(checkpoint: Path, settings: Settings, evaluation: Mapping[str, Any] | None = None) -> None:
    """Write the settings into a checkpoint's folder, and what its evaluations measured."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    measured = {} if evaluation is None else {"evaluation": evaluation}
    replace_json(checkpoint / NAME, {"format": _FORMAT, "settings": settings, **measured})


def read_evaluation(checkpoint: Path) -> dict[str, Any] | None:
    """Return what a checkpoint's evaluations measured; None if it does not say so."""
    measured = find_object(checkpoint / NAME).get("evaluation")
    return measured if isinstance(measured, dict) else None


def read_manifest(checkpoint: Path) -> dict[str, Any] | None:
    """Return a checkpoint's settings; None if there are none that can be read."""
    content = find_object(checkpoint / NAME)
    settings = content.get("settings") if content.get("format") == _FORMAT else None
    return settings if isinstance(settings, dict) else None


def saved_processes(settings: Settings | None, now: int) -> int:
    """Return the number of ranks that wrote a checkpoint; this attempt's if its settings do not say."""
    saved = (settings or {}).get("batch.processes")
    return saved if is_whole(saved, 1) and saved <= _MOST_RANKS else now


def name_of_optimizer(settings: Settings | None) -> str:
    """Return the optimizer that a checkpoint was trained with."""
    saved = (settings or {}).get("train.optimizer")
    return str(saved.get("name")) if isinstance(saved, Mapping) else Optimizer().name


def compare(before: Settings, now: Settings) -> list[str]:
    """Describe every changed setting with its old and new value.

    What was sent (a model, a reward model) is in a folder named after its content, which is the same below another root.
    """
    return [
        f"`{show(key)}` was {show(_show(before, key))} and is {show(_show(now, key))}"
        for key in dict.fromkeys([*before, *now])
        if _without_roots(before.get(key)) != _without_roots(now.get(key))
    ]


def _without_roots(value: Any) -> Any:
    """Return a setting with the folders of content that it names reduced to that content's hash."""
    if isinstance(value, Mapping):
        return {key: _without_roots(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_roots(item) for item in value]
    if isinstance(value, str) and value.startswith("/") and (found := _CONTENT.search(value)):
        return value[found.start() :]
    return value


def _describe_source(source: Source) -> dict[str, Any]:
    origin = {"hook": source.hook} if source.hook else {"hub": source.hub.id} if source.hub else {}
    return {**origin, "sha256": hash_source(source), "weight": source.weight, **source.form.describe()}


def _form(source: Mapping[str, Any]) -> str:
    stated = {key: source[key] for key in ("format", "columns", "template") if key in source}
    return f" as {json.dumps(stated)}" if stated else ""


def _is_data(value: object) -> bool:
    """Tell whether a setting is what `describe_settings` writes of the data; a disk may have changed it."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get("sha256"), str) and is_number(item.get("weight"))
        for item in value
    )


def _show(settings: Settings, key: str) -> str:
    if key not in settings:
        if key == "train.sharding":
            return '"none"'
        default = _DEFAULTS.get(key.removeprefix("train.")) if key.startswith("train.") else None
        return "not there" if default is None else json.dumps(default)
    value = settings[key]
    if key in ("data.train", "data.eval") and _is_data(value):
        return " + ".join(
            f"{item.get('hook') or item.get('hub') or 'data'} {item['sha256'][:12]} × {item['weight']:g}" + _form(item)
            for item in value
        )
    return json.dumps(value)
