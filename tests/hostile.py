"""What a job, a disk or a person may leave in the place of armada's records: thrown from dice, for home's readers and the host's."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

CASES = int(os.environ.get("ARMADA_HOSTILE_RECORDS", "100"))
"""How many hostile records each reader gets; `make test-all` asks for 10,000."""

HUGE_BYTES = 1 << 36
"""A file of this size is a hole on the disk, and more than any memory."""


def value(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value, and some that are none."""
    plain: list[Any] = [
        None, True, -1, 0, 1 << 53, 1 << 64, 10**400, -(10**30), 1.5, 1e308, float("nan"), float("inf"), float("-inf"), "", "x" * 3000,
        "\ud800", "\x00", "\x1b[2J", "\u2028", "step", [], {}, "NaN", "9" * 500,
    ]  # fmt: skip
    if depth < 4 and chance.random() < 0.3:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if depth < 4 and chance.random() < 0.3:
        return {str(value(chance, 9)): value(chance, depth + 1) for _ in range(chance.randrange(4))}
    return chance.choice(plain)


def line(chance: random.Random) -> str:
    """A line of metrics.jsonl, or what a job may take for one."""
    kind = chance.randrange(7)
    if kind == 0:
        return "[" * chance.choice([60, 2000, 60_000])
    if kind == 1:
        return '{"step": 1, "time": 1.0, "kind": "train", "x": ' + "[" * 2000 + "]" * 2000 + "}"
    if kind == 2:
        return chance.choice(
            ["", " ", "null", "\x00", "{", "}", '{"a": 1, "a": 2}', '{"step": 1e999}', "\ufeff{}", "7" * 5000]
        )
    record = {"kind": "train", "step": chance.randrange(9), "time": 1.0, "loss": 1.0}
    for _ in range(chance.randrange(1, 4)):
        record[chance.choice([*record, "\ud83d", "k\x00", "eval_loss", "k" * 400, "\u202e", "seq", "attempt"])] = value(
            chance
        )
    text = json.dumps(record, ensure_ascii=chance.random() < 0.5)
    return text[: chance.randrange(len(text))] if kind == 3 else text


def content(chance: random.Random, right: bytes) -> bytes:
    """Bytes in the place of a file's: most are nearly right, because what is nearly right gets furthest.

    Args:
        chance: The dice.
        right: What belongs there.
    """
    try:
        record = json.loads(right)
    except (ValueError, RecursionError):
        record = None
    if isinstance(record, dict) and record and chance.random() < 0.6:
        return _encoded(chance, _bent(chance, record))
    if record is None and right and chance.random() < 0.6:
        return _changed(chance, right)
    deep = chance.choice([60, 400, 900, 5000])
    return chance.choice(
        [
            b"",
            right[: chance.randrange(len(right) + 1)],
            right * 2,
            b"\0" * 5000,
            b"null",
            b"[]",
            b"\xff\xfe{",
            b'{"x": ' + b"[" * deep + b"]" * deep + b"}",
            b'{"state": "running", "state": "ended", "time": 1e999}',
            b'{"time": ' + b"7" * 5000 + b"}",
            "".join(f"{line(chance)}\n" for _ in range(20)).encode("utf-8", "surrogatepass"),
            ("\N{COLLISION SYMBOL}" * 300 + "\n").encode() * 60,
            b"x" * (3 << 20),
            json.dumps({"message": "é" * 400_000}, ensure_ascii=False).encode(),
        ]
    )


def _changed(chance: random.Random, right: bytes) -> bytes:
    """Bytes of which some are others, and some are missing or twice there."""
    changed = bytearray(right)
    for _ in range(chance.randrange(1, 30)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    if chance.random() < 0.3:
        at = chance.randrange(len(changed))
        changed[at : at + chance.randrange(1, 50)] = changed[: chance.choice([0, 1, 60])]
    return bytes(changed)


def _bent(chance: random.Random, record: dict[str, Any]) -> dict[str, Any]:
    """A record of which some value, at whatever depth, is another one."""
    bent: dict[str, Any] = json.loads(json.dumps(record))
    for _ in range(chance.randrange(1, 4)):
        where: Any = bent
        while where:
            key = chance.choice(list(where) if isinstance(where, dict) else range(len(where)))
            if isinstance(where[key], dict | list) and where[key] and chance.random() < 0.7:
                where = where[key]
                continue
            if isinstance(where, dict) and chance.random() < 0.2:
                del where[key]
            else:
                where[key] = value(chance)
            break
    return bent


def _encoded(chance: random.Random, record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


def replace(chance: random.Random, path: Path, elsewhere: list[Path]) -> str:
    """Put something else into the place of a file or a folder.

    Args:
        chance: The dice.
        path: What is replaced; it may be missing.
        elsewhere: Where links may lead.

    Returns:
        What lies there now, in words.
    """
    right = path.read_bytes() if path.is_file() and path.stat().st_size < HUGE_BYTES else b"{}"
    remove(path)
    kind = chance.choice(["content"] * 6 + ["link"] * 3 + ["pipe", "folder", "loop", "device", "full folder", "hole"])
    if kind == "link":
        target = chance.choice(elsewhere)
        path.symlink_to(target)
        return f"link to {target}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind in ("folder", "full folder"):
        path.mkdir()
        if kind == "full folder":
            (path / "1").mkdir()
            (path / "\udcff").write_bytes(b"")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "hole":
        path.write_bytes(right)
        os.truncate(path, HUGE_BYTES)
    else:
        there = content(chance, right)
        path.write_bytes(there)
        return f"{len(there)} bytes: {there[:300]!r}"
    return kind


def remove(path: Path) -> None:
    """Delete whatever lies there; nothing happens if nothing does."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
