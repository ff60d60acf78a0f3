"""Read hosts for the screens. GPU histories are long and only grow, so each reading takes only the new points."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from armada.tui.snapshot import NOTHING, HostView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.protocol.recorded import RecordedFacts
    from armada.provision.state import EnvironmentState
    from armada.store.database import Database
    from armada.store.hosts import HostRecord
    from armada.store.telemetry import Point
    from armada.tui.reachability import Silence

RECENT_S = 900.0
"""The time that a GPU's line shows, in seconds."""
GPUS_FOUND_S = 60.0
"""How often to search for GPUs without earlier points, in seconds."""
ENVIRONMENT_S = 300.0
"""Users edit profiles, so the environment's state is computed again after so many seconds, or when the host's facts change."""


class History:
    """Points of one host's GPUs over a sliding time span."""

    def __init__(self, host: str, span_s: float) -> None:
        self.host = host
        self.span_s = span_s
        self._points: dict[int, tuple[Point, ...]] = {}
        self._found_at = float("-inf")

    def read(self, database: Database, now: float) -> dict[int, tuple[Point, ...]]:
        """Read the points; GPUs without new points keep the same tuple."""
        from armada.store import telemetry

        since = now - self.span_s
        if time.monotonic() - self._found_at > GPUS_FOUND_S or not self._points:
            self._found_at = time.monotonic()
            for gpu in telemetry.gpus_of(database, self.host):
                self._points.setdefault(gpu, ())
        for gpu, before in self._points.items():
            is_ahead = bool(before) and before[-1].time > now  # the clock was set back
            known = () if is_ahead else before
            came = telemetry.of_gpu(database, self.host, gpu, after=known[-1].time if known else since)
            stale = next((place for place, point in enumerate(known) if point.time >= since), len(known))
            if came or stale or is_ahead:
                self._points[gpu] = (*known[stale:], *came)
        return {gpu: points for gpu, points in self._points.items() if points}


class HostReader:
    """Reads hosts and caches the result.

    Args:
        database: The store.
        home: The folder of profiles, which define the environment that a host should have.
    """

    def __init__(self, database: Database, home: HomePaths) -> None:
        self._database = database
        self._home = home
        self._recent: dict[str, History] = {}
        self._long: History | None = None
        self._environments: dict[str, tuple[object, float, EnvironmentState]] = {}
        self._views: dict[str, HostView] = {}

    def read(
        self,
        configured: Mapping[str, Host],
        *,
        telemetry: bool,
        history: tuple[str, float] | None,
        now: float,
        silent: Mapping[str, Silence] = NOTHING,
        records: Sequence[HostRecord] | None = None,
    ) -> tuple[HostView, ...]:
        """Return all hosts, `local` last.

        Args:
            configured: The hosts' configurations, by name.
            telemetry: Whether to include the last minutes of every GPU, and the environments.
            history: A host and a time span in seconds for which to include the GPUs' points.
            now: Unix time.
            silent: The hosts that do not answer.
            records: Those of all hosts; None if they are to be read.
        """
        from armada.store import hosts

        by_name = {record.name: record for record in (hosts.every(self._database) if records is None else records)}
        names = sorted(set(by_name) | set(configured), key=lambda each: (each == "local", each))
        views = (
            self._view(name, configured.get(name), by_name.get(name), telemetry=telemetry, history=history, now=now)
            for name in names
        )
        return tuple(self._kept(view._replace(silent=silent.get(view.name))) for view in views)

    def _view(
        self,
        name: str,
        host: Host | None,
        record: HostRecord | None,
        *,
        telemetry: bool,
        history: tuple[str, float] | None,
        now: float,
    ) -> HostView:
        before = self._views.get(name)
        if before is not None and before.record == record:
            record, facts = before.record, before.facts  # screens compare by identity first
        else:
            facts = _facts_of(record)
        recent: Mapping[int, Sequence[Point]] = {}
        if telemetry:
            recent = self._recent.setdefault(name, History(name, RECENT_S)).read(self._database, now)
        long: Mapping[int, tuple[Point, ...]] | None = None
        if history is not None and history[0] == name:
            if self._long is None or (self._long.host, self._long.span_s) != history:
                self._long = History(*history)
            long = self._long.read(self._database, now)
        return HostView(
            name,
            host.tariff(record.most_gpus if record is not None else None) if host else None,
            host is not None,
            name == "local",
            record,
            {gpu: tuple(points) for gpu, points in recent.items()},
            host.ssh if host else None,
            self._environment(host, facts) if telemetry and host is not None and facts is not None else None,
            host,
            long,
            facts,
        )

    def _kept(self, view: HostView) -> HostView:
        """Return the object of the last snapshot, if nothing of it changed."""
        if self._views.get(view.name) != view:
            self._views[view.name] = view
        return self._views[view.name]

    def _environment(self, host: Host, facts: RecordedFacts) -> EnvironmentState:
        # Reading profiles takes milliseconds, too long to repeat for each host with new facts.
        stamp = (host.profile, repr(facts.hardware), repr(facts.environments))
        known = self._environments.get(host.name)
        if known is not None and known[0] == stamp and time.monotonic() - known[1] < ENVIRONMENT_S:
            return known[2]
        from armada.provision.state import environment_state

        found = environment_state(host, facts.hardware, facts.environments, self._home)
        self._environments[host.name] = (stamp, time.monotonic(), found)
        return found


def _facts_of(record: HostRecord | None) -> RecordedFacts | None:
    if record is None or record.facts is None:
        return None
    from armada.protocol.recorded import recorded_facts  # pydantic: 75 ms, not before the first paint

    return recorded_facts(record.facts)
