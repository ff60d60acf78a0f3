"""The kinds of rows: how each is recognised, validated and brought into its canonical form. Without torch.

Chats are `messages`, or `conversations` in ShareGPT's from/value form.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from armada_train.data.places import DataFailure, show
from armada_train.data.prompts import read_prompt
from armada_train.data.turns import read_chat, read_text, read_tools, read_turns, says_something
from armada_train.specification.objectives import SFT, tasks_taking

CHATS = ("messages", "chat preference", "chat unpaired", "chat prompt")
"""The kinds that need a chat template."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """A form in which people write rows.

    Attributes:
        words: What it holds, in an error.
        matches: Whether a row is meant to have this form.
        read: Returns the row's kind and its canonical form; unused keys are counted.
    """

    words: str
    matches: Callable[[Row], bool]
    read: Callable[[Row, object, Counter[str]], tuple[str, Row]]


def normalise(content: Any, where: object, ignored: Counter[str], kinds: Sequence[str] = SFT.kinds) -> tuple[str, Row]:
    """Convert a row to the canonical form of its kind; unused keys are counted.

    Args:
        content: The row as it was read.
        where: Its place.
        ignored: Counts the keys that nothing uses.
        kinds: The kinds that the training takes.

    Raises:
        DataFailure: The row is invalid, or of a kind that the training does not take.
    """
    words = describe_kinds(kinds)
    if not isinstance(content, dict):
        raise DataFailure(where, f"a row must be a JSON object, not {show(content)}", f"with {words}")
    if (images := next((key for key in ("images", "image") if content.get(key)), None)) is not None:
        raise DataFailure(
            where,
            f"`{images}` holds images, and the bundled trainer trains on text alone",
            "leave the column out, or state the rows' `format`, which takes their text",
        )
    for shape in shapes_of(kinds):
        if shape.matches(content):
            return shape.read(content, where, ignored)
    for key, other in (("prompt", "completion"), ("completion", "prompt")):
        if other in content and "prompt_completion" in kinds and "chosen" not in content:
            raise DataFailure(where, f"`{key}` is missing beside `{other}`")
    if "unpaired" in kinds and "completion" in content and "chosen" not in content:
        lacking = next(key for key in ("prompt", "label") if key not in content)
        raise DataFailure(where, f"`{lacking}` is missing beside `completion`", f"a row needs {words}")
    for key, other in (("chosen", "rejected"), ("rejected", "chosen")):
        if other in content and "preference" in kinds:
            raise DataFailure(where, f"`{key}` is missing beside `{other}`", f"a row needs {words}")
    keys = ", ".join(show(key) for key in itertools.islice(content, 5)) or "nothing"
    raise DataFailure(where, f"the row has {keys}; it needs {words}", _other_task(content, kinds))


def shapes_of(kinds: Sequence[str]) -> list[Shape]:
    """Return the forms of some kinds, in the order in which they are tried."""
    return list(dict.fromkeys(SHAPES[kind] for kind in kinds))


def describe_kinds(kinds: Sequence[str]) -> str:
    """Name what rows of some kinds hold."""
    words = [shape.words for shape in shapes_of(kinds)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, or {words[-1]}"


def texts_of(row: Row) -> Iterator[str]:
    """Yield all texts in a row."""
    for key, value in row.items():
        if key in ("at", "columns"):
            continue
        if isinstance(value, str):
            yield value
        elif key == "tools":
            yield json.dumps(value, ensure_ascii=False)
        elif isinstance(value, list):
            for turn in value:
                yield turn["content"]
                if "tool_calls" in turn:
                    yield json.dumps(turn["tool_calls"], ensure_ascii=False)


def _other_task(content: Row, kinds: Sequence[str]) -> str | None:
    """Name the tasks that take such a row, if this one does not."""
    for kind, shape in SHAPES.items():
        if kind not in kinds and shape.matches(content):
            return " or ".join(f"`task: {name}`" for name in tasks_taking(kind)) + " takes such rows"
    return "`columns:` below `data:` maps other names to these, and `template:` makes them of any columns"


def _read_messages(content: Row, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    key = "messages" if "messages" in content else "conversations"
    ignored.update(content.keys() - {key, "tools"} - ({"system"} if key == "conversations" else set()))
    messages = read_chat(content[key], where, f"`{key}", ignored)
    if key == "conversations" and content.get("system") and messages[0]["role"] != "system":
        messages = [{"role": "system", "content": read_text(content["system"], where, "`system`")}, *messages]
    return "messages", {"messages": messages, **read_tools(content, where)}


def _read_completion(content: Row, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    ignored.update(content.keys() - {"prompt", "completion"})
    return "prompt_completion", {key: read_text(content[key], where, f"`{key}`") for key in ("prompt", "completion")}


def _read_text(content: Row, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    ignored.update(content.keys() - {"text"})
    return "text", {"text": read_text(content["text"], where, "`text`")}


def _read_pair(content: Row, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    """Read a pair; of two chats without a prompt of their own, the turns that both begin with are the prompt."""
    chats = [isinstance(content[key], list) for key in ("chosen", "rejected")]
    if chats[0] != chats[1]:
        raise DataFailure(where, "`chosen` and `rejected` must both be text, or both be lists of messages")
    ignored.update(content.keys() - {"prompt", "chosen", "rejected"} - ({"tools"} if chats[0] else set()))
    row = _read_chat_pair(content, where, ignored) if chats[0] else _read_text_pair(content, where)
    if row["chosen"] == row["rejected"]:
        raise DataFailure(
            where, "`chosen` and `rejected` are equal, so there is nothing to prefer", "leave such rows out"
        )
    return "chat preference" if chats[0] else "preference", row


def _read_text_pair(content: Row, where: object) -> Row:
    if "prompt" not in content:
        raise DataFailure(where, "`prompt` is missing beside `chosen` and `rejected`")
    if isinstance(content["prompt"], list):
        raise DataFailure(where, "`prompt` is a list of messages, so `chosen` and `rejected` must be such lists too")
    row = {key: read_text(content[key], where, f"`{key}`") for key in ("prompt", "chosen", "rejected")}
    for key, text in row.items():
        if not text:
            raise DataFailure(where, f"`{key}` is empty", "leave such rows out")
    return row


def _read_chat_pair(content: Row, where: object, ignored: Counter[str]) -> Row:
    sides = [read_turns(content[key], where, f"`{key}", ignored) for key in ("chosen", "rejected")]
    prompt = content.get("prompt")
    if isinstance(prompt, list):
        turns = read_turns(prompt, where, "`prompt", ignored)
    elif isinstance(prompt, str) and sides[0][0]["role"] == "assistant":
        turns = [{"role": "user", "content": read_text(prompt, where, "`prompt`")}]
    elif prompt is None or isinstance(prompt, str):
        both = zip(*sides, strict=False)
        turns = [one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], both)]
        sides = [side[len(turns) :] for side in sides]
    else:
        raise DataFailure(where, f"`prompt` must be text or a list of messages, not {show(prompt)}")
    for key, side in zip(("chosen", "rejected"), sides, strict=True):
        if not any(map(says_something, side)):
            if sides[0] == sides[1]:
                break
            raise DataFailure(where, f"`{key}` has no assistant turn of its own, so there is nothing to compare")
    if sides[0] != sides[1] and not turns:
        raise DataFailure(where, "`chosen` and `rejected` have no turn in common, and there is no `prompt`")
    return {"prompt": turns, "chosen": sides[0], "rejected": sides[1], **read_tools(content, where)}


def _read_unpaired(content: Row, where: object, ignored: Counter[str]) -> tuple[str, Row]:
    """Read an answer that was liked or not."""
    label = content["label"]
    if not isinstance(label, bool | int) or label not in {0, 1}:
        raise DataFailure(where, f"`label` must be true (a good answer) or false, not {show(label)}")
    chats = [isinstance(content[key], list) for key in ("prompt", "completion")]
    if chats[0] != chats[1]:
        raise DataFailure(where, "`prompt` and `completion` must both be text, or both be lists of messages")
    ignored.update(content.keys() - {"prompt", "completion", "label"} - ({"tools"} if chats[0] else set()))
    row: Row
    if chats[0]:
        row = {key: read_turns(content[key], where, f"`{key}", ignored) for key in ("prompt", "completion")}
        if not any(map(says_something, row["completion"])):
            raise DataFailure(where, "`completion` has no assistant turn, so there is nothing to judge")
        row |= read_tools(content, where)
    else:
        row = {key: read_text(content[key], where, f"`{key}`") for key in ("prompt", "completion")}
        for key, text in row.items():
            if not text:
                raise DataFailure(where, f"`{key}` is empty", "leave such rows out")
    return "chat unpaired" if chats[0] else "unpaired", {**row, "label": bool(label)}


_PAIR = Shape(
    "prompt, chosen and rejected",
    lambda row: "chosen" in row and "rejected" in row,
    _read_pair,
)
_UNPAIRED = Shape(
    "prompt, completion and label",
    lambda row: "prompt" in row and "completion" in row and "label" in row,
    _read_unpaired,
)
_PROMPT = Shape(
    "prompt (or messages that end with the user's turn)",
    lambda row: "prompt" in row or "messages" in row or "conversations" in row,
    read_prompt,
)
SHAPES: dict[str, Shape] = {
    "messages": Shape(
        "messages, conversations", lambda row: "messages" in row or "conversations" in row, _read_messages
    ),
    "prompt_completion": Shape(
        "prompt and completion", lambda row: "prompt" in row and "completion" in row, _read_completion
    ),
    "text": Shape("text", lambda row: "text" in row, _read_text),
    "preference": _PAIR,
    "chat preference": _PAIR,
    "unpaired": _UNPAIRED,
    "chat unpaired": _UNPAIRED,
    "prompt": _PROMPT,
    "chat prompt": _PROMPT,
}
"""The form of each kind, in the order in which they are tried."""
