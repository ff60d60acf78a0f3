"""`armada hosts provision`: run a host's tasks and build its environment before the first launch needs them. A launch does the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.config.profile_choice import choose_profile
from armada.config.profiles import load_profile
from armada.errors import UsageError
from armada.protocol.facts import AskFacts
from armada.provision.admission import admit
from armada.provision.environment import plan_environment
from armada.provision.exclusive_lock import exclusive_lock
from armada.provision.sent_environment import provide_environment
from armada.provision.tasks import run_tasks
from armada.store import hosts as records
from armada.store.running_operations import operation
from armada.units import span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.provision_tasks import TaskCall
    from armada.foundation.progress import Progress
    from armada.paths import HomePaths
    from armada.provision.tasks import TaskOutcome
    from armada.rpc.session import HostSession
    from armada.store.database import Database


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The environment that a host has now, and how many seconds its build took if it was built; before it, the host's tasks."""

    profile: str
    environment: str
    built: bool
    seconds: float
    tasks: Sequence[TaskOutcome] = ()


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """How a person wants tasks to be run.

    Attributes:
        named: The person named the tasks.
        again: Also those that ran already.
        dry_run: Run none.
        password: For sudo.
    """

    named: bool = False
    again: bool = False
    dry_run: bool = False
    password: str | None = field(default=None, repr=False)


def named_profile(host: Host, name: str | None, home: HomePaths) -> Profile | None:
    """Return the requested profile, or the host's; None if the host's GPUs decide.

    Raises:
        UsageError: The GPUs would decide, but are unknown.
        ConfigError: The profile is invalid.
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
    options: TaskOptions | None = None,
    source: HostSession | None = None,
) -> Provisioned:
    """Run a host's tasks that are new, and build the environment of its profile, unless it exists, as a recorded operation.

    Args:
        database: The store.
        home: The folder of profiles.
        host: The host.
        profile: From `named_profile`.
        connect: Returns a session with a host by its name.
        argv: The command, to show among the operations.
        project: The folder the command was run in; its own hosts count too.
        progress: Receives the progress.
        options: For the tasks.
        source: A session with the host that builds the environment and sends it.

    Raises:
        Conflict: Another process removed the host, or is deleting everything on it.
        ConfigError: A task's file cannot be used.
        ProvisionFailed: The error has the end of the task's or the installer's output.
    """
    origin = host.named_by
    with operation(database, kind="provision", host=host.name, argv=argv) as recorded, connect(host.name) as session:
        admit(database, home, project, host)
        told = recorded.and_tell(progress)
        tasks = prepare(home, host, host.provision, told, options)
        told.now("plan", f"asking {host.name}")
        facts = session.call(AskFacts())
        records.record_facts(database, host.name, facts.as_json(), origin=origin)
        profile = profile or choose_profile(facts.hardware.gpus, home).profile
        environment = plan_environment(session, profile, facts)
        records.mark_released(database, host.name, None)
        told.stage("profile", f"{profile.name}, environment {environment.key}")
        doing = f"provisioning of {host.name}"
        with exclusive_lock(home.lock(f"host-{host.name}"), doing, lambda who: told.stage("waiting", who)):
            found = provide_environment(database, session, environment, facts, told, source)
        for note in found.left_out:
            told.stage("", f"⚠ {note}")
        records.record_facts(database, host.name, session.call(AskFacts()).as_json(), origin=origin)
        how = "built" if source is None else "unpacked"
        said = f"{how} in {span(found.seconds)}" if found.was_built else "was there already"
        told.stage("ready", f"environment {environment.key} {said}")
    return Provisioned(profile.name, environment.key, found.was_built, found.seconds, tasks)


def provision_tasks(
    database: Database,
    home: HomePaths,
    host: Host,
    calls: Sequence[TaskCall],
    options: TaskOptions,
    *,
    argv: Sequence[str],
    project: Path,
    progress: Progress,
) -> Sequence[TaskOutcome]:
    """Run tasks on a host, as a recorded operation. The host needs no python3.

    Raises:
        Conflict: Another process removed the host, or is deleting everything on it.
        ArmadaError: As in `armada.provision.tasks.run_tasks`.
    """
    with operation(database, kind="provision", host=host.name, argv=argv) as recorded:
        admit(database, home, project, host)
        return prepare(home, host, calls, recorded.and_tell(progress), options)


def prepare(
    home: HomePaths, host: Host, calls: Sequence[TaskCall], progress: Progress, options: TaskOptions | None = None
) -> Sequence[TaskOutcome]:
    """Run those of the tasks that are new to a host, one process of this home at a time.

    Raises:
        ArmadaError: As in `armada.provision.tasks.run_tasks`.
    """
    if not calls:
        return ()
    chosen = options or TaskOptions()
    with exclusive_lock(
        home.lock(f"host-{host.name}"), f"tasks of {host.name}", lambda who: progress.stage("waiting", who)
    ):
        return run_tasks(
            home,
            host,
            calls,
            progress,
            named=chosen.named,
            again=chosen.again,
            dry_run=chosen.dry_run,
            password=chosen.password,
        )
