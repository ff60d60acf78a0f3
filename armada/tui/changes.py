"""The changes of an experiment in Launch: `a.b=c d=e` as one line, each word as `--set` takes it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


LONGEST = 20_000
"""Characters that the fields of Launch take: to split one word of a megabyte takes `shlex` minutes."""


def parse(text: str) -> list[str] | None:
    """Return the changes of a line; None while a quote is open."""
    try:
        return shlex.split(text)
    except ValueError:
        return None


def line(changes: Sequence[str]) -> str:
    """Return changes as a line that `parse` reads."""
    return shlex.join(changes)


def put(changes: Sequence[str], key: str, value: str) -> list[str]:
    """Return the changes with one setting changed; a former change of it, or of what is in it, is replaced."""
    return [*without(changes, key), f"{key}={value}"]


def without(changes: Sequence[str], key: str) -> list[str]:
    """Return the changes without those of one setting and of what is in it."""
    return [change for change in changes if not f"{change.partition('=')[0].strip()}.".startswith(f"{key}.")]


def of(changes: Sequence[str], key: str) -> str | None:
    """Return what a setting, or what is in it, is changed to; None if it is not changed."""
    found = [change for change in changes if f"{change.partition('=')[0].strip()}.".startswith(f"{key}.")]
    return found[-1].partition("=")[2] if found else None
