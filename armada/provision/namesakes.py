"""Refuse a host whose name stands for another machine in a second file: the store knows hosts by their names alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.documents import read_document
from armada.config.hosts import PROJECT_FILE, hosts_of
from armada.config.one_name import is_same_machine
from armada.errors import ConfigError
from armada.store import hosts as host_records
from armada.store import runs

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.store.database import Database


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
    if (refusal := _compare(host, (project / PROJECT_FILE).absolute(), "nothing was started")) is not None:
        raise refusal
    record = host_records.find(database, host.name)
    if record is None or not record.origin or not _have_left(database, host.name):
        return
    try:
        why = "runs that were started there may still be running, so nothing was started"
        refusal = _compare(host, Path(record.origin), why)
    except (ConfigError, OSError):
        return  # a file of another project, which the daemon reports
    if refusal is not None:
        raise refusal


def _have_left(database: Database, name: str) -> bool:
    return any(not run.is_settled(time.time()) for run in runs.every(database, host=name))


def _compare(host: Host, file: Path, therefore: str) -> ConfigError | None:
    """Return the error if a file means another machine by the name of a host.

    Raises:
        ConfigError: The file is wrong.
    """
    if not file.exists() or (host.origin is not None and file.resolve() == host.origin.resolve()):
        return None
    document = read_document(file)
    other = hosts_of(document).get(host.name)
    if other is None or is_same_machine(other, host):
        return None
    where = f"in {host.origin}" if host.origin is not None else "where no file names it"
    return document.key_place(("hosts", host.name)).error(
        f"{host.name} is {_words(other)} here, and {_words(host)} {where}; {therefore}",
        hint="give one of them another name",
    )


def _words(host: Host) -> str:
    where = host.ssh or "this machine"
    root = f" in {host.root}" if host.root is not None else ""
    scheduler = f" by {host.scheduler}" if host.scheduler != "direct" else ""
    return f"{where}{root}{scheduler}"
