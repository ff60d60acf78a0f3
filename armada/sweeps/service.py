"""Launch a sweep, and add cells to one: record, lock, look for an interrupted launch of the same, plan, hand over."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from armada.errors import ArmadaError, Conflict, HostUnreachable, OutcomeUnknown, ProvisionFailed
from armada.foundation.sanitize import sanitize_line
from armada.launch.reconcile import YOUNG_S
from armada.launch.service import Caller
from armada.launch.start import asking_home, give_up, record_plan
from armada.monitor.observe import observe
from armada.protocol.runs import RemoveRun
from armada.provision.admission import admit
from armada.provision.exclusive_lock import exclusive_lock
from armada.provision.service import prepare
from armada.rpc.client import Call
from armada.store import hosts as host_records
from armada.store import operations, runs, sweeps
from armada.store.running_operations import operation
from armada.sweeps.hand_over import hand_over, older_store, provision_share
from armada.sweeps.planning import Asked, HostShare, SweepPlan, plan_share, plan_sweep, run_id_of
from armada.sweeps.unfinished import NOT_LAUNCHED, mark_launched, mark_started, was_launched
from armada.units import counted
from armada.verdicts.state import NOT_ON_HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from armada.foundation.progress import Progress
    from armada.launch.plans.plan import Plan
    from armada.protocol.sweeps import TakenArray
    from armada.store.database import Database
    from armada.store.running_operations import OperationProgress
    from armada.store.runs import Run

__all__ = ["Caller", "Outcome", "extend_sweep", "launch_key_of", "launch_sweep"]


@dataclass(slots=True)
class Outcome:
    """What became of a launch.

    Attributes:
        name: The sweep.
        taken: Cells that hosts have taken now, by host.
        unknown: The error for each host of which it is unknown whether it has its cells.
        failed: The error for each host that refused its cells.
    """

    name: str
    taken: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, OutcomeUnknown] = field(default_factory=dict)
    failed: dict[str, ArmadaError] = field(default_factory=dict)

    def raise_if_incomplete(self) -> None:
        """Raise what kept cells from being handed over; an unknown outcome comes first.

        Raises:
            ArmadaError: One error for all hosts, of the first one's class.
        """
        errors = [*self.unknown.values(), *self.failed.values()]
        if errors:
            errors[0].message = "; ".join([errors[0].message, *(str(error) for error in errors[1:])])
            raise errors[0]


def launch_key_of(asked: Asked) -> str:
    """Hash the properties that make two launches of a sweep the same."""
    cells = [[dict(cell.values), cell.experiment.model_dump(mode="json", exclude={"sweep"})] for cell in asked.cells]
    told = [cells, sorted(asked.sessions), asked.profile, asked.title, asked.parallel]
    told += [asked.settings[key] for key in ("search", "bench", "prune") if key in asked.settings]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def launch_sweep(asked: Asked, caller: Caller, planned: Callable[[SweepPlan], None]) -> Outcome:
    """Hand all cells of a sweep over to its hosts, as a recorded operation on each.

    Args:
        asked: The sweep. If the same one was interrupted, that one goes on under its own name, by the rules of this one.
        caller: The command.
        planned: Called with the plan before anything is recorded or put on a host.

    Raises:
        Conflict: Another armada launched the same sweep since this one began.
        ArmadaError: Planning or a check refused it; nothing was recorded or started.
    """
    key = launch_key_of(asked)
    before = _complete(asked.database, key)
    same = asked.home.lock(f"launch-{key[:16]}")
    with (
        # Outermost: whoever waits for it sees the end of this launch's operations.
        exclusive_lock(same, f"launch of {asked.title}", lambda who: caller.progress.stage("waiting", who)),
        _operations(asked, caller) as recorded,
    ):
        progress = recorded.progress
        if new := sorted(_complete(asked.database, key) - before):
            raise Conflict(
                f"{new[0]} was just launched by another armada; nothing was started twice",
                hint=f"armada sweep show {new[0]}; running the same command again starts another sweep",
            )
        _prepare(asked, progress)
        former = _interrupted(asked.database, key)
        recorded.concern(former or asked.name)
        if former is not None:
            _renew_rules(dataclasses.replace(asked, name=former), progress)
            outcome = _continue(dataclasses.replace(asked, name=former), progress)
        else:
            plan = plan_sweep(asked, lambda host: progress.now("plan", f"asking {host}"))
            planned(plan)
            _record_all(asked, plan, key)
            outcome = _carry_out(asked, plan, progress)
        if not outcome.unknown and not (former and outcome.failed):
            mark_launched(asked.database, outcome.name)
        return outcome


def extend_sweep(asked: Asked, caller: Caller, planned: Callable[[SweepPlan], None]) -> Outcome:
    """Hand more cells of a sweep over, under the numbers that they have in `asked`.

    Raises:
        Conflict: Another armada extends it at this moment.
        ArmadaError: Planning or a check refused it; nothing was recorded or started.
    """
    known = runs.of_sweep(asked.database, asked.name)
    same = asked.home.lock(f"sweep-{asked.name}")
    with (
        exclusive_lock(same, f"extension of {asked.name}", lambda who: caller.progress.stage("waiting", who)),
        _operations(asked, caller) as recorded,
    ):
        progress = recorded.progress
        if len(runs.of_sweep(asked.database, asked.name)) != len(known):
            raise Conflict(f"another armada extended {asked.name} meanwhile", hint="run the command again")
        recorded.concern(asked.name)
        _prepare(asked, progress)
        numbers = {run.cell for run in known}
        pending = [cell for cell in asked.cells if cell.number in numbers]
        outcome = _continue(dataclasses.replace(asked, cells=pending), progress) if pending else Outcome(asked.name)
        new = dataclasses.replace(asked, cells=[cell for cell in asked.cells if cell.number not in numbers])
        if not new.cells:
            return outcome
        if any(asked.home.run(run_id_of(asked.name, cell.number)).exists() for cell in new.cells):
            raise older_store(asked.name)
        waiting = [run for run in known if not run.ended]
        already = {name: sum(run.host == name for run in waiting) for name in asked.sessions}
        plan = plan_sweep(new, lambda host: progress.now("plan", f"asking {host}"), already)
        planned(plan)
        with asked.database.transaction():
            _change_settings(new, plan)
            # The daemon stops what is left of a stopped sweep; these cells are not meant.
            sweeps.set_state(asked.database, asked.name, "preparing")
            for plans in plan.shares.values():
                _record_plans(asked.database, plans.plans)
        return _carry_out(new, plan, progress, outcome)


def hand_over_more(asked: Asked, progress: Progress) -> Outcome:
    """Hand further cells of a search over to one host, without a person. The caller holds the sweep's lock.

    What was recorded and is not on the host goes first. If the host fails before it is told of the cells, they stay
    recorded, and the next call hands them over. A sweep that was stopped meanwhile gets none.

    Raises:
        ArmadaError: Planning refused it, or the host cannot have what the cells need; nothing of them was started.
    """
    numbers = {run.cell for run in runs.of_sweep(asked.database, asked.name)}
    pending = [cell for cell in asked.cells if cell.number in numbers]
    outcome = _continue(dataclasses.replace(asked, cells=pending), progress) if pending else Outcome(asked.name)
    new = dataclasses.replace(asked, cells=[cell for cell in asked.cells if cell.number not in numbers])
    if not new.cells:
        return outcome
    plan = plan_sweep(new, lambda host: progress.now("plan", f"asking {host}"))
    with asked.database.transaction():
        if sweeps.find(asked.database, asked.name).state == "stopped":
            return outcome
        _change_settings(new, plan)
        for share in plan.shares.values():
            _record_plans(asked.database, share.plans)
    for share in plan.shares.values():
        _hand_over(new, provision_share(asked.database, share, progress), outcome, progress)
    return outcome


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The operations of a launch, one on each host."""

    operations: Sequence[OperationProgress]
    progress: Progress

    def concern(self, sweep: str) -> None:
        """Record which sweep they are about."""
        for each in self.operations:
            each.concerns(sweep)


