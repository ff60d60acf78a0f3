"""The settings of an experiment as Launch shows them: the answer of `armada __complete form`, and its tree."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.tui.operations import Answer

LONGEST = 500
UNSET = "not set"
"""How a setting is shown that has no value."""
_PART = re.compile(r"\[\d+\]|\.[^.\[]*")
_PLAIN = re.compile(r"[A-Za-z_./~][A-Za-z0-9_./~@+ -]*")
_NOT_TEXT = frozenset({"null", "true", "false", "~", "nan", "inf", ".nan", ".inf"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, or a section of settings. Texts are not sanitized.

    Attributes:
        key: `train.max_steps`, `data.train[0].path`.
        value: As a file says it on one line; None for a section, and for what is not set.
        origin: `file:line`, `--set a=b` or `default`; empty for a section.
        override: The key as `--set` takes it; None if it cannot be set so.
        kind: What it may be, in words.
        default: As a file says it; None if there is none.
        is_required: Whether the part that it belongs to needs it.
        meaning: What it does.
        choices: The only values that it may have; empty if there are others.
    """

    key: str
    value: str | None = None
    origin: str = ""
    override: str | None = None
    kind: str = ""
    default: str | None = None
    is_required: bool = False
    meaning: str = ""
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The last part of its key."""
        parts = _PART.findall(self.key)
        return parts[-1].removeprefix(".") if parts else self.key

    @property
    def takes_text(self) -> bool:
        """Whether it takes any text and nothing else, so that quotes can be added."""
        return self.kind == "text"

    def written(self, typed: str) -> str:
        """Return what was typed as YAML: text that would be read as something else gets quotes."""
        if not self.takes_text or typed in ("", "null") or typed.startswith(('"', "'")):
            return typed
        is_plain = _PLAIN.fullmatch(typed) and typed.lower() not in _NOT_TEXT and typed == typed.strip()
        return typed if is_plain else json.dumps(typed, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Data:
    """A source of data: its file at home, if it is one, and the first row as it is written."""

    split: str
    source: str
    size_bytes: int | None = None
    rows: int | None = None
    columns: tuple[str, ...] = ()
    first: str = ""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a sweep: how many, and a label of each if there are not too many."""

    count: int
    labels: tuple[str, ...]
    is_search: bool
    parallel: int | None
    metric: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a setting: the loader's sentence, and where the setting is written. Texts are not sanitized.

    Attributes:
        key: The setting, or the section that it would be in; empty for the file as a whole.
        where: `exp.yaml:5` or `--set a=b`.
        line: The line of the experiment file; None if it is elsewhere.
        removal: The change that takes an unknown key out; None for anything else.
    """

    key: str
    where: str
    line: int | None
    message: str
    hint: str | None = None
    removal: str | None = None

    @property
    def words(self) -> str:
        """The sentence with its place and its hint."""
        return f"{self.where}: {self.message}" + (f" ({self.hint})" if self.hint else "")


@dataclass(frozen=True, slots=True)
class Form:
    """What is known of an experiment.

    Attributes:
        path: Its file.
        changes: The changes that the settings have in them.
        settings: Each after the section that it is in.
        run: The run that it was filled from.
        host: Where that run was.
        notes: What to say about it.
        faults: What is wrong; empty if it can be launched.
    """

    path: str
    task: str
    changes: tuple[str, ...]
    settings: tuple[Setting, ...]
    data: tuple[Data, ...] = ()
    cells: Cells | None = None
    run: str | None = None
    host: str | None = None
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()

    def faults_at(self, key: str) -> list[Fault]:
        """Return what is wrong with a setting, or with one in it."""
        return [each for each in self.faults if each.key == key or each.key.startswith((f"{key}.", f"{key}["))]

    def unknown_at(self, key: str) -> Fault | None:
        """Return what is wrong with an unknown key that can be taken out: that of a setting, or of a section that it is in."""
        return next(
            (
                each
                for each in self.faults
                if each.removal and (key == each.key or key.startswith((f"{each.key}.", f"{each.key}[")))
            ),
            None,
        )

    def setting(self, key: str | None) -> Setting | None:
        """Return a setting by its key."""
        return next((each for each in self.settings if each.key == key), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an experiment cannot be read: the sentence of the loader, its hint, and the line of the file."""

    message: str
    hint: str | None = None
    line: int | None = None

    @property
    def words(self) -> str:
        """The sentence with its hint."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


def parse(answer: Answer) -> Form | Refusal:
    """Return what a command has answered; a refusal if it is anything else."""
    try:
        told = json.loads(answer.out)
        error = told.get("error")
        if isinstance(error, dict):
            line = error.get("line")
            hint = error.get("hint")
            return Refusal(
                str(error.get("message")), str(hint) if hint else None, line if isinstance(line, int) else None
            )
        return Form(
            path=told["path"],
            task=told["task"],
            changes=tuple(told["changes"]),
            settings=tuple(Setting(**{**each, "choices": tuple(each["choices"])}) for each in told["settings"]),
            data=tuple(Data(**{**each, "columns": tuple(each.get("columns", ()))}) for each in told["data"]),
            cells=Cells(**{**told["sweep"], "labels": tuple(told["sweep"]["labels"])}) if told["sweep"] else None,
            run=told.get("run"),
            host=told.get("host"),
            notes=tuple(told.get("notes", ())),
            faults=tuple(Fault(**each) for each in told["faults"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Refusal(f"the settings cannot be read: {answer.said}")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tree.

    Attributes:
        setting: What it shows.
        depth: How many sections it is in.
        below: How many settings are in it; 0 for a setting.
        written: How many of them are not defaults.
        is_open: Whether the lines of a section follow.
        is_changed: Whether it, or something in it, is changed.
        faults: What is wrong with it; also with what is in it, if that is not shown.
    """

    setting: Setting
    depth: int
    below: int = 0
    written: int = 0
    is_open: bool = False
    is_changed: bool = False
    faults: tuple[Fault, ...] = ()


