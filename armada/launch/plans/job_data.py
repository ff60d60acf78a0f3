"""Data of scripts and commands: send it once, apart from the code, and link it where the job finds it at home."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ConfigError, ProvisionFailed
from armada.protocol.spec import JobLink
from armada.provision.content import Content, take_stock

if TYPE_CHECKING:
    from armada.config.tasks.experiment import Experiment
    from armada.paths import HostPaths
    from armada.provision.code import Snapshot


@dataclass(frozen=True, slots=True)
class JobData:
    """The contents to send, and `links` for the host: the content's path there, and the name in the folder the job works in."""

    contents: list[Content] = field(default_factory=list)
    links: list[JobLink] = field(default_factory=list)


def plan_job_data(experiment: Experiment, snapshot: Snapshot | None, paths: HostPaths) -> JobData:
    """Choose where each file or folder of `data:` is on the host, and where the job finds it.

    What lies below `code` (without it: below the experiment's folder) keeps its place; anything else is `data/NAME`. What
    travels with the code already is not linked over it.

    Raises:
        ConfigError: Two would lie in one place, or the code itself is named.
        ProvisionFailed: A file cannot be read.
    """
    found = JobData()
    if experiment.data is None:
        return found
    base = experiment.code or (experiment.origin or Path.cwd() / "x").parent
    sent = set(snapshot.content.files) if snapshot else set()
    for path in experiment.data.paths:
        name = _name(path, base)
        if name in (link.name for link in found.links):
            hint = "rename one; the job finds data from outside `code` as data/NAME"
            raise ConfigError(f"two entries of `data:` would both be {name} in the job's folder", path=path, hint=hint)
        if name in sent:
            continue
        real = path.resolve()  # people keep links to data; what travels is the file behind it
        content = take_stock("data", real.parent, names_below(real))
        found.contents.append(content)
        found.links.append(JobLink(content=str(paths.content("data", content.sha) / real.name), name=name))
    return found


def names_below(source: Path) -> list[str]:
    """List the files to send of a file or folder, relative to the folder it lies in.

    Raises:
        ProvisionFailed: A folder has no files, or holds what cannot be sent: links, devices, sockets.
    """
    if not source.is_dir():
        return [source.name]
    found = []
    for path in source.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise ProvisionFailed(
                f"{path} is a link, and links in folders are not sent", hint=f"cp -rL {source.name} COPY, and name that"
            )
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ProvisionFailed(f"{path} is neither a file nor a folder", hint="move it out of the folder")
        if stat.S_ISREG(mode):
            found.append(str(path.relative_to(source.parent)))
    if not found:
        raise ProvisionFailed(f"{source} holds no files", hint="a job can make an empty folder itself")
    return sorted(found)


def _name(path: Path, base: Path) -> str:
    """Where the job finds it, relative to the folder it works in."""
    place, top = (Path(os.path.normpath(Path.cwd() / each)) for each in (path, base))
    if place == top or top.is_relative_to(place):
        hint = "name only the files or folders in it that git ignores; the rest is sent as code"
        raise ConfigError("this is `code` itself, or contains it", path=path, hint=hint)
    return place.relative_to(top).as_posix() if place.is_relative_to(top) else f"data/{place.name}"
