"""Write an experiment file as text: each key on a line, with a comment that explains it."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.placeholders import PLACEHOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from armada.launch.drafts.arguments import Argument
    from armada.launch.drafts.folder import DataFile

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "~", "y", "n", "nan", "inf"})
_COMMENT_AT = 34


def quoted(text: str) -> str:
    """A text as YAML, quoted where it could be read as anything else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


def remark(text: str, limit: int = 100) -> str:
    """A comment's text on one line; what a script says is a stranger's."""
    line = " ".join(sanitize_line(text, limit).split())
    return "".join(sign if sign.isprintable() else " " for sign in line)


def line(text: str, about: str = "") -> str:
    """One line of the file with its comment."""
    said = remark(about)
    return f"{text.ljust(_COMMENT_AT - 2)}  # {said}" if said else text


def note(text: str) -> str:
    return f"# {remark(text, 160)}"


def of_arguments(arguments: Sequence[Argument], first: Sequence[str] = ()) -> list[str]:
    """The key `arguments`: required ones as placeholders, the others as comments with their defaults.

    Args:
        arguments: Of the script.
        first: Words that come before them.
    """
    needed = [each for each in arguments if each.is_required and each.is_positional]
    needed += [each for each in arguments if each.is_required and not each.is_positional]
    others = [each for each in arguments if not each.is_required]
    lines: list[str] = []
    if needed or first:
        lines.append(line("arguments:", "what the script is told"))
        lines += [line(f"  - {quoted(word)}") for word in first]
        lines += [each for one in needed for each in _active(one)]
        if others:
            lines.append("  # Its other arguments with their defaults. To set one, take the `#` away.")
            lines += [f"  # {each}" for one in others for each in _commented(one)]
    elif others:
        lines.append(
            note("What the script is told. Its defaults stand here; take the `#` away, also before `arguments:`.")
        )
        lines += ["# arguments:", *(f"#   {each}" for one in others for each in _commented(one))]
    else:
        lines.append(line("arguments: []", "what the script is told; it shows no arguments of its own"))
    return lines


def value_of(argument: Argument) -> str:
    """What the draft gives to a required argument; where only a person knows the value, what the launch refuses."""
    return argument.value if argument.value is not None else f"{PLACEHOLDER}{argument.name}"


def _active(argument: Argument) -> list[str]:
    about = _about(argument, required=True)
    if argument.is_positional:
        return [line(f"  - {quoted(value_of(argument))}", about)]
    if not argument.takes_value:
        return [line(f"  - {quoted(argument.flag)}", about)]
    if argument.takes_several or not argument.flag.startswith("--"):
        return [line(f"  - {quoted(argument.flag)}", about), line(f"  - {quoted(value_of(argument))}")]
    return [line(f"  - {quoted(f'{argument.flag}={value_of(argument)}')}", about)]


def _commented(argument: Argument) -> list[str]:
    """An argument that may stay away, as items of the list without their indent."""
    about, values = _about(argument), _defaults(argument)
    if argument.is_positional:
        return [_item(values[0], about)]
    if not argument.takes_value:
        return [_item(argument.flag, about)]
    if argument.takes_several or not argument.flag.startswith("--"):
        return [_item(argument.flag, about), *(_item(value) for value in values)]
    return [_item(f"{argument.flag}={values[0]}", about)]


def _item(word: str, about: str = "") -> str:
    return line(f"- {quoted(remark(word))}", about)


def _defaults(argument: Argument) -> list[str]:
    """The words of a default; `…` where it is none, or one that only running the script would tell."""
    if argument.default is None:
        return [argument.choices[0] if argument.choices else "…"]
    try:
        value = ast.literal_eval(argument.default)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = "…"
    if argument.takes_several and isinstance(value, list | tuple):
        return [remark(str(each), 80) for each in value[:4]] or ["…"]
    return [remark(str(value), 80)]


def _about(argument: Argument, *, required: bool = False) -> str:
    said = [remark(argument.help, 70)]
    said += [f"one of {', '.join(argument.choices)}"] if argument.choices else []
    start = "required: write its value here" if required and argument.value is None else ""
    return "; ".join(filter(None, [start, *said])) or argument.name.replace("_", " ")


def of_data(train: Iterable[DataFile], evaluation: Iterable[DataFile] = ()) -> list[str]:
    """The entries of `data.train` and `data.eval`."""
    lines = ["  train:", *(f"    - path: {quoted(each.path.as_posix())}" for each in train)]
    held_out = [f"    - path: {quoted(each.path.as_posix())}" for each in evaluation]
    return [*lines, *(["  eval:", *held_out] if held_out else [])]
