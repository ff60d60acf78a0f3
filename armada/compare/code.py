"""Compare the code that two runs were sent, file by file, line by line where both files are text and at home."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from armada.foundation.sanitize import sanitize_line
from armada.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.records.launch_record import KeptFile

LARGEST_TEXT_BYTES = 400_000
MOST_LINES = 8000
"""Of larger files only the names are listed: comparing lines takes time that grows with the square of their number."""

Change = Literal["added", "removed", "changed", "mode"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is not the same in both runs.

    Attributes:
        before: The file of the first run; None if it has none.
        after: The file of the second run.
        lines: A unified diff, without ends of lines; None where `why` says why there is none.
    """

    path: str
    change: Change
    before: KeptFile | None
    after: KeptFile | None
    lines: tuple[str, ...] | None = None
    why: str | None = None


def changed_paths(before: Mapping[str, KeptFile], after: Mapping[str, KeptFile]) -> list[str]:
    """Return the paths of the files that differ, in order."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def compare_code(
    before: Mapping[str, KeptFile],
    after: Mapping[str, KeptFile],
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
) -> Iterator[FileChange]:
    """Yield the files that differ, ordered by path.

    Args:
        before: The files of the first run by path.
        after: The files of the second run.
        old: The bytes of the first run's files, as far as home kept them.
        new: The bytes of the second run's files.
    """
    for path in changed_paths(before, after):
        one, two = before.get(path), after.get(path)
        if one is not None and two is not None and one.sha256 == two.sha256:
            yield FileChange(path, "mode", one, two, (), None)
            continue
        change: Change = "added" if one is None else "removed" if two is None else "changed"
        first, second = (b"" if one is None else old.get(path)), (b"" if two is None else new.get(path))
        size = max(file.size_bytes for file in (one, two) if file is not None)
        if first is None or second is None:
            yield FileChange(path, change, one, two, None, f"{amount(size)}, its bytes were not kept")
            continue
        texts = _text(first), _text(second)
        if texts[0] is None or texts[1] is None:
            yield FileChange(path, change, one, two, None, f"binary, {amount(size)}")
        elif size > LARGEST_TEXT_BYTES or max(map(len, texts)) > MOST_LINES:  # type: ignore[arg-type]  # None is out
            yield FileChange(path, change, one, two, None, f"large, {amount(size)}")
        else:
            yield FileChange(path, change, one, two, tuple(_unified(path, change, texts[0], texts[1])))


def _text(data: bytes) -> list[str] | None:
    """Return the lines of a text, or None for anything else."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None


def _unified(path: str, change: Change, old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff. A file that does not end with a newline is marked as `diff` does."""
    name = sanitize_line(path, 1000)
    names = "/dev/null" if change == "added" else f"a/{name}", "/dev/null" if change == "removed" else f"b/{name}"
    texts = []
    for lines in (old, new):
        ended = not lines[-1]
        texts.append(lines[:-1] if ended else [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"])
    for line in difflib.unified_diff(texts[0], texts[1], names[0], names[1], lineterm=""):
        yield from line.split("\n")
