"""Refuse an experiment that still holds what `armada init` left for a person to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import Answer, fail

if TYPE_CHECKING:
    from armada.launch.checks.subject import Subject

PLACEHOLDER = "FILL-IN:"
"""Stands before the name of a value that only a person knows."""


def check_placeholders(subject: Subject) -> Answer | None:
    """Name the words that still hold a placeholder; None if there are none."""
    words: tuple[str, ...] = (
        *getattr(subject.experiment, "arguments", ()),
        *getattr(subject.experiment, "command", ()),
    )
    left = [sanitize_line(word, 80) for word in words if PLACEHOLDER in word]
    if not left:
        return None
    said = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
    return fail(f"values are not filled in yet: {said}", f"write your value in the place of each `{PLACEHOLDER}…`")
