"""The record of a launch at home: `runs/<run id>/launch/record.json`, with the code beside it.

Runs that an older armada launched, and runs of other homes, have none: everything of it may be missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.costs.price import Price, parse_price
from armada.costs.tariff import Tariff
from armada.foundation.atomic_write import write_atomically
from armada.foundation.validation import mapping, whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from armada.paths import HomePaths

FORMAT = 1
MOST_FILES = {"code": 20_000, "payload": 0}
"""By kind. Of a content with more files, only the number of files and the hash of all are recorded."""
_MOST_OTHERS = 2000

_RECORD = "record.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file as it was sent."""

    path: str
    size_bytes: int
    sha256: str
    executable: bool = False


@dataclass(frozen=True, slots=True)
class KeptContent:
    """Files that were sent together.

    Attributes:
        kind: `code`, `payload`, `data` or `models`.
        sha: The hash of all.
        source: The folder at home that they were read from.
        files: None if there were too many to be recorded.
        file_count: How many files there were.
        size_bytes: Of all files.
    """

    kind: str
    sha: str
    source: str
    files: tuple[KeptFile, ...] | None
    file_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KeptEnvironment:
    """What an environment was built from. `installed`: what is in it, as `pip freeze` lists it; None if nobody said."""

    key: str
    python: str = ""
    requirements: str = ""
    constraints: str | None = None
    torch_index: str | None = None
    optional: str | None = None
    installed: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What was sent for a run, and what it was made from.

    Attributes:
        armada: The version of armada that launched it.
        experiment: The experiment file as the user wrote it; None if it could not be read.
        experiment_path: Its path at home.
        contents: What was sent, the code first.
        environment: None if armada built none.
        hub_model: Repository and commit of the model that the host fetched.
        files: Entries of `files:` from elsewhere: name in the job's folder, source, identity.
        gpus: The names of the host's GPUs.
        price_per_hour: What an hour of the host cost at the launch, if that was one price in dollars.
        prices: The price of the host at the launch, as text; at most one.
        is_box: The host was one box, not a batch system.
        secrets: The names of the variables whose values were sent; None if nobody recorded them.
        sync: The settings of `sync`; None if nobody recorded them.
    """

    armada: str
    experiment: str | None = None
    experiment_path: str | None = None
    contents: tuple[KeptContent, ...] = ()
    environment: KeptEnvironment | None = None
    hub_model: tuple[str, str] | None = None
    files: tuple[tuple[str, str, str], ...] = ()
    gpus: tuple[str, ...] = ()
    price_per_hour: float | None = None
    prices: tuple[str, ...] = ()
    is_box: bool = True
    secrets: tuple[str, ...] | None = None
    sync: dict[str, Any] | None = None

    @property
    def tariff(self) -> Tariff | None:
        """What the host cost at the launch; None if no price is known."""
        found = []
        for text in self.prices[-1:]:
            with contextlib.suppress(ValueError):
                found.append(parse_price(text))
        if not found and self.price_per_hour is not None:
            found.append(Price(self.price_per_hour))
        return Tariff(tuple(found), len(self.gpus) or None, is_box=self.is_box) if found else None

    @property
    def code(self) -> KeptContent | None:
        """The project's code; None if the run had none."""
        return next((content for content in self.contents if content.kind == "code"), None)

    @property
    def data(self) -> tuple[KeptContent, ...]:
        """Data and files of the job."""
        return tuple(content for content in self.contents if content.kind == "data")


def keep_content(kind: str, sha: str, source: Path, manifest: Iterable[tuple[str, int, str, int]]) -> KeptContent:
    """Return the record of a content.

    Args:
        kind: As in `KeptContent`.
        sha: The hash of all.
        source: The folder at home.
        manifest: Path, size in bytes, SHA-256 and mode of each file.
    """
    files = tuple(KeptFile(path, size, sha256, mode & 0o100 != 0) for path, size, sha256, mode in manifest)
    listed = files if len(files) <= MOST_FILES.get(kind, _MOST_OTHERS) else None
    return KeptContent(kind, sha, str(source), listed, len(files), sum(file.size_bytes for file in files))


