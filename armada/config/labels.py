"""Rules for what the user writes about a run: its tags, its group and its note."""

from __future__ import annotations

import re

from armada.foundation.sanitize import sanitize_line, sanitize_text

KEYS = frozenset({"group", "tags"})
"""Keys of an experiment that only home uses: left out of what identifies a launch, and of what travels to a host."""

MOST_TAGS = 50
LONGEST_GROUP = 100
LONGEST_NOTE = 10_000

TAG = re.compile(r"[^\W_][\w.:/@+=-]{0,49}")
"""A letter or digit first, so that no tag looks like an option or like `-tag:…` in a filter; no blanks."""

GROUP = re.compile(r"[^\W_](?:[\w .,:/@+=()#-]{0,98}[\w.)+#])?")
"""One line with blanks inside, such as `lr sweep 3`."""


def tag_problem(text: str) -> str | None:
    """Say why a text cannot be a tag; None if it can."""
    if TAG.fullmatch(text):
        return None
    return f"{sanitize_line(text, 60)!r} cannot be a tag: write a letter or digit first, then up to 49 of letters, digits and _.:/@+=-"


def group_problem(text: str) -> str | None:
    """Say why a text cannot be the name of a group; None if it can."""
    if GROUP.fullmatch(text):
        return None
    return (
        f"{sanitize_line(text, 60)!r} cannot name a group: write a letter or digit first, "
        f"at most {LONGEST_GROUP} of letters, digits, blanks and _.,:/@+=()#-"
    )


def plain_note(text: str) -> str:
    """Return a note as it is stored: without what a terminal would obey, and without blank lines around it.

    Raises:
        ValueError: It is too long.
    """
    note = sanitize_text(text, len(text)).strip()
    if len(note) > LONGEST_NOTE:
        raise ValueError(f"the note has {len(note):,} characters; the most is {LONGEST_NOTE:,}")
    return note
