"""Read an experiment file that a launch would refuse: its settings as they are written, and what is wrong with each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from armada.config.documents import read_document
from armada.config.experiments import experiment_of, problems_of_experiment
from armada.config.form import Setting, in_order, listed, override_of, text_of
from armada.config.key_list import Key, keys_of_task
from armada.config.origins import DEFAULT, Value
from armada.config.overrides import UNSET, apply_override
from armada.config.resolution import plain
from armada.config.tasks.registry import TASKS
from armada.config.validation import dotted, written_places
from armada.errors import ConfigError
from armada.foundation.secrets import LEFT_OUT
from armada.foundation.setting_keys import sections_above
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from armada.config.documents import Document
    from armada.config.validation import Problem

_NO_TASK = (
    Key("name", "text", None, is_required=True, meaning="Free text; run ids and folders are made from it."),
    Key("task", ", ".join(TASKS), None, is_required=True, meaning="What is run.", choices=tuple(TASKS)),
)
"""The keys of an experiment whose task is not known."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one setting.

    Attributes:
        key: The setting, as forms name it; empty if it is the file as a whole.
        where: `exp.yaml:5`, `--set a=b`, or the name of another file.
        line: The line of the experiment file; None for an override and for another file.
        message: The loader's sentence.
        hint: The nearest right thing.
        removal: The change that takes an unknown key out of the file; None for anything else.
    """

    key: str
    where: str
    line: int | None
    message: str
    hint: str | None
    removal: str | None = None


@dataclass(frozen=True, slots=True)
class Faulty:
    """An experiment that cannot be launched."""

    task: str
    settings: list[Setting]
    faults: list[Fault]


def read_faulty(path: Path, changes: Sequence[str], error: ConfigError) -> Faulty:
    """Read an experiment that the loader has refused.

    Args:
        path: Its file.
        changes: `train.seed=7`, each put over the file where that is possible.
        error: What the loader said; it counts where nothing is wrong with the settings themselves.

    Raises:
        ConfigError: The file is not YAML, or cannot be read.
    """
    document = read_document(expanded(path))
    refused = _put(document, changes)
    faults, unknown = _faults_of(document)
    settings = _settings_of(document, unknown)
    keys = {setting.override or setting.key: setting.key for setting in settings}
    keys |= {setting.key: setting.key for setting in settings}
    found = [*refused, *faults] or [_fault_of(error, document)]
    return Faulty(
        str(document.data.get("task") or ""), settings, [replace(each, key=_shown(each.key, keys)) for each in found]
    )


def _shown(key: str, keys: Mapping[str, str]) -> str:
    """Return the setting that is listed and has the key, or the section that it would be in; empty if there is none."""
    return next((keys[each] for each in (key, *reversed(list(sections_above(key)))) if each in keys), "")


def _put(document: Document, changes: Sequence[str]) -> list[Fault]:
    """Put the changes into a document that can be put there; return why the others cannot."""
    found = []
    for change in changes:
        try:
            apply_override(document, change)
        except ConfigError as error:
            key = change.partition("=")[0].strip()
            message = error.message.removeprefix(f"--set {change}: ").removeprefix(f"--set {key}={LEFT_OUT}: ")
            found.append(Fault(key, f"--set {key}", None, message, error.hint))  # its value may be a secret
    return found


def _faults_of(document: Document) -> tuple[list[Fault], set[str]]:
    """List what is wrong with an experiment, and which of its keys are unknown.

    Files that it names are looked for only when nothing else is wrong.
    """
    problems = problems_of_experiment(document)
    found = []
    for each in problems:
        place = each.place
        where = str(place) if place.override is not None else f"{document.path.name}:{place.line}"
        line = None if place.override is not None else place.line
        found.append(Fault(dotted(each.location), where, line, each.message, each.hint, _removal(each)))
    if not problems:
        try:
            experiment_of(document)
        except ConfigError as error:
            found.append(_fault_of(error, document))
    return found, {dotted(each.location) for each in problems if each.kind == "unknown"}


def _removal(problem: Problem) -> str | None:
    """Return the change that takes an unknown key out of the file, where `--set` can name it."""
    is_plain = not any("." in part for part in problem.location if isinstance(part, str))
    key = override_of(dotted(problem.location)) if is_plain else None
    return f"{key}={UNSET}" if problem.kind == "unknown" and problem.place.override is None and key else None


def _fault_of(error: ConfigError, document: Document) -> Fault:
    """Return an error of the loader with the setting that it is about: the one that it names, else one of its line."""
    named = [dotted(location) for location in document.values if f"`{dotted(location)}`" in error.message]
    is_here = error.path is not None and str(error.path) == str(document.path)
    if not named and is_here:
        named = [dotted(location) for location, place in document.values.items() if place.line == error.line]
    where = str(error).removesuffix(error.message).removesuffix(": ")
    if is_here and error.line is not None:
        where = f"{document.path.name}:{error.line}"
    return Fault(max(named, key=len, default=""), where, error.line if is_here else None, error.message, error.hint)


def _settings_of(document: Document, unknown: set[str]) -> list[Setting]:
    """List the settings of a document as they are written, and the keys of its task that are not written.

    Args:
        document: The experiment, with the changes.
        unknown: Keys that no task has: a change cannot take them away.
    """
    task = document.data.get("task")
    schema = {key.name: key for key in (keys_of_task(task) if isinstance(task, str) and task in TASKS else _NO_TASK)}
    places = written_places(document)
    values = {key: Value(key, value, places.get(key, DEFAULT)) for key, value in _written(document.data, "")}
    found = listed(schema, values)
    for key, value in values.items():
        if key not in found:
            for above in sections_above(key):
                found.setdefault(above, Setting(above, None, "", override_of(above), None))
            found[key] = Setting(key, text_of(plain(value.value)), value.origin, override_of(key), None)
    written = {"", *values, *(above for key in values for above in sections_above(key))}
    return [_seen(setting, written, unknown) for setting in in_order(found, places)]


def _seen(setting: Setting, written: set[str], unknown: set[str]) -> Setting:
    """Return a setting as the form shows it: with its default, if it is not written and the section that it is in is."""
    *_, above = ("", *sections_above(setting.key))
    if not unknown.isdisjoint((setting.key, *sections_above(setting.key))):
        return replace(setting, override=None)
    if setting.value is None and setting.origin == DEFAULT and setting.about is not None and above in written:
        return replace(setting, value=setting.about.default)
    return setting


def _written(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """List the values of a document, as `armada.config.origins` lists those of an experiment."""
    if isinstance(value, dict) and (value or not key):
        for name, item in value.items():
            yield from _written(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _written(item, f"{key}[{index}]")
    else:
        yield key, value
