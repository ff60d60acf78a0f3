"""Everything that home knows of how two runs differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.compare.code import changed_paths, compare_code
from armada.compare.data import compare_data, data_of
from armada.compare.environment import compare_packages, lists_of
from armada.compare.settings import differences
from armada.foundation.validation import mapping
from armada.records.code_archive import read_code
from armada.records.launch_record import read_record
from armada.store import runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        packages_why: Why packages cannot be compared, if both launches were recorded.
    """

    records: tuple[LaunchRecord | None, LaunchRecord | None]
    settings: tuple[Difference, ...]
    code: tuple[FileChange, ...] | None
    packages: tuple[PackageChange, ...] | None
    packages_from: Source | None
    data: tuple[DataChange, ...] | None
    packages_why: str | None = None


def compare_runs(database: Database, home: HomePaths, one: Run, two: Run) -> RunDifference:
    """Compare two runs by what home keeps of them."""
    specs = [runs.spec(database, run.run_id) for run in (one, two)]
    records = read_record(home, one.run_id), read_record(home, two.run_id)
    first, second = records
    if first is None or second is None:
        return RunDifference(records, tuple(differences(specs)), None, None, None, None)
    environments = first.environment, second.environment
    packages: tuple[PackageChange, ...] | None = None
    source: Source | None = None
    why: str | None = None
    if environments[0] is not None and environments[1] is not None:
        source, before, after = lists_of(environments[0], environments[1])
        packages = tuple(compare_packages(before, after))
    else:
        packages, why = _without_lists(environments, specs)
    return RunDifference(
        records,
        tuple(differences(specs)),
        _code(home, one, two, first, second),
        packages,
        source,
        tuple(compare_data(data_of(first), data_of(second))),
        why,
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


def _without_lists(
    environments: Sequence[KeptEnvironment | None], specs: Sequence[Mapping[str, Any]]
) -> tuple[tuple[PackageChange, ...] | None, str | None]:
    """Return what is known of packages that armada did not install in one of the runs: they are equal in one image."""
    images = [
        mapping(spec.get("container")).get("digest") or mapping(spec.get("container")).get("id") for spec in specs
    ]
    if images[0] is not None and images[0] == images[1]:
        return (), None
    which = "neither run" if environments[0] is None and environments[1] is None else "one of the runs"
    verb = "has" if which == "neither run" else "does not have"
    return None, f"{which} {verb} an environment that armada built, so its packages are not recorded"
