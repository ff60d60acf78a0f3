"""Compare: the tables of runs and settings, and why a Pareto page has no front."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.pilot import Pilot

from armada.tui.symbols import UNICODE
from tests.tui.conftest import World, drive, lacks, screen, shows, strips, until
from tests.tui.test_compare import compared, fill


def styles(pilot: Pilot[None], words: str) -> dict[str, Style]:
    """The style of each piece of the line with these words."""
    line = next(strip for strip in strips(pilot.app) if words in strip.text)
    return {segment.text.strip(): segment.style or Style() for segment in line if isinstance(segment, Segment)}


def test_the_pinned_run_has_the_sign_of_pins_and_each_state_its_own(world: World) -> None:
    world.run("one-aaaaaa", state="succeeded", step=1, total_steps=1)
    world.run("two-bbbbbb", state="failed", step=1, total_steps=1)
    board = world.board()

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c")
        seen = await shows(pilot, "✓ succeeded", "✗ failed")
        first, second = (line for line in seen.splitlines() if "✓ succeeded" in line or "✗ failed" in line)
        assert UNICODE.pin in first
        assert UNICODE.pin not in second
        assert UNICODE.star not in first + second, "a star marks starred runs"
        for word, colour in (("✓ succeeded", "text-success"), ("✗ failed", "text-error")):
            found = styles(pilot, word)[word].color
            assert found is not None
            assert Color.from_rich_color(found) == Color.parse(board.theme_variables[colour])

    drive(board, use)


def test_a_pareto_page_without_a_front_says_the_reason_that_holds(world: World) -> None:
    for run_id in ("one-aaaaaa", "two-bbbbbb"):
        world.run(run_id, step=3, total_steps=3)
        world.losses(run_id, [3.0, 2.0, 1.0])
        world.losses(run_id, [3.0, 2.0, 1.0], name="zeal")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "one-aaaaaa", "two-bbbbbb")
        await pilot.press("a", "c", "o")
        await shows(pilot, "no front: no run has a known price", "armada hosts set NAME --price")
        assert "does not say" not in screen(pilot)
        world.hosts(box={"ssh": "root@box.example", "price": "10 EUR"})
        await shows(pilot, "front: ")
        await lacks(pilot, "no front")
        view = compared(pilot)
        while view.choices.metric != "zeal":
            await pilot.press("m")
        await shows(pilot, "no front: the metric's name does not say")
        assert "known price" not in screen(pilot)

    drive(world.board(), use)
