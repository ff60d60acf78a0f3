"""A container image on a host: pulled once, then known by its id, so that every attempt of a run has the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import PreflightRefused, ProvisionFailed
from armada.foundation.sanitize import sanitize_line
from armada.protocol.containers import EnsureContainer, ExamineContainer
from armada.protocol.spec import ContainerSpec
from armada.provision.existing import OLDEST_PYTHON, is_too_old

if TYPE_CHECKING:
    from collections.abc import Sequence

    from armada.config.hosts import Host
    from armada.foundation.progress import Progress
    from armada.provision.image_packages import ImageNeeds
    from armada.rpc.session import HostSession

PULL_S = 3 * 3600.0


@dataclass(frozen=True, slots=True)
class Container:
    """An image, and what runs it on its host.

    Attributes:
        image: Its name in the experiment.
        packages: Python packages that the task needs in it, in any release.
        needs_gpus: Whether the job has GPUs.
        tool: `podman` or `docker`.
        version: Of the tool.
        ready: Whether the host has the image.
        needs: What the bundled trainer needs of its Python; None for jobs of the user's own.
    """

    image: str
    packages: tuple[str, ...]
    needs_gpus: bool
    tool: str
    version: str
    ready: bool
    needs: ImageNeeds | None = None

    @property
    def spec(self) -> ContainerSpec:
        """Return the container as a plan names it before the image is on the host."""
        return ContainerSpec(image=self.image, tool=self.tool)

    @property
    def runner(self) -> str:
        """The tool and its version, for a person."""
        return sanitize_line(f"{self.tool} {self.version}".strip(), 60)


def examine_container(
    session: HostSession, image: str, packages: Sequence[str], *, gpus: int, needs: ImageNeeds | None = None
) -> Container:
    """Ask a host whether it can run an image, and whether it has it.

    Raises:
        PreflightRefused: The host is a cluster.
        ProvisionFailed: It has no container tool that the user can use.
        HostUnreachable: The host does not answer.
    """
    refuse_cluster(session.host)
    answer = session.call(ExamineContainer(image=image, gpus=gpus > 0))
    return Container(image, tuple(packages), gpus > 0, answer.tool, answer.version, answer.id is not None, needs)


def refuse_cluster(host: Host) -> None:
    """Refuse a host with a batch system.

    Raises:
        PreflightRefused: It has one.
    """
    if host.batch is not None:
        raise PreflightRefused(
            f"`environment.container` does not work on clusters yet, and {host.name} is one ({host.scheduler})",
            hint="launch on a host without a batch system, or use `environment: {requirements: …}`",
            host=host.name,
        )


def ensure_container(
    session: HostSession, container: Container, progress: Progress
) -> tuple[ContainerSpec, bool, float]:
    """Have an image on a host.

    Returns:
        The container as every attempt runs it, whether its image was pulled now, and in how many seconds.

    Raises:
        ProvisionFailed: It cannot be pulled, is for other machines, lacks a package, or has one that does not fit.
    """
    needs = container.needs
    more: dict[str, Any] = {"asked": needs.asked} if needs is not None else {}
    request = EnsureContainer(image=container.image, gpus=container.needs_gpus, packages=container.packages, **more)
    answer = session.call(request, timeout_s=PULL_S, on_progress=lambda message, _: progress.now("provision", message))
    if answer.python is not None and is_too_old(answer.python):
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise ProvisionFailed(
            f"the image {container.image} has Python {sanitize_line(answer.python, 20)}; {oldest} is the oldest that works",
            hint="name an image with a newer Python, or run the program by `task: command`",
            host=session.host.name,
        )
    if needs is not None:
        for sentence in needs.check(container.image, answer.python or "", answer.versions, session.host.name):
            progress.stage("", f"⚠ {sentence}")
    spec = ContainerSpec(image=container.image, tool=answer.tool, id=answer.id, digest=answer.digest)
    return spec, answer.outcome == "pulled", answer.seconds
