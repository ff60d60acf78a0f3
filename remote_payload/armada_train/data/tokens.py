"""Tokenise and label one row at a time, with the same result as SFTTrainer's preparation of a whole dataset."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import transformers
from transformers import AutoConfig, AutoTokenizer
from trl.chat_template_utils import get_training_chat_template, has_generation_markers
from trl.data_utils import _tokenize, common_prefix_length

from armada_train.data.encodings import IGNORED
from armada_train.data.rows import without_end
from armada_train.data.shapes import CHATS, Row
from armada_train.data.turns import describe_lack_of_tools, has_tools
from armada_train.failure import PayloadFailure

_UNKNOWN = ("trust_remote_code", "does not recognize this architecture")
"""In what transformers says of a model whose architecture it does not know, with and without code beside the weights."""


def load_tokenizer(path: str) -> Any:
    """Load a tokenizer from a folder or the hub.

    Raises:
        PayloadFailure: `env_error`: it does not exist, or cannot be fetched.
    """
    with named_when_missing(path):
        return AutoTokenizer.from_pretrained(path)


def check_architecture(path: str) -> None:
    """Check whether transformers knows a model's architecture, before its rows are tokenised.

    Raises:
        PayloadFailure: `bad_spec`: it does not; `env_error`: the model does not exist, or cannot be fetched.
    """
    with named_when_missing(path):
        AutoConfig.from_pretrained(path, trust_remote_code=False)


@contextlib.contextmanager
def named_when_missing(path: str) -> Iterator[None]:
    """Convert the error for a model that is missing, that cannot be fetched, or that transformers does not know.

    For the former two transformers raises an OSError without errno, for the latter a ValueError.

    Raises:
        PayloadFailure: `env_error`, or `bad_spec`.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # of the system: no disk, no permission
            raise
        first = str(error).strip().partition("\n")[0]
        raise PayloadFailure("env_error", f"the model {path} cannot be loaded: {first}") from error
    except ValueError as error:
        if not any(words in str(error) for words in _UNKNOWN):
            raise
        raise PayloadFailure(
            "bad_spec",
            f"the model {path} needs code that transformers {transformers.__version__} does not have, and armada's trainer runs "
            "no code of a model's own: use another model, or a script of yours (`task: script`)",
        ) from error


def choose_template(tokenizer: Any, kind: str) -> str | None:
    """Choose the chat template that marks the assistant's tokens; None if the tokenizer's own does, or none is needed.

    Raises:
        PayloadFailure: `data_error`: the tokenizer has no template, none that TRL can mark, or no end token.
    """
    if kind not in CHATS:
        if not tokenizer.eos_token:
            raise without_end(kind)
        return None
    if not tokenizer.chat_template:
        raise PayloadFailure("data_error", "the rows are chats, but the model's tokenizer has no chat template")
    if kind != "messages":
        return None  # the completion is what follows the prompt: nothing need be marked
    if has_generation_markers(tokenizer.chat_template):
        return None
    try:
        template = get_training_chat_template(tokenizer)
    except ValueError as error:
        raise PayloadFailure(
            "data_error",
            "the model's chat template does not mark what the assistant says, and TRL knows no marked form of it: put "
            "`{% generation %}` and `{% endgeneration %}` around it, or give rows of prompt and completion",
        ) from error
    return None if template is None else str(template)


def hash_tokenizer(tokenizer: Any, template: str | None) -> str:
    """Hash everything that determines which tokens a text becomes."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts = [
        type(tokenizer).__name__,
        json.dumps(tokenizer.get_vocab(), sort_keys=True) if backend is None else backend.to_str(),
        json.dumps(tokenizer.special_tokens_map, sort_keys=True, default=str),
        json.dumps([tokenizer.chat_template, template], sort_keys=True),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def tokenise(row: Row, tokenizer: Any, template: str | None) -> dict[str, Any]:
    """Tokenise one row. SFTTrainer's preparation of a whole dataset would take 20 ms for it."""
    return tokenise_watching(row, tokenizer, template)[0]


def tokenise_watching(row: Row, tokenizer: Any, template: str | None) -> tuple[dict[str, Any], int]:
    """Tokenise one row.

    Returns:
        The columns of its encoding, and how many tokens at the prompt's end differ from those before a completion. The
        model never sees these in the form that it will get at inference.
    """
    _refuse_lost_tools(row, template or tokenizer.chat_template)
    if "columns" in row:
        asking = {"add_generation_prompt": True} if isinstance(row["prompt"], list) else {}
        made = _tokenize(tokenizer, row["prompt"], **asking)
        return {"prompt_ids": made["input_ids"], "row": json.dumps(row, default=str)}, 0
    if "chosen" in row:
        return _tokenise_answers(row, tokenizer, ("chosen", "rejected"))
    if "label" in row:
        made, lost = _tokenise_answers(row, tokenizer, ("completion",))
        return {**made, "label": [int(row["label"])]}, lost
    if "messages" in row:
        made = _tokenize(
            tokenizer,
            row["messages"],
            return_assistant_tokens_mask=True,
            chat_template=template,
            tools=row.get("tools"),
        )
        return _masked(made["input_ids"], made["assistant_masks"]), 0
    if "text" in row:
        ids = _tokenize(tokenizer, _ended(row["text"], tokenizer))["input_ids"]
        return {"input_ids": ids, "labels": ids}, 0
    prompt = _tokenize(tokenizer, row["prompt"])["input_ids"]
    ids = _tokenize(tokenizer, row["prompt"] + _ended(row["completion"], tokenizer))["input_ids"]
    start = common_prefix_length(prompt, ids)
    return _masked(ids, [0] * start + [1] * (len(ids) - start)), len(prompt) - start


def _tokenise_answers(row: Row, tokenizer: Any, sides: tuple[str, ...]) -> tuple[dict[str, Any], int]:
    """Tokenise a prompt with each of its answers; the prompt ends where one of them begins to differ from it alone."""
    is_chat = isinstance(row["prompt"], list)
    given: dict[str, Any] = {"tools": row.get("tools")} if is_chat else {}
    asking = {**given, "add_generation_prompt": True} if is_chat else given
    prompt = _tokenize(tokenizer, row["prompt"], **asking)["input_ids"]
    answers = {side: row[side] if is_chat else _ended(row[side], tokenizer) for side in sides}
    whole = {side: _tokenize(tokenizer, row["prompt"] + said, **given)["input_ids"] for side, said in answers.items()}
    start = min(common_prefix_length(prompt, ids) for ids in whole.values())
    made = {"prompt_ids": prompt[:start], **{f"{side}_ids": ids[start:] for side, ids in whole.items()}}
    return made, len(prompt) - start


def _refuse_lost_tools(row: Row, template: Any) -> None:
    """Refuse tools that the chat template would leave out: the model would learn to call what it was never offered."""
    offers, calls = has_tools(row)
    if (offers or calls) and isinstance(template, str) and (lack := describe_lack_of_tools(template, calls)):
        raise PayloadFailure("data_error", lack)


def _masked(ids: list[int], mask: list[int]) -> dict[str, list[int]]:
    return {"input_ids": ids, "labels": [token if bit else IGNORED for token, bit in zip(ids, mask, strict=True)]}


def _ended(text: str, tokenizer: Any) -> str:
    end = tokenizer.eos_token
    return text if text.endswith(end) else text + str(end)
