"""Open what most commands need: home's folders, the store, a run by the first characters of its id, a session with its host."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.progress import say
from armada.cli.renewal import caring_for_the_daemon
from armada.errors import Conflict, HostUnreachable, NotFound, StoreUnwritable
from armada.foundation.sanitize import sanitize_line
from armada.home import own
from armada.paths import HomePaths
from armada.rpc.outage import listen
from armada.store import runs
from armada.store.database import PATIENCE_S, Database, explain
from armada.store.read_only import is_read_only, open_copy, unwritable
from armada.store.room import say_full

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from armada.config.hosts import Host
    from armada.costs.tariff import Tariff
    from armada.records.launch_price import Prices
    from armada.rpc.session import HostSession
    from armada.store.runs import Run

_SILENT_S = 0.5
"""For how long a command waits for a locked store before it says so, in seconds."""


class HostNotAsked(HostUnreachable):
    """The command asks no host, because this home is not writable, or its disk is full."""


def _why_unwritable(error: Exception, home: HomePaths) -> str | None:
    """Say why home's disk took no write; None if the error is about something else."""
    if isinstance(error, sqlite3.DatabaseError):
        explained = explain(error, home.store)
        if not isinstance(explained, StoreUnwritable):
            return None
        error = explained
    if isinstance(error, OSError):
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return None
        return say_full(home.store) or f"{home.state}: {error.strerror}"
    return say_full(home.store) or str(error)


def choose_host(hosts: Mapping[str, Host], name: str) -> Host:
    """A host by its name.

    Raises:
        NotFound: There is none of that name.
    """
    if name not in hosts:
        import difflib

        near = difflib.get_close_matches(name, hosts, 1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(hosts)}; `armada hosts add` adds one"
        raise NotFound(f"no host is called {name!r}", hint=hint)
    return hosts[name]


def open_store(path: Path) -> Database:
    """Open the store, and say so if another program has it locked: who waits has to know for what.

    Raises:
        Conflict: It is locked for longer than `PATIENCE_S`.
    """
    try:
        database = Database(path, patience_s=_SILENT_S)
    except Conflict as locked:
        say(f"{locked.message}; waiting for up to {PATIENCE_S:.0f} s")
        return Database(path, patience_s=PATIENCE_S)
    database.wait_for_locks(PATIENCE_S)
    return database


