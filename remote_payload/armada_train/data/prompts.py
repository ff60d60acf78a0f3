"""Prompts without a completion: the model writes it, and the row's other columns are for who judges it. Without torch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from armada_train.data.places import DataFailure, Place
from armada_train.data.turns import read_text, read_turns

Row = dict[str, Any]

RESERVED = frozenset(
    {
        *("completion", "completions", "completion_ids", "prompts"),
        *("image", "images", "environment", "environments", "trainer_state", "log_extra", "log_metric", "armada_row"),
    }
)
"""Names that a reward function gets from the trainer, or that mean something else to it."""


def read_prompt(content: Row, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    """Read a prompt, with its place and its other columns.

    Raises:
        DataFailure: It is empty, or is no question to the model.
    """
    key = next(name for name in ("prompt", "messages", "conversations") if name in content)
    is_chat = key != "prompt" or isinstance(content[key], list)
    prompt: str | list[dict[str, Any]]
    used: set[str] = {key}
    if is_chat:
        prompt = read_turns(content[key], where, f"`{key}", ignored)
        if key == "conversations" and content.get("system") and prompt[0]["role"] != "system":
            prompt = [{"role": "system", "content": read_text(content["system"], where, "`system`")}, *prompt]
            used.add("system")
        last = prompt[-1]["role"]
        if last not in {"user", "tool"}:
            raise DataFailure(
                where, f"`{key}` ends with a turn of {last}, and the model answers the user's", "leave the answer out"
            )
        if content.get("tools"):
            raise DataFailure(where, "`tools` cannot be offered: the model would be trained without them")
    else:
        prompt = read_text(content[key], where, "`prompt`")
        if not prompt.strip():
            raise DataFailure(where, "`prompt` is empty", "leave such rows out")
    ignored.update(name for name in content if name in RESERVED)
    columns = {name: value for name, value in content.items() if name not in used | RESERVED}
    row = {"prompt": prompt, "columns": columns, "at": _name(where)}
    return "chat prompt" if is_chat else "prompt", row


def _name(where: object) -> str:
    """Name a row by its file alone: data that is known by its content may stand in another folder tomorrow."""
    if not isinstance(where, Place):
        return str(where)
    return str(Place(type(where.path)(where.path.name), where.number, where.unit))
