"""List the settings of an experiment with their values, where each comes from, and what each may be: for forms."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.key_list import Key, keys_of_task
from armada.config.labels import KEYS as LABELS
from armada.config.origins import DEFAULT, trace
from armada.config.resolution import plain
from armada.foundation.setting_keys import sections_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.config.origins import Value
    from armada.config.tasks.experiment import Experiment

MOST_SETTINGS = 5000
"""Rows of a form. A file may have 100,000 values."""
_INDEX = re.compile(r"\[(\d+)\]")
_PLAIN = re.compile(r"[A-Za-z_./~-][A-Za-z0-9_./~@+-]*")
_NOT_TEXT = frozenset({"null", "true", "false", "~", "nan", "inf", "-", "--", "---", "..."})


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of a form.

    Attributes:
        key: `train.max_steps`, `data.train[0].path`.
        value: As a file would say it on one line; None for a section, and for what is not set.
        origin: `file:line`, `--set a=b` or `default`; empty for a section.
        override: The key as `--set` takes it; None if it cannot be set so.
        about: What the schema says; None for names that the user gave, apart from variables.
    """

    key: str
    value: str | None
    origin: str
    override: str | None
    about: Key | None

    def as_json(self) -> dict[str, object]:
        """The row for the dashboard."""
        about = self.about
        return {
            "key": self.key,
            "value": self.value,
            "origin": self.origin,
            "override": self.override,
            "kind": about.kind if about is not None else "",
            "default": about.default if about is not None else None,
            "is_required": about.is_required if about is not None else False,
            "meaning": about.meaning if about is not None else "",
            "choices": list(about.choices) if about is not None else [],
        }


def settings_of(experiment: Experiment) -> list[Setting]:
    """List every setting of an experiment, also those that are not set, in the order of the schema."""
    schema = {key.name: key for key in keys_of_task(experiment.task)}
    values = {value.key: value for value in trace(experiment, experiment.places)}
    return in_order(listed(schema, values), experiment.places)


def listed(schema: Mapping[str, Key], values: Mapping[str, Value]) -> dict[str, Setting]:
    """List the keys of a schema, each with the values that belong to it; values that no key knows are left out."""
    found: dict[str, Setting] = {}
    by_name: dict[str, list[Value]] = {}
    for value in values.values():
        by_name.setdefault(_nearest(_INDEX.sub("[]", value.key), schema), []).append(value)
    mappings = tuple(f"{name}." for name, about in schema.items() if about.kind.startswith("mapping"))
    for name, about in schema.items():
        mine = by_name.get(name, [])
        if "[]" not in name and name not in values and not name.startswith(mappings):
            # A section, or one of a section that is not set.
            is_section = any(key.startswith((f"{name}.", f"{name}[")) for key in values)
            found[name] = Setting(name, None, "" if is_section else DEFAULT, name, about)
        for value in mine:
            for above in sections_above(value.key):
                found.setdefault(
                    above, Setting(above, None, "", override_of(above), schema.get(_INDEX.sub("[]", above)))
                )
            exact = _INDEX.sub("[]", value.key) == name
            below = value.key[len(name) + 1 :] if not exact and about.kind.startswith("mapping") else ""
            # `files.a.txt.path`: where the name ends is not clear to --set.
            is_clear = below.count(".") <= any(other.startswith(f"{name}.") for other in schema)
            override = override_of(value.key) if is_clear else None
            told = about if exact else _about_entry(value.key, about)
            found[value.key] = Setting(value.key, text_of(plain(value.value)), value.origin, override, told)
    return found


def _about_entry(key: str, mapping: Key) -> Key | None:
    """Return what an entry of a mapping may be: a variable is text, also one that looks like a number."""
    return Key(key, "text", None, is_required=False, meaning="") if mapping.name == "env" else None


def in_order(found: Mapping[str, Setting], places: Mapping[str, str]) -> list[Setting]:
    """Put settings in the order of the file; those that are not written follow."""
    first = _first_lines(places)
    last = len(found) + max(first.values(), default=0)
    return sorted(found.values(), key=lambda setting: first.get(_top(setting.key), last))[:MOST_SETTINGS]


def _first_lines(places: Mapping[str, str]) -> dict[str, int]:
    """Return the line of each part of the file: a form begins with what is written, in the order of the file."""
    found: dict[str, int] = {}
    for key, place in places.items():
        line = place.rpartition(":")[2]
        if line.isdecimal() and not place.startswith("--set "):
            found[_top(key)] = min(int(line), found.get(_top(key), int(line)))
    return found


def _top(key: str) -> str:
    return key.partition(".")[0].partition("[")[0]


def differences(recorded: Mapping[str, Any], experiment: Experiment) -> list[str]:
    """Return the overrides that make an experiment the same as one that was recorded with a run.

    Args:
        recorded: spec["experiment"] of the run. Keys that this armada does not know are left out.
        experiment: What its file says now.
    """
    now = json.loads(experiment.model_dump_json(exclude={*LABELS, "sweep"}))
    return [f"{key}={text_of(value)}" for key, value in _differing(recorded, now, "", is_model=True)]


def text_of(value: Any) -> str:
    """A value as YAML on one line, as `--set` takes it."""
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT and not value.startswith((".", "-"))
        return value if is_plain else json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text_of(str(key))}: {text_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return json.dumps(value)


def _differing(
    then: Mapping[str, Any], now: Mapping[str, Any], above: str, *, is_model: bool
) -> Iterator[tuple[str, Any]]:
    for key, value in then.items():
        if key not in now:
            continue
        mine = now[key]
        if value == mine:
            continue
        if isinstance(value, dict) and isinstance(mine, dict) and value.keys() == mine.keys():
            yield from _differing(value, mine, f"{above}{key}.", is_model=is_model)
        else:
            yield f"{above}{key}", value


def _nearest(name: str, schema: Mapping[str, Key]) -> str:
    """Return the key of the schema that a value belongs to: its own, or the mapping that its name stands in."""
    while name and name not in schema:
        name = name[: max(name.rfind("."), name.rfind("["), 0)]
    return name


def override_of(key: str) -> str | None:
    """Return the key as `--set` takes it; None if a name in it has a dot or an equals sign."""
    return None if "=" in key or any(not part for part in key.split(".")) else _INDEX.sub(r".\1", key)
