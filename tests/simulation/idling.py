"""The daemon's idle rule in a simulated world: the real watch of a host, whose stop command a story decides on."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from armada.config.hosts import Host
from armada.daemon import idle_stop
from armada.errors import HostUnreachable
from armada.store import hosts as host_records
from armada.verdicts.idle import stopping_of
from tests import host_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.home import SimHome
    from tests.simulation.host import SimHost
    from tests.simulation.world import World

IDLE_S = 600
"""`stop_when_idle` of every host."""

_CODES = {"stops": 0, "fails": 1, "answers on": 0}


class Idling:
    """The watches of one world's homes.

    Attributes:
        command: What the stop command of the hosts does: it stops the host, fails, or reports a stop that does not happen.
        count: How often a stop command was run.
    """

    def __init__(self, world: World) -> None:
        self.command = "stops"
        self.count = 0
        self._world = world
        self._watches: dict[tuple[str, str], idle_stop.IdleStop] = {}
        self._current: tuple[SimHome, SimHost] | None = None

    def look(self, home: SimHome, host: SimHost) -> str:
        """As the daemon looks at a host; return the state of its stop command."""
        key = (home.name, host.name)
        watch = self._watches.setdefault(key, idle_stop.IdleStop(self._host(host), home.paths, now=self._world.now))
        self._current = home, host
        try:
            for run_id in home.known():
                home.look(run_id)
            host.require()
            with home.store() as database:
                if host_records.find(database, host.name) is None:
                    host_records.record_facts(database, host.name, host_facts.answer())
        except HostUnreachable:
            with home.store() as database:
                watch.silent(database)
        else:
            with home.store() as database:
                watch.answered(database)
        with home.store() as database:
            record = host_records.find(database, host.name)
            return stopping_of(record.stopping if record is not None else None).state or "no"

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        return [
            (idle_stop, "HostSession", lambda *_, **__: self._session()),
            (idle_stop, "exclusive_lock", lambda *_: contextlib.nullcontext()),
            (idle_stop, "threading", SimpleNamespace(Thread=_AtOnce)),
            (idle_stop, "run_command", lambda *_: self._run()),
        ]

    def _host(self, host: SimHost) -> Host:
        return Host(
            name=host.name,
            ssh=f"root@{host.name}",
            root=str(host.root),
            stop_when_idle=f"{IDLE_S}s",
            stop_command="stop",
        )

    @contextlib.contextmanager
    def _session(self) -> Iterator[Any]:
        assert self._current is not None
        home, host = self._current
        yield home.session(host)

    def _run(self) -> tuple[int, str]:
        assert self._current is not None
        home, host = self._current
        self._world.hold(not any(job.alive for job in host.jobs), f"{home.name} stops {host.name}, where a job runs")
        self._world.check_release(home, host)
        self.count += 1
        if self.command == "stops":
            host.reachable = False
        return _CODES[self.command], ""


class _AtOnce:
    """Stands in for a thread: its work is done when it starts."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], **_: Any) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)

    def is_alive(self) -> bool:
        return False
