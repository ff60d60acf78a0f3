"""Compare the data files that two runs were sent, by name, size and hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.foundation.sanitize import sanitize_line
from armada.units import counted

if TYPE_CHECKING:
    from armada.records.launch_record import LaunchRecord


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file, folder or remote source. `size_bytes` is None if it is not known; `identity` is a SHA-256 or a version."""

    size_bytes: int | None
    identity: str


@dataclass(frozen=True, slots=True)
class DataChange:
    """A data file that is not the same in both runs; None where it is missing."""

    name: str
    before: DataFile | None
    after: DataFile | None


def data_of(record: LaunchRecord) -> dict[str, DataFile]:
    """Return the data of a run by name. Of two files with one name, the second is called `NAME (2)`."""
    found: dict[str, DataFile] = {}

    def add(name: str, file: DataFile) -> None:
        plain = sanitize_line(name, 300)
        key, number = plain, 2
        while key in found:
            key, number = f"{plain} ({number})", number + 1
        found[key] = file

    for content in sorted(record.data, key=lambda each: (each.source, each.sha)):
        if content.files is None:
            add(f"{content.source} ({counted(content.file_count, 'file')})", DataFile(content.size_bytes, content.sha))
        for file in content.files or ():
            add(file.path, DataFile(file.size_bytes, file.sha256))
    for name, source, identity in sorted(record.files):
        add(f"{name} from {source}", DataFile(None, sanitize_line(identity, 100)))
    return found


def compare_data(before: dict[str, DataFile], after: dict[str, DataFile]) -> list[DataChange]:
    """List the data that was added, removed or changed, by name."""
    names = sorted(before.keys() | after.keys())
    return [
        DataChange(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    ]
