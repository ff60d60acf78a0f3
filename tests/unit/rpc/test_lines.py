"""Lines and bytes, however the pieces fall that a channel delivers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from armada.rpc.lines import LineReader, LineTooLong
from tests.chance import dice


def pieces(text: bytes, size: int) -> Callable[[], bytes]:
    parts = iter([text[start : start + size] for start in range(0, len(text), size)])
    return lambda: next(parts, b"")


def lines(reader: LineReader, *, drop_long: bool = False) -> Iterable[bytes]:
    return iter(lambda: reader.line(drop_long=drop_long), None)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_lines_are_cut_wherever_the_pieces_end(size: int) -> None:
    text = b"one\ntwo\n\nthree\n" * 50
    reader = LineReader(pieces(text, size), 100)
    assert list(lines(reader)) == text.split(b"\n")[:-1]
    assert reader.received_bytes == len(text)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_long_line_is_dropped_and_the_next_is_read(size: int) -> None:
    reader = LineReader(pieces(b"a\n" + b"x" * 50 + b"\nshort\n" + b"y" * 11 + b"\n0123456789\n", size), 10)
    assert list(lines(reader, drop_long=True)) == [b"a", b"short", b"0123456789"]


def test_a_long_line_is_refused_before_it_ends() -> None:
    endless = iter(lambda: b"x" * 4, None)
    reader = LineReader(lambda: next(endless), 10)
    with pytest.raises(LineTooLong):
        reader.line()


def test_an_unfinished_line_is_dropped() -> None:
    reader = LineReader(pieces(b"whole\nhal", 4), 10)
    assert list(lines(reader)) == [b"whole"]


def test_bytes_between_lines_are_neither_lost_nor_taken_for_lines() -> None:
    chance: random.Random = dice(77)
    for _ in range(200):
        blocks = [chance.randbytes(chance.randrange(40)).replace(b"\r", b"\n") for _ in range(5)]
        text = b"".join(b"%d\n%s" % (len(block), block) for block in blocks)
        reader = LineReader(pieces(text, chance.randrange(1, 30)), 10)
        found = []
        for _ in blocks:
            left = int(reader.line() or b"-1")
            block = b""
            while left:
                part = reader.some(left)
                block, left = block + bytes(part), left - len(part)
            found.append(block)
        assert found == blocks
        assert reader.line() is None
        assert not reader.some(1)
