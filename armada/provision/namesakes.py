"""Refuse a host whose name stands for another machine in a second file: the store knows hosts by their names alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.documents import read_document
from armada.config.hosts import LOCAL, PROJECT_FILE, Host, hosts_of
from armada.config.one_name import is_same_machine
from armada.errors import ConfigError
from armada.store import hosts as host_records
from armada.store import runs

if TYPE_CHECKING:
    from armada.config.documents import Place
    from armada.store.database import Database
    from armada.store.runs import Run

_RENAME = "give one of them another name"


def refuse_namesake(database: Database, project: Path, host: Host) -> None:
    """Refuse to start something on a host while a second file means another one by its name.

    The file of the current project is compared always, that of the last launch while runs of it may still be running:
    the daemon would look for them on the other machine.

    Args:
        database: The store.
        project: The folder of the command.
        host: The host as the command knows it.

    Raises:
        ConfigError: There is such a file; the error names both.
    """
    if (found := _other(host, (project / PROJECT_FILE).absolute())) is not None:
        raise _refusal(found, host, "nothing was started", _RENAME)
    refuse_while_runs_left(database, host)


def refuse_while_runs_left(database: Database, host: Host, therefore: str = "nothing was started") -> None:
    """Refuse a host while runs may still be running on another machine of its name.

    Args:
        database: The store.
        host: The host.
        therefore: What was not done.

    Raises:
        ConfigError: There are such runs; the error names both files, and the hint a run.
    """
    run = _first_left(database, host.name)
    if run is not None and (found := _of_last_launch(database, host)) is not None:
        why = f"runs that were started there may still be running, so {therefore}"
        raise _refusal(found, host, why, f"{_RENAME}; or, {_forced(found, host, run.run_id)}")


def refuse_other_machine(database: Database, host: Host) -> None:
    """Refuse to go on by itself, as a search or a retry does, on another machine than that of the last launch.

    Raises:
        ConfigError: It is another, or another project's file has it while that of the last launch does not say where it is;
            the error names both files.
    """
    if (said := _not_said(database, host)) is not None:
        raise ConfigError(f"{said}, so nothing was started", hint=f"launch it again from where {host.name} is right")
    if (found := _of_last_launch(database, host)) is not None:
        raise _refusal(found, host, "by the first one, runs were started last, so nothing was started", _RENAME)


def refuse_to_forget(database: Database, host: Host, run_id: str, *, force: bool = False) -> None:
    """Refuse to forget a run that may still be running, if its host's name means another machine here than at the last launch.

    Args:
        database: The store.
        host: The host as the command knows it.
        run_id: The run.
        force: A person says that it may be forgotten. That counts if no folder is left in which its machine could be asked.

    Raises:
        ConfigError: So it may; the error names both files.
    """
    if (said := _not_said(database, host)) is not None:
        hint = f"restore that file; or, if that machine is gone, in a folder without {PROJECT_FILE}: armada rm {run_id} --without-host"
        raise ConfigError(f"{said}, so {run_id} was not removed", hint=hint)
    if (found := _of_last_launch(database, host)) is not None:
        there = _there(found, host)
        if force and not there:
            return
        why = f"{run_id} may still be running by the first one, so it was not removed"
        raise _refusal(
            found,
            host,
            why,
            f"{there}armada rm {run_id}" if there else f"{_RENAME}; or, {_forced(found, host, run_id)}",
        )


def words_of_last_launch(database: Database, host: Host) -> str | None:
    """Say that a host's name meant another machine when runs were started there last; None if it did not.

    Nothing is looked for there: which file is right, a person knows. A project that was cloned has no say about it.
    """
    if (said := _not_said(database, host)) is not None:
        return said
    if (found := _of_last_launch(database, host)) is None:
        return None
    at = f"{found.place} (the last launch)" if found.place is not None else "the last launch had no file for it"
    here = (
        f"here, the name means {_words(host)} ({host.origin or 'no file names it'}), so its runs are looked for there"
    )
    return f"{host.name}: its last runs were started on {_words(found.host)}: {at}; {here}"


def _of_last_launch(database: Database, host: Host) -> _Entry | None:
    """Return the entry by which runs of a host were started last, if that means another machine."""
    record = host_records.find(database, host.name)
    if record is None:
        return None
    is_of_project = host.origin is not None and host.origin.name == PROJECT_FILE
    try:
        if record.origin:
            file = Path(record.origin)
            # A hosts.yaml that is not this one is that of a former place of home, and this one has its words now.
            return _other(host, file) if is_of_project or file.name == PROJECT_FILE else None
    except (ConfigError, OSError):
        return None  # a file of another project, which the daemon reports
    # A former release recorded nothing for the built-in `local`; but a store that was recovered has nothing for any host.
    return _other_built_in(host) if record.origin == "" or is_of_project else None


def _not_said(database: Database, host: Host) -> str | None:
    """Say that another project's file means a host here while that of the last launch does not say where it is."""
    record, origin = host_records.find(database, host.name), host.origin
    former = Path(record.origin) if record is not None and record.origin else None
    if former is None or former.name != PROJECT_FILE or origin is None or origin.name != PROJECT_FILE:
        return None
    if origin.resolve() == former.resolve() or _names(former, host):
        return None
    return f"runs on {host.name} were started by {former}, which does not say now where that is; {origin} may mean another machine"


