"""A frozen snapshot of the store, from which every screen draws. It sanitizes text from hosts, once."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from armada.filters.keys import NO_WORDS
from armada.paths import slug
from armada.store.queries.uses import Past, ran_until, spans_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from armada.config.hosts import Host
    from armada.costs.amounts import Amounts
    from armada.costs.tariff import Span, Tariff
    from armada.filters.keys import Value, Vocabulary
    from armada.filters.trouble import Trouble
    from armada.protocol.recorded import RecordedFacts, RecordedGpu
    from armada.provision.state import EnvironmentState
    from armada.store.checkpoints import Checkpoint
    from armada.store.hosts import HostRecord
    from armada.store.notifications import Notification
    from armada.store.operations import Operation
    from armada.store.queries.facts import RunBest
    from armada.store.queries.step_times import StepTimes
    from armada.store.run_sync import RunSync
    from armada.store.runs import Run
    from armada.store.telemetry import Point
    from armada.store.transfers import Transfer
    from armada.tui.reachability import Silence

NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Kept(NamedTuple):
    """A summary of a run's checkpoints: the newest at home, how many are only on the host, and how many are damaged at home."""

    home_step: int | None
    home_at: float | None
    home: int
    only_host: int
    damaged: int = 0


class RunRow(NamedTuple):
    """A run as the table shows it; the same object as in the last snapshot if nothing of it changed.

    `name`, `host` and `trouble` are sanitized; the latter says why the run needs the user, None if it does not.
    """

    run: Run
    name: str
    host: str
    kept: Kept
    trouble: Trouble | None
    tariff: Tariff | None
    past: Past = Past()
    """Its earlier attempts."""

    @property
    def id(self) -> str:
        return self.run.run_id

    @property
    def own_name(self) -> str:
        """Its name, where its id does not begin with that."""
        return "" if self.id.startswith(slug(self.run.name)) else self.name

    @property
    def is_no_number(self) -> bool:
        """Whether it succeeded although its newest loss is NaN or infinite."""
        return self.run.state == "succeeded" and self.run.loss_not_finite is not None

    def lasted_s(self, now: float) -> float:
        """How many seconds it has been on the host."""
        if self.run.started_at is None:
            return 0.0
        return max(0.0, ran_until(self.run, now) - self.run.started_at)

    def spans(self, now: float) -> tuple[Span, ...]:
        """Return when it ran, over all of its attempts."""
        return spans_of(self.run, self.past, now)

    def costs(self, now: float) -> Amounts | None:
        """Return what it cost since it began, its share of the box; None if no price is known, or it has not begun."""
        if self.tariff is None or self.run.started_at is None:
            return None
        found = self.tariff.cost_of_run(len(self.run.gpus), self.spans(now))
        return found if found.is_known else None

    def rate(self, now: float) -> tuple[float, str] | None:
        """Return what it costs an hour, and the currency; None if that is not known."""
        return self.tariff.run_rate(len(self.run.gpus), now) if self.tariff is not None else None


STALE_S = 180.0
"""Hosts are asked once a minute at least: what is older than these seconds says nothing of now."""


class HostView(NamedTuple):
    """A host: its configuration, its last facts, and the last minutes of its GPUs.

    `history` is longer, for the host that a screen shows, else None; `environment` is None until it is computed. `facts` are those
    of its record, parsed; None without any. It is the same object as in the last snapshot if nothing of it changed.
    """

    name: str
    tariff: Tariff | None
    configured: bool
    local: bool
    record: HostRecord | None
    telemetry: Mapping[int, tuple[Point, ...]] = NOTHING
    ssh: str | None = None
    environment: EnvironmentState | None = None
    config: Host | None = None
    history: Mapping[int, tuple[Point, ...]] | None = None
    facts: RecordedFacts | None = None
    silent: Silence | None = None
    """Since when it does not answer; None if it does, or was never asked. Its record alone does not say that."""

    @property
    def seen_at(self) -> float | None:
        """When it last told anything: its facts, which arrive once a minute, or the load of its GPUs, which arrives more often."""
        moments = [points[-1].time for points in self.telemetry.values() if points]
        if self.record is not None and self.record.observed_at is not None:
            moments.append(self.record.observed_at)
        return max(moments, default=None)

    def is_stale(self, now: float) -> bool:
        """Whether what its GPUs do is not known any more: the newest load is of an earlier time."""
        seen = self.seen_at
        return self.silent is not None or (seen is not None and now - seen > STALE_S)

    @property
    def gpus(self) -> Sequence[RecordedGpu]:
        """Its GPUs, as it last reported them."""
        return (self.facts.gpus or ()) if self.facts is not None else ()


