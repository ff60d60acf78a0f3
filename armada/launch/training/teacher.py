"""Compare a distillation's teacher with its student before anything starts: both must have the same tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.tasks.distill import Distill
from armada.errors import ConfigError, PreflightRefused

if TYPE_CHECKING:
    from armada.config.tasks.bundled import BundledTraining
    from armada.launch.training.model_facts import ModelFacts

_LARGEST_BYTES = 100_000_000
"""Of a tokenizer.json; that of Gemma 3, with 262,144 tokens, has 33 MB."""
_HINT = "take a teacher of the same family, which has the same tokenizer"


def check_tokens(settings: BundledTraining) -> None:
    """Compare the tokenizers where both models are folders at home; others are compared on the host, before models load.

    Raises:
        ConfigError: They differ, with the line that names the teacher.
    """
    if not isinstance(settings, Distill) or settings.named_teacher is None or settings.local_model is None:
        return
    own, other = _tokens(settings.local_model), _tokens(Path(settings.named_teacher))
    if own is None or other is None or own == other:
        return
    token = min((token for token in own if own[token] != other.get(token)), key=own.__getitem__, default=None)
    if token is None:
        token = min(set(other) - set(own), key=other.__getitem__)
        said = f"its token {other[token]} is {token!r}, which the student does not know"
    else:
        known = f"is {other[token]} there" if token in other else "is unknown there"
        said = f"{token!r}, token {own[token]} of the student, {known}"
    raise ConfigError(
        f"{_place(settings)}`distill.teacher` {settings.named_teacher} has another tokenizer than the student: {said}",
        hint=_HINT,
    )


def refuse_fewer_words(settings: BundledTraining, student: ModelFacts, teacher: ModelFacts | None) -> None:
    """Refuse a teacher whose vocabulary is smaller than the student's; a larger one has rows that nothing uses.

    Raises:
        PreflightRefused: With the line that names the teacher.
    """
    if teacher is None or teacher.shape is None or student.shape is None or not isinstance(settings, Distill):
        return
    if teacher.shape.vocabulary < student.shape.vocabulary:
        raise PreflightRefused(
            f"{_place(settings)}`distill.teacher` {settings.named_teacher or 'tiny'} has {teacher.shape.vocabulary} words, "
            f"and the student {student.shape.vocabulary}: it has no probability for the others",
            hint=_HINT,
        )


def _place(settings: BundledTraining) -> str:
    where = settings.places.get("distill.teacher")
    return f"{where}: " if where else ""


def _tokens(folder: Path) -> dict[str, int] | None:
    """Return a tokenizer's tokens with their numbers; None where only transformers can read them."""
    file = folder / "tokenizer.json"
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            return None
        content = json.loads(file.read_bytes())
        words, added = content["model"]["vocab"], content.get("added_tokens") or []
        found = dict(words) if isinstance(words, dict) else {word[0]: at for at, word in enumerate(words)}
        return found | {token["content"]: token["id"] for token in added}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
