"""A Python environment on a host: named by everything that goes into it, built once, by the host's own uv."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.errors import PreflightRefused
from armada.foundation.sanitize import sanitize_line
from armada.protocol.environment import AskEnvironments, EnsureEnvironment
from armada.protocol.facts import GpuKind
from armada.provision.environment_key import environment_key, profile_packages
from armada.provision.own_packages import own_packages

if TYPE_CHECKING:
    from armada.config.profiles import Profile
    from armada.config.requirements import Requirement
    from armada.foundation.progress import Progress
    from armada.protocol.facts import Facts
    from armada.provision.flash_attention import FlashAttention
    from armada.provision.own_packages import Needs
    from armada.rpc.session import HostSession

BUILD_S = 3 * 3600.0
COMPILING_S = 24 * 3600.0
"""flash-attn on a machine with room for one compiler takes ten hours."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What an environment consists of, its name, and whether the host has it."""

    key: str
    python: str
    requirements: str
    torch_index: str | None
    ready: bool
    optional: str | None = None
    flash_attn: FlashAttention | None = None
    constraints: str | None = None
    is_own: bool = False


def plan_environment(
    session: HostSession,
    profile: Profile,
    facts: Facts,
    lines: tuple[Requirement, ...] = (),
    needs: Needs = "payload",
) -> Environment:
    """Name the environment that is asked for on this host, and ask whether it is there.

    Args:
        session: With the host.
        profile: Its Python and torch, and all of its packages unless there are `lines`.
        facts: What the host said of itself.
        lines: Requirements of an experiment's own.
        needs: What the task needs beside them.

    Raises:
        ConfigError: The requirements contradict the profile, or each other.
        PreflightRefused: A wheel of flash-attn was asked for and there is none that fits.
    """
    hardware = facts.hardware
    if session.host.batch is not None and profile.gpus.count:
        # One logs in where no GPUs are; what runs gets those the profile is for.
        hardware = dataclasses.replace(hardware, gpus=(GpuKind(profile.gpus.model or ""),))
    packages = own_packages(profile, hardware, lines, needs) if lines else profile_packages(profile, hardware)
    key = environment_key(profile, hardware, packages)
    flash_attn = packages.flash_attn
    if flash_attn is not None and flash_attn.mode == "none" and flash_attn.required:
        raise PreflightRefused(
            f"profile {profile.name} requires a wheel of flash-attn: {flash_attn.why}",
            hint="environment.flash_attn: auto continues without it; build compiles it, which takes hours",
            host=session.host.name,
        )
    states = session.call(AskEnvironments(keys=(key,))).root
    wanted = profile.environment
    return Environment(
        key,
        wanted.python,
        packages.requirements,
        wanted.torch_index,
        states.get(key) == "ready",
        packages.optional,
        flash_attn,
        packages.constraints,
        packages.is_own,
    )


@dataclass(frozen=True, slots=True)
class EnsuredEnvironment:
    """An environment that is on its host.

    Attributes:
        was_built: It was built now, in so many seconds.
        left_out: A sentence for each optional part it goes without.
        packages: Every installed package with its version, as `pip freeze` lists them; None if the host does not know.
    """

    was_built: bool
    seconds: float
    left_out: tuple[str, ...]
    packages: str | None


def ensure_environment(
    session: HostSession, environment: Environment, progress: Progress, *, uvs_python: bool = False
) -> EnsuredEnvironment:
    """Build an environment on a host unless it is there.

    Args:
        session: With the host.
        environment: As planned.
        progress: Receives the progress.
        uvs_python: With a Python that uv downloads, which can be sent to other hosts.

    Raises:
        ProvisionFailed: With the end of what the installer said.
    """
    request = EnsureEnvironment(
        key=environment.key,
        requirements=environment.requirements,
        python=environment.python,
        torch_index=environment.torch_index,
        optional=environment.optional,
        flash_attn=environment.flash_attn.request if environment.flash_attn else None,
    )
    if environment.constraints is not None:
        request = request.model_copy(update={"constraints": environment.constraints})
    if uvs_python:
        request = request.model_copy(update={"uvs_python": True})
    answer = session.call(
        request,
        timeout_s=COMPILING_S if environment.flash_attn and environment.flash_attn.mode == "build" else BUILD_S,
        on_progress=lambda message, _: progress.now("provision", message),
    )
    left_out = tuple(sanitize_line(note, 300) for note in answer.notes if note.startswith("left out"))
    return EnsuredEnvironment(answer.outcome == "built", answer.seconds, left_out, answer.freeze)