class DaemonView(NamedTuple):
    """`fresh`, `stale` (it lives but does not tick), `dead` or `never`; see `armada.daemon.status.judge`."""

    condition: str
    tick_at: float | None

    @property
    def is_alive(self) -> bool:
        return self.condition in ("fresh", "stale")


class Money(NamedTuple):
    """The cost per hour now, per hour on idle hosts, and of the last seven days."""

    per_hour: Amounts
    idle_per_hour: Amounts
    week: Amounts


class Counts(NamedTuple):
    """How many runs are running, have not begun, or need the user."""

    running: int = 0
    waiting: int = 0
    troubled: int = 0


class RunDetail(NamedTuple):
    """Everything that the Run screen shows of one run, except curves and log."""

    run_id: str
    spec: Mapping[str, Any]
    transitions: tuple[tuple[float, str, str | None, str | None], ...]
    checkpoints: tuple[Checkpoint, ...]
    events: tuple[Mapping[str, Any], ...]
    metrics: tuple[str, ...]
    times: StepTimes | None = None
    """Where the time of its newest steps went."""
    left_out: tuple[str, ...] = ()
    """Metrics of which no curve is kept."""


UNREADABLE = "cannot read the store"
"""What stands in the place of what a store that cannot be read may have; a bar says why."""


class Snapshot(NamedTuple):
    """Times are unix seconds; `runs` are newest first; `trouble` is why the store could not be read.

    `taken_at` is 0 before the whole store was read.
    """

    taken_at: float
    runs: tuple[RunRow, ...] = ()
    by_id: Mapping[str, RunRow] = NOTHING
    counts: Counts = Counts()
    generation: int = 0
    """Counts the readings of all runs; `changed` are the rows that differ from the previous reading, None: any may."""
    changed: frozenset[str] | None = None
    sparks: Mapping[str, tuple[float | None, ...]] = NOTHING
    details: Mapping[str, RunDetail] = NOTHING
    hosts: tuple[HostView, ...] = ()
    silent: Mapping[str, Silence] = NOTHING
    """Hosts that do not answer, by name; `hosts` and the active runs of `runs` say the same."""
    operations: tuple[Operation, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    told: tuple[Notification, ...] = ()
    """What the daemon told, newest first; each event once."""
    syncs: Mapping[str, RunSync] = NOTHING
    sweeps: tuple[str, ...] = ()
    """The sweeps that were launched here, newest first; others are known from their runs alone."""
    daemon: DaemonView | None = None
    money: Money | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    trouble: str | None = None
    home_trouble: str | None = None
    """Why nothing that is done here is kept."""
    config_trouble: str | None = None
    """A problem in one of the user's files."""

    words: Vocabulary = NO_WORDS
    """The settings and metrics that runs have, as far as a screen asked."""
    facts: Mapping[str, Mapping[str, Value]] = NOTHING
    """Settings and metrics that a screen wants, by run; `facts_version` rises when they were read anew for all."""
    facts_version: int = 0
    bests: Mapping[str, RunBest] = NOTHING
    """How good runs are, of those of which a screen wants it; `bests_version` rises as `facts_version` does."""
    bests_version: int = 0
    answers: object = None
    """What was asked for, and for whom (`Watcher.want`), when details, curves, facts and bests were read."""
    first_of: int | None = None
    """How many runs there are, while `runs` are only those that the first screen shows; None: they are all."""

    @property
    def is_unread(self) -> bool:
        """Whether it is unknown what the store has."""
        return not self.taken_at or (self.trouble is not None and not self.runs)

    @property
    def has_daemon(self) -> bool:
        """Whether a daemon does what is planned; also while that is not known yet."""
        return self.daemon is None or self.daemon.is_alive

    @property
    def reading(self) -> str:
        """What stands in the place of what is not read yet."""
        return "reading …" if self.trouble is None else UNREADABLE

    def names_of_sweeps(self) -> list[str]:
        """Return the names of all sweeps."""
        return list(dict.fromkeys((*self.sweeps, *(row.run.sweep for row in self.runs if row.run.sweep))))

    @property
    def are_hosts_read(self) -> bool:
        """Whether a host that is not among `hosts` is unknown; before the first reading no host is."""
        return bool(self.hosts or self.config_trouble)

    def row(self, run_id: str | None) -> RunRow | None:
        return self.by_id.get(run_id or "")


EMPTY = Snapshot(0.0)
MANY = 1000


def has_many_new(before: Snapshot, after: Snapshot) -> bool:
    """Whether many rows of a snapshot are new objects: the first whole one, many changed, or another store was opened."""
    if not before.taken_at:
        return True
    if after.changed is not None:
        return len(after.changed) > MANY
    # The oldest row stays the same object where runs were added or removed.
    is_read_anew = bool(before.runs and after.runs) and before.runs[-1] is not after.runs[-1]
    return is_read_anew or abs(len(after.runs) - len(before.runs)) > MANY