def write_record(home: HomePaths, run_id: str, record: LaunchRecord) -> None:
    """Write the record of a launch; a former one of the same run is replaced.

    Raises:
        OSError: The disk refuses it.
    """
    folder = home.launch_record(run_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **dataclasses.asdict(record)})
    write_atomically(folder / _RECORD, text, durable=False)


def read_price(home: HomePaths, run_id: str) -> LaunchRecord | None:
    """Return what `tariff` needs of the record of a launch; None as `read_record`, which takes 5 ms for 1,000 files."""
    value = _load(home, run_id)
    return _priced(value) if value is not None else None


def read_record(home: HomePaths, run_id: str) -> LaunchRecord | None:
    """Return what was recorded of a launch; None if nothing was, or if it cannot be read."""
    value = _load(home, run_id)
    if value is None:
        return None
    model = _texts(value.get("hub_model"))
    files = value.get("files")
    return dataclasses.replace(
        _priced(value),
        experiment=_text(value.get("experiment")),
        experiment_path=_text(value.get("experiment_path")),
        contents=tuple(found for item in _list(value.get("contents")) if (found := _content(item)) is not None),
        environment=_environment(value.get("environment")),
        hub_model=(model[0], model[1]) if len(model) == 2 else None,
        files=tuple((t[0], t[1], t[2]) for item in _list(files) if len(t := _texts(item)) == 3),
        secrets=tuple(_texts(value["secrets"])) if isinstance(value.get("secrets"), list) else None,
        sync=value["sync"] if isinstance(value.get("sync"), dict) else None,
    )


def forget_record(home: HomePaths, run_id: str) -> None:
    """Delete the record and the code beside it. What the disk refuses to delete stays."""
    folder = home.launch_record(run_id)
    if folder.is_symlink():
        return
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)


def _load(home: HomePaths, run_id: str) -> dict[str, Any] | None:
    try:
        value = json.loads((home.launch_record(run_id) / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _priced(value: dict[str, Any]) -> LaunchRecord:
    price = value.get("price_per_hour")
    return LaunchRecord(
        armada=_text(value.get("armada")) or "",
        gpus=tuple(_texts(value.get("gpus"))),
        price_per_hour=float(price) if isinstance(price, int | float) and not isinstance(price, bool) else None,
        prices=tuple(_texts(value.get("prices"))),
        is_box=value.get("is_box") is not False,
    )


def _content(item: Any) -> KeptContent | None:
    told = mapping(item)
    kind, sha, source = (_text(told.get(name)) for name in ("kind", "sha", "source"))
    if kind is None or sha is None:
        return None
    listed = told.get("files")
    files = tuple(file for each in _list(listed) if (file := _file(each)) is not None)
    count, size = whole(told.get("file_count")), whole(told.get("size_bytes"))
    return KeptContent(kind, sha, source or "", files if isinstance(listed, list) else None, count or 0, size or 0)


def _file(item: Any) -> KeptFile | None:
    told = mapping(item)
    path, sha256, size = _text(told.get("path")), _text(told.get("sha256")), whole(told.get("size_bytes"))
    if path is None or sha256 is None or size is None or size < 0 or not _SHA256.fullmatch(sha256):
        return None
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        return None
    return KeptFile(path, size, sha256, told.get("executable") is True)


def _environment(item: Any) -> KeptEnvironment | None:
    told = mapping(item)
    key = _text(told.get("key"))
    if key is None:
        return None
    return KeptEnvironment(
        key,
        _text(told.get("python")) or "",
        _text(told.get("requirements")) or "",
        *(_text(told.get(name)) for name in ("constraints", "torch_index", "optional", "installed")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    found = _list(value)
    return found if all(isinstance(each, str) for each in found) else []
