"""Choose the profile for a host's GPUs, and how many of them a run uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armada.config.profile_choice import choose_profile
from armada.errors import PreflightRefused

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Resources
    from armada.paths import HomePaths
    from armada.protocol.facts import Facts


def find_profile(host: Host, facts: Facts, home: HomePaths, *, needed: bool) -> Profile | None:
    """Find the profile for the host's GPUs. A cluster's login node does not show its GPUs.

    Raises:
        PreflightRefused: They cannot be seen, and the task needs a profile.
    """
    if host.batch is None:
        return choose_profile(facts.hardware.gpus, home).profile
    if not needed:
        return None
    raise PreflightRefused(
        f"the login node does not show which GPUs {host.scheduler} assigns",
        hint="set the host's `profile:` in hosts.yaml, or give --profile",
        host=host.name,
    )


def count_gpus(resources: Resources, host: Host, profile: Profile | None, facts: Facts, *, takes_gpus: bool) -> int:
    """How many GPUs the run takes; `all` are those the host has, up to what its profile is for.

    Raises:
        PreflightRefused: Nobody says how many `all` are, or the profile and what is asked for do not go together.
    """
    asked = resources.gpus
    if profile is None:
        return _without_profile(asked, host)
    if profile.gpus.count == 0:
        if isinstance(asked, int) and asked > 0:
            raise PreflightRefused(
                f"resources.gpus is {asked}, but profile {profile.name} is for machines without GPUs",
                hint="choose another --profile, or resources.processes",
            )
        return 0
    if asked == "all" or (asked is None and takes_gpus):
        if host.batch is None:
            return min(profile.gpus.count, len(facts.gpus)) or profile.gpus.count
        if profile.gpus.fewest != profile.gpus.count:
            raise PreflightRefused(
                f"profile {profile.name} is for {profile.gpus.span} GPUs, so the number of GPUs in a node is unknown",
                hint="--gpus N, `resources: {gpus: N}`, or a profile of your own that extends it with "
                "`gpus: {count: N, least: null}`",
                host=host.name,
            )
        return profile.gpus.count
    if asked == 0 and takes_gpus:
        raise PreflightRefused(
            f"resources.gpus is 0, but profile {profile.name} trains on GPUs", hint="--profile cpu trains without GPUs"
        )
    return asked or 0


def _without_profile(asked: object, host: Host) -> int:
    """Only a batch system knows its own GPUs without one."""
    if host.batch is None:
        return 0
    if asked == "all":
        raise PreflightRefused(
            "resources.gpus is `all`, but the number of GPUs in a node is unknown",
            hint="a number, or the host's `profile:`",
        )
    return asked if isinstance(asked, int) else 0
