"""What comes of a story that is told to a new world, and how short it gets while that still breaks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.simulation.calm import be_calm
from tests.simulation.stories import Story, Teller
from tests.simulation.world import Broken, World


def outcome(story: Story, *, scripts: bool = False, teller: Callable[..., Teller] = Teller) -> str | None:
    """Tell a story to a new world: what broke, or None."""
    memory = Path("/dev/shm")  # a folder of its own is made there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder, World(Path(folder)) as world:
        try:
            teller(world, scripts=scripts).tell(story)
            be_calm(world)
        except Broken as broken:
            return str(broken)
    return None


def shorten(
    story: Story, still: Callable[[str], bool], *, scripts: bool = False, teller: Callable[..., Teller] = Teller
) -> Story:
    """Leave out what the failure does not need, in ever smaller pieces."""
    size = max(1, len(story) // 2)
    while True:
        start, shorter = 0, False
        while start < len(story):
            tried = [*story[:start], *story[start + size :]]
            words = outcome(tried, scripts=scripts, teller=teller)
            if words is not None and still(words):
                story, shorter = tried, True
            else:
                start += size
        if size == 1 and not shorter:
            return story
        size = max(1, size // 2)
