"""Names of settings such as `train.optimizer.name` or `data.train[0].path`, as forms list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def sections_above(key: str) -> Iterator[str]:
    """List the sections that a key is in, the outermost first."""
    for place, letter in enumerate(key):
        if letter in ".[":
            yield key[:place]