def tree(form: Form, opened: set[str], changes: Sequence[str]) -> list[Row]:
    """Return the lines of the tree: the top, and what is in the sections that are open."""
    parents = _parents(form.settings)
    inside: dict[str, list[Setting]] = {}
    for setting in form.settings:
        above = parents[setting.key]
        while above is not None:
            inside.setdefault(above, []).append(setting)
            above = parents[above]
    changed = {change.partition("=")[0].strip() for change in changes}
    depths: dict[str, int] = {}
    rows: list[Row] = []
    for setting in form.settings:
        above = parents[setting.key]
        if above is not None and (above not in opened or above not in depths):
            continue
        depths[setting.key] = depth = depths[above] + 1 if above is not None else 0
        below = inside.get(setting.key, [])
        leaves = [each for each in below if each.key not in inside]
        written = sum(each.value is not None and each.origin != "default" for each in leaves)
        name = setting.override or setting.key
        is_changed = any(f"{each}.".startswith(f"{name}.") or f"{name}.".startswith(f"{each}.") for each in changed)
        is_open = setting.key in opened
        faults = [each for each in form.faults_at(setting.key) if each.key == setting.key or not is_open]
        rows.append(Row(setting, depth, len(leaves), written, is_open, is_changed, tuple(faults)))
    return rows


def _parents(settings: Sequence[Setting]) -> dict[str, str | None]:
    """Return the section that each setting is in; None at the top."""
    keys = {setting.key for setting in settings}
    found: dict[str, str | None] = {}
    for setting in settings:
        above = setting.key
        while True:
            above = above[: max(above.rfind("."), above.rfind("["), 0)]
            if not above or above in keys:
                break
        found[setting.key] = above or None
    return found


def from_where(setting: Setting, path: str) -> str:
    """Return where a value comes from, in a few words: the line of the experiment file, or another file with its line."""
    if setting.origin.startswith("--set "):
        return "changed"
    file, _, line = setting.origin.rpartition(":")
    if not line.isdecimal():
        return sanitize_line(setting.origin, 60)
    return f"line {line}" if path.endswith(file.removeprefix("./")) else sanitize_line(setting.origin, 60)
