"""Everything that home knows of how two runs differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.compare.code import changed_paths, compare_code
from armada.compare.data import compare_data, data_of
from armada.compare.environment import compare_packages, lists_of
from armada.compare.settings import differences
from armada.records.code_archive import read_code
from armada.records.launch_record import read_record
from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.compare.code import FileChange
    from armada.compare.data import DataChange
    from armada.compare.environment import PackageChange, Source
    from armada.compare.settings import Difference
    from armada.paths import HomePaths
    from armada.records.launch_record import KeptEnvironment, KeptFile, LaunchRecord
    from armada.store.database import Database
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class RunDifference:
    """How a second run differs from a first one. Code, packages and data are None if they cannot be compared.

    Attributes:
        records: What was recorded of each launch.
        packages_from: Which lists of packages were compared.
    """

    records: tuple[LaunchRecord | None, LaunchRecord | None]
    settings: tuple[Difference, ...]
    code: tuple[FileChange, ...] | None
    packages: tuple[PackageChange, ...] | None
    packages_from: Source | None
    data: tuple[DataChange, ...] | None


def compare_runs(database: Database, home: HomePaths, one: Run, two: Run) -> RunDifference:
    """Compare two runs by what home keeps of them."""
    specs = [runs.spec(database, run.run_id) for run in (one, two)]
    records = read_record(home, one.run_id), read_record(home, two.run_id)
    first, second = records
    if first is None or second is None:
        return RunDifference(records, tuple(differences(specs)), None, None, None, None)
    packages, source = _packages(first.environment, second.environment)
    return RunDifference(
        records,
        tuple(differences(specs)),
        _code(home, one, two, first, second),
        packages,
        source,
        tuple(compare_data(data_of(first), data_of(second))),
    )


def _code(
    home: HomePaths, one: Run, two: Run, first: LaunchRecord, second: LaunchRecord
) -> tuple[FileChange, ...] | None:
    """Compare the files; None if one of them has too many to be listed."""
    listed = [_files(first), _files(second)]
    if listed[0] is None or listed[1] is None:
        return None
    wanted = changed_paths(listed[0], listed[1])
    bytes_of = [
        read_code(home, run.run_id, record.code, wanted) if record.code is not None and wanted else {}
        for run, record in ((one, first), (two, second))
    ]
    return tuple(compare_code(listed[0], listed[1], *bytes_of))


def _files(record: LaunchRecord) -> Mapping[str, KeptFile] | None:
    if record.code is None:
        return {}
    return None if record.code.files is None else {file.path: file for file in record.code.files}


def _packages(
    one: KeptEnvironment | None, two: KeptEnvironment | None
) -> tuple[tuple[PackageChange, ...] | None, Source | None]:
    if one is None and two is None:
        return (), None
    if one is None or two is None:
        return None, None
    source, before, after = lists_of(one, two)
    return tuple(compare_packages(before, after)), source
