"""Limits on bandwidth: kept, and shared fairly by what is transferring, in one process and in several."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from armada.config.hosts import Host, load_hosts
from armada.errors import ConfigError
from armada.paths import HomePaths
from armada.sync.transfer.bandwidth import BURST_S, Allowance, Limit, OwnLimit, SharedLimit, allowance_for

MB = 1_000_000


class Hand:
    """A clock that pauses move on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def home(tmp_path: Path) -> HomePaths:
    paths = HomePaths(config=tmp_path / "config", state=tmp_path / "state")
    paths.make()
    return paths


def nothing() -> None: ...


def test_a_limit_is_kept_whatever_pieces_come() -> None:
    hand = Hand()
    allowance = Allowance([OwnLimit(10 * MB, hand)], hand.pause)
    for size in (1, 5 * MB, 300_000, 0, 20 * MB):
        allowance.take(size, nothing)
    assert hand.now - 1000.0 == pytest.approx(25_300_001 / (10 * MB) - BURST_S)


def test_the_slowest_of_several_limits_holds() -> None:
    hand = Hand()
    allowance = Allowance([OwnLimit(100 * MB, hand), OwnLimit(2 * MB, hand)], hand.pause)
    allowance.take(10 * MB, nothing)
    assert hand.now - 1000.0 == pytest.approx(5.0 - BURST_S)


def test_without_a_limit_nobody_waits() -> None:
    def never(_: float) -> None:
        raise AssertionError

    Allowance([], never).take(10**12, nothing)


def test_who_waits_on_purpose_says_so_every_second_and_can_be_called_off() -> None:
    hand, told = Hand(), []

    def called_off() -> None:
        told.append(hand.now)
        if len(told) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        Allowance([OwnLimit(1000.0, hand)], hand.pause).take(100_000, called_off)
    assert len(told) == 3


def shares(transfers: Sequence[Sequence[Limit]], hand: Hand, until_s: float) -> list[int]:
    """How much each transfer gets that always wants more, each asking for its next piece once the last has passed."""
    piece, got, ready = 100_000, [0] * len(transfers), [hand.now] * len(transfers)
    end = hand.now + until_s
    while min(ready) < end:
        turn = ready.index(min(ready))
        hand.now = ready[turn]
        wait_s = max(limit.reserve(piece) for limit in transfers[turn])
        ready[turn] = hand.now + max(0.0, wait_s)
        got[turn] += piece
    return got


def test_transfers_share_homes_limit_in_equal_parts(tmp_path: Path) -> None:
    hand = Hand()
    everyone = [[SharedLimit(tmp_path / "home", 30 * MB, hand)] for _ in range(3)]
    everyone[0][0].reserve(int(30 * MB * BURST_S))  # the burst at the very beginning is whoever's comes first
    got = shares(everyone, hand, 10.0)
    assert max(got) - min(got) <= 100_000
    assert sum(got) == pytest.approx(30 * MB * 10.0, rel=0.01)


def test_what_a_slow_transfer_does_not_use_goes_to_the_others(tmp_path: Path) -> None:
    """One run has a limit of its own of 3 MB/s, one host one of 6; the third takes what is left of home's 30."""
    hand = Hand()
    by_home = [SharedLimit(tmp_path / "home", 30 * MB, hand) for _ in range(3)]
    by_home[0].reserve(int(30 * MB * BURST_S))
    transfers: list[list[Limit]] = [
        [by_home[0], OwnLimit(3 * MB, hand)],
        [by_home[1], SharedLimit(tmp_path / "host", 6 * MB, hand)],
        [by_home[2]],
    ]
    got = [each / 10.0 / MB for each in shares(transfers, hand, 10.0)]
    assert got == [pytest.approx(wanted, rel=0.05) for wanted in (3, 6, 21)]


TAKE = """
import sys
from pathlib import Path
from armada.sync.transfer.bandwidth import SharedLimit
limit = SharedLimit(Path(sys.argv[1]), 1e6)
for _ in range(1000):
    limit.reserve(5000)
"""


def test_no_byte_that_another_process_takes_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "home"
    began = time.monotonic() + SharedLimit(file, 1e6).reserve(0)
    processes = [subprocess.Popen([sys.executable, "-c", TAKE, str(file)]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    (free_at,) = struct.unpack("<d", file.read_bytes())
    assert free_at - began >= 4 * 1000 * 5000 / 1e6 - 0.01


@pytest.mark.parametrize("left_over", [b"", b"junk", struct.pack("<d", 1e12), struct.pack("<d", float("nan"))])
def test_what_was_left_in_the_file_before_a_reboot_holds_nobody_up(tmp_path: Path, left_over: bytes) -> None:
    file = tmp_path / "home"
    file.write_bytes(left_over)
    assert SharedLimit(file, MB, lambda: 50.0).reserve(MB) == pytest.approx(1.0 - BURST_S)


def rates(home: HomePaths, host: str, run: float | None = None) -> list[float]:
    return sorted(limit.bytes_per_s for limit in allowance_for(home, load_hosts(home)[host], run).limits)


def test_the_limits_of_hosts_yaml_and_of_the_run_hold_together(home: HomePaths) -> None:
    assert rates(home, "local") == []
    home.hosts_file.write_text("bwlimit: 50M\nhosts:\n  box: {ssh: box, bwlimit: 20M}\n  local: {bwlimit: 1G}\n")
    assert rates(home, "box", 5e6) == [5e6, 20e6, 50e6]
    assert rates(home, "local") == [50e6, 1e9]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bwlimit: fast\n", r"hosts\.yaml:1: `bwlimit` 'fast' is not a rate"),
        ("hosts:\n  box:\n    ssh: box\n    bwlimit: 5k\n", r"hosts\.yaml:4: `hosts\.box\.bwlimit` .*less than 10k"),
        ("bandwidth: 5M\n", r"hosts\.yaml:1: unknown key `bandwidth`"),
        ("hosts:\n  box: {ssh: box, bandwidth: 5M}\n", r"did you mean `hosts\.box\.bwlimit`"),
    ],
)
def test_a_wrong_limit_is_said_with_its_line(home: HomePaths, text: str, says: str) -> None:
    home.hosts_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_hosts(home)
    assert re.search(says, f"{caught.value} {caught.value.hint}", re.DOTALL), str(caught.value)


def test_a_project_has_no_say_in_homes_limit(home: HomePaths, tmp_path: Path) -> None:
    (tmp_path / "armada.yaml").write_text("bwlimit: 50M\nhosts: {}\n")
    with pytest.raises(ConfigError, match=r"armada\.yaml:1: unknown key `bwlimit`"):
        load_hosts(home, tmp_path)


def test_a_file_that_is_just_being_broken_leaves_the_limit_as_it_was(home: HomePaths) -> None:
    home.hosts_file.write_text("bwlimit: 50M\n")
    host = Host(name="local", local=True)
    allowance_for(home, host, None)
    home.hosts_file.write_text("bwlimit: [")
    assert [limit.bytes_per_s for limit in allowance_for(home, host, None).limits] == [50e6]
