"""The entry to armada from Python: one object for one home."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from armada.api.following import Told, follow_to_end
from armada.api.opening import Opened, open_home
from armada.api.values import Metrics, Point, ReleaseCheck, ReleaseItem, Run
from armada.errors import ArmadaError, Conflict, HostUnreachable, NotFound, OutcomeUnknown, RunFailed, UsageError
from armada.foundation.user_folder import expanded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from armada.api.cost_values import Costs
    from armada.api.values import Checkpoint, Comparison, HostPlan, Operation, SyncResult
    from armada.config.tasks.experiment import Experiment

_LOG_LINES = 100_000
_OPERATIONS = 1_000_000
_WEEKS = 520


class Armada:
    """Everything that armada knows and does, for one home.

    An object holds no connection between calls, and several threads may use it.

    Args:
        home: The folder that `ARMADA_HOME` would name; by default the home that the commands use.
        project: The folder whose armada.yaml may configure further hosts; by default the current folder at each call.
    """

    def __init__(self, home: Path | str | None = None, *, project: Path | str | None = None) -> None:
        self._home = expanded(home).absolute() if home is not None else None
        self._project = expanded(project).absolute() if project is not None else None

    @contextlib.contextmanager
    def _open(self, *, writes: bool = False) -> Iterator[Opened]:
        from armada.store.running_operations import called_by

        with open_home(self._home, self._project, writes=writes) as opened, called_by("api"):
            yield opened

    def hosts(self) -> list[str]:
        """Return the names of the configured hosts; `local` is always among them.

        Raises:
            ConfigError: hosts.yaml or armada.yaml is wrong.
        """
        with self._open() as opened:
            return list(opened.hosts())

    def runs(
        self,
        where: str = "",
        *,
        host: str | None = None,
        state: str | None = None,
        group: str | None = None,
        tag: str | None = None,
    ) -> list[Run]:
        """Return the runs that home knows, newest first, as last seen. No host is asked.

        Args:
            where: A filter as of `armada ps`, such as `loss<0.4 tag:arc lr>1e-5`. It leaves archived runs out unless it
                names them; without a filter they are listed, too.
            host: Only runs on this host.
            state: Only runs in this state.
            group: Only runs of this group.
            tag: Only runs with this tag.

        Raises:
            UsageError: The filter is wrong, or no run has a key of it.
        """
        from armada.api.conversion import run_of
        from armada.filters.run_facts import RunFacts, matching
        from armada.store import runs

        if not isinstance(where, str):
            raise UsageError(f"the filter is {where!r}, which is not a text", hint='runs("loss<0.4 tag:arc")')
        with self._open() as opened:
            stored = runs.every(opened.database)
            if where.strip():
                facts = RunFacts(opened)
                stored = matching(facts, facts.filter(where), stored)
            found = [
                run
                for run in map(run_of, stored)
                if host in (None, run.host) and state in (None, run.state) and group in (None, run.group)
            ]
        wanted = [run for run in found if tag is None or tag in run.tags]
        return sorted(wanted, key=lambda run: (run.created_at, run.run_id), reverse=True)

    def run(self, run: Run | str, *, refresh: bool = True) -> Run:
        """Return one run as it is now; if its host does not answer, as it was last seen.

        Args:
            run: A run, its id, or the first characters of its id.
            refresh: Ask the host. False: return what home knows.

        Raises:
            NotFound: There is no such run.
            UsageError: Several runs' ids begin so.
        """
        from armada.api.conversion import run_of
        from armada.monitor.observe import observe
        from armada.store import runs

        with self._open() as opened:
            found = opened.run(run)
            may_change = not found.ended or found.is_guess or found.is_only_told
            if refresh and not opened.is_read_only and may_change:
                with contextlib.suppress(HostUnreachable, NotFound), opened.session_about(found, 0.0) as session:
                    observe(opened.database, session, [found])
                found = runs.find(opened.database, found.run_id)
            return run_of(found)

    def checkpoints(self, run: Run | str) -> list[Checkpoint]:
        """Return the checkpoints of a run by step, as last seen. No host is asked.

        Raises:
            NotFound: There is no such run.
        """
        from armada.api.conversion import checkpoint_of
        from armada.store import checkpoints

        with self._open() as opened:
            return [checkpoint_of(each) for each in checkpoints.of_run(opened.database, opened.run(run).run_id)]

    def log(self, run: Run | str, *, lines: int = 100) -> str:
        """Return the last lines of a run's output from its host, sanitized; at most the last 64 KiB.

        Raises:
            NotFound: There is no such run, or its host has nothing of it.
            HostUnreachable: The host does not answer.
            UsageError: `lines` is not a number from 1 to 100,000.
        """
        from armada.foundation.sanitize import OutputText
        from armada.protocol.runs import ReadLog

        _check_count("lines", lines, 1, _LOG_LINES)
        with self._open(writes=True) as opened:
            found = opened.run(run)
            with opened.session_about(found, 20.0) as session:
                return OutputText().take(session.call(ReadLog(run_id=found.run_id, tail_lines=lines)).text)

    def metrics(self, *runs: Run | str, names: Iterable[str] = ()) -> Metrics:
        """Return the points of runs' metrics, as far as they are at home.

        Args:
            runs: One run or more.
            names: Only these metrics; none for all.

        Raises:
            NotFound: There is no such run, or none of the runs has a metric of one of the names.
        """
        from armada.compare.gather import check_metrics
        from armada.compare.metric_table import rows_of

        if not runs:
            raise UsageError("name a run: metrics(run)")
        with self._open() as opened:
            chosen = [opened.run(each) for each in runs]
            shown = check_metrics(opened.database, chosen, _words(names, "names"))
            rows = rows_of(opened.database, [each.run_id for each in chosen], shown)
            return Metrics([Point(*row) for row in rows])

    def compare(self, *runs: Run | str, names: Iterable[str] = ()) -> Comparison:
        """Compare runs by what home knows: metrics, time, cost, and the settings that differ. No host is asked.

        Args:
            runs: Two runs or more.
            names: Only these metrics; none for the losses and scores.

        Raises:
            NotFound: There is no such run, or none of the runs has a metric of one of the names.
            UsageError: There are fewer than two runs.
        """
        from armada.api.conversion import comparison_of
        from armada.compare.gather import gather

        if len(runs) < 2:
            raise UsageError("a comparison needs two runs or more: compare(first, second)")
        shown = _words(names, "names")
        with self._open() as opened:
            chosen = [opened.run(each) for each in runs]
            found = gather(opened.database, opened.home, opened.hosts(), chosen, names=shown, now=time.time())
            return comparison_of(found)

    def costs(self, *, hosts: Iterable[str] = (), weeks: int = 8) -> Costs:
        """Return what hosts, weeks, runs and sweeps cost, as `armada costs` shows it. No host is asked.

        Args:
            hosts: Only these; none for all.
            weeks: How many weeks back; the others are in no row of `weeks`.

        Raises:
            NotFound: There is no such host, and no run was on it.
            UsageError: `weeks` is not a number from 0 to 520.
        """
        from armada.api.cost_values import costs_of
        from armada.compare.costs import gather_costs
        from armada.store import runs

        _check_count("weeks", weeks, 0, _WEEKS)
        named = _words(hosts, "hosts")
        with self._open() as opened:
            with_runs = runs.hosts(opened.database) if named else set[str]()
            for name in named:
                if name not in with_runs:
                    opened.host(name)
            return costs_of(gather_costs(opened, hosts=named, run_id=None, weeks=weeks))

    def history(self, *, limit: int = 100) -> list[Operation]:
        """Return the newest operations first: launches, stops and other long-running commands, with what asked for them.

        Args:
            limit: How many at most; below 0 is none.

        Raises:
            UsageError: `limit` is not a whole number up to 1,000,000.
        """
        from armada.api.conversion import operation_of
        from armada.store import operations
        from armada.store.running_operations import is_alive

        wanted = max(0, limit) if type(limit) is int else limit
        _check_count("limit", wanted, 0, _OPERATIONS)
        with self._open() as opened:
            found = operations.recent(opened.database, wanted)
            return [operation_of(each, is_alive=is_alive(each)) for each in found]

    def plan(
        self,
        experiment: Path | str,
        *,
        hosts: Iterable[str] = (),
        profile: str | None = None,
        changes: Iterable[str] = (),
    ) -> list[HostPlan]:
        """Plan an experiment for hosts, side by side. Nothing is sent or started.

        Args:
            experiment: The experiment file, or `quickstart`.
            hosts: The hosts; none for all that this home did not wipe.
            profile: Use this GPU profile instead of each host's own.
            changes: Settings to override, such as `train.learning_rate=1e-5`.

        Raises:
            ConfigError: The experiment, or a file it names, is wrong.
            NotFound: There is no such host or profile.
        """
        from armada.api.conversion import plan_of
        from armada.launch.comparison.compare import Question, compare_hosts

        named = _words(hosts, "hosts")
        with self._open(writes=True) as opened:
            question = Question(_read(experiment, changes), opened.home, profile)
            return [plan_of(each) for each in compare_hosts(question, opened.hosts_to_compare(named))]

    def launch(
        self,
        experiment: Path | str,
        *,
        host: str,
        name: str | None = None,
        profile: str | None = None,
        changes: Iterable[str] = (),
        daemon: bool = True,
    ) -> Run:
        """Plan an experiment, check it, provision the host and start the run. Repeating an interrupted launch starts one job.

        Args:
            experiment: The experiment file, or `quickstart`.
            host: The host; `local` is this machine.
            name: Use this name instead of the experiment's.
            profile: Use this GPU profile instead of the host's own.
            changes: Settings to override, such as `train.learning_rate=1e-5`.
            daemon: Start the daemon, which syncs checkpoints, unless it runs or `ARMADA_NO_DAEMON` forbids it.

        Raises:
            ConfigError: The experiment, or a file it names, is wrong.
            PreflightRefused: A check refused it; nothing was started.
            HostUnreachable: The host does not answer.
            ProvisionFailed: Code, data, model or environment could not be put there.
            Conflict: Another armada carried out the same launch meanwhile.
            UsageError: The experiment has a `sweep`.
        """
        from armada.api.conversion import run_of
        from armada.foundation.progress import NullProgress
        from armada.launch.plans.task import Order
        from armada.launch.service import Caller, carry_out, launch_of

        overrides = _words(changes, "changes")
        with self._open(writes=True) as opened:
            asked = _read(experiment, overrides)
            if asked.sweep is not None:
                hint = f"armada sweep {experiment} launches all of its cells; changes=['sweep=null'] launches it without them"
                raise UsageError(f"{asked.name} has a `sweep`, so it is more than one run", hint=hint)
            options = [("--name", name), ("--profile", profile), *(("--set", each) for each in overrides)]
            words = [word for flag, value in options if value is not None for word in (flag, value)]
            argv = ["armada", "launch", "--host", host, str(experiment), *words]
            with opened.session(host, 60.0) as session:
                order = Order(session, opened.home, opened.database, profile, name)
                caller = Caller(argv, opened.project, NullProgress())
                started = carry_out(launch_of(asked, order), caller)
            if daemon:
                opened.start_daemon()
            return run_of(started)

    def wait(
        self,
        run: Run | str,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        changed: Callable[[Run], None] | None = None,
    ) -> Run:
        """Wait until a run has ended. The run continues if you stop waiting, and while its host is unreachable.

        Args:
            run: A run, its id, or the first characters of its id.
            timeout_s: Return the run as it is after so many seconds; its `ended` is False then. None: no limit.
            check: Raise an error if the run did not succeed.
            changed: Called with the run after every look that found a change.

        Raises:
            NotFound: There is no such run, or its host is not configured any more.
            RunFailed: With `check`: the run ended badly.
            OutcomeUnknown: With `check`: the end is only a guess.
        """
        from armada.api.conversion import run_of
        from armada.monitor.follow import goes_on

        if timeout_s is not None and not timeout_s >= 0:
            raise UsageError(f"timeout_s={timeout_s!r} is not a number of seconds")
        until = time.monotonic() + timeout_s if timeout_s is not None else None
        own = Told(changed)
        try:
            with self._open(writes=True) as opened:
                stored = opened.run(run)
                if not stored.is_settled(time.time()):
                    with opened.session_about(stored, 20.0) as session:
                        stored = follow_to_end(opened.database, session, stored, until, own)
        except ArmadaError:
            if own.failure is not None:
                raise own.failure from None
            raise
        last = run_of(stored)
        if not check or last.state == "succeeded" or goes_on(stored, time.time()):
            return last
        if stored.is_guess:
            raise OutcomeUnknown(f"the end of {last.run_id} is only a guess", host=last.host)
        why = f": {last.message or last.reason}" if last.message or last.reason else ""
        raise RunFailed(f"{last.run_id} is {last.state}{why}", hint=f"armada why {last.run_id}")

    def stop(self, run: Run | str, *, grace_s: float | None = None) -> Run:
        """Stop a run and wait until it has ended: SIGTERM, the grace period, SIGKILL.

        Args:
            run: A run, its id, or the first characters of its id.
            grace_s: The grace period in seconds; None for the experiment's.

        Raises:
            Conflict: Another home launched the run.
            HostUnreachable: The host does not answer.
            OutcomeUnknown: The end could not be observed.
        """
        from armada.api.conversion import run_of
        from armada.launch.stop import stop_run
        from armada.store.running_operations import operation

        if grace_s is not None and not 0 <= grace_s < 86_400:
            raise UsageError(f"grace_s={grace_s} is not a number of seconds below 86,400")
        with self._open(writes=True) as opened:
            found = opened.run(run)
            if (launcher := opened.other_owner(found)) is not None:
                words = f"{found.run_id} was launched by {launcher}, not by this home"
                raise Conflict(words, hint=f"if you mean it: armada stop {found.run_id} --other-home")
            argv = ["armada", "stop", found.run_id]
            with (
                operation(opened.database, kind="stop", run_id=found.run_id, host=found.host, argv=argv) as recorded,
                opened.session(found.host, 60.0, looks=found.ended and not found.is_guess) as session,
            ):
                return run_of(stop_run(opened.database, session, found, grace_s, partial(recorded.now, "stopping")))

    def sync(self, *runs: Run | str) -> list[SyncResult]:
        """Bring checkpoints, logs and outputs of runs home now and verify every byte, as `armada sync now` does.

        Args:
            runs: One run or more.

        Returns:
            One for each run, with its problems; a host that does not answer is a problem of its runs.

        Raises:
            NotFound: There is no such run.
        """
        from armada.api.conversion import sync_of
        from armada.api.values import SyncResult
        from armada.foundation.progress import NullProgress
        from armada.foundation.sanitize import sanitize_line
        from armada.sync.runs.sync_hosts import sync_hosts

        if not runs:
            raise UsageError("name a run: sync(run)")
        with self._open(writes=True) as opened:
            chosen = {found.run_id: found for found in map(opened.run, runs)}
            results = sync_hosts(opened.home, opened.hosts(), list(chosen.values()), progress=NullProgress())
        found: dict[str, SyncResult] = {}
        why = {each.host: sanitize_line(each.error, 2000) for each in results if each.error is not None}
        for outcome in (outcome for each in results for outcome in each.outcomes):
            found[outcome.run_id] = sync_of(outcome)
        for run_id, run in chosen.items():
            words = why.get(run.host, "the host told nothing about it")
            found.setdefault(run_id, SyncResult(run_id, (), (), (words,), final=False))
        return [found[run_id] for run_id in chosen]

    def release(self, host: str, *, ignore_work: bool = False) -> ReleaseCheck:
        """Check whether a host can be destroyed, as `armada hosts release --dry-run` does. Nothing is fetched or deleted.

        Args:
            host: The host.
            ignore_work: Ignore files that `sync.outputs` does not name.

        Raises:
            NotFound: There is no such host.
            HostUnreachable: The host does not answer.
        """
        from armada.foundation.sanitize import sanitize_line
        from armada.sync.context import HostContext
        from armada.sync.release.judge import judge_host, losses

        with self._open(writes=True) as opened, opened.session(host, 20.0) as session:
            items = judge_host(HostContext(opened.database, session, opened.home), ignore_work=ignore_work)
        told = tuple(
            ReleaseItem(each.run_id, sanitize_line(each.what, 2000), each.lost, each.hint and sanitize_line(each.hint))
            for each in items
        )
        return ReleaseCheck(host, not losses(items), told, session.host.local)


def _check_count(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{name}={value!r} is not a number from {least} to {most:,}")


def _words(given: Iterable[str], what: str) -> Sequence[str]:
    """Return a list of words. One string is refused: it would be taken for its letters.

    Raises:
        UsageError: It is one string, or not all are strings.
    """
    if isinstance(given, str):
        raise UsageError(f"{what} is one text, {given!r}; it must be a list", hint=f"{what}=[{given!r}]")
    words = list(given)
    for word in words:
        if not isinstance(word, str):
            raise UsageError(f"{what} has {word!r}, which is not a text")
    return words


def _read(experiment: Path | str, changes: Iterable[str]) -> Experiment:
    from armada.config.experiments import load_experiment
    from armada.paths import bundled

    path = expanded(experiment)
    if experiment == "quickstart" and not path.exists():
        path = bundled("quickstart", "quickstart.yaml")
    if path.is_dir():
        raise UsageError(f"{path} is a folder, but an experiment is a YAML file")
    return load_experiment(path, _words(changes, "changes"))
