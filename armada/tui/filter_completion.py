"""Complete a filter while it is typed: keys with an operator, and the values that runs have."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from armada.filters.keys import CHOICES, RUN_KEYS, SETTING_ALIASES, UnknownKey, resolve
from armada.filters.values import EXAMPLES
from armada.tui.commands.completion import MOST, Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from armada.filters.keys import Key, Vocabulary
    from armada.tui.snapshot import RunRow

PLAIN = re.compile(r"[\w.-]+")
"""Names that need no quotes in a filter."""
FIRST = ("state", "host", "tag", "group", "loss", "lr", "is", "name", "age", "starred")
"""What is offered before anything is typed."""
LONGEST = 100
_SERIES = r"(?i:min|max|last)\([^()\s:<>=!\"]+\)"
_KEY = re.compile(rf"{_SERIES}|[^\W\d][\w./\[\]-]*")
_PART = re.compile(rf"(?P<key>{_KEY.pattern})(?P<sign><=|>=|!=|==|<|>|=|:)(?P<value>.*)", re.DOTALL)
_OPERATORS = {
    "text": (":", "=", "!="),
    "word": (":", "=", "!="),
    "any": ("=", "<", ">", ":", "!="),
    "number": ("<", ">", "=", "<=", ">=", "!="),
    "duration": ("<", ">"),
    "size": ("<", ">"),
    "moment": (">", "<"),
    "flag": ("",),
}
"""The operators of each kind of key, the most likely first."""
_READ: dict[str, Callable[[RunRow], Iterable[str | None]]] = {
    "host": lambda row: (row.run.host,),
    "tag": lambda row: row.run.tags,
    "group": lambda row: (row.run.group,),
    "reason": lambda row: (row.run.reason,),
    "task": lambda row: (row.run.task,),
    "experiment": lambda row: (row.run.experiment,),
    "phase": lambda row: (row.run.phase,),
    "name": lambda row: (row.run.name,),
    "id": lambda row: (row.run.run_id,),
}


@dataclass(slots=True)
class Values:
    """The values that runs have, listed once for each snapshot and key."""

    rows: Sequence[RunRow] = ()
    _lists: dict[str, list[str]] = field(default_factory=dict)

    def of(self, name: str) -> Sequence[str]:
        """Return the values of a key; those of the newest runs first."""
        if name in CHOICES:
            return CHOICES[name]
        if (read := _READ.get(name)) is None:
            return ()
        if name not in self._lists:
            found = dict.fromkeys(value for row in self.rows for value in read(row) if value)
            self._lists[name] = [value for value in found if value.isprintable() and len(value) <= LONGEST]
        return self._lists[name]


@dataclass(frozen=True, slots=True)
class Completion:
    """What can stand from `start` on; `hint` says it in words where there is nothing to choose."""

    start: int
    candidates: Sequence[Candidate] = ()
    hint: str = ""


def quoted(value: str) -> str:
    """Return a value as it stands in a filter."""
    return value if PLAIN.fullmatch(value) else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def complete(text: str, words: Vocabulary, values: Values) -> Completion:
    """Complete the last part of a filter.

    Args:
        text: The filter up to the cursor.
        words: The settings and metrics that runs have.
        values: The values that runs have.
    """
    start = _last_part(text)
    part = text[start:]
    if (found := _PART.fullmatch(part)) is not None:
        return _values(found["key"], found["value"], start + found.start("value"), words, values)
    if '"' in part:
        return Completion(start)
    return Completion(start, _keys(part, words))


def _last_part(text: str) -> int:
    """Return where the last condition begins, after its sign. A blank or parenthesis in quotes does not end one."""
    start, in_quotes, place = 0, False, 0
    while place < len(text):
        sign = text[place]
        if in_quotes and sign == "\\":
            place += 1
        elif sign == '"':
            in_quotes = not in_quotes
        elif not in_quotes and (sign.isspace() or sign in "()"):
            series = re.match(_SERIES, text[start:]) or re.match(r"(?i:min|max|last)\([^()\s]*\Z", text[start:])
            if series is None or place >= start + series.end() or sign.isspace():
                start = place + 1
        place += 1
    return start + (text[start : start + 1] in ("-", "!"))


def _values(name: str, typed: str, start: int, words: Vocabulary, values: Values) -> Completion:
    try:
        key = resolve(name, lambda: words)
    except UnknownKey:
        return Completion(start)
    if key.kind == "flag":
        return Completion(start, _matching(typed, [Candidate("yes"), Candidate("no")]))
    if key.kind in EXAMPLES:
        return Completion(start, (), f"{name}: {EXAMPLES[key.kind]}")
    known = values.of(key.name)
    typed = typed.removeprefix('"').replace('\\"', '"')
    low, found = typed.casefold(), [value for value in known if typed.casefold() in value.casefold()]
    if low and [value.casefold() for value in found[:2]] == [low]:
        return Completion(start)  # it is complete
    return Completion(start, _matching(typed, [Candidate(value) for value in found]))


def _keys(typed: str, words: Vocabulary) -> list[Candidate]:
    found = _offered(words.settings, words.metrics)
    exact = _exact(typed, words)
    if exact is not None and exact.kind != "flag":
        about = _about(exact)
        return [Candidate(f"{typed}{sign}", about) for sign in _OPERATORS[exact.kind]]
    if not typed:
        order = {name: place for place, name in enumerate(FIRST)}
        named = [(order.get(re.split(r"[:<>=]", each.word)[0], len(order)), each) for each in found]
        return [each for _, each in sorted(named, key=lambda pair: pair[0])][:MOST]
    return _matching(typed, found)


def _exact(typed: str, words: Vocabulary) -> Key | None:
    try:
        return resolve(typed, lambda: words) if _KEY.fullmatch(typed) else None
    except UnknownKey:
        return None


def _about(key: Key) -> str:
    if key.source == "setting":
        return f"setting {key.name}"
    if key.source == "metric":
        return "metric"
    return {"any": "", "word": "label"}.get(key.kind, key.kind)


@lru_cache(maxsize=2)
def _offered(settings: frozenset[str], metrics: frozenset[str]) -> Sequence[Candidate]:
    """List the keys that can be typed: facts of runs, metrics, and settings by their last part if that says which."""
    found = {name: Candidate(f"{name}{_OPERATORS[key.kind][0]}", _about(key)) for name, key in RUN_KEYS.items()}
    ends = Counter(setting.rpartition(".")[2] for setting in settings)
    for setting in sorted(settings):
        end = setting.rpartition(".")[2]
        name = end if ends[end] == 1 and end not in RUN_KEYS else setting
        found.setdefault(name, Candidate(f"{name}=", f"setting {setting}"))
    for metric in sorted(metrics):
        if ends[metric] <= 1:  # else it may be one of several settings
            found.setdefault(metric, Candidate(f"{metric}<", "metric"))
    for short, setting in SETTING_ALIASES.items():
        found.setdefault(short, Candidate(f"{short}<", f"setting {setting}"))
    return [
        each for name, each in found.items() if len(name) <= LONGEST and _KEY.fullmatch(name) and name.isprintable()
    ]


def _matching(typed: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those that begin with what was typed, then those that contain it."""
    low = typed.casefold()
    starts: list[Candidate] = []
    within: list[Candidate] = []
    for each in candidates:
        word = each.word.casefold()
        if word.startswith(low):
            starts.append(each)
            if len(starts) == MOST:
                break
        elif low in word:
            within.append(each)
    return (starts + within)[:MOST]
