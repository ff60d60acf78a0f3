"""Find what may be a secret, and replace it in what others see: model cards, reports, comparisons, recorded commands.

Names and usual forms decide. What a value is put into a plan by is judged by `may_be_secret`, which lets pass what is
plainly none; what is shown to others by `without_secrets`, which rather hides too much.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN = "***"
LEFT_OUT = "…"
"""In place of a secret in a recorded command."""

_SECRET_WORD = re.compile(
    r"(?i)token(?![a-z])|authorization|bearer(?![a-z])|secret|passw|credential|(?<![a-z])(key|auth|pwd|pass|apikey)(?![a-z])"
)
_FORMS = (
    r"\b(hf|sk|ghp|gho|ghs|wandb|github_pat)[_-][\w-]{16,}|\bglpat-[\w-]{16,}|\bxox.-[\w-]{10,}|\bAKIA[0-9A-Z]{12,}"
    r"|\b[0-9a-f]{40}\b"
)
_SECRET_VALUE = re.compile(rf"{_FORMS}|(?<=://)[^/\s]*(?=@)")
_SECRET_FORM = re.compile(rf"{_FORMS}|(?<=://)[^/\s:@]*:[^/\s]+(?=@)")
"""A user without a password, as in ssh://git@host, is no secret."""
_HARMLESS_NAME = re.compile(
    r"(?i)(?<![a-z])(?:(?:sort|order|group|primary|foreign|partition|cache|map|hash|join|index|lookup|dict|json|column|row|field"
    r"|feature|label|text|prompt|question|answer|response|input|output|image|audio|video|target|metric|chosen|rejected)[_-]?key"
    r"|(?:pad|eos|bos|unk|mask|sep|cls|special|stop|start|end|begin|max|min|num|image|audio|video|text|think)[_-]?token)(?![a-z])"
)
"""Terms of data and models that have a secret's word in them."""
_CERTAIN_WORD = re.compile(
    r"(?i)token(?![a-z])|secret|passw|credential|(?<![a-z])(pwd|apikey)(?![a-z])"
    r"|(?<![a-z])(api|access|secret|private|auth|encryption|signing|ssh|deploy|license|service|account|wandb|openai|hf|aws|azure)"
    r"[_-]?key(?![a-z])"
)
"""Words that name nothing but secrets; `key`, `auth` and `pass` alone have other meanings too."""
_ABOUT_A_SECRET = re.compile(
    r"(?i)[_-](path|file|dir|folder|name|type|len|length|size|count|limit|strategy|mode|level|ttl)$"
)
_PLAIN_VALUE = re.compile(r"<[^<>]*>|\[[A-Z_ ]+\]|(~|\.{1,2})?(/[\w.-]+){2,}/?")
"""A tokenizer's special token, or a path."""
_PLAIN_WORDS = re.compile(r"[a-z]+([ _.,:/-][a-z]+)*|[A-Z]+([ _.,:/-][A-Z]+)*")
_FLOW_PAIR = re.compile(r"""([\w.-]+["']?\s*:\s*)("[^"]*"|'[^']*'|[^\s,}\]]+)""")
_NAME = re.compile(r"[-\w.]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORTEST = 8
"""Characters of a secret."""
_QUERY = re.compile(r"(?<=\S)[?#]\S*")
_NO_SECRETS = frozenset({"secrets", "revision"})
"""Keys of an experiment: names of variables, whose values stand nowhere, and commits, which look like W&B's keys."""
_ENVIRONMENT = re.compile(r"(.*\.)?environment\.key")
"""The name that armada gives to a host's environment, such as `cu130-4f2a91c07d5e`."""


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


def without_secrets_in_command(text: str) -> str:
    """Replace what may be a secret in a command line of the user's."""
    return shlex.join(without_secrets(shlex.split(text)))


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
    if equals and _SECRET_WORD.search(name) and _is_kept_under(name, rest):
        return True
    if _is_kept_under(key, value):
        return True
    return bool(_SECRET_FORM.search(value)) and not _COMMIT.fullmatch(value)


def is_secret_name(name: str) -> bool:
    """Whether a name is one of secrets and of nothing else: `HF_TOKEN` is, `SORT_KEY` and `KEY` are not."""
    return bool(_CERTAIN_WORD.search(_HARMLESS_NAME.sub("", name)))


def may_be_given_secret(key: str, value: Any) -> bool:
    """Whether a value on a command line may be a secret. Under a variable's name that means one, a short text is, too.

    Args:
        key: The way to the setting: `env.HF_TOKEN`, or `env` with all variables.
        value: Its value.
    """
    if key == "env" and isinstance(value, dict):
        return any(may_be_given_secret(f"env.{name}", inner) for name, inner in value.items())
    return may_be_secret(key, value) or (isinstance(value, str) and bool(value) and is_secret_variable(key))


def is_secret_variable(key: str) -> bool:
    """Whether a key is that of a variable that holds a secret: `env.HF_TOKEN` is, `env.TOKEN_LIMIT` is not."""
    return key.startswith("env.") and is_secret_name(key) and not _ABOUT_A_SECRET.search(key)


def _is_kept_under(name: str, value: str) -> bool:
    """Whether a value is a secret by its name: long enough, and neither a path nor, under a name such as `KEY`, a word."""
    words = _HARMLESS_NAME.sub("", name)
    if len(value) < _SHORTEST or not _SECRET_WORD.search(words) or _PLAIN_VALUE.fullmatch(value):
        return False
    is_certain = _CERTAIN_WORD.search(words) and not _ABOUT_A_SECRET.search(words)
    return bool(is_certain) or not _PLAIN_WORDS.fullmatch(value)


def without_secret_arguments(words: Sequence[str]) -> list[str]:
    """Replace what may be a secret among the words of a command that is recorded: `env.TOKEN=…`."""
    return [_without_secret_argument(word) for word in words]


def _without_secret_argument(word: str) -> str:
    name, equals, value = word.partition("=")
    if not equals or not _NAME.fullmatch(name):
        return _without_secret_forms(word)
    if is_secret_variable(name):
        return f"{name}={LEFT_OUT}"
    inner = _without_secret_argument(value)  # --set=env.TOKEN=x
    if inner == value and value[:1] not in ("{", "[") and may_be_secret(name, value):
        inner = LEFT_OUT
    return f"{name}={inner}"


def _without_secret_forms(text: str) -> str:
    shown = _FLOW_PAIR.sub(_open_pair, text) if "{" in text else text
    return shown if _COMMIT.fullmatch(shown) else _SECRET_FORM.sub(LEFT_OUT, shown)


def _open_pair(found: re.Match[str]) -> str:
    name, value = found[1].rstrip(" :\"'"), found[2].strip("\"'")
    return f"{found[1]}{LEFT_OUT}" if may_be_secret(name, value) else found[0]


def without_secret_settings(value: Any, key: str = "") -> Any:
    """Return settings in which the values of secret names, and words in the form of a secret, are replaced.

    Args:
        value: Nested settings, or one value of them.
        key: Its key; `env.WANDB_API_KEY` and `WANDB_API_KEY` are the same.
    """
    last = key.rpartition(".")[2]
    if isinstance(value, dict):
        within = f"{key}." if key else ""
        return {each: without_secret_settings(inner, f"{within}{each}") for each, inner in value.items()}
    if last in _NO_SECRETS or value is None or _ENVIRONMENT.fullmatch(key):
        return value
    words = _HARMLESS_NAME.sub("", last)
    if _SECRET_WORD.search(words) and (not isinstance(value, int | float) or _CERTAIN_WORD.search(words)):
        return HIDDEN  # a number under `num_key_value_heads` is none
    if isinstance(value, list):
        is_text = all(isinstance(word, str) for word in value)
        return without_secrets(value) if is_text else [without_secret_settings(item) for item in value]
    return without_secrets([value])[0] if isinstance(value, str) else value
