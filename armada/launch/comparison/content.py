"""Compare the code and the data of a planned run with those of a recorded one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from armada.foundation.validation import mapping
from armada.protocol.sources import HostSource
from armada.records.launch_record import read_record

if TYPE_CHECKING:
    from collections.abc import Collection

    from armada.launch.plans.plan import Plan
    from armada.paths import HomePaths
    from armada.store.queries.trainings import RecordedRun

_STORED = re.compile(r"/data/([0-9a-f]{64}(?:/.*)?)", re.DOTALL)


def has_same_content(plan: Plan, run: RecordedRun, home: HomePaths) -> bool:
    """Whether a recorded run of the same experiment had the same code, data, files and image as a plan.

    Contents are compared by their hashes, downloads by the versions that their servers named. What lies on the host
    itself counts by its path. What cannot be compared is not the same.
    """
    downloads = [file for file in plan.job_files.found if not isinstance(file.source, HostSource)]
    names = {file.name for file in downloads}
    before, now = mapping(run.spec.get("job")), plan.spec.job
    if _code(before.get("code")) != _code(now.code):
        return False
    if _links(before.get("data"), names) != _links([link.model_dump() for link in now.data], names):
        return False
    container = plan.spec.container
    if _image(run.spec.get("container")) != _image(container.model_dump() if container is not None else None):
        return False
    if not downloads:
        return True
    record = read_record(home, run.run_id)
    former = {name: identity for name, _, identity in record.files} if record is not None else {}
    return all(file.identity and former.get(file.name) == file.identity for file in downloads)


def _code(folder: Any) -> str | None:
    """Return the hash of the code, by which its folder is named; None if there is none."""
    return PurePosixPath(folder).name if isinstance(folder, str) else None


def _links(links: Any, without: Collection[str]) -> list[tuple[str, str]]:
    """Return name and target of the links to data; the root of contents is left out, because hosts differ in it."""
    found = []
    for link in map(mapping, links if isinstance(links, list | tuple) else ()):
        name, target = str(link.get("name")), str(link.get("content"))
        stored = _STORED.search(target) if not link.get("outside") else None
        if name not in without:
            found.append((name, stored[1] if stored else target))
    return sorted(found)


def _image(container: Any) -> tuple[Any, ...] | None:
    """Return what identifies an image; an image that the host has yet to pull may be any, unless its name has a digest."""
    if container is None:
        return None
    told = mapping(container)
    image = str(told.get("image"))
    return (image,) if "@sha256:" in image else (image, told.get("digest") or told.get("id"))
