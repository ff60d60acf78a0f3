"""A log beyond `sync.log_limit`: its beginning and its end come home, and a release says what stays there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from armada.sync.outputs.long_logs import END, LOG, Listed, cut, left_there
from armada.sync.release.judge import judge_host
from tests.sync.conftest import Place, leftovers, random_bytes

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 400_000


@pytest.mark.parametrize(
    ("here", "size", "parts", "left"),
    [
        (0, 400_000, [(LOG, 0, 400_000)], 0),
        (0, 400_001, [(LOG, 0, 300_000), (END, 300_001, 100_000)], 1),
        (0, 900_000, [(LOG, 0, 300_000), (END, 800_000, 100_000)], 500_000),
        (500_000, 900_000, [(LOG, 0, 500_000), (END, 800_000, 100_000)], 300_000),  # an older armada brought more
        (850_000, 900_000, [(LOG, 0, 850_000), (END, 800_000, 100_000)], 0),
        (900_000, 900_000, [(LOG, 0, 900_000)], 0),
        (950_000, 900_000, [(LOG, 0, 300_000), (END, 800_000, 100_000)], 500_000),  # of a log that was begun anew
    ],
)
def test_a_log_beyond_the_limit_comes_in_two_parts_and_nothing_at_home_gets_shorter(
    tmp_path: Path, here: int, size: int, parts: list[tuple[str, int, int]], left: int
) -> None:
    (tmp_path / LOG).write_bytes(b"x" * here)
    found = cut(tmp_path, [Listed(LOG, size, 1.0), Listed(END, 5, 1.0), Listed("state.json", size, 1.0)], LIMIT)
    assert [(item.path, item.offset, item.size_bytes) for item in found[:-1]] == parts
    assert found[-1] == Listed("state.json", size, 1.0)
    assert left_there(found) == ((left, size) if len(parts) == 2 else (0, 0))
    assert cut(tmp_path, [Listed(LOG, size, 1.0)], None) == [Listed(LOG, size, 1.0)]


def test_the_beginning_and_the_end_of_a_long_log_come_home_and_a_release_says_what_stays(place: Place) -> None:
    place.create(log_limit="400k")
    log = place.remote / "output.log"
    log.write_bytes(random_bytes(5_000_000))
    assert {LOG, END} <= set(place.sync().outputs.fetched)
    with log.open("ab") as stream:
        stream.write(random_bytes(1_000_000))
    assert set(place.sync().outputs.fetched) == {LOG, END}
    text = log.read_bytes()
    assert (place.outputs / LOG).read_bytes() == text[:300_000]
    assert (place.outputs / END).read_bytes() == text[-100_000:]
    assert place.sync().outputs.fetched == ()
    assert not leftovers(place)
    (item,) = [each for each in judge_host(place.context) if "log" in each.what]
    assert (item.lost, item.what) == (True, "5.6 MB in the middle of its log of 6.0 MB are only there (sync.log_limit)")
    assert item.hint == f"armada logs {place.run_id} --from 0 > FILE, if you need them; then --ignore-work"
    items = judge_host(place.context, ignore_work=True)
    assert [each.lost for each in items if "in the middle of its log" in each.what] == [False]


def test_with_a_larger_limit_the_whole_log_comes(place: Place) -> None:
    place.create(log_limit="400k")
    log = place.remote / "output.log"
    log.write_bytes(random_bytes(1_000_000))
    place.sync()
    place.run_settings(log_limit="none")
    place.sync()
    assert (place.outputs / LOG).read_bytes() == log.read_bytes()
    assert not (place.outputs / END).exists()
    assert not [each for each in judge_host(place.context) if "log" in each.what]


def test_the_end_of_a_log_that_was_put_back_to_a_shorter_one_stays_at_home(place: Place) -> None:
    place.create(log_limit="400k")
    log, text = place.remote / "output.log", random_bytes(1_000_000)
    log.write_bytes(text)
    place.sync()
    log.write_bytes(text[:350_000])  # its host's disk was put back
    assert set(place.sync().outputs.kept) == {END}
    (kept,) = (place.home.run(place.run_id) / "replaced").rglob(END)
    assert kept.read_bytes() == text[-100_000:]
    assert (place.outputs / LOG).read_bytes() == text[:350_000]
    assert not (place.outputs / END).exists()


def test_the_end_of_a_log_that_is_shorter_now_and_still_cut_does_not_replace_the_one_at_home(place: Place) -> None:
    place.create(log_limit="400k")
    log, text = place.remote / "output.log", random_bytes(2_000_000)
    log.write_bytes(text)
    place.sync()
    log.write_bytes(text[:1_200_000] + b"another")
    assert place.sync().outputs.kept == (END,)
    with log.open("ab") as stream:
        stream.write(random_bytes(100_000))
    assert place.sync().outputs.kept == ()