@contextlib.contextmanager
def _operations(asked: Asked, caller: Caller) -> Iterator[_Recorded]:
    """Record an operation on each host, as every launch does, so that none is released meanwhile."""
    with contextlib.ExitStack() as stack:
        progress, begun = caller.progress, []
        for name, session in asked.sessions.items():
            begun.append(stack.enter_context(operation(asked.database, kind="launch", host=name, argv=caller.argv)))
            admit(asked.database, asked.home, caller.project, session.host)
            progress = begun[-1].and_tell(progress)
        yield _Recorded(begun, progress)


def _prepare(asked: Asked, progress: Progress) -> None:
    """Run the hosts' own tasks, where they have any; a host that does not answer is left to the plan."""
    for session in asked.sessions.values():
        with contextlib.suppress(HostUnreachable):
            prepare(asked.home, session.host, session.host.provision, progress)


def _complete(database: Database, key: str) -> set[str]:
    """The sweeps of a key whose launch came to its end."""
    found = sweeps.launched_as(database, key, since=time.time() - YOUNG_S)
    over = [each for each in found if each.state != "preparing" and was_launched(each)]
    return {each.name for each in over if _is_done(database, each.name)}


def _interrupted(database: Database, key: str) -> str | None:
    """The newest sweep of a key, if its launch was interrupted. Called with the key's lock held: nobody else works on it."""
    newest = next(iter(sweeps.launched_as(database, key, since=time.time() - YOUNG_S)), None)
    if newest is None or newest.state == "stopped":
        return None
    is_over = newest.state == "started" and was_launched(newest) and _is_done(database, newest.name)
    return None if is_over else newest.name


