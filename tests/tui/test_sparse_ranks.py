"""A rank that wrote few lines into a large log: they are found beside the keys, and no part is searched in vain twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from armada.tui.log_file import LogFile
from armada.tui.rank_lines import MOST_READ, RankLines
from tests.tui.conftest import World, drive, shows


def test_a_part_of_a_log_without_lines_of_a_rank_is_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    early = "".join(f"[rank1]: early {number}\n" for number in range(9))
    path.write_text(early + "[rank0]: other\n" * 400_000)
    log, read = RankLines(path, 1), 0
    whole = LogFile.read

    def count(file: LogFile, start: int, size: int) -> bytes:
        nonlocal read
        data = whole(file, start, size)
        read += len(data)
        return data

    def shown() -> list[str]:
        return [line.text.removeprefix("[rank1]: ") for line in log.forward(log.tail(2), 2)]

    monkeypatch.setattr(LogFile, "read", count)
    assert shown() == []  # near the end there is none, and keys do not wait for more
    assert read <= 2 * MOST_READ
    assert log.search_last(lambda: True) is None
    found = log.search_last()
    assert found is not None
    assert log.forward(found, 1)[0].text == "[rank1]: early 8"
    read = 0
    assert shown() == ["early 7", "early 8"]
    with path.open("a") as file:
        file.write("[rank0]: other\n" * 9 + "[rank1]: unfin")
    assert shown() == ["early 8", "unfin"]
    with path.open("a") as file:
        file.write("ished\n" + "[rank0]: other\n" * 9)
    assert shown() == ["early 8", "unfinished"]
    assert read < 10_000
    path.write_text("[rank1]: again\n")
    assert shown() == ["again"]


def test_the_only_lines_of_a_rank_are_found_far_from_the_end(world: World) -> None:
    path = world.local_log("demo-aaaaaa", "[rank1]: early\n" + "[rank0]: other\n" * 400_000)

    async def use(pilot: Pilot[None]) -> None:
        await shows(pilot, "demo-aaaaaa")
        await pilot.press("l")
        await shows(pilot, "[rank0]: other", "following")
        await pilot.press("r", "1", "enter")
        await shows(pilot, "only rank 1", "[rank1]: early", "following")
        with path.open("a") as file:
            file.write("[rank1]: late\n")
        await shows(pilot, "[rank1]: early", "[rank1]: late")

    drive(world.board(), use)
