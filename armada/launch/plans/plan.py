"""Resolve experiment, profile and host into a plan: every number final, every file named, nothing started."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from armada.errors import ArmadaError
from armada.launch.checks.budget import budget_of
from armada.launch.checks.memory import estimate_launch
from armada.launch.checks.registry import check_launch
from armada.launch.checks.subject import Subject
from armada.launch.engines.engine import ask_scheduler, job_files, scheduler_settings
from armada.launch.engines.request import time_limit_s
from armada.launch.plans.files import JobFiles, plan_files
from armada.launch.plans.machine import count_gpus
from armada.launch.plans.task import Place
from armada.launch.training.cores import share_cores
from armada.monitor.observe import observe
from armada.paths import new_run_id
from armada.protocol.facts import AskFacts
from armada.protocol.spec import BudgetSection, EnvironmentSpec, JobSpec, OutboxSpec, ProjectSpec, Spec
from armada.provision.content import Content, find_missing_contents
from armada.provision.left_behind import find_left_behind
from armada.provision.script_imports import MissingModule, find_missing
from armada.store import runs
from armada.store.queries.cores import read_cores_taken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.config.tasks.experiment import Experiment
    from armada.launch.checks.check import Check
    from armada.launch.estimates.memory import MemoryEstimate
    from armada.launch.plans.task import Order, Parts, Task
    from armada.launch.training.batch import Batch
    from armada.paths import HostPaths
    from armada.protocol.facts import Facts
    from armada.protocol.spec import JobLink
    from armada.provision.code import Snapshot
    from armada.provision.container import Container
    from armada.provision.environment import Environment
    from armada.provision.existing import ExistingEnvironment
    from armada.provision.hub import HubModel

SPEC_FORMAT: Literal[1] = 1

SUBMISSION = 1
"""The first hand-over; a later one (after a lost host, say) gets the next number."""

EXISTING = "existing"
"""The key of every environment that armada did not build: its path names it."""

OUTBOX_FLOOR_BYTES = 5_000_000_000
"""With less free disk than this on the host, the outbox gives up middle checkpoints rather than stop the training."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is needed to start one run on one host.

    `spec` is what the host keeps as spec.json, `files` what a person would want to read beside it (`launch/…`);
    `missing` are the contents the host does not have yet, `job_files` what `files:` mean.
    """

    run_id: str
    experiment: Experiment
    host: Host
    profile: Profile | None
    gpus: int
    batch: Batch | None
    environment: Environment | None
    existing: ExistingEnvironment | None
    imports: Mapping[str, str]
    contents: tuple[Content, ...]
    missing: tuple[Content, ...]
    spec: Spec
    files: dict[str, str]
    checks: tuple[Check, ...]
    dataset_rows: int
    counts_on_host: bool
    """Whether some of the data can only be counted on the host: parquet, saved datasets, those of the hub."""
    facts: Facts
    hub: HubModel | None = None
    job_files: JobFiles = field(default_factory=JobFiles)
    memory: MemoryEstimate | None = None
    """Of each process of a training, where it can be estimated."""
    container: Container | None = None
    subject: Subject | None = None
    """What the checks read."""


def make_plan(task: Task[Any], *, run_id: str | None = None, launch_key: str | None = None) -> Plan:
    """Resolve a task for its host. It asks the host, but changes nothing there.

    Args:
        task: What is asked for, and where.
        run_id: Of a launch that broke off before the host had anything; a new one by default.
        launch_key: What the run is recognised by when the same launch is asked for again.

    Raises:
        ConfigError: A file the experiment names is missing or wrong.
        PreflightRefused: The batch arithmetic does not come out, or profile and resources do not go together.
        HostUnreachable: The host does not answer.
    """
    snapshot, session = task.snapshot, task.order.session
    task.read()
    place = _place(task, run_id)
    parts = task.parts(place)
    gpus, processes = (0, 1) if parts.on_cpu else (place.gpus, place.processes)
    staged = plan_files(task.settings, snapshot, place, task.order.home, parts.links)
    job = _job(task, place, parts, (*parts.links, *staged.links))
    spec = _spec(task, place, parts, gpus=gpus, processes=processes, job=job, launch_key=launch_key)
    command = {"argv": job.argv, "cwd": str(place.paths.work(place.run_id)), "env": job.env}
    files = {"launch/command.json": json.dumps(command, indent=1)} | parts.files | _listed(parts.environment)
    files |= job_files(place.host, place.paths, place.profile, task.settings, spec)
    contents = tuple(dict.fromkeys((*([snapshot.content] if snapshot else []), *parts.contents, *staged.contents)))
    missing = find_missing_contents(session, contents)
    given = (*(link.name for link in job.data), *task.settings.files)
    left_behind = find_left_behind(task.settings, snapshot, given)
    subject = _subject(task, place, parts, missing, gpus=gpus, processes=processes)
    subject = dataclasses.replace(
        subject, scheduler=ask_scheduler(session, files, spec.run_id), files=staged.found, left_behind=left_behind
    )
    return Plan(
        run_id=place.run_id,
        experiment=task.settings,
        host=place.host,
        profile=place.profile,
        gpus=gpus,
        batch=parts.batch,
        environment=parts.environment,
        existing=parts.existing,
        imports=parts.imports,
        contents=contents,
        missing=missing,
        spec=spec,
        files=files,
        checks=check_launch(subject),
        hub=parts.hub,
        job_files=staged,
        memory=estimate_launch(subject),
        dataset_rows=task.rows,
        counts_on_host=task.counts_on_host,
        container=parts.container,
        facts=place.facts,
        subject=subject,
    )


def _job(task: Task[Any], place: Place, parts: Parts, links: tuple[JobLink, ...]) -> JobSpec:
    """Return spec["job"]; `data` and `setup` stand in it only if there are any."""
    snapshot = task.snapshot
    job = JobSpec(
        argv=tuple(parts.argv),
        env=place.variables | parts.variables,
        code=str(place.paths.content("code", snapshot.content.sha)) if snapshot else None,
        secrets=task.settings.secrets,
    )
    more: dict[str, object] = {"data": links} if links else {}
    more |= {"setup": task.settings.setup} if task.settings.setup else {}
    return job.model_copy(update=more)


def _place(task: Task[Any], run_id: str | None) -> Place:
    """Ask the host what it is, and take from it what the experiment asks for."""
    session, resources = task.order.session, task.settings.resources
    _ = task.named_profile  # a wrong one is said before the host is asked
    facts = session.call(AskFacts())
    # What follows takes minutes: a model of 140 GB is hashed, a scheduler is asked.
    clock_off_s = facts.time - session.received_at(AskFacts())
    profile = task.profile(facts)
    gpus = count_gpus(resources, session.host, profile, facts, takes_gpus=task.takes_gpus)
    processes = gpus or resources.processes or 1
    run_id = run_id or new_run_id(task.title)
    return Place(
        session=session,
        facts=facts,
        profile=profile,
        run_id=run_id,
        title=task.title,
        gpus=gpus,
        processes=processes,
        cores=resources.cpus or processes
        if session.host.batch is not None
        else _cores(task.order, facts, run_id, gpus),
        variables=task.variables(profile, run_id),
        clock_off_s=clock_off_s,
    )


def _cores(order: Order, facts: Facts, run_id: str, gpus: int) -> int:
    """Return the cores that a run may use on a host of the user's own. Runs there are looked at, as they may have ended."""
    if gpus:
        return facts.cpu_count
    if not order.taken:
        host = order.session.host.name
        told = partial(read_cores_taken, order.database, host, without=run_id, sweep=order.sweep)
        others = told()
        if others:
            with contextlib.suppress(ArmadaError):  # the host answered just now; what was seen last is close enough
                observe(order.database, order.session, [runs.find(order.database, each.run_id) for each in others])
            others = told()
        order.taken.append(tuple(each.cores for each in others))
    return share_cores(facts.cpu_count, order.taken[0], order.at_once)


