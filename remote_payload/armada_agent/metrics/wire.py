"""Decode Protocol Buffers, as far as scalars need it: https://protobuf.dev/programming-guides/encoding."""

import struct
from typing import Any, Iterator, Tuple

VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_MOST_SINGLE = 3.4e38


def fields(data: bytes) -> Iterator[Tuple[int, int, Any]]:
    """Yield the fields of a message: number, wire type, and the value, an integer or bytes.

    Raises:
        ValueError: It is not a message.
    """
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _varint(data, place)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, place = _varint(data, place)
        elif kind in (FIXED_64, FIXED_32):
            size = 8 if kind == FIXED_64 else 4
        else:
            raise ValueError("a field of wire type %d" % kind)
        if size > len(data) - place:
            raise ValueError("a field that is cut off")
        yield number, kind, data[place : place + size]
        place += size


def signed(value: int) -> int:
    """Convert a varint to an int64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(data: bytes) -> float:
    """Convert 8 bytes to a number."""
    return float(struct.unpack("<d", data)[0])


def single(data: bytes) -> float:
    """Convert 4 bytes to a number with the digits of its precision: 0.1, not 0.10000000149."""
    (exact,) = struct.unpack("<f", data)
    for digits in (6, 7, 8):
        short = float("%.*g" % (digits, exact))
        if abs(short) < _MOST_SINGLE and struct.pack("<f", short) == data:
            return short
    return float(exact)


def _varint(data: bytes, place: int) -> Tuple[int, int]:
    value = 0
    for count in range(_LONGEST_VARINT):
        if place + count >= len(data):
            raise ValueError("a number that is cut off")
        byte = data[place + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & ((1 << 64) - 1), place + count + 1
    raise ValueError("a number of more than 64 bits")
