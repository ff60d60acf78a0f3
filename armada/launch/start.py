"""Carry out a plan: provision what is missing, submit the run once, report its state.

The run is recorded in the store before the host learns of it, and the host claims the submission before it starts
anything. So both sides can tell what happened if a process is killed at any instruction.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING

from armada.errors import (
    ArmadaError,
    Conflict,
    HostUnreachable,
    NotFound,
    OutcomeUnknown,
    ProvisionFailed,
    UnexpectedAnswer,
)
from armada.foundation.sanitize import sanitize_line
from armada.home import own
from armada.launch.checks.check import refuse_failures
from armada.launch.keep import keep_launch, keep_packages
from armada.launch.plans.plan import SUBMISSION
from armada.monitor.observe import observe
from armada.protocol.homes import AskingHome
from armada.protocol.runs import StopRun
from armada.protocol.spec import CreateRun
from armada.provision.container import ensure_container
from armada.provision.content import send
from armada.provision.exclusive_lock import exclusive_lock
from armada.provision.hub import fetch_model
from armada.provision.script_imports import brings_modules, describe, find_missing
from armada.provision.sent_environment import provide_environment
from armada.provision.sources import fetch
from armada.rpc.client import Call
from armada.store import labels, runs
from armada.units import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from armada.foundation.progress import Progress
    from armada.launch.plans.plan import Plan
    from armada.paths import HomePaths
    from armada.rpc.session import HostSession
    from armada.store.database import Database
    from armada.store.runs import Run


UNSEEN = frozenset({"preparing", "unknown"})
"""States of a run that was not stopped, and that its host was not seen to have."""


def start(
    database: Database,
    session: HostSession,
    plan: Plan,
    progress: Progress,
    *,
    lock: Path,
    again: bool = False,
    source: HostSession | None = None,
) -> Run:
    """Provision and submit a run on its host.

    Args:
        database: The store.
        session: A session with the host.
        plan: The run's plan.
        progress: Receives the progress.
        lock: The host's lock file: one launch at a time sends the environment and files.
        source: A session with the host that builds its environment and sends it; None if the run's own host builds it.
        again: The run is in the store already; its earlier launch was interrupted and the host has no records of it.

    Raises:
        PreflightRefused: A check failed; nothing was recorded or started.
        ProvisionFailed: Nothing was started; the run is recorded as failed.
        OutcomeUnknown: The link broke during the submission and stayed down. The run is recorded as `unknown`; polling
            it (`armada ps`) finds out.
    """
    refuse_failures(plan.checks, plan.host.name)
    plan = dataclasses.replace(plan, spec=plan.spec.model_copy(update={"home": asking_home(session)}))
    record_plan(database, plan, again=again)
    keep_launch(database, session.home, plan, progress)
    record_labels(database, session.home, plan)
    try:
        with exclusive_lock(lock, f"launch of {plan.run_id}", lambda who: progress.stage("waiting", who)):
            plan = provision_plan(database, session, plan, progress, source)
    except ArmadaError as error:
        give_up(database, plan.run_id, "provision_failed", error.message)
        raise
    except BaseException:
        why = "before it was submitted"
        runs.set_state(database, plan.run_id, "cancelled", reason="interrupted", message=why, over=UNSEEN)
        raise
    _hand_over(database, session, plan, again=again)
    observe(database, session, [runs.find(database, plan.run_id)])
    return runs.find(database, plan.run_id)


def give_up(database: Database, run_id: str, reason: str, message: str) -> bool:
    """Record that a launch failed before its host had the run, unless the run was stopped, or seen there since.

    A batch system that refuses takes back a claim that may have been seen.
    """
    over = UNSEEN | {"submitted"} if reason == "submit_refused" else UNSEEN
    return runs.set_state(database, run_id, "failed", reason=reason, message=message, over=over)


def doubt(database: Database, run_id: str, reason: str, message: str, *, was_sent: bool = True) -> bool:
    """Record that it is unknown whether the host has the run, unless it was seen there since.

    A stop that found nothing on the host is in doubt, too, if the run `was_sent`: what it was to stop may have arrived
    after it.
    """
    over = UNSEEN | {"submitted"}
    with database.transaction():
        if was_sent and runs.find(database, run_id).because == runs.OWN_WORD:
            over |= {"cancelled"}
        return runs.set_state(database, run_id, "unknown", reason=reason, message=message, over=over)


def stop_there(database: Database, session: HostSession, stops: Sequence[StopRun]) -> None:
    """Stop runs on the host whose stop found no records of them there, because they were still on the way.

    Raises:
        HostUnreachable: They may go on, and are recorded as such.
        OutcomeUnknown: The host did not stop some of them. They may go on, and are recorded as such.
    """
    try:
        answers = session.call_all([Call.of(stop, 60.0) for stop in stops])
    except HostUnreachable as error:
        with database.transaction():
            for stop in stops:
                doubt(database, stop.run_id, "link_lost", error.message)
        raise
    refused = [
        (stop.run_id, answer)
        for stop, answer in zip(stops, answers, strict=True)
        if isinstance(answer, ArmadaError) and not isinstance(answer, NotFound)
    ]
    with database.transaction():
        for run_id, refusal in refused:
            doubt(database, run_id, "outcome_unknown", f"its host did not stop it: {refusal.message}")
    for run_id, refusal in refused:
        what = f"{run_id} was stopped while it was being prepared, and may run nevertheless: {refusal.message}"
        raise OutcomeUnknown(what, hint=f"armada stop {run_id}", host=session.host.name) from refusal


def mark_submitted(database: Database, run_id: str) -> bool:
    """Record that the host has the run, unless it was stopped, or seen there since."""
    return runs.set_state(database, run_id, "submitted", over=UNSEEN)


def was_stopped(database: Database, run_id: str) -> bool:
    """Whether somebody has stopped a run while it was being launched. One that its host was seen to end was not stopped."""
    return runs.find(database, run_id).state == "cancelled"


def record_plan(database: Database, plan: Plan, *, again: bool) -> None:
    """Record the run of a plan before its host learns of it; `again`: it is recorded, and its plan is another one."""
    if again:
        runs.set_spec(database, plan.run_id, plan.spec.as_json())
        runs.set_state(database, plan.run_id, "preparing", reason="launched_again", over=UNSEEN)
    else:
        runs.insert(
            database,
            run_id=plan.run_id,
            name=plan.spec.name,
            host=plan.host.name,
            task=plan.spec.task,
            experiment=str(plan.experiment.origin) if plan.experiment.origin else None,
            spec=plan.spec.as_json(),
        )
    runs.set_root(database, plan.run_id, plan.facts.root_id)


def record_labels(database: Database, home: HomePaths, plan: Plan) -> None:
    """Record the group and the tags of the experiment, and which run it follows; they stay at home."""
    group, tags = plan.experiment.group, plan.experiment.tags
    if group is not None:
        labels.set_group(database, plan.run_id, group)
    if plan.experiment.follows is not None:
        labels.set_follows(database, plan.run_id, plan.experiment.follows)
    if group is not None or tags or plan.experiment.follows is not None:
        labels.keep(home, labels.change_tags(database, plan.run_id, add=tags))


def provision_plan(
    database: Database, session: HostSession, plan: Plan, progress: Progress, source: HostSession | None
) -> Plan:
    """Put on the host what a recorded run needs. Starts nothing.

    Returns:
        The plan, with what is known only now; it is recorded.

    Raises:
        ProvisionFailed: The host cannot have it.
        HostUnreachable: The host does not answer.
    """
    plan = _have_image(database, session, plan, progress)  # first: one that does not suit costs no transfer
    _provision(database, session, plan, progress, source)
    return _fetch_files(database, session, plan, progress)


def _provision(
    database: Database, session: HostSession, plan: Plan, progress: Progress, source: HostSession | None
) -> None:
    parts = []
    if plan.environment is not None:
        found = provide_environment(database, session, plan.environment, plan.facts, progress, source)
        for note in found.left_out:
            progress.stage("", f"⚠ {note}")
        how = "built" if source is None else "unpacked"
        how = f"{how} in {span(found.seconds)}" if found.was_built else "already there"
        parts.append(f"environment {plan.environment.key} {how}")
        keep_packages(session.home, plan.run_id, found.packages)
        if not plan.environment.ready:
            _check_imports(session, plan, progress)
    if plan.existing is not None:
        parts.append(f"environment {sanitize_line(plan.existing.path, 300)}, yours ({plan.existing.said})")
    if plan.hub is not None:
        key = plan.environment.key if plan.environment is not None else None  # without one, the plan has what is there
        fetched = key is not None and not plan.hub.present and fetch_model(session, plan.hub, key, progress)
        size = f" ({amount(plan.hub.size_bytes)})" if plan.hub.size_bytes else ""
        parts.append(f"model {plan.hub.repo} {f'fetched there{size}' if fetched else 'already there'}")
    there = len(plan.contents) - len(plan.missing)
    sent = 0
    for content in plan.missing:
        if send(session, content, functools.partial(progress.transfer, "provision", content.kind)):
            sent += content.size_bytes
    if plan.contents:
        parts.append(
            f"files {f'{amount(sent)} sent' if sent else 'already there'}"
            + (f", {there} already there" if sent and there else "")
        )
    progress.stage("provision", " · ".join(parts) or "nothing needed")


def _check_imports(session: HostSession, plan: Plan, progress: Progress) -> None:
    """Ask an environment that was built only now for what the job imports.

    Raises:
        ProvisionFailed: It lacks a module, and nothing else may bring it.
    """
    if plan.environment is None:
        return
    missing = find_missing(session, str(session.paths.environment(plan.environment.key)), plan.imports)
    if not missing:
        return
    sentence = f"the environment lacks what the job imports: {describe(missing)}"
    if brings_modules(plan.experiment, plan.host, plan.profile):
        progress.stage("", f"⚠ {sentence}")
        return
    hint = f"add the packages to `environment:`, such as {{requirements: [{missing[0].name}]}}"
    raise ProvisionFailed(sentence, hint=hint, host=plan.host.name)


def _fetch_files(database: Database, session: HostSession, plan: Plan, progress: Progress) -> Plan:
    """Download the entries of `files:` that are not at home. Only then are their places known, which go into the plan."""
    waiting = plan.job_files.to_fetch
    if not waiting:
        return plan
    variables, secrets = plan.spec.job.env, plan.experiment.secrets
    links = [fetch(session, session.home, file, variables, secrets, progress) for file in waiting]
    progress.stage("provision", f"{counted(len(links), 'file')} of `files:` downloaded")
    job = plan.spec.job.model_copy(update={"data": (*plan.spec.job.data, *links)})
    plan = dataclasses.replace(plan, spec=plan.spec.model_copy(update={"job": job}))
    runs.set_spec(database, plan.run_id, plan.spec.as_json())
    return plan


def _have_image(database: Database, session: HostSession, plan: Plan, progress: Progress) -> Plan:
    """Pull the image of a run in a container. Only then is its digest known, which goes into the plan."""
    if plan.container is None:
        return plan
    spec, pulled, seconds = ensure_container(session, plan.container, progress)
    said = f"pulled in {span(seconds)}" if pulled else "already there"
    progress.stage("provision", f"image {plan.container.image} {said}")
    plan = dataclasses.replace(plan, spec=plan.spec.model_copy(update={"container": spec}))
    runs.set_spec(database, plan.run_id, plan.spec.as_json())
    return plan


def _hand_over(database: Database, session: HostSession, plan: Plan, *, again: bool) -> None:
    """Create the run on its host and submit it, in one request, because each round trip counts on a long link."""
    if was_stopped(database, plan.run_id):
        raise _stopped(plan)
    secrets = {name: os.environ[name] for name in plan.experiment.secrets}
    request = CreateRun(
        run_id=plan.run_id,
        spec=plan.spec,
        files=plan.files,
        secrets=secrets,
        submission=SUBMISSION,
        home=asking_home(session),
    )
    try:
        # A batch system's controller may be slow, but does answer.
        patience_s = 60.0 if plan.host.batch is None else 240.0
        session.call(request, timeout_s=patience_s)
    except OutcomeUnknown as error:
        doubt(database, plan.run_id, "outcome_unknown", error.message)
        raise
    except UnexpectedAnswer as error:
        doubt(database, plan.run_id, "outcome_unknown", error.message)
        hint = f"armada show {plan.run_id} finds out; nothing is started twice"
        raise OutcomeUnknown(error.message, hint=hint, host=plan.host.name) from error
    except HostUnreachable as error:
        doubt(database, plan.run_id, "link_lost", error.message)
        raise OutcomeUnknown(
            f"the connection broke while {plan.run_id} was submitted ({error.message})",
            hint=f"armada show {plan.run_id} shows whether it started; nothing is started twice",
            host=plan.host.name,
        ) from error
    except ArmadaError as error:
        if again and isinstance(error, Conflict) and _arrived_late(database, session, plan):
            return
        give_up(database, plan.run_id, "submit_refused", error.message)
        raise
    if not mark_submitted(database, plan.run_id) and was_stopped(database, plan.run_id):
        # The run was stopped while the request was on its way: the stop found no records of it on the host.
        stop_there(database, session, [StopRun(run_id=plan.run_id, grace_s=plan.experiment.stop_grace_s)])
        raise _stopped(plan)


def asking_home(session: HostSession) -> AskingHome:
    """Return the home that a request comes from."""
    return AskingHome(**own(session.home).as_json())


def _arrived_late(database: Database, session: HostSession, plan: Plan) -> bool:
    """Whether the earlier launch's request, delayed on a broken link, reached the host after it had been queried."""
    observe(database, session, [runs.find(database, plan.run_id)])
    return runs.find(database, plan.run_id).state not in UNSEEN | {"cancelled"}


def _stopped(plan: Plan) -> Conflict:
    return Conflict(f"{plan.run_id} was stopped while it was being prepared", host=plan.host.name)
