"""Read a JSON object; every error names the key, the valid values and the actual one."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from armada_train.failure import PayloadFailure
from armada_train.records import UnreadableRecord, read_object

_REQUIRED: Any = object()


class Section:
    """One object of the specification. Each key is read once; `close` refuses keys that were not read."""

    def __init__(self, content: Any, where: str) -> None:
        if not isinstance(content, dict):
            raise bad_spec(f"`{where}` must be an object, not {_show(content)}")
        self.where = where
        self._content = content
        self._asked: set[str] = set()

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        self._asked.add(key)
        if key in self._content:
            return self._content[key]
        if default is _REQUIRED:
            raise bad_spec(f"`{self.where}.{key}` is missing")
        return default

    def section(self, key: str) -> Section:
        return Section(self.get(key), f"{self.where}.{key}")

    def optional_section(self, key: str) -> Section | None:
        return None if self.get(key, None) is None else self.section(key)

    def sections(self, key: str, default: Any = _REQUIRED) -> list[Section]:
        value = self.get(key, default)
        if not isinstance(value, list):
            raise self.wrong(key, "a list of objects", value)
        return [Section(item, f"{self.where}.{key}[{index}]") for index, item in enumerate(value)]

    def integer(self, key: str, default: Any = _REQUIRED, *, minimum: int) -> int:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.wrong(key, f"a whole number of at least {minimum}", value)
        return value

    def optional_integer(self, key: str, *, minimum: int) -> int | None:
        return None if self.get(key, None) is None else self.integer(key, minimum=minimum)

    def number(self, key: str, default: Any = _REQUIRED, *, minimum: float = 0.0, above: bool = False) -> float:
        value = self.get(key, default)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < minimum or (above and value == minimum):
            raise self.wrong(key, f"a number {'above' if above else 'of at least'} {minimum:g}", value)
        return float(value)

    def optional_number(self, key: str, *, minimum: float = 0.0, above: bool = False) -> float | None:
        return None if self.get(key, None) is None else self.number(key, minimum=minimum, above=above)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", value)
        return value

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        value = self.get(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a text", value)
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self.get(key, None) is None else self.text(key)

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.get(key, None) or []
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.wrong(key, "a list of names", value)
        return tuple(value)

    def choice(self, key: str, choices: Sequence[str], default: Any = _REQUIRED) -> str:
        value = self.get(key, default)
        if value not in choices:
            raise self.wrong(key, f"one of {', '.join(choices)}", value)
        return str(value)

    def wrong(self, key: str, wanted: str, value: Any) -> PayloadFailure:
        return bad_spec(f"`{self.where}.{key}` must be {wanted}, not {_show(value)}")

    def close(self) -> None:
        """Refuse keys that were never read: a key without effect is a silent failure."""
        for key in self._content:
            if key not in self._asked:
                near = difflib.get_close_matches(key, self._asked, n=1)
                hint = f"; did you mean `{near[0]}`?" if near else ""
                raise bad_spec(f"`{self.where}.{key}` is not known to this payload{hint}")


def read_section(spec: Path, name: str) -> Section:
    """Read an object below `training` in spec.json.

    Raises:
        PayloadFailure: `bad_spec`.
    """
    try:
        content = read_object(spec)
    except UnreadableRecord as error:
        raise bad_spec(str(error)) from error
    training = content.get("training")
    return Section(training.get(name) if isinstance(training, dict) else None, f"training.{name}")


def bad_spec(message: str) -> PayloadFailure:
    return PayloadFailure("bad_spec", message)


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
