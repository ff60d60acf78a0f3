"""Decide whether a host has its profile's environment, from the last facts of the host. It contacts no host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.profile_choice import choose_profile
from armada.config.profiles import load_profile
from armada.errors import ArmadaError
from armada.provision.environment_key import environment_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.protocol.facts import Hardware

CONDITIONS = ("ready", "building", "partial", "absent")
"""The conditions of an environment; `partial` is one whose build was interrupted."""


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    """`condition` is one of `CONDITIONS`, or `unknown`: then `trouble` says why, if the reason is known. `notes`: the profile's."""

    profile: str | None
    key: str | None
    condition: str
    trouble: str | None = None
    notes: tuple[str, ...] = ()


def environment_state(
    host: Host, hardware: Hardware | None, environments: Mapping[str, str] | None, home: HomePaths
) -> EnvironmentState:
    """Find the environment that a training on this host would use among those it has.

    Args:
        host: The host's configuration.
        hardware: Its last reported hardware; None if that was invalid.
        environments: The condition of each environment it has; None if they were not listed yet.
        home: The folder of profiles.
    """
    if host.profile is None and host.batch is not None:
        return EnvironmentState(
            None, None, "unknown", f"the login node does not show which GPUs {host.scheduler} assigns: set a `profile:`"
        )
    if hardware is None:
        return EnvironmentState(host.profile, None, "unknown", "the host's description of itself is not valid")
    try:
        profile = load_profile(host.profile, home) if host.profile else choose_profile(hardware.gpus, home).profile
        key = environment_key(profile, hardware)
    except ArmadaError as error:
        return EnvironmentState(
            host.profile, None, "unknown", f"{error.message}{f' ({error.hint})' if error.hint else ''}"
        )
    if environments is None:
        return EnvironmentState(profile.name, key, "unknown", "not checked yet", notes=profile.notes)
    condition = environments.get(key, "absent")
    known = condition if condition in CONDITIONS else "unknown"
    return EnvironmentState(profile.name, key, known, notes=profile.notes)