def _names(file: Path, host: Host) -> bool:
    try:
        return file.exists() and host.name in hosts_of(read_document(file))
    except (ConfigError, OSError):
        return False


def _first_left(database: Database, name: str) -> Run | None:
    return next((run for run in runs.every(database, host=name) if not run.is_settled(time.time())), None)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A host as a file has it, and where; no place for the built-in `local`."""

    host: Host
    place: Place | None


def _other_built_in(host: Host) -> _Entry | None:
    """Return the built-in `local` if a file means another place by that name."""
    built_in = Host(name=LOCAL, local=True)
    return _Entry(built_in, None) if host.name == LOCAL and not is_same_machine(built_in, host) else None


def _other(host: Host, file: Path) -> _Entry | None:
    """Return the entry of a file that means another machine by the name of a host.

    Raises:
        ConfigError: The file is wrong.
    """
    found = _entry(host, file)
    return found if found is not None and not is_same_machine(found.host, host) else None


def _entry(host: Host, file: Path) -> _Entry | None:
    if not file.exists() or (host.origin is not None and file.resolve() == host.origin.resolve()):
        return None
    document = read_document(file)
    found = hosts_of(document).get(host.name)
    return _Entry(found, document.key_place(("hosts", host.name))) if found is not None else None


def _there(found: _Entry, host: Host) -> str:
    """Where a command means that machine by the name; empty if it does nowhere, as the user's hosts.yaml means another one."""
    path = found.place.path if found.place is not None else None
    is_shadowed = host.origin is not None and host.origin.name != PROJECT_FILE
    return f"in {path.parent}: " if path is not None and path.name == PROJECT_FILE and not is_shadowed else ""


def _forced(found: _Entry, host: Host, run_id: str) -> str:
    there = _there(found, host)
    return f"if that machine is gone{', ' + there if there else ': '}armada rm {run_id} --force"


def _refusal(found: _Entry, host: Host, therefore: str, hint: str) -> ConfigError:
    where = f"in {host.origin}" if host.origin is not None else "where no file names it"
    here = "here" if found.place is not None else "where no file names it"
    message = f"{host.name} is {_words(found.host)} {here}, and {_words(host)} {where}; {therefore}"
    return found.place.error(message, hint=hint) if found.place is not None else ConfigError(message, hint=hint)


def _words(host: Host) -> str:
    where = host.ssh or "this machine"
    root = f" in {host.root}" if host.root is not None else ""
    scheduler = f" by {host.scheduler}" if host.scheduler != "direct" else ""
    return f"{where}{root}{scheduler}"
