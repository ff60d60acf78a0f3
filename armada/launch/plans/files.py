"""Plan `files:`: which contents home sends, what the host downloads, and under which names the job finds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ConfigError
from armada.launch.plans.job_data import names_below
from armada.protocol.spec import JobLink
from armada.provision.content import take_stock
from armada.provision.sources import look_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armada.config.tasks.experiment import Experiment
    from armada.launch.plans.task import Place
    from armada.paths import HomePaths
    from armada.provision.code import Snapshot
    from armada.provision.content import Content
    from armada.provision.sources import FoundFile


SMALL_BYTES = 256_000
"""A file up to this size travels in one content with the others of its folder."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The `files:` of one run.

    Attributes:
        contents: Files at home that are sent.
        links: Links to the contents, and to files that the host already has.
        found: Sources outside home, including those on the host.
    """

    contents: tuple[Content, ...] = ()
    links: tuple[JobLink, ...] = ()
    found: tuple[FoundFile, ...] = ()

    @property
    def to_fetch(self) -> tuple[FoundFile, ...]:
        """Return the sources that the host must download first."""
        return tuple(file for file in self.found if file.link is None)


def plan_files(
    experiment: Experiment, snapshot: Snapshot | None, place: Place, home: HomePaths, data: Iterable[JobLink]
) -> JobFiles:
    """Choose the path of each entry of `files:` on the host.

    Args:
        experiment: The experiment with the entries.
        snapshot: The code that is sent.
        place: The host.
        home: Home's folders, one of which holds home's downloads.
        data: Links that `data:` already created.

    Raises:
        ConfigError: Two entries have the same name, or one lies in the other.
        ProvisionFailed: A file cannot be read.
    """
    if not experiment.files:
        return JobFiles()
    _refuse_two_of_a_name(experiment, snapshot, [link.name for link in data])
    # Users keep links to data; the file behind the link is sent.
    here = {name: source.path.resolve() for name, source in experiment.files.items() if source.path is not None}
    contents, links = [], []
    for folder, files in _parcels(set(here.values())):
        content = take_stock("data", folder, [name for file in files for name in names_below(file)])
        contents.append(content)
        top = place.paths.content("data", content.sha)
        links += [
            JobLink(content=str(top / real.relative_to(folder)), name=name)
            for name, real in here.items()
            if real in files
        ]
    found = look_up(place.session, home, experiment.files, place.variables, experiment.secrets)
    links += [file.link for file in found if file.link is not None]
    return JobFiles(tuple(dict.fromkeys(contents)), tuple(links), tuple(found))


def _parcels(files: set[Path]) -> list[tuple[Path, list[Path]]]:
    """Group files and folders at home into contents: small files of one folder together, everything else alone.

    Each content costs several round trips, so two hundred small files of a folder cost as many as one. The names of
    folders at home stay at home.

    Returns:
        For each content, the folder at home that its names start from, and what it holds.
    """
    parcels: dict[tuple[Path, Path | None], list[Path]] = {}
    for file in sorted(files):
        is_small = file.is_file() and file.stat().st_size <= SMALL_BYTES
        parcels.setdefault((file.parent, None if is_small else file), []).append(file)
    return [(folder, held) for (folder, _), held in parcels.items()]


def _refuse_two_of_a_name(experiment: Experiment, snapshot: Snapshot | None, data: list[str]) -> None:
    code = snapshot.content.files if snapshot is not None else []
    for name in experiment.files:
        for key, others in (("data", data), ("code", code)):
            if met := next((other for other in others if _overlap(name, other)), None):
                raise ConfigError(
                    f"`files.{name}`: `{key}` already puts {met} there",
                    path=experiment.origin,
                    hint="choose another name, or leave it out",
                )


def _overlap(one: str, other: str) -> bool:
    """Return whether two paths are equal or one is below the other."""
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")
