"""`armada hosts provision`: build a host's environment before the first launch needs it. A launch does the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from armada.config.profiles import choose_profile, load_profile
from armada.errors import UsageError
from armada.protocol.facts import AskFacts
from armada.provision.admission import admit
from armada.provision.environment import ensure_environment, plan_environment
from armada.provision.exclusive_lock import exclusive_lock
from armada.store import hosts as records
from armada.store.running_operations import operation
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class Provisioned:
    """What a host has now: the environment of a profile, and in how many seconds it was built, if it was."""

    profile: str
    environment: str
    built: bool
    seconds: float


def named_profile(host: Host, name: str | None, home: HomePaths) -> Profile | None:
    """The profile that is asked for, or the host's; None where the GPUs that are there decide.

    Raises:
        UsageError: They would decide, and cannot be seen.
        ConfigError: The profile is wrong.
    """
    name = name or host.profile
    if name is None and host.batch is not None:
        raise UsageError(
            f"the login node does not show which GPUs {host.scheduler} assigns",
            hint="--profile NAME, or `profile:` in hosts.yaml",
        )
    return load_profile(name, home) if name else None


def provision_host(
    database: Database,
    home: HomePaths,
    host: Host,
    profile: Profile | None,
    connect: Callable[[str], HostSession],
    *,
    argv: Sequence[str],
    project: Path,
    progress: Progress,
) -> Provisioned:
    """Build the environment of a host's profile there, unless it is there, as an operation.

    Args:
        database: The store.
        home: Where profiles are.
        host: Which.
        profile: From `named_profile`.
        connect: Gives a session with a host by its name.
        argv: The command, as it shows among operations.
        project: The folder it was given in; its own hosts count too.
        progress: Told how it goes.

    Raises:
        Conflict: Another armada removed the host, or is just deleting everything on it.
        ProvisionFailed: With the end of what the installer said.
    """
    origin = str(host.origin) if host.origin else None
    with operation(database, kind="provision", host=host.name, argv=argv) as recorded, connect(host.name) as session:
        admit(database, home, project, host)
        told = recorded.and_tell(progress)
        told.now("plan", f"asking {host.name}")
        facts = session.call(AskFacts())
        records.record_facts(database, host.name, facts.as_json(), origin=origin)
        profile = profile or load_profile(choose_profile(facts.hardware.gpu_names, home), home)
        environment = plan_environment(session, profile, facts)
        records.mark_released(database, host.name, None)
        told.stage("profile", f"{profile.name}, environment {environment.key}")
        doing = f"provisioning of {host.name}"
        with exclusive_lock(home.lock(f"host-{host.name}"), doing, lambda who: told.stage("waiting", who)):
            built, seconds, left_out = ensure_environment(session, environment, told)
        for note in left_out:
            told.stage("", f"⚠ {note}")
        records.record_facts(database, host.name, session.call(AskFacts()).as_json(), origin=origin)
        said = f"built in {span(seconds)}" if built else "was there already"
        told.stage("ready", f"environment {environment.key} {said}")
    return Provisioned(profile.name, environment.key, built, seconds)
