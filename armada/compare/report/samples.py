"""Read the samples of trainings: the answers of a model to some prompts, as `samples.jsonl` has them at home."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.foundation.validation import whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_BYTES = 8_000_000
"""Of a longer file only its end is read: the newest answers."""
MOST_PROMPTS = 50
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer of a model after some step."""

    step: int
    prompt: str
    expected: str
    generated: str


def read_samples(path: Path) -> dict[str, Sample]:
    """Return the newest answer to each prompt, by prompt; empty if there is no such file. What is no sample is left out."""
    found: dict[str, Sample] = {}
    for sample in _samples(path):
        if sample.prompt in found or len(found) < MOST_PROMPTS:
            former = found.get(sample.prompt)
            if former is None or sample.step >= former.step:
                found[sample.prompt] = sample
    return found


def read_history(path: Path) -> dict[str, dict[int, Sample]]:
    """Return all answers to each prompt, by prompt and step; of one step the last. Empty if there is no such file."""
    found: dict[str, dict[int, Sample]] = {}
    for sample in _samples(path):
        if sample.prompt in found or len(found) < MOST_PROMPTS:
            found.setdefault(sample.prompt, {})[sample.step] = sample
    return found


def _samples(path: Path) -> Iterator[Sample]:
    """Yield the samples in a file; none if it cannot be read."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _MOST_BYTES))
            raw = file.read(_MOST_BYTES)
    except OSError:
        return
    for line in raw.split(b"\n"):
        if (sample := _sample(line)) is not None:
            yield sample


def _sample(line: bytes) -> Sample | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    step, generated = whole(value.get("step")), value.get("generated")
    if step is None or not isinstance(generated, str):
        return None
    return Sample(step, _prompt(value.get("prompt")), _prompt(value.get("expected")), generated[:_LONGEST])


def _prompt(value: Any) -> str:
    """Return a prompt as text; of a conversation, each message with its role."""
    if isinstance(value, list):
        messages = [each for each in value if isinstance(each, dict)]
        value = "\n".join(f"{each.get('role', '')}: {each.get('content', '')}" for each in messages)
    return value[:_LONGEST] if isinstance(value, str) else ""