def _spec(
    task: Task[Any],
    place: Place,
    parts: Parts,
    *,
    gpus: int,
    processes: int,
    job: JobSpec,
    launch_key: str | None,
) -> Spec:
    settings, host = task.settings, place.host
    spec = Spec(
        format=SPEC_FORMAT,
        run_id=place.run_id,
        name=place.title,
        task=task.kind,
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        host=host.name,
        profile=place.profile.name if place.profile else None,
        job=job,
        gpus=gpus,
        processes=processes,
        environment=_environment(parts, place.paths),
        scheduler=scheduler_settings(host),
        stop_grace_s=settings.stop_grace_s,
        time_limit_s=time_limit_s(host, settings.resources),
        outbox=OutboxSpec(keep=task.outbox_keep, disk_floor_bytes=OUTBOX_FLOOR_BYTES),
        watch=parts.watch,
        training=parts.training,
        sync=json.loads(settings.sync.model_dump_json()),
        experiment=task.recorded(),
        project=_project(task.snapshot),
        launch_key=launch_key,
    )
    more: dict[str, object] = {"container": parts.container.spec} if parts.container is not None else {}
    paid = budget_of(settings, host, gpus, len(place.facts.gpus))
    more |= {"budget": paid} if isinstance(paid, BudgetSection) else {}
    return spec.model_copy(update=more) if more else spec


