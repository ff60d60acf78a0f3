"""Open a home for one call of `armada.api`: its folders, its store, its hosts, sessions with them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, ConfigError, NotFound, UsageError
from armada.foundation.sanitize import sanitize_line
from armada.paths import HomePaths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from armada.api.values import Run
    from armada.config.hosts import Host
    from armada.costs.tariff import Tariff
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run as StoredRun


@dataclass(frozen=True, slots=True)
class Opened:
    """What one call needs.

    Attributes:
        home: Home's folders.
        database: The store.
        project: The folder whose own hosts count too.
        is_read_only: Home cannot be written: no host is asked.
    """

    home: HomePaths
    database: Database
    project: Path
    is_read_only: bool

    def hosts(self) -> dict[str, Host]:
        from armada.config.hosts import load_hosts

        return load_hosts(self.home, self.project)

    def tariffs(self) -> dict[str, Tariff]:
        """Return what the configured hosts cost, by name."""
        from armada.config.price_cache import read_tariffs
        from armada.store.queries.tariffs import gpu_counts

        return read_tariffs(self.home, self.project, gpu_counts(self.database))

    def host(self, name: str) -> Host:
        """Return a configured host.

        Raises:
            NotFound: There is none of that name.
        """
        known = self.hosts()
        if name not in known:
            raise NotFound(f"no host is called {name!r}", hint=f"known: {', '.join(known)}")
        return known[name]

    def hosts_to_compare(self, names: Sequence[str]) -> list[Host]:
        """Return the named hosts, or all that this home has not wiped.

        Raises:
            NotFound: There is no host of a name.
        """
        if names:
            return [self.host(name) for name in dict.fromkeys(names)]
        return [host for host in self.hosts().values() if not self._was_wiped(host.name)]

    def run(self, run: Run | str) -> StoredRun:
        """Find a run by its value, its id, or the first characters of its id.

        Raises:
            NotFound: There is none.
            UsageError: Several ids begin so, or the text is empty, with which every id begins.
        """
        from armada.store import runs

        if run == "":
            raise UsageError("the id of the run is empty")
        run_id = run if isinstance(run, str) else getattr(run, "run_id", None)
        if not isinstance(run_id, str):
            raise UsageError(f"{run!r} is neither a run nor the id of one")
        return runs.find(self.database, run_id)

    def session(self, name: str, patience_s: float, *, looks: bool = False) -> HostSession:
        """Open a session with a configured host.

        Raises:
            NotFound: There is none of that name.
        """
        from armada.rpc.session import HostSession

        return HostSession(self.host(name), self.home, patience_s=patience_s, looks=looks)

    def session_about(self, run: StoredRun, patience_s: float) -> HostSession:
        """Open a session that only looks for a run.

        Raises:
            NotFound: The host is not known, or this home wiped it.
        """
        if self._was_wiped(run.host):
            raise NotFound("this home deleted everything there", host=run.host)
        return self.session(run.host, patience_s)

    def other_owner(self, run: StoredRun) -> str | None:
        """Return the name of the other home that launched a run; None for this home's runs."""
        from armada.home import launched_by, own
        from armada.store import runs

        launcher = launched_by(runs.spec(self.database, run.run_id))
        return None if launcher is None or launcher.id == own(self.home).id else launcher.named

    def start_daemon(self) -> None:
        """Start this home's daemon, unless one runs or `ARMADA_NO_DAEMON` forbids it."""
        from armada.daemon.control import start

        if os.environ.get("ARMADA_NO_DAEMON", "") in ("", "0"):
            start(self.home, auto=True)

    def _was_wiped(self, name: str) -> bool:
        from armada.store import hosts
        from armada.store.running_operations import being_wiped

        record = hosts.find(self.database, name)
        return (record is not None and record.released_at is not None) or name in being_wiped(self.database)


@contextlib.contextmanager
def open_home(base: Path | None, project: Path | None, *, writes: bool) -> Iterator[Opened]:
    """Open a home.

    Args:
        base: Its folder; None for the home that the commands use.
        project: The folder whose own hosts count too; None for the current folder.
        writes: The call writes to the store or to a host.

    Raises:
        ConfigError: The store cannot be read, or the call writes and home is read-only.
        ArmadaError: This machine's disk or the rights of its files refuse it.
    """
    import sqlite3

    from armada.home import own
    from armada.store.database import Database, explain
    from armada.store.read_only import is_read_only, open_copy

    home = HomePaths(base / "config", base / "state") if base is not None else HomePaths.from_environment()
    try:
        read_only = is_read_only(home.store)
        if read_only and writes:
            raise ConfigError("this home is not writable, and this call writes to it", path=home.state)
        if not read_only:
            home.make()
            with contextlib.suppress(OSError):
                own(home)
        with open_copy(home.store) if read_only else Database(home.store) as database:
            yield Opened(home, database, project if project is not None else Path.cwd(), read_only)
    except sqlite3.DatabaseError as error:
        explained = explain(error, home.store)
        if explained is None:
            raise
        raise explained from error
    except OSError as error:
        if isinstance(error, ArmadaError):  # a host that does not answer
            raise
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        hint = "check whether this machine's disk is full or a folder is read-only"
        raise ArmadaError(sanitize_line(what, 2000), hint=hint) from error
