"""List the hosts that the daemon watches: those in hosts.yaml, and those of projects from which you launched."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from armada.config.documents import read_document
from armada.config.hosts import LOCAL, PROJECT_FILE, Host, hosts_of
from armada.errors import ConfigError
from armada.foundation.sanitize import sanitize_line
from armada.store import hosts as records
from armada.store.running_operations import being_wiped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.paths import HomePaths
    from armada.store.database import Database

log = logging.getLogger(__name__)


class KnownHosts:
    """Reads the files again when they change. While one cannot be read, its last content stays in effect."""

    def __init__(self, home: HomePaths) -> None:
        self._home = home
        self._files: dict[Path, tuple[int | None, dict[str, Host]]] = {}
        self._troubles: dict[Path, str] = {}
        self._configured_last: dict[str, Host] = {}

    def last_configured(self) -> dict[str, Host]:
        """Return every host as last read, also those that were wiped: what they cost counts. Any thread may ask."""
        return self._configured_last

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return the problems in the files as last read, with their places, and what is in effect until they are fixed."""
        return tuple(self._troubles.values())

    def read(self, database: Database) -> dict[str, Host]:
        """Return every host by name, except those that were or are being wiped. The user's own hosts override a project's."""
        known = records.every(database)
        released = {record.name for record in known if record.released_at is not None} | being_wiped(database)
        hosts = self._configured({record.name: record.origin for record in known if record.origin is not None})
        self._configured_last = hosts
        return {name: host for name, host in hosts.items() if name not in released}

    def _configured(self, origins: Mapping[str, str]) -> dict[str, Host]:
        """Return the hosts of all files.

        Of two projects that use one name, that of the last launch is meant, as long as its file describes the host:
        another worktree of a deleted one names the same machines.
        """
        projects = sorted({Path(origin) for origin in origins.values() if Path(origin).name == PROJECT_FILE})
        for path in (*projects, self._home.hosts_file):
            changed = _changed_ns(path)
            if path not in self._files or self._files[path][0] != changed:
                self._files[path] = (changed, self._load(path))
        found: dict[str, Host] = {LOCAL: Host(name=LOCAL, local=True)}
        for path in projects:
            for name, host in self._files[path][1].items():
                origin = origins.get(name)
                if origin is None or origin == str(path) or not self._describes(origin, name):
                    found[name] = host
        return found | self._files[self._home.hosts_file][1]

    def _describes(self, origin: str, name: str) -> bool:
        """Whether the origin of a host's record still says where the host is; a file that cannot be read may."""
        path = Path(origin)
        if not origin or path == self._home.hosts_file:
            return True  # the built-in `local`, or one that the user has taken out of hosts.yaml
        return path in self._troubles or (path in self._files and name in self._files[path][1])

    def _load(self, path: Path) -> dict[str, Host]:
        self._troubles.pop(path, None)
        try:
            return hosts_of(read_document(path)) if path.exists() else {}
        except ConfigError as error:
            former = self._files[path][1] if path in self._files else {}
            named = (
                f"the hosts it named before ({', '.join(former)})" if former else "no host from this file is watched"
            )
            meanwhile = f"Until it is fixed, {named} {'are watched' if former else ''}".strip()
            hint = f" ({error.hint})" if error.hint else ""
            self._troubles[path] = sanitize_line(f"{error}{hint}. {meanwhile}.", 1000)
            log.warning("%s", self._troubles[path])
            return former


def _changed_ns(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None
