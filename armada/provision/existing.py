"""A Python environment that the user made on a host: examined before a launch, used as it is, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import PreflightRefused
from armada.foundation.sanitize import sanitize_line
from armada.protocol.environment import ExamineEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.tasks.job_environment import JobEnvironment
    from armada.rpc.session import HostSession

OLDEST_PYTHON = (3, 9)
"""What starts a script needs it."""

_SHOWN = ("torch", "accelerate")
_PATIENCE_S = 120.0
"""Its Python is started there; on a cluster's file system the first start takes a minute."""


@dataclass(frozen=True, slots=True)
class ExistingEnvironment:
    """An environment as its host has it.

    Attributes:
        path: Its folder.
        program: Its Python.
        version: Of Python.
        packages: The version of each package that was asked for; None where it is not there.
        is_conda: Whether conda made it.
    """

    path: str
    program: str
    version: str
    packages: Mapping[str, str | None]
    is_conda: bool

    @property
    def is_safe_path(self) -> bool:
        """Whether its Python has `-P`, which keeps the folder it starts in out of the way to modules."""
        return _numbers(self.version) >= (3, 11)

    @property
    def said(self) -> str:
        """What it has, on one line for a person."""
        found = [f"{name} {version}".strip() for name, version in self.packages.items() if version is not None]
        return sanitize_line(", ".join([f"Python {self.version}", *found]), 200)


def examine_environment(session: HostSession, wanted: JobEnvironment, needed: Sequence[str]) -> ExistingEnvironment:
    """Ask the host what an environment has.

    Args:
        session: With the host.
        wanted: Names it, by its path or conda's name.
        needed: Packages that the task cannot do without.

    Raises:
        ProvisionFailed: It is not there, its Python does not start, or somebody else could have changed it.
        PreflightRefused: It lacks what the task needs.
        HostUnreachable: The host does not answer.
    """
    asked = {"path": wanted.existing} if wanted.existing is not None else {"conda": wanted.conda}
    request = ExamineEnvironment(packages=tuple(dict.fromkeys([*_SHOWN, *needed])), **asked)
    answer = session.call(request, timeout_s=_PATIENCE_S)
    found = ExistingEnvironment(answer.path, answer.python, answer.version, dict(answer.packages), answer.is_conda)
    where, host = sanitize_line(found.path, 300), session.host.name
    if is_too_old(found.version):
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise PreflightRefused(
            f"{where} has Python {found.version}; {oldest} is the oldest that works",
            hint="name an environment with a newer Python, or leave `environment:` out for one that armada builds",
            host=host,
        )
    if lacking := [name for name in needed if found.packages.get(name) is None]:
        names = " and ".join(lacking)
        raise PreflightRefused(
            f"{where} has no {names}, which this task needs",
            hint=f"install {names} there (armada does not change it), or leave `environment:` out for one that armada builds;"
            " a script that uses neither can be a `task: command`",
            host=host,
        )
    return found


def is_too_old(version: str) -> bool:
    """Whether what starts a script does not run under this version of Python."""
    return _numbers(version) < OLDEST_PYTHON


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:3])
