"""Read data files once before the launch, with the payload's own checks. Every row must be usable for training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import ConfigError
from armada.foundation.sanitize import sanitize_line
from armada.launch.training.bundled_payload import payload_module

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.config.data import Data, DataSource


@dataclass(frozen=True, slots=True)
class DataFacts:
    """The number of rows in each file, and their kind.

    None means that only the host can read a source, because it has the libraries: parquet and folders that `datasets`
    saved.
    """

    counts: dict[Path, int | None]
    kind: str | None
    looks: tuple[str, ...] = ()
    """What the rows look like, such as Alpaca; each once."""
    tools: tuple[bool, bool] = (False, False)
    """Whether some offer tools, and call some."""

    @property
    def paths(self) -> list[Path]:
        return list(self.counts)

    @property
    def rows(self) -> int:
        return sum(count for count in self.counts.values() if count is not None)


def check_data(data: Data | None, task: str = "sft") -> DataFacts:
    """Read every file of an experiment's data to the end. The task decides which kinds of rows it takes.

    Raises:
        ConfigError: A file is missing or empty, a row is invalid (the error has its line), or kinds of rows are mixed.
    """
    if data is None:
        return DataFacts({}, None)
    counts: dict[Path, int | None] = {}
    surveys: dict[str, Any] = {}
    readers, rows = payload_module("data.readers"), payload_module("data.rows")
    kinds = payload_module("specification.objectives").KINDS[task]
    try:
        for each in (*data.train, *data.eval_sources):
            path = each.path
            if path is None or _key(data, each) in surveys:
                continue
            if not path.exists():
                hint = "`data:` paths are relative to the experiment file"
                raise ConfigError("this file does not exist", path=path, hint=hint)
            if not _is_lines(readers, path):
                counts[path] = None
                continue
            survey = rows.survey(payload_source(data, each), kinds)
            surveys[_key(data, each)], counts[path] = survey, survey.rows
        rows.refuse_mixed_kinds(*([surveys[key] for each in split if (key := _key(data, each)) in surveys]
                                  for split in (data.train, data.eval_sources)))  # fmt: skip
    except payload_module("failure").PayloadFailure as failure:
        raise _config_error(failure) from failure
    looks = tuple(dict.fromkeys(survey.looks for survey in surveys.values() if survey.looks))
    found = surveys.values()
    tools = any(survey.offers_tools for survey in found), any(survey.calls_tools for survey in found)
    return DataFacts(counts, next((survey.kind for survey in found), None), looks, tools)


def payload_source(data: Data, source: DataSource) -> Any:
    """Return the payload's own value for a file at home, with how its rows are written."""
    form = payload_module("specification.forms").Form(**data.form_of(source))
    return payload_module("specification.values").Source(source.path, form=form)


def count_rows(sources: Sequence[DataSource], facts: DataFacts) -> float | None:
    """Return the rows of one pass over some sources, weighted; None if some can only be counted on the host."""
    counts = [facts.counts.get(source.path) if source.path is not None else None for source in sources]
    if any(count is None for count in counts):
        return None
    return sum(source.weight * (count or 0) for source, count in zip(sources, counts, strict=True))


def mean_row_bytes(sources: Sequence[DataSource], facts: DataFacts) -> float | None:
    """Return the mean size of a row; None if not all sources are plain files of lines, whose size says how long rows are."""
    rows = count_rows(sources, facts)
    files = [source.path for source in sources if source.path is not None]
    if not rows or any(path.suffix == ".gz" for path in files):
        return None
    try:
        whole = sum(source.weight * source.path.stat().st_size for source in sources if source.path is not None)
    except OSError:  # removed since it was read
        return None
    return whole / rows


def _is_lines(readers: Any, path: Path) -> bool:
    if path.is_dir() and not (path / "state.json").is_file():
        raise ConfigError(
            "this is not a file", path=path, hint="a folder of data must be one that `Dataset.save_to_disk` wrote"
        )
    try:
        return bool(readers.is_lines(path))
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror or error}", path=path) from error


def _key(data: Data, source: DataSource) -> str:
    """What a file's rows depend on: another source may read the same file in another way."""
    return f"{source.path} {data.form_of(source)}"


def _config_error(failure: Any) -> ConfigError:
    """Convert the payload's error, with the file and line as separate fields."""
    where = getattr(failure, "where", None)
    if where is None or not hasattr(where, "path"):
        return ConfigError(sanitize_line(failure.message, 600))
    return ConfigError(sanitize_line(failure.what, 600), path=where.path, line=where.number, hint=failure.hint)
