"""Plan `files:`: which contents are sent, which the host downloads, and what the job finds under which name."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class JobFiles:
    """What `files:` mean for one run.

    Attributes:
        contents: Files at home that are sent.
        links: To those, and to what the host has already.
        found: What is elsewhere, the host's own included.
    """

    contents: tuple[Content, ...] = ()
    links: tuple[JobLink, ...] = ()
    found: tuple[FoundFile, ...] = ()

    @property
    def to_fetch(self) -> tuple[FoundFile, ...]:
        """What has to be downloaded first."""
        return tuple(file for file in self.found if file.link is None)


def plan_files(
    experiment: Experiment, snapshot: Snapshot | None, place: Place, home: HomePaths, data: Iterable[JobLink]
) -> JobFiles:
    """Choose where each entry of `files:` is on the host.

    Args:
        experiment: Whose files.
        snapshot: The code that travels.
        place: The host.
        home: Where home's own downloads go.
        data: What `data:` links already.

    Raises:
        ConfigError: Two things would have one name.
        ProvisionFailed: A file cannot be read.
    """
    if not experiment.files:
        return JobFiles()
    _refuse_two_of_a_name(experiment, snapshot, [link.name for link in data])
    contents, links = [], []
    for name, source in experiment.files.items():
        if source.path is None:
            continue
        real = source.path.resolve()  # people keep links to data; what travels is the file behind it
        content = take_stock("data", real.parent, names_below(real))
        contents.append(content)
        links.append(JobLink(content=str(place.paths.content("data", content.sha) / real.name), name=name))
    found = look_up(place.session, home, experiment.files, place.variables, experiment.secrets)
    links += [file.link for file in found if file.link is not None]
    return JobFiles(tuple(dict.fromkeys(contents)), tuple(links), tuple(found))


def _refuse_two_of_a_name(experiment: Experiment, snapshot: Snapshot | None, data: list[str]) -> None:
    code = snapshot.content.files if snapshot is not None else []
    for name in experiment.files:
        for key, others in (("data", data), ("code", code)):
            if met := next((other for other in others if _overlap(name, other)), None):
                raise ConfigError(
                    f"`files.{name}`: `{key}` puts {met} there already",
                    path=experiment.origin,
                    hint="choose another name, or leave it out",
                )


def _overlap(one: str, other: str) -> bool:
    """Whether one of two paths is the other, or lies in it."""
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")
