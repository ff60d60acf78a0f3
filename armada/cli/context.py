"""What most commands need: home's folders, the store, a run by the beginning of its id, a session with its host."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import Conflict, NotFound
from armada.home import own
from armada.paths import HomePaths
from armada.store import runs
from armada.store.database import Database

if TYPE_CHECKING:
    from armada.config.hosts import Host
    from armada.session import HostSession
    from armada.store.runs import Run


class Context:
    """Opened per command; everything in it is made when first used, because most commands need only part of it."""

    def __init__(self) -> None:
        self.home = HomePaths.from_environment()
        self.home.make()
        with contextlib.suppress(OSError):  # who needs it asks again, and is told
            own(self.home)  # a copy says so before anything is done with it
        self.database = Database(self.home.store)

    def hosts(self) -> dict[str, Host]:
        from armada.config.hosts import load_hosts

        return load_hosts(self.home, Path.cwd())

    def host(self, name: str) -> Host:
        """A configured host.

        Raises:
            NotFound: There is none of that name.
        """
        hosts = self.hosts()
        if name not in hosts:
            import difflib

            near = difflib.get_close_matches(name, hosts, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(hosts)}; `armada hosts add` adds one"
            raise NotFound(f"no host is called {name!r}", hint=hint)
        return hosts[name]

    def admit(self, host: Host) -> None:
        """Make sure that something may be put on a host; called within the operation that does it.

        Raises:
            Conflict: Another armada has removed the host, or is just deleting everything on it.
        """
        from armada.admission import refuse_while_clearing

        if host.name not in self.hosts():
            raise Conflict(
                "it was removed from hosts.yaml by another armada a moment ago; nothing was started",
                hint=f"armada hosts add {host.name} adds it again",
                host=host.name,
            )
        refuse_while_clearing(self.database, host.name)

    def run(self, prefix: str) -> Run:
        """A run by the beginning of its id.

        Raises:
            NotFound: No run's id begins so.
            UsageError: Several do.
        """
        try:
            return runs.find(self.database, prefix)
        except NotFound as error:
            if (words := self.forgotten()) is not None:
                error.message, error.hint = f"{error.message}. {words}", "armada recover finds them again"
            raise

    def forgotten(self) -> str | None:
        """Say that runs lie at home of which the store knows none: it was deleted or replaced. None where that is not so."""
        if runs.every(self.database):
            return None
        places = (self.home.state / "runs", self.home.local_root / "runs")
        names = {folder.name for place in places if place.is_dir() for folder in place.iterdir() if folder.is_dir()}
        if not names:
            return None
        lie = "folder of a run lies" if len(names) == 1 else "folders of runs lie"
        return (
            f"The store knows no run, and {len(names)} {lie} at home: `armada rm` left them, or {self.home.store} was "
            "deleted or replaced"
        )

    def session(self, name: str, *, patience_s: float = 60.0) -> HostSession:
        from armada.session import HostSession

        return HostSession(self.host(name), self.home, patience_s=patience_s)