def _is_done(database: Database, sweep: str) -> bool:
    return any(each.state == "done" for each in operations.of_run(database, sweep, kind="launch"))


def _record_all(asked: Asked, plan: SweepPlan, key: str) -> None:
    database = asked.database
    with database.transaction():
        sweeps.insert(
            database,
            name=asked.name,
            title=asked.title,
            experiment=str(asked.experiment),
            launch_key=key,
            settings=_settings(asked, plan) | NOT_LAUNCHED,
        )
        for share in plan.shares.values():
            _record_plans(database, share.plans)
    for share in plan.shares.values():
        host, facts = share.session.host, share.plans[0].facts
        origin = host.named_by
        host_records.record_facts(database, host.name, facts.as_json(), origin=origin)
        host_records.mark_released(database, host.name, None)


def _change_settings(asked: Asked, plan: SweepPlan) -> None:
    """Record that a sweep has more cells. What was decided about others meanwhile, as which are pruned, stays."""
    now = sweeps.find(asked.database, asked.name).settings
    sweeps.change_settings(asked.database, asked.name, _settings(dataclasses.replace(asked, settings=now), plan))


def _renew_rules(asked: Asked, progress: Progress) -> None:
    """Record the rules of this command for a sweep that it continues: its former launch may have had others.

    Equal cells, hosts, search and pruning make a launch the same, so nothing of this concerns cells that run.
    """
    now = {key: asked.settings[key] for key in ("sweep", "overrides") if key in asked.settings}
    with asked.database.transaction():
        former = sweeps.find(asked.database, asked.name).settings
        sweeps.change_settings(asked.database, asked.name, {**former, **now})
    if changed := _changed(former.get("sweep"), now.get("sweep")):
        progress.stage("rules", f"{', '.join(changed)} of this command count now, not those of the interrupted one")


