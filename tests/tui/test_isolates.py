"""Names that are read from right to left: what is beside them stays in its cells, in terminals that reorder such text."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar

import pytest
from rich.cells import cell_len
from textual import constants
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from armada.foundation.isolates import FIRST_STRONG, POP, isolated
from armada.foundation.sanitize import sanitize_line
from tests.tui.conftest import World, drive, shows, strips

RTL = re.compile("[\u0590-\u08ff]")


class Recording(HeadlessDriver):
    """A terminal that keeps what is written to it."""

    written: ClassVar[list[str]] = []

    def write(self, data: str) -> None:
        self.written.append(data)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain │ ●", "plain │ ●"),
        ("on שלום: 3 of 4", "on ⟦שלום⟧: 3 of 4"),
        ("שלום-عالم 412 GB", "⟦שלום-عالم⟧ 412 GB"),
        ("שני מילים, שלוש", "⟦שני מילים, שלוש⟧"),
        ("אחת  שתיים", "⟦אחת⟧  ⟦שתיים⟧"),
        ("אחת · שתיים", "⟦אחת⟧ · ⟦שתיים⟧"),
        ("אחת\x1b[0m שתיים", "⟦אחת⟧\x1b[0m ⟦שתיים⟧"),
        ("שלום world עולם", "⟦שלום⟧ world ⟦עולם⟧"),
    ],
)
def test_only_words_from_right_to_left_are_isolated_and_columns_never_together(text: str, shown: str) -> None:
    assert isolated(text) == shown.replace("⟦", FIRST_STRONG).replace("⟧", POP)
    assert cell_len(isolated(text)) == cell_len(text)


def test_a_name_cannot_bring_its_own_isolates() -> None:
    assert sanitize_line("a\u2066b\u2067c\u2068d\u2069e\u202ef\u200fg\u061c") == "a�b�c�d�e�f�g�"


def test_the_dashboard_writes_isolates_to_its_terminal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DRIVER", f"{__name__}:Recording")
    written: list[str] = []
    monkeypatch.setattr(Recording, "written", written)
    board = world.board()

    async def write() -> None:
        board.driver_class(board, size=(80, 24)).write("\x1b[1mשלום\x1b[0m box")

    asyncio.run(write())
    assert written == [f"\x1b[1m{FIRST_STRONG}שלום{POP}\x1b[0m box"]


@pytest.mark.parametrize("width", [40, 80, 160])
def test_names_from_right_to_left_keep_all_lines_at_their_width_and_each_isolate_closed(
    world: World, width: int
) -> None:
    world.run("demo-aaaaaa", name="שלום עולם " * 9, host="مرحبا", state="failed", reason="oom", message="אין מקום")

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "שלום")
        for keys in ("question_mark", "escape"):  # a window covers a part of the lines
            await pilot.press(keys)
            for strip in strips(pilot.app):
                written = isolated(strip.text)
                assert cell_len(written) == width
                assert written.count(FIRST_STRONG) == written.count(POP)
                assert not RTL.search(re.sub(f"{FIRST_STRONG}[^{POP}]*{POP}", "", written))

    drive(world.board(), use, (width, 30))