class Context:
    """What one command needs. Each part is opened on first use, because most commands need only some of them.

    Args:
        reads: The command only shows things, and does so too where home cannot be written.
        tells: The command asks or tells hosts something that must not wait until home's disk has room.

    Attributes:
        is_read_only: Home cannot be written: hosts are not asked, and the store is as it was left.
        is_unrecorded: Home's disk takes no write: hosts are told, and what they answer is in a copy that is discarded.

    Raises:
        ConfigError: The command must write, and home cannot be written.
    """

    def __init__(self, *, reads: bool = False, tells: bool = False) -> None:
        listen(say)
        self.home = HomePaths.from_environment()
        self._told: set[str] = set()
        self.is_read_only = is_read_only(self.home.store)
        self.is_unrecorded = False
        self._tells = tells
        if self.is_read_only:
            if not reads:
                raise unwritable(self.home)
            say(f"this home is not writable, so no host is asked; showing the last known state: {self.home.state}")
            self.database = open_copy(self.home.store)
            return
        may_do_without = (reads or tells) and self.home.store.is_file()
        if may_do_without and (full := say_full(self.home.store)) is not None:
            self._do_without(full)
            return
        try:
            self.home.make()
            with contextlib.suppress(OSError):  # who needs it asks again, and is told
                own(self.home)  # a copy says so before anything is done with it
            with caring_for_the_daemon(self.home):
                self.database = open_store(self.home.store)
        except (StoreUnwritable, OSError) as error:
            why = _why_unwritable(error, self.home) if may_do_without else None
            if why is None:
                raise
            self._do_without(why)

    def _do_without(self, why: str) -> None:
        """Use a copy of the store, since its disk takes no write."""
        self.database = open_copy(self.home.store)
        if self._tells:
            self.is_unrecorded = True
            say(f"{why}, so this cannot be recorded at home; home asks the host again when there is room")
        else:
            self.is_read_only = True
            say(f"{why}, so no host is asked; showing the last known state")

    @contextlib.contextmanager
    def unless_full(self) -> Iterator[None]:
        """Ask or tell hosts inside. If home's disk takes no record of it, say so, and use a copy of the store from then on.

        Who tells hosts repeats it if `is_unrecorded` became true; who shows things shows what home last knew.
        """
        try:
            yield
        except (StoreUnwritable, sqlite3.DatabaseError, OSError) as error:
            why = _why_unwritable(error, self.home)
            if why is None or self.is_read_only or self.is_unrecorded:
                raise
            self.database.close()
            self._do_without(why)

    def hosts(self) -> dict[str, Host]:
        from armada.config.hosts import load_hosts

        return load_hosts(self.home, Path.cwd())

    def say_what_counts(self, *names: str) -> None:
        """Say of hosts that hosts.yaml and ./armada.yaml describe in different ways which of them counts; without names of all."""
        from armada.config.hosts import find_shadowed

        for found in find_shadowed(self.home, Path.cwd()):
            if not names or found.name in names:
                say(sanitize_line(found.words, 600))

    def tariffs(self) -> dict[str, Tariff]:
        """What the configured hosts cost, by name; read without hosts.yaml where that has not changed."""
        from armada.config.price_cache import read_tariffs
        from armada.store.queries.tariffs import gpu_counts

        return read_tariffs(self.home, Path.cwd(), gpu_counts(self.database))

    def configured(self) -> frozenset[str] | None:
        """Return the names of the configured hosts, read as `tariffs`; None if a file is wrong."""
        from armada.config.price_cache import read_names

        return read_names(self.home, Path.cwd())

    def prices(self) -> Prices:
        """What the hosts of runs cost, also those that were removed."""
        from armada.records.launch_price import Prices

        return Prices(self.home, self.tariffs(), self.configured())

    def host(self, name: str) -> Host:
        """A configured host.

        Raises:
            NotFound: There is none of that name.
        """
        return choose_host(self.hosts(), name)

    def hosts_of_runs(self, *wanted: Run) -> dict[str, Host]:
        """Return the hosts by name; `wanted` runs are asked about. It is said if one's name meant another machine at the last launch."""
        from armada.provision.namesakes import words_of_last_launch

        found = self.hosts()
        for name in sorted({run.host for run in wanted} & found.keys() - self._told):
            self._told.add(name)
            if (said := words_of_last_launch(self.database, found[name])) is not None:
                say(sanitize_line(said, 600))
        return found

    def session_of(self, run: Run, *, patience_s: float = 60.0, looks: bool = False) -> HostSession:
        """Open a session with the host of a run; otherwise as `session`. It is said if its name meant another machine before."""
        self._require_writable(run.host)
        return self.session_with(choose_host(self.hosts_of_runs(run), run.host), patience_s, looks=looks)

    def run(self, prefix: str) -> Run:
        """Find a run by the first characters of its id.

        Raises:
            NotFound: No run's id begins so.
            UsageError: Several do.
        """
        try:
            return runs.find(self.database, prefix)
        except NotFound as error:
            if (words := self.forgotten()) is not None:
                from armada.records.left_folders import FINDS_AGAIN

                error.message, error.hint = f"{error.message}. {words}", FINDS_AGAIN
            raise

    def forgotten(self) -> str | None:
        """Say that runs are at home that the store does not have (it was deleted or replaced). None if there are none."""
        if runs.every(self.database):
            return None
        from armada.records.left_folders import left_folders

        return left_folders(self.home)

    def session(self, name: str, *, patience_s: float = 60.0, looks: bool = False) -> HostSession:
        """Open a session with a configured host. With `looks`, create nothing on a host that has no files of armada.

        Raises:
            NotFound: There is none of that name.
            HostNotAsked: Home cannot be written, and with it neither keys nor connections.
        """
        self._require_writable(name)
        return self.session_with(self.host(name), patience_s, looks=looks)

    def session_with(self, host: Host, patience_s: float, *, looks: bool = False) -> HostSession:
        """Open a session with a host; otherwise as `session`. Any thread may call it."""
        from armada.rpc.session import HostSession

        self._require_writable(host.name)
        return HostSession(host, self.home, patience_s=patience_s, looks=looks)

    def _require_writable(self, name: str) -> None:
        if self.is_read_only:
            raise HostNotAsked("not asked, because nothing can be written in this home", host=name)

    def session_about(self, run: Run, *, patience_s: float = 60.0) -> HostSession:
        """Open a session that only looks for a run. A host that this home wiped is not asked: that would put the agent back there.

        Raises:
            NotFound: The host is not known, or was wiped, or is being wiped.
        """
        from armada.store import hosts
        from armada.store.running_operations import being_wiped

        record = hosts.find(self.database, run.host)
        if record is not None and record.released_at is not None:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.released_at))
            raise NotFound(f"this home deleted everything there on {when}", host=run.host)
        if run.host in being_wiped(self.database):
            raise NotFound("armada hosts release --wipe deletes everything there at this moment", host=run.host)
        return self.session_of(run, patience_s=patience_s)
