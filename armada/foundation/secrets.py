"""Replace what may be a secret in what a user gives to others: model cards, reports, comparisons. Names and usual forms decide."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN = "***"

_SECRET_WORD = re.compile(r"(?i)token(?![a-z])|secret|passw|credential|(?<![a-z])(key|auth|pwd|pass|apikey)(?![a-z])")
_SECRET_VALUE = re.compile(
    r"\b(hf|sk|ghp|gho|ghs|wandb|github_pat)[_-][\w-]{16,}|\bglpat-[\w-]{16,}|\bxox.-[\w-]{10,}|\bAKIA[0-9A-Z]{12,}"
    r"|\b[0-9a-f]{40}\b|(?<=://)[^/\s]*(?=@)"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORTEST = 8
"""Characters of a secret."""
_QUERY = re.compile(r"(?<=\S)[?#]\S*")
_NO_SECRETS = frozenset({"secrets", "revision"})
"""Keys of an experiment: names of variables, whose values stand nowhere, and commits, which look like W&B's keys."""


def without_secrets(words: Sequence[str]) -> list[str]:
    """Replace what may be a secret among the words of a command."""
    shown: list[str] = []
    follows = False
    for word in words:
        is_named = bool(_SECRET_WORD.search(word))
        name, equals, _ = word.partition("=")
        is_plain_name = is_named and re.fullmatch(r"[-\w.]+", word) is not None
        if follows:
            shown.append("***")
        elif is_named and equals and re.fullmatch(r"[-\w.]+", name) and _SECRET_WORD.search(name):
            shown.append(f"{name}=***")
        elif is_named and not is_plain_name:
            shown.append("***")  # a command within a command, an address with a token, a document with a key
        elif "://" in word:
            shown.append(_SECRET_VALUE.sub("***", _QUERY.sub("?***", word)))
        else:
            shown.append(_SECRET_VALUE.sub("***", word))
        follows = is_plain_name and not equals
    return shown


def may_be_secret(key: str, value: Any) -> bool:
    """Whether a value may be a secret: a long text under a secret's name, or a text in the form of one.

    Args:
        key: The name of the variable, or the way to a setting.
        value: Its value; of lists and mappings, any of theirs counts. Numbers and short words are none.
    """
    if isinstance(value, dict):
        return any(may_be_secret(str(name), inner) for name, inner in value.items())
    if isinstance(value, list):
        return any(may_be_secret(str(before), inner) for before, inner in zip([key, *value], value, strict=False))
    if not isinstance(value, str):
        return False
    name, equals, rest = value.partition("=")
    if equals and len(rest) >= _SHORTEST and _SECRET_WORD.search(name):
        return True
    if len(value) >= _SHORTEST and _SECRET_WORD.search(key):
        return True
    return bool(_SECRET_VALUE.search(value)) and not _COMMIT.fullmatch(value)


def without_secret_settings(value: Any, key: str = "") -> Any:
    """Return settings in which the values of secret names, and words in the form of a secret, are replaced.

    Args:
        value: Nested settings, or one value of them.
        key: Its key; `env.WANDB_API_KEY` and `WANDB_API_KEY` are the same.
    """
    last = key.rpartition(".")[2]
    if isinstance(value, dict):
        return {name: without_secret_settings(inner, str(name)) for name, inner in value.items()}
    if last in _NO_SECRETS or value is None:
        return value
    if _SECRET_WORD.search(last):
        return HIDDEN
    if isinstance(value, list):
        words = all(isinstance(word, str) for word in value)
        return without_secrets(value) if words else [without_secret_settings(item) for item in value]
    return without_secrets([value])[0] if isinstance(value, str) else value
