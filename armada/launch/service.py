"""Launch, resume, merge, prepare and retry: record the operation, lock, find an earlier launch, then do it.

The commands use this module, and so does the dashboard, which runs them, and the daemon for its retries.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.errors import NotFound
from armada.launch.plans.bench import BenchTask
from armada.launch.plans.health import HealthTask
from armada.launch.plans.merge import MergeTask, Source, refuse_unmergeable
from armada.launch.plans.plan import make_plan
from armada.launch.plans.prepare import prepare_task
from armada.launch.plans.registry import task_of
from armada.launch.reconcile import YOUNG_S, complete_launches, find_former, launch_key, refuse_second
from armada.launch.resume import NOTHING, Permits, resume_run
from armada.launch.start import start
from armada.protocol.recorded import recorded_spec
from armada.provision.admission import admit, refuse_over_budget, refuse_while_clearing
from armada.provision.exclusive_lock import exclusive_lock
from armada.provision.namesakes import refuse_other_machine
from armada.provision.sent_environment import source_session
from armada.provision.service import prepare
from armada.store import checkpoints, runs
from armada.store import hosts as host_records
from armada.store.running_operations import operation
from armada.sync.checkpoints.selection import choose_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Sequence
    from pathlib import Path

    from armada.config.tasks.experiment import Experiment
    from armada.foundation.progress import Progress
    from armada.launch.bench.grid import GridCell
    from armada.launch.plans.bench import Pace
    from armada.launch.plans.plan import Plan
    from armada.launch.plans.task import Order, Task
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run


@dataclass(frozen=True, slots=True)
class Caller:
    """The command or daemon that requests a launch.

    Attributes:
        argv: The command, to show among the operations.
        project: The folder the command was run in; its own hosts count too.
        progress: Receives the progress.
        planned: Called with the plan before anything is put on the host.
    """

    argv: Sequence[str]
    project: Path
    progress: Progress
    planned: Callable[[Plan], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Launch:
    """A task to launch.

    Attributes:
        key: Identifies repeated launches.
        title: A description, for processes that wait for it.
    """

    task: Task[Any]
    key: str
    title: str

    def read(self) -> None:
        """Read what the experiment names at home, as a plan does first. Asks no host.

        Raises:
            ConfigError: A file is missing or wrong.
            NotFound: There is no such profile.
        """
        _ = self.task.snapshot, self.task.named_profile
        self.task.read()

    def plan(self, run_id: str | None = None) -> Plan:
        """Resolve the launch, under the id of an interrupted launch if there is one. Changes nothing."""
        return make_plan(self.task, run_id=run_id, launch_key=self.key)


def launch_of(experiment: Experiment, order: Order, *, only_prepare: bool = False) -> Launch:
    """Return the launch of an experiment, or of the preparation of its data.

    Raises:
        PreflightRefused: It has no data to prepare.
    """
    task = prepare_task(experiment, order) if only_prepare else task_of(experiment, order)
    host = order.session.host.name
    key = launch_key(experiment, host, order.profile, order.name, only_prepare=only_prepare)
    return Launch(task, key, f"launch of {experiment.name}")


def bench_of(cells: Sequence[GridCell], order: Order, pace: Pace) -> Launch:
    """Return the launch of a bench."""
    host = order.session.host.name
    keys = [launch_key(cell.experiment, host, order.profile, order.name) for cell in cells]
    asked = ["bench", keys, [dict(cell.machine) for cell in cells], dataclasses.astuple(pace)]
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    return Launch(BenchTask(cells, order, pace), key, f"bench of {cells[0].experiment.name}")


def health_of(order: Order) -> Launch:
    """Return the launch of a bench of the machine itself. Each is another one: machines change."""
    return Launch(HealthTask(order), secrets.token_hex(32), f"bench of {order.session.host.name}")


def merge_of(source: Source, dtype: str, order: Order) -> Launch:
    """Return the launch of a merge."""
    run_id = source.run.run_id
    asked = ["merge", run_id, source.checkpoint.digest, order.session.host.name, dtype, order.name]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    return Launch(MergeTask(source, dtype, order), key, f"merge of {run_id}")


def find_source(
    database: Database, run: Run, word: str, connect: Callable[[str], HostSession], known: Container[str]
) -> Source:
    """Find the checkpoint to merge.

    Args:
        database: The store.
        run: The training.
        word: The checkpoint's step, `best` or `last`.
        connect: Returns a session with a host by its name.
        known: The names of the configured hosts.

    Raises:
        PreflightRefused: The run was not a LoRA training.
        NotFound: It has no such checkpoint.
    """
    spec = recorded_spec(runs.spec(database, run.run_id))
    refuse_unmergeable(run, spec)
    try:
        with connect(run.host) as session:
            found = choose_checkpoint(database, session, run, word)
    except NotFound:
        at_home = _newest_at_home(database, run, word)
        if run.host in known or at_home is None:
            raise
        # The host was returned and removed from hosts.yaml: only what is at home is left.
        found = at_home
    return Source(run, spec, found)


def _newest_at_home(database: Database, run: Run, word: str) -> Checkpoint | None:
    home = [c for c in checkpoints.of_run(database, run.run_id) if c.home_path is not None]
    named = home if word == "last" else [c for c in home if str(c.step) == word]
    return named[-1] if named else None


def carry_out(launch: Launch, caller: Caller) -> Run:
    """Carry out a launch as a recorded operation. First find an interrupted launch of the same kind, and follow or continue it.

    Args:
        launch: The launch.
        caller: The command or daemon that requests it.

    Returns:
        The run as the host has it.

    Raises:
        Conflict: Another armada carried out the same launch since this one began, or released or removed the host.
        ArmadaError: Planning, a check, provisioning or the submission refused it; the run's record says how far it got.
    """
    order = launch.task.order
    database, session, host = order.database, order.session, order.session.host
    before = complete_launches(database, launch.key, host.name, time.time() - YOUNG_S)
    with operation(database, kind="launch", host=host.name, argv=caller.argv) as recorded:
        admit(database, order.home, caller.project, host)
        progress = recorded.and_tell(caller.progress)
        same = order.home.lock(f"launch-{launch.key[:16]}")
        with exclusive_lock(same, launch.title, lambda who: progress.stage("waiting", who)):
            refuse_second(database, launch.key, host.name, before)
            prepare(order.home, host, host.provision, progress)
            progress.now("plan", f"asking {host.name}")
            former = find_former(database, session, launch.key, time.time())
            if former is not None:
                _say_former(caller.progress, former.run, host.name, started=former.started)
            if former is not None and former.started:
                recorded.concerns(former.run.run_id)
                return former.run
            plan = launch.plan(former.run.run_id if former else None)
            recorded.concerns(plan.run_id)
            host_records.record_facts(database, host.name, plan.facts.as_json(), origin=host.named_by)
            host_records.mark_released(database, host.name, None)
            caller.planned(plan)
            lock = order.home.lock(f"host-{host.name}")
            with source_session(order.home, caller.project, host) or contextlib.nullcontext() as source:
                return start(database, session, plan, progress, lock=lock, again=former is not None, source=source)


def _say_former(progress: Progress, run: Run, host: str, *, started: bool) -> None:
    if started:
        progress.stage("found", f"{run.run_id} was already submitted and is {run.state}; nothing was started twice")
    else:
        progress.stage("continues", f"{run.run_id}, whose launch was interrupted before anything reached {host}")


def resume(
    order: Order, run: Run, caller: Caller, permits: Permits = NOTHING, *, confirmed: Collection[str] = ()
) -> Run:
    """Submit a failed or cancelled run again, as a recorded operation. `confirmed` as in `armada.launch.resume.resume_run`.

    Raises:
        Conflict: It cannot be resumed, or another armada resumed it, or released or removed the host meanwhile.
        ArmadaError: As in `armada.launch.resume.resume_run`.
    """
    database, progress = order.database, caller.progress
    with operation(database, kind="resume", run_id=run.run_id, host=run.host, argv=caller.argv):
        admit(database, order.home, caller.project, order.session.host)
        say = functools.partial(progress.stage, "waiting")
        return resume_run(database, order.session, run, permits=permits, confirmed=confirmed, say=say)


def retry(database: Database, session: HostSession, run: Run, words: str) -> Run:
    """Submit a lost run again without a user. Its secrets must still be on the host.

    Args:
        database: The store.
        session: A session with the run's host.
        run: The run.
        words: The reason, and the number of the try.

    Raises:
        Conflict: It already continues, everything on the host is being deleted, or the host's budget is spent.
        ConfigError: The host's name means another machine than at the last launch.
        ArmadaError: As in `armada.launch.resume.resume_run`.
    """
    argv = ["armada", "resume", run.run_id]
    with operation(database, kind="retry", run_id=run.run_id, host=run.host, argv=argv) as recorded:
        refuse_other_machine(database, session.host)
        refuse_over_budget(database, session.host)
        refuse_while_clearing(database, run.host)
        recorded.step("resume", words)
        return resume_run(database, session, run, unattended=True)
