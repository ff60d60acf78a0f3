"""Say what of a run cannot be reproduced: code that was not kept, data that has changed, versions that nobody recorded."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada import __version__
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import flat_sources, mapping
from armada.units import amount, counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.records.launch_record import KeptContent, LaunchRecord

_SHOWN = 5


def find_missing(
    spec: Mapping[str, Any], record: LaunchRecord | None, code: Mapping[str, bytes] | None
) -> tuple[str, ...]:
    """Return a sentence for each part that cannot be reproduced. The data at home is read to its end.

    Args:
        spec: The run's plan.
        record: What was recorded of its launch.
        code: The kept files of its code by path.
    """
    experiment = mapping(spec.get("experiment"))
    found = [*_missing_code(experiment, record, code), *_missing_data(record), *_unpinned(spec, record)]
    if record is not None and record.armada != __version__:
        found.append(f"armada was {sanitize_line(record.armada, 40)} then, and is {__version__} now")
    return tuple(found)


def sources_of(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources of a section `data`, those of training first."""
    listed = [data.get(use) for use in ("train", "eval")]
    return [item for items in listed for item in flat_sources(items) if isinstance(item, dict)]


def _missing_code(
    experiment: Mapping[str, Any], record: LaunchRecord | None, code: Mapping[str, bytes] | None
) -> list[str]:
    if record is None:
        what = "its code, packages and data were not recorded (an older armada or another home launched it)"
        where = experiment.get("code")
        return [what, *([f"the code is what is now in {sanitize_line(where, 300)}"] if where else [])]
    if record.code is None or code is None:
        return []
    if record.code.files is None:
        return [f"its code has {counted(record.code.file_count, 'file')}, too many to be recorded"]
    lost = [file for file in record.code.files if file.path not in code]
    named = ", ".join(f"{sanitize_line(file.path, 100)} ({amount(file.size_bytes)})" for file in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return [f"the bytes of some code files were not kept: {named}{more}"] if lost else []


def _missing_data(record: LaunchRecord | None) -> list[str]:
    """Say which data at home is not what was sent."""
    found = []
    for content in record.data if record is not None else ():
        if content.files is None:
            count = counted(content.file_count, "file")
            found.append(f"data in {sanitize_line(content.source, 300)} has {count}; only the plan compares them")
        changed = _changed_files(content)
        if changed:
            named = ", ".join(sanitize_line(name, 100) for name in changed[:_SHOWN])
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            found.append(f"data in {sanitize_line(content.source, 300)} is missing or has changed: {named}{more}")
    return found


def _changed_files(content: KeptContent) -> list[str]:
    changed = []
    for file in content.files or ():
        path = Path(content.source) / file.path
        try:
            right = path.stat().st_size == file.size_bytes and _sha256(path) == file.sha256
        except OSError:
            right = False
        if not right:
            changed.append(file.path)
    return changed


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpinned(spec: Mapping[str, Any], record: LaunchRecord | None) -> list[str]:
    """Say which parts come from the hub without a recorded version."""
    found = []
    training = mapping(spec.get("training"))
    data = mapping(training.get("data"))
    for source in sources_of(data):
        hub = mapping(source.get("hub"))
        if hub.get("id") and not hub.get("revision"):
            found.append(f"the revision of the dataset {sanitize_line(hub['id'], 120)} was not recorded")
    model = mapping(spec.get("experiment")).get("model")
    is_hub = isinstance(model, str) and not model.startswith(("/", "."))
    if is_hub and (
        record is None or (record.hub_model is None and not any(c.kind == "models" for c in record.contents))
    ):
        found.append(f"the revision of the model {sanitize_line(model, 120)} was not recorded")
    return list(dict.fromkeys(found))
