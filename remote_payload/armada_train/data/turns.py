"""The turns of a chat, the tools that it offers, and the calls of them: read, validated, in their canonical form."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from armada_train.data.places import DataFailure, show

ROLES = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "human": "user",
    "gpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
"""By the names that people write; ShareGPT's `function_call` holds the call as JSON."""

_PLAIN = {"role", "content"}

Turn = dict[str, Any]


def read_chat(turns: Any, where: object, key: str, ignored: Counter[str]) -> list[Turn]:
    """Read a conversation in which an assistant says something.

    Raises:
        DataFailure: It is none.
    """
    messages = read_turns(turns, where, key, ignored)
    if not any(map(says_something, messages)):
        raise DataFailure(where, f"{key}` has no assistant turn, so there is nothing to train on")
    return messages


def says_something(turn: Turn) -> bool:
    """Tell whether an assistant speaks or calls a tool in a turn."""
    return turn["role"] == "assistant" and bool(turn["content"] or turn.get("tool_calls"))


def read_turns(turns: Any, where: object, key: str, ignored: Counter[str]) -> list[Turn]:
    """Read a list of turns; unused keys are counted.

    Args:
        turns: As they were read.
        where: The row's place.
        key: The column, as in "`messages".
        ignored: Counts the keys that nothing uses.

    Raises:
        DataFailure: A turn is invalid.
    """
    if not isinstance(turns, list) or not turns:
        raise DataFailure(where, f"{key}` must be a filled list of turns, not {show(turns)}")
    return [
        turn if _is_plain(turn) else _read_turn(turn, where, f"{key}[{index}]", ignored)
        for index, turn in enumerate(turns)
    ]


def read_tools(content: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Read a row's `tools`, a list or its JSON; return nothing if there are none.

    Raises:
        DataFailure: They are no list of functions.
    """
    tools = _from_json(content.get("tools"))
    if not tools and not isinstance(tools, dict):
        return {}
    if not isinstance(tools, list):
        raise DataFailure(where, f"`tools` must be a list of functions, not {show(tools)}")
    found = []
    for index, tool in enumerate(tools):
        function = tool.get("function", tool) if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not _is_name(function.get("name")):
            raise DataFailure(where, f"`tools[{index}]` must be an object with the function's name, not {show(tool)}")
        found.append({"type": "function", "function": function})
    return {"tools": found}


def read_text(value: Any, where: object, name: str) -> str:
    """Return a text that a tokenizer can read.

    Raises:
        DataFailure: It is none.
    """
    if isinstance(value, list) and name in ("`prompt`", "`completion`"):
        raise DataFailure(
            where, f"{name} is a list of messages, and must be text", "give the whole conversation as `messages`"
        )
    if not isinstance(value, str):
        raise DataFailure(where, f"{name} must be text, not {show(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataFailure(
            where, f"{name} has half a character (\\ud800 to \\udfff alone), which no tokenizer can read"
        ) from error
    return value


def describe_lack_of_tools(template: str, rows_call: bool) -> str | None:
    """Say that a chat template leaves out tools, or calls of them; None if it does not.

    Args:
        template: The text of the chat template.
        rows_call: Whether an assistant calls tools; otherwise rows only offer them.
    """
    lacking = [name for name in ("tools", *(("tool_calls",) if rows_call else ())) if not _uses(template, name)]
    if not lacking:
        return None
    return (
        f"the rows have {' and '.join(f'`{name}`' for name in lacking)}, which the model's chat template would leave out: "
        "use a model whose template knows tools, or leave such rows out"
    )


def has_tools(row: Mapping[str, Any]) -> tuple[bool, bool]:
    """Tell whether a row offers tools, and whether an assistant calls some."""
    for key, value in row.items():
        if key != "tools" and isinstance(value, list):
            for turn in value:
                if "tool_calls" in turn:
                    return "tools" in row, True
    return "tools" in row, False


def _uses(template: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", template) is not None


def _is_plain(turn: Any) -> bool:
    """Tell whether a turn is in its canonical form already, as most are; 200,000 rows take 1.6 s instead of 2.1."""
    if not isinstance(turn, dict) or turn.keys() != _PLAIN or not isinstance(turn["content"], str):
        return False
    role = turn["role"]
    if not isinstance(role, str) or ROLES.get(role) != role:
        return False
    return turn["content"].isascii() or _is_whole(turn["content"])


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_turn(turn: Any, where: object, key: str, ignored: Counter[str]) -> Turn:
    if not isinstance(turn, dict):
        raise DataFailure(where, f"{key}` must be an object with role and content, not {show(turn)}")
    role_key, text_key = ("role", "content") if "role" in turn or "content" in turn else ("from", "value")
    role = turn.get(role_key)
    if not isinstance(role, str) or role not in ROLES:
        raise DataFailure(where, f"{key}.{role_key}` is {show(role)}; known roles are {', '.join(ROLES)}")
    said = turn.get(text_key)
    used = {role_key, text_key}
    more: Turn = {}
    if role == "function_call":
        more["tool_calls"], said = _read_calls(said, where, f"{key}.{text_key}"), ""
    elif turn.get("tool_calls"):
        if ROLES[role] != "assistant":
            raise DataFailure(where, f"{key}.tool_calls` stands in a turn of {role}: an assistant calls tools")
        used.add("tool_calls")
        more["tool_calls"] = _read_calls(turn["tool_calls"], where, f"{key}.tool_calls")
        said = "" if said is None else said
    if ROLES[role] == "tool":
        more |= {name: turn[name] for name in ("name", "tool_call_id") if isinstance(turn.get(name), str)}
    ignored.update(turn.keys() - used - more.keys())
    if isinstance(said, list):
        raise DataFailure(
            where,
            f"{key}.{text_key}` is a list of parts, as for images; only text is supported",
            "leave such rows out, or join their texts",
        )
    return {"role": ROLES[role], "content": read_text(said, where, f"{key}.{text_key}`"), **more}


def _read_calls(calls: Any, where: object, key: str) -> list[dict[str, Any]]:
    """Read calls of tools: one or a list, as objects or their JSON, with `function` or without."""
    read = _from_json(calls)
    found = []
    for call in read if isinstance(read, list) else [read]:
        function = call.get("function", call) if isinstance(call, dict) else None
        if not isinstance(function, dict) or not _is_name(function.get("name")):
            raise DataFailure(where, f"{key}` must hold a function's name and arguments, not {show(call)}")
        arguments = _from_json(function.get("arguments", {}))  # a template writes an object's JSON by itself
        if not isinstance(arguments, dict):
            raise DataFailure(
                where, f"{key}`: the arguments of {function['name']} must be an object, not {show(arguments)}"
            )
        made: dict[str, Any] = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
        found.append(made | ({"id": call["id"]} if isinstance(call.get("id"), str) else {}))
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _from_json(value: Any) -> Any:
    """Return what a text says as JSON; anything else, and what is no JSON, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
