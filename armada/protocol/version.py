"""Which protocols this home understands."""

from __future__ import annotations

PROTOCOL = 1
"""What this home speaks. What was only added (a method, a field, a word) leaves it; what an older side would get wrong raises it."""

OLDEST_PROTOCOL = 1
"""The oldest it still understands."""
