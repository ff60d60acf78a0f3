"""Who judges the completions: each function returns one number for each of them."""

from __future__ import annotations

from typing import Any

Turn = dict[str, str]


def digits(completions: list[list[Turn]], **_: Any) -> list[float]:
    """Return the share of each completion that is digits: a tiny model learns it within a minute."""
    texts = [turns[-1]["content"] for turns in completions]
    return [sum(letter.isdigit() for letter in text) / max(1, len(text)) for text in texts]


def correct(completions: list[list[Turn]], answer: list[str], **_: Any) -> list[float]:
    """Return 1 for a completion that is the answer; `answer` is a column of the data."""
    texts = [turns[-1]["content"].strip() for turns in completions]
    return [float(text == expected) for text, expected in zip(texts, answer, strict=True)]
