"""The protocol versions that this home understands."""

from __future__ import annotations

PROTOCOL = 1
"""The version that this home speaks. An addition (a method, a field, a word) keeps it; a change that an older peer misreads raises it."""

OLDEST_PROTOCOL = 1
"""The oldest version that this home still understands."""
