"""Put an environment on a host: built there, or sent from another host if this one reaches no package index."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from armada.config.hosts import PROJECT_FILE, load_hosts
from armada.errors import ArmadaError, HostUnreachable, NotFound, PreflightRefused, ProvisionFailed, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.protocol.environment import AskEnvironments
from armada.protocol.facts import AskFacts
from armada.protocol.packing import PackEnvironment, UnpackEnvironment
from armada.provision.environment import EnsuredEnvironment, ensure_environment
from armada.provision.relay import NoPythonThere, carry, read_list
from armada.rpc.session import HostSession
from armada.store import hosts
from armada.units import amount

if TYPE_CHECKING:
    from pathlib import Path

    from armada.config.hosts import Host
    from armada.foundation.progress import Progress, TransferProgress
    from armada.paths import HomePaths
    from armada.protocol.facts import Facts
    from armada.protocol.packing import PackingList
    from armada.provision.environment import Environment
    from armada.store.database import Database

PACK_S = 3600.0
UNPACK_S = 2 * 3600.0

_NO_INDEX = re.compile(
    "dns error|name resolution|error sending request|tcp connect error|Failed to fetch|Network is unreachable"
    "|Connection refused|No route to host|uv could not be installed"
)
_OLDEST_DRIVERS = {11: 450, 12: 525, 13: 580}
"""The oldest driver for each CUDA (docs.nvidia.com/deploy/cuda-compatibility, minor version compatibility)."""


def provide_environment(
    database: Database,
    target: HostSession,
    environment: Environment,
    facts: Facts,
    progress: Progress,
    source: HostSession | None,
) -> EnsuredEnvironment:
    """Put an environment on a host unless it is there.

    Args:
        database: The store, which knows what other hosts have.
        target: A session with the host.
        environment: As planned for it.
        facts: The host's.
        progress: Receives the progress.
        source: A session with the host that builds it instead; None if it is built where it is used.

    Returns:
        What `ensure_environment` returns.

    Raises:
        ArmadaError: As `ensure_environment` and `send_environment`.
    """
    if source is not None:
        return send_environment(source, target, environment, facts, progress)
    try:
        return ensure_environment(target, environment, progress)
    except ProvisionFailed as error:
        hints = [error.hint, _other_way(database, error, target.host.name, environment.key, facts.machine)]
        error.hint = "; ".join(hint for hint in hints if hint) or None
        raise


def _other_way(database: Database, error: ProvisionFailed, name: str, key: str, machine: str) -> str | None:
    """Return the command that has the environment sent from another host, if that may help."""
    words = f"armada hosts set {name} --environments-from"
    for record in hosts.every(database):
        told = record.facts or {}
        environments = told.get("environments")
        if record.name == name or record.released_at is not None or told.get("machine") != machine:
            continue
        if isinstance(environments, dict) and environments.get(key) == "ready":
            return f"{record.name} has this environment; `{words} {record.name}` has it sent from there"
    if _NO_INDEX.search(error.message):
        return f"if {name} reaches no package index, another host can build and send it: {words} OTHER"
    return None


def source_session(home: HomePaths, project: Path, host: Host, name: str | None = None) -> HostSession | None:
    """Return a session with the host that builds a host's environments. Nothing is asked yet.

    Args:
        home: Home's folders.
        project: The folder of the command; its own hosts count too. A host of another project may name those of its own.
        host: The host that uses them.
        name: The name of the other host, if not the one in hosts.yaml.

    Returns:
        None if the host builds its own.

    Raises:
        NotFound: There is no host of that name.
        UsageError: It is the host itself.
    """
    if (wanted := name or host.environments_from) is None:
        return None
    if wanted == host.name:
        raise UsageError(f"{wanted} cannot send environments to itself", hint="name another host, or leave it out")
    if name is None and host.origin is not None and host.origin.name == PROJECT_FILE:
        project = host.origin.parent  # the daemon works in no project's folder
    known = load_hosts(home, project)
    if wanted not in known:
        where = "" if name else f" (`environments_from` of {host.name} in {host.origin or 'hosts.yaml'})"
        raise NotFound(f"no host is called {wanted!r}{where}", hint=f"known: {', '.join(known)}")
    return HostSession(known[wanted], home)


def send_environment(
    source: HostSession, target: HostSession, environment: Environment, facts: Facts, progress: Progress
) -> EnsuredEnvironment:
    """Build an environment on one host unless it is there, and send it to another unless it is there.

    Args:
        source: A session with the host that can build it.
        target: A session with the host that gets it.
        environment: As planned for the target.
        facts: The target's.
        progress: Receives the progress.

    Returns:
        What `ensure_environment` returns.

    Raises:
        PreflightRefused: The environment cannot work on the target. Nothing is sent.
        ProvisionFailed: The source cannot build it, or it does not work on the target.
        HostUnreachable: A link stayed down; what has arrived stays there, and the same command continues.
    """
    key, here, there = environment.key, source.host.name, target.host.name
    if target.call(AskEnvironments(keys=(key,))).root.get(key) == "ready":
        return ensure_environment(target, environment, progress)
    progress.now("provision", f"asking {here}")
    own = source.call(AskFacts())
    refuse_other_machine(own, facts, here, there)
    refuse_old_driver(key, facts, here, there)
    built_there = ensure_environment(source, environment, progress)
    if own.root_id is not None and own.root_id == facts.root_id:
        return ensure_environment(target, environment, progress)
    try:
        return _send(source, target, key, key, facts, progress, built_there.left_out)
    except NoPythonThere as lacking:
        progress.stage(
            "", f"{there} has no Python for it: {here} builds it with one that uv downloads, to send that too"
        )
        portable = dataclasses.replace(environment, key=f"{key}-portable")
        try:
            built_there = ensure_environment(source, portable, progress, uvs_python=True)
        except ProvisionFailed as error:
            error.hint = "; ".join(filter(None, (error.hint, f"{there}: {lacking.message}; {lacking.hint}")))
            raise
        return _send(source, target, portable.key, key, facts, progress, built_there.left_out)


def _send(
    source: HostSession,
    target: HostSession,
    packed_key: str,
    key: str,
    facts: Facts,
    progress: Progress,
    left_out: tuple[str, ...],
) -> EnsuredEnvironment:
    here, there = source.host.name, target.host.name
    packed = source.call(
        PackEnvironment(key=packed_key),
        timeout_s=PACK_S,
        on_progress=lambda message, fraction: progress.now("provision", f"{here}: {message}", fraction),
    )
    for name, words in sorted(packed.failed.items())[:5]:
        failed = f"{sanitize_line(name, 60)} cannot be imported on {here} either: {sanitize_line(words, 200)}"
        progress.stage("", f"⚠ {failed}")
    content, listed = read_list(source, packed_key, packed)
    refuse_misfit(listed, facts, here, there)

    def show(seen: TransferProgress) -> None:
        progress.transfer("provision", f"environment from {here}", seen)

    for last in (False, False, True):
        carry(source, target, key, packed, content, listed, show)
        try:
            built = target.call(
                UnpackEnvironment(key=key, digest=packed.digest),
                timeout_s=UNPACK_S,
                on_progress=lambda message, fraction: progress.now("provision", f"{there}: {message}", fraction),
            )
        except (HostUnreachable, ProvisionFailed):
            raise
        except ArmadaError as error:
            # Files that arrived were wrong, and the agent has removed them: an earlier transfer left others of the same
            # size, or they changed on the source.
            if last:
                raise ProvisionFailed(error.message, hint=error.hint, host=there) from error
        else:
            break
    progress.stage("provision", f"environment {key} from {here}: {amount(packed.size_bytes)}, every file verified")
    return EnsuredEnvironment(built.outcome == "built", built.seconds, left_out, built.freeze)


def refuse_other_machine(own: Facts, facts: Facts, here: str, there: str) -> None:
    """Refuse to build for a host of another kind.

    Raises:
        PreflightRefused: Their processors or operating systems differ.
    """
    mine, its = f"{own.platform} on {own.machine}", f"{facts.platform} on {facts.machine}"
    if mine != its:
        raise PreflightRefused(
            f"an environment of {here} ({mine}) does not run on {there} ({its})",
            hint=f"send it from a host with the same kind of processor as {there}",
            host=there,
        )


def refuse_old_driver(key: str, facts: Facts, here: str, there: str) -> None:
    """Refuse an environment whose CUDA the target's driver does not know.

    Raises:
        PreflightRefused: The driver is too old.
    """
    found = re.match(r"cu(\d{2})\d", key)
    oldest = _OLDEST_DRIVERS.get(int(found[1])) if found else None
    for gpu in facts.gpus:
        driver = re.match(r"\d+", gpu.driver_version)
        if found and oldest is not None and driver and int(driver[0]) < oldest:
            raise PreflightRefused(
                f"environment {key} from {here} is for CUDA {found[1]}, which needs driver {oldest} or newer; "
                f"{there} has {gpu.driver_version}",
                hint="name a profile whose `environment.torch` is for an older CUDA, or have the driver updated",
                host=there,
            )


def refuse_misfit(listed: PackingList, facts: Facts, here: str, there: str) -> None:
    """Refuse an environment that needs another or a newer C library than the target has.

    Raises:
        PreflightRefused: It cannot work there.
    """
    has_glibc = facts.glibc is not None
    if listed.machine != facts.machine or (listed.libc == "glibc") != has_glibc:
        names = {True: "glibc", False: "another C library"}
        raise PreflightRefused(
            f"the environment of {here} is for {listed.machine} with {names[listed.libc == 'glibc']}; "
            f"{there} has {facts.machine} with {names[has_glibc]}",
            hint=f"send it from a host that has the same kind of Linux as {there}",
            host=there,
        )
    if listed.glibc is not None and facts.glibc is not None and _numbers(facts.glibc) < _numbers(listed.glibc):
        raise PreflightRefused(
            f"packages of the environment of {here} need glibc {listed.glibc}; {there} has {facts.glibc}",
            hint=f"build it on a host with glibc {facts.glibc} or older, and send it from there",
            host=there,
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