def _changed(former: object, now: object) -> list[str]:
    """The rules of a sweep that are no longer what they were: `stop`, `metric`, `goal`."""
    before, after = (told if isinstance(told, dict) else {} for told in (former, now))
    rules = (("stop", None), ("metric", None), ("goal", "min"))  # a former release recorded no `min`
    return [f"`{key}`" for key, usual in rules if before.get(key, usual) != after.get(key, usual)]


def _settings(asked: Asked, plan: SweepPlan) -> dict[str, object]:
    """What is asked for, how many cells run at once on each host, and the largest number of a cell, which is used once."""
    told = asked.settings.get("shares")
    shares = dict(told) if isinstance(told, dict) else {}
    shares |= {name: each.parallel for name, each in plan.shares.items()}
    last = asked.settings.get("last")
    return {
        **asked.settings,
        "shares": shares,
        "last": max([last if isinstance(last, int) else 0, *(cell.number for cell in asked.cells)]),
    }


def _record_plans(database: Database, plans: Sequence[Plan]) -> None:
    for plan in plans:
        record_plan(database, plan, again=runs.is_known(database, plan.run_id))


def _carry_out(asked: Asked, plan: SweepPlan, progress: Progress, outcome: Outcome | None = None) -> Outcome:
    """Put on each host what its cells need, and hand them over. Cells of a host that fails before go to the others."""
    outcome = outcome or Outcome(asked.name)
    waiting = list(plan.shares.values())
    lost: dict[str, ArmadaError] = {}
    while waiting:
        share = waiting.pop(0)
        try:
            ready = provision_share(asked.database, share, progress)
        except (ProvisionFailed, HostUnreachable) as error:
            # Nothing was handed over to this host: none of its cells can have started there.
            lost[share.host] = error
            others = {name: each for name, each in plan.shares.items() if name not in lost}
            if not others:
                _give_up(asked.database, share, error)
                outcome.failed[share.host] = error
            else:
                progress.stage("moved", _moved(share, error, others))
                waiting += _move(asked, share, others)
            continue
        _hand_over(asked, ready, outcome, progress)
    if not outcome.unknown:
        mark_started(asked.database, asked.name)
    return outcome


def _hand_over(asked: Asked, share: HostShare, outcome: Outcome, progress: Progress) -> None:
    progress.now("submit", f"handing {counted(len(share.plans), 'cell')} over to {share.host}")
    try:
        taken = hand_over(asked.database, asked.name, share)
    except OutcomeUnknown as error:
        outcome.unknown[share.host] = error
    except ArmadaError as error:
        outcome.failed[share.host] = error
    else:
        outcome.taken[share.host] = outcome.taken.get(share.host, 0) + taken.cells
        arrays = f" ({_arrays(share, taken.arrays)})" if taken.arrays else ""
        progress.stage("submit", f"{counted(taken.cells, 'cell')} on {share.host}, {share.at_once}{arrays}")


def _arrays(share: HostShare, arrays: Sequence[TakenArray]) -> str:
    """Name the arrays of a batch system, and say how many jobs of each run at once where the limit had to be divided."""
    named = [
        each.job_id + (f" with {each.cells} cells, {each.limit} at once" if len(arrays) > 1 and each.limit else "")
        for each in arrays
    ]
    return sanitize_line(
        f"{share.session.host.scheduler} {'arrays' if len(arrays) > 1 else 'array'} {', '.join(named)}", 300
    )


def _moved(share: HostShare, error: ArmadaError, others: dict[str, HostShare]) -> str:
    cells = counted(len(share.plans), "cell")
    return (
        f"{cells} of {share.host} go to {', '.join(others)}, because nothing of them can have started: {error.message}"
    )


def _give_up(database: Database, share: HostShare, error: ArmadaError) -> None:
    with database.transaction():
        for plan in share.plans:
            give_up(database, plan.run_id, "provision_failed", error.message)


