"""Read from the store what filters and columns ask of runs, and which runs pass."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from armada.filters.expression import compile_filter
from armada.filters.filter import Filter
from armada.filters.keys import PRICED, Subject, Vocabulary, resolve
from armada.store.queries.uses import Past, read_past

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.costs.tariff import Tariff
    from armada.filters.keys import Key
    from armada.filters.trouble import Trouble
    from armada.paths import HomePaths
    from armada.records.launch_price import Prices
    from armada.store.database import Database
    from armada.store.queries.facts import Value
    from armada.store.runs import Run


class Source(Protocol):
    """Where facts are read from."""

    @property
    def database(self) -> Database: ...

    @property
    def home(self) -> HomePaths:
        """The home, for the prices of hosts that it has no longer."""

    def hosts(self) -> Mapping[str, Host]:
        """The configured hosts by name, for their prices."""


class RunFacts:
    """What filters and columns may ask of runs; each part is read on first use.

    Args:
        source: A home's store and hosts.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._now = time.time()

    @cached_property
    def _paths(self) -> Mapping[str, tuple[str, ...]]:
        from armada.store.queries import facts

        return facts.setting_paths(self._source.database)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        from armada.store.queries import facts

        return Vocabulary(frozenset(self._paths), facts.metric_names(self._source.database), declared_settings)

    @cached_property
    def _host_prices(self) -> Prices:
        from armada.records.launch_price import Prices
        from armada.store.queries.tariffs import read_tariffs

        hosts = self._source.hosts()
        return Prices(self._source.home, read_tariffs(self._source.database, hosts), hosts)

    def key(self, word: str) -> Key:
        """Find a key by its name.

        Raises:
            UnknownKey: No run has it.
        """
        return resolve(word, lambda: self._vocabulary)

    def filter(self, text: str) -> Filter:
        """Compile a filter.

        Raises:
            FilterError: It is wrong.
        """
        return compile_filter(text, lambda: self._vocabulary)

    def subjects(self, runs: Sequence[Run], keys: Iterable[Key]) -> list[Subject]:
        """Return runs with what the keys need of them, in the same order."""
        asked = list(keys)
        names = {key.name for key in asked}
        found = self._facts(runs, asked)
        tariffs = self._prices(runs) if names & PRICED else {}
        troubles = self._troubles(runs) if names & {"trouble", "is"} else {}
        nothing: dict[str, Value] = {}
        return [
            Subject(
                run,
                self._now,
                tariffs.get(run.run_id),
                troubles.get(run.run_id),
                found.get(run.run_id, nothing),
                read_past(self._source.database, run) if tariffs else Past(),
            )
            for run in runs
        ]

    def _prices(self, runs: Sequence[Run]) -> dict[str, Tariff]:
        found = {run.run_id: self._host_prices.of(run) for run in runs}
        return {run_id: tariff for run_id, tariff in found.items() if tariff is not None}

    def _facts(self, runs: Sequence[Run], keys: Sequence[Key]) -> Mapping[str, Mapping[str, Value]]:
        from armada.store.queries import facts

        asked = [key for key in keys if key.source != "run"]
        if not asked:
            return {}
        some = {run.run_id for run in runs} if len(runs) <= 100 else None
        paths = self._paths if any(key.source == "setting" for key in asked) else {}
        return facts.read_facts(self._source.database, asked, paths, some)

    def _troubles(self, runs: Sequence[Run]) -> dict[str, Trouble]:
        """Why runs need the user, as the dashboard says it."""
        from armada.filters.trouble import RECENT_S, copies, trouble
        from armada.store import run_sync
        from armada.store.queries.run_list import damaged_at_home

        syncs, damaged = run_sync.every(self._source.database), damaged_at_home(self._source.database)
        found: dict[str, Trouble] = {}
        for run in runs:
            here = copies(syncs.get(run.run_id), damaged.get(run.run_id, 0))
            urgent = self._now < (run.ended_at or run.created_at) + RECENT_S
            if (why := trouble(run, here, urgent=urgent)) is not None:
                found[run.run_id] = why
        return found


def declared_settings() -> list[str]:
    """Return every key that an experiment can have. Loading the models takes 0.2 s."""
    from armada.config.candidates import settings

    return [word.removesuffix("=") for word in settings("")]


def matching(facts: RunFacts, wanted: Filter, runs: Sequence[Run]) -> list[Run]:
    """Return the runs that pass a filter. Archived ones pass only a filter that names them."""
    shown = runs if wanted.names_archive else [run for run in runs if not run.is_archived]
    return [subject.run for subject in facts.subjects(shown, wanted.keys) if wanted.matches(subject)]