def _subject(
    task: Task[Any], place: Place, parts: Parts, missing: tuple[Content, ...], *, gpus: int, processes: int
) -> Subject:
    return Subject(
        experiment=task.settings,
        host=place.host,
        profile=place.profile,
        facts=place.facts,
        clock_off_s=place.clock_off_s,
        gpus=gpus,
        processes=processes,
        precision=parts.precision,
        travelling_bytes=sum(content.size_bytes for content in missing),
        fetched_bytes=parts.hub.size_bytes if parts.hub else 0,
        checkpoint_bytes=parts.checkpoint_bytes,
        environment_missing=parts.environment is not None and not parts.environment.ready,
        missing_modules=_missing_modules(place, parts),
        snapshot=task.snapshot,
        trained=parts.trained,
        threads=int(parts.variables.get("OMP_NUM_THREADS", 0)) or None,
    )


def _missing_modules(place: Place, parts: Parts) -> tuple[MissingModule, ...]:
    """Ask an environment that is there for what the job imports; one that is not yet is asked when it has been built."""
    if parts.existing is not None:
        return find_missing(place.session, parts.existing.path, parts.imports)
    if parts.environment is None or not parts.environment.ready:
        return ()
    return find_missing(place.session, str(place.paths.environment(parts.environment.key)), parts.imports)


def _listed(environment: Environment | None) -> dict[str, str]:
    """The packages, where they are the experiment's own; those of a profile lie beside it."""
    if environment is None or not environment.is_own:
        return {}
    constraints = environment.constraints or ""
    held = "".join(f"# held to {line}\n" for line in constraints.splitlines())
    return {"launch/requirements.txt": held + environment.requirements}


def _project(snapshot: Snapshot | None) -> ProjectSpec | None:
    return ProjectSpec(revision=snapshot.revision, dirty=snapshot.dirty) if snapshot else None


def _environment(parts: Parts, paths: HostPaths) -> EnvironmentSpec | None:
    environment, existing = parts.environment, parts.existing
    if existing is not None:
        found = EnvironmentSpec(key=EXISTING, path=existing.path, active=True, existing=True, python=existing.version)
        return found.model_copy(update={"conda": True}) if existing.is_conda else found
    if environment is None:
        return None
    place = EnvironmentSpec(key=environment.key, path=str(paths.environment(environment.key)))
    chosen = environment.flash_attn
    told: dict[str, object] = {"flash_attn": chosen.why} if chosen is not None else {}
    return place.model_copy(update=told | ({"active": True} if parts.is_active else {}))