def _move(asked: Asked, share: HostShare, others: dict[str, HostShare]) -> list[HostShare]:
    """Plan cells on other hosts than the one that has none of them, under the same ids. Those stopped meanwhile stay as they are."""
    numbers = {plan.run_id for plan in share.plans}
    cells = [cell for cell in asked.cells if run_id_of(asked.name, cell.number) in numbers]
    already = {name: len(other.plans) for name, other in others.items()}
    narrowed = dataclasses.replace(asked, cells=cells, sessions={name: asked.sessions[name] for name in others})
    moved = plan_sweep(narrowed, lambda _: None, already)
    left: list[HostShare] = []
    with asked.database.transaction():
        stopped = {run.run_id for run in runs.of_sweep(asked.database, asked.name) if run.state == "cancelled"}
        for plan in share.plans:
            if plan.run_id not in stopped:
                runs.delete(asked.database, plan.run_id)
        for name, each in moved.shares.items():
            plans = [plan for plan in each.plans if plan.run_id not in stopped]
            _record_plans(asked.database, plans)
            if plans:
                left.append(dataclasses.replace(each, plans=plans, parallel=others[name].parallel))
    return left


def _continue(asked: Asked, progress: Progress) -> Outcome:
    """Hand over what an interrupted launch left: cells that their hosts say they do not have."""
    database, outcome = asked.database, Outcome(asked.name)
    found = runs.of_sweep(database, asked.name)
    progress.stage("continues", f"{asked.name}, whose launch was interrupted")
    for name in asked.sessions:
        theirs = [run for run in found if run.host == name]
        if not theirs:
            continue
        try:
            left = _not_there(asked, name, theirs)
        except HostUnreachable as error:
            hint = "run the same command again when it answers; nothing is started twice"
            outcome.unknown[name] = OutcomeUnknown(error.message, hint=hint, host=name)
            continue
        if not left:
            outcome.taken.setdefault(name, 0)
            continue
        numbers = {run.cell for run in left}
        cells = [cell for cell in asked.cells if cell.number in numbers]
        parallel = _parallel_of(asked, name)
        share = _with_former_times(database, plan_share(asked, name, cells, parallel))
        with database.transaction():
            _record_plans(database, share.plans)
        try:
            ready = provision_share(database, share, progress)
        except (ProvisionFailed, HostUnreachable) as error:
            outcome.failed[name] = error
            continue
        _hand_over(asked, ready, outcome, progress)
    if not outcome.unknown and not outcome.failed:
        mark_started(database, asked.name)
    return outcome


def _not_there(asked: Asked, host: str, theirs: Sequence[Run]) -> list[Run]:
    """The cells that a host certainly does not have. One that it has without a claim is removed there first.

    Raises:
        HostUnreachable: The host does not answer.
    """
    database, session = asked.database, asked.sessions[host]
    unsure = [run for run in theirs if run.state in ("preparing", "unknown")]
    if unsure:
        observe(database, session, unsure)
    seen = [runs.find(database, run.run_id) for run in unsure]
    unclaimed = [run for run in seen if run.state == "preparing"]
    if unclaimed:
        home = asking_home(session)
        session.call_all([Call.of(RemoveRun(run_id=run.run_id, home=home), 300.0) for run in unclaimed])
    return [run for run in seen if run.reason == NOT_ON_HOST or run in unclaimed]


def _with_former_times(database: Database, share: HostShare) -> HostShare:
    """Plans with the times of their first launch: a request of that one which arrives late says the same."""
    plans = []
    for plan in share.plans:
        created_at = runs.spec(database, plan.run_id).get("created_at")
        if isinstance(created_at, str):
            plan = dataclasses.replace(plan, spec=plan.spec.model_copy(update={"created_at": created_at}))  # noqa: PLW2901
        plans.append(plan)
    return dataclasses.replace(share, plans=plans)


def _parallel_of(asked: Asked, host: str) -> int:
    shares = sweeps.find(asked.database, asked.name).settings.get("shares")
    told = shares.get(host) if isinstance(shares, dict) else None
    return told if isinstance(told, int) and told > 0 else 1
