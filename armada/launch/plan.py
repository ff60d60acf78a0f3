"""Experiment × profile × host, resolved: every number final, every file named, nothing started."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.config.profiles import choose_profile, load_profile
from armada.config.schedulers import HtcondorSettings, SlurmSettings
from armada.errors import PreflightRefused
from armada.inert import inert_line
from armada.launch.batch import Batch, resolve_batch
from armada.launch.checks import SchedulerAnswer
from armada.launch.dataset import check_data
from armada.launch.hook_check import check_hooks
from armada.launch.job_data import plan_job_data
from armada.launch.job_request import time_limit_s
from armada.launch.payload_checks import check_payload
from armada.launch.preflight import check_launch
from armada.launch.script import plan_script
from armada.launch.training import Training, plan_training, preparing_argv
from armada.paths import HostPaths, new_run_id
from armada.provision.code import take_snapshot
from armada.provision.content import Content, find
from armada.provision.environment import Environment, plan_environment
from armada.provision.environment_key import has_package
from armada.provision.hub import HubAnswer, HubModel, ask_hub, find_model

if TYPE_CHECKING:
    from armada.config.experiments import Experiment
    from armada.config.hosts import Host
    from armada.config.profiles import Profile
    from armada.launch.checks import Check
    from armada.launch.warmstart import Start
    from armada.paths import HomePaths
    from armada.session import HostSession

SPEC_FORMAT = 1

_LONGEST_WAIT_S = 366 * 86_400.0

SUBMISSION = 1
"""The first hand-over; a later one (after a lost host, say) gets the next number."""

OUTBOX_FLOOR_BYTES = 5_000_000_000
"""With less free disk than this on the host, the outbox gives up middle checkpoints rather than stop the training."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is needed to put one run on one host.

    `spec` is what the host keeps as spec.json, `files` what a person would want to read beside it (`launch/…`);
    `missing` are the contents the host does not have yet.
    """

    run_id: str
    experiment: Experiment
    host: Host
    profile: Profile | None
    gpus: int
    batch: Batch | None
    environment: Environment | None
    contents: tuple[Content, ...]
    missing: tuple[Content, ...]
    spec: dict[str, Any]
    files: dict[str, str]
    checks: tuple[Check, ...]
    dataset_rows: int
    counts_on_host: bool
    """Whether some of the data can only be counted on the host: parquet, saved datasets, those of the hub."""
    facts: dict[str, Any]
    hub: HubModel | None = None


def make_plan(
    session: HostSession,
    home: HomePaths,
    experiment: Experiment,
    *,
    profile_name: str | None = None,
    name: str | None = None,
    run_id: str | None = None,
    launch_key: str | None = None,
    start: Start | None = None,
    only_prepare: bool = False,
) -> Plan:
    """Resolve an experiment for the session's host; asks the host, changes nothing there.

    Args:
        session: With the host the run is meant for.
        home: Where profiles are.
        experiment: As loaded.
        profile_name: Instead of the host's own.
        name: Instead of the experiment's.
        run_id: Of a launch that broke off before the host had anything; a new one by default.
        launch_key: What the run is recognised by when the same launch is asked for again.
        start: The checkpoint the training begins with.
        only_prepare: Tokenise the training's data, without GPUs, and no more.

    Raises:
        ConfigError: A file the experiment names is missing or wrong.
        PreflightRefused: The batch arithmetic does not come out, or profile and resources do not go together.
        HostUnreachable: The host does not answer.
    """
    host = session.host
    snapshot = take_snapshot(experiment.code) if experiment.code is not None else None
    data = check_data(
        experiment.data if experiment.task == "sft" else None
    )  # before the host is asked: a bad line costs nothing
    check_hooks(experiment, snapshot.content.files if snapshot else ())
    named = profile_name or host.profile
    profile = load_profile(named, home) if named else None
    facts = session.call("host.facts", {})
    paths = session.paths
    # A command on CPUs needs nothing a profile says.
    if profile is None and (experiment.task != "command" or experiment.resources.gpus):
        profile = _found_profile(host, experiment, facts, home)
    gpus = _gpus(experiment, host, profile, facts)
    processes = gpus or experiment.resources.processes or 1
    title = (name or experiment.name) + (": data" if only_prepare else "")
    run_id = run_id or new_run_id(title)
    variables = {
        "PYTHONUNBUFFERED": "1",
        **_offline(host, paths, run_id),
        **(profile.env if profile else {}),
        **experiment.env,
    }
    worker = facts
    if host.batch is not None:
        worker = {**facts, "cpu_count": experiment.resources.cpus or processes}  # not the login node's

    job_data = plan_job_data(experiment, snapshot, paths)
    contents = [*([snapshot.content] if snapshot else []), *job_data.contents]
    environment: Environment | None = None
    training: Training | None = None
    hub: HubModel | Content | None = None
    argv = list(experiment.command or ())
    if experiment.task == "sft":
        assert profile is not None and experiment.train is not None  # noqa: S101, PT018  # the model and the lines above saw to it
        train = experiment.train
        _refuse_quantization(experiment, profile, gpus)
        batch = resolve_batch(
            train.global_batch_size, train.micro_batch_size, profile.train.micro_batch_size, processes
        )
        environment = plan_environment(session, profile, facts)
        hub = _hub_model(session, home, experiment, variables)
        training = plan_training(
            experiment,
            profile,
            paths,
            environment,
            batch,
            run_id=run_id,
            name=title,
            gpus=gpus,
            datasets=data.paths,
            facts=worker,
            hub=hub,
            wandb=_wandb(host, experiment, environment),
            start=start,
        )
        contents += training.contents
        argv = training.argv
        variables |= training.variables
    if experiment.task == "script":
        assert profile is not None and snapshot is not None  # noqa: S101, PT018  # as above
        environment = plan_environment(session, profile, facts)
        training = plan_script(
            experiment,
            profile,
            paths,
            environment,
            snapshot,
            run_id=run_id,
            gpus=gpus,
            processes=processes,
            facts=worker,
        )
        contents += training.contents
        argv = training.argv
        variables |= training.variables
    if only_prepare:
        if experiment.task != "sft" or environment is None:
            raise PreflightRefused("there is no data to prepare", hint="`armada prepare` is for `task: sft`")
        argv = preparing_argv(paths, environment, run_id)
        gpus, processes = 0, 1
    spec = {
        "format": SPEC_FORMAT,
        "run_id": run_id,
        "name": title,
        "task": "prepare" if only_prepare else experiment.task,
        "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "host": host.name,
        "profile": profile.name if profile else None,
        "job": {
            "argv": argv,
            "env": variables,
            "code": str(paths.content("code", snapshot.content.sha)) if snapshot else None,
            "secrets": list(experiment.secrets),
            **({"data": job_data.links} if job_data.links else {}),
        },
        "gpus": gpus,
        "processes": processes,
        "environment": _environment(environment, paths),
        "scheduler": scheduler_settings(host),
        "stop_grace_s": experiment.stop_grace_s,
        "time_limit_s": time_limit_s(host, experiment.resources),
        "outbox": {"keep": _outbox_keep(experiment), "disk_floor_bytes": OUTBOX_FLOOR_BYTES},
        "watch": _watch(experiment),
        "training": training.section if training else None,
        "sync": json.loads(experiment.sync.model_dump_json()),
        "experiment": json.loads(experiment.model_dump_json()),
        "project": {"revision": snapshot.revision, "dirty": snapshot.dirty} if snapshot else None,
        "launch_key": launch_key,
    }
    command = {"argv": argv, "cwd": str(paths.work(run_id)), "env": variables}
    files = {"launch/command.json": json.dumps(command, indent=1)} | (
        training.files if training and not only_prepare else {}
    )
    if host.scheduler != "direct":
        files |= job_files(host, paths, profile, experiment, spec)
    missing = tuple(content for content in contents if not _present(session, content))
    answer = ask_scheduler(session, host, files)
    checks = check_launch(
        experiment=experiment,
        host=host,
        profile=profile,
        facts=facts,
        gpus=gpus,
        processes=processes,
        precision=profile.train.precision if profile and training else None,
        travelling_bytes=sum(content.size_bytes for content in missing),
        environment_missing=environment is not None and not environment.ready,
        hub_bytes=hub.size_bytes if isinstance(hub, HubModel) else 0,
        checkpoint_bytes=_checkpoint_bytes(experiment, contents, hub),
        hub_answer=_ask_hub(session, experiment, variables),
        wandb=training.section["tracking"]["wandb"] if training and training.section else None,
        snapshot=snapshot,
        scheduler=answer,
    )
    if training and training.section:
        model = hub.source if isinstance(hub, Content) else experiment.local_model
        said = check_payload(training.section, model=model, kind=data.kind, environment=environment)
        checks = tuple(sorted((*checks, said), key=lambda check: check.code))
    return Plan(
        run_id=run_id,
        experiment=experiment,
        host=host,
        profile=profile,
        gpus=gpus,
        batch=training.batch if training and not only_prepare else None,
        environment=environment,
        contents=tuple(contents),
        missing=missing,
        spec=spec,
        files=files,
        checks=checks,
        hub=hub if isinstance(hub, HubModel) else None,
        dataset_rows=data.rows,
        counts_on_host=None in data.counts.values() or (experiment.data is not None and not experiment.data.is_local),
        facts=facts,
    )


def _found_profile(host: Host, experiment: Experiment, facts: dict[str, Any], home: HomePaths) -> Profile | None:
    """The profile of the GPUs that are there; the GPUs of a cluster cannot be seen from where one logs in."""
    if host.batch is None:
        return load_profile(choose_profile(facts, home), home)
    if experiment.task == "command":
        return None
    raise PreflightRefused(
        f"which GPUs {host.scheduler} hands out cannot be seen from its login node",
        hint="name the host's `profile:` in hosts.yaml, or --profile",
        host=host.name,
    )


def _gpus(experiment: Experiment, host: Host, profile: Profile | None, facts: dict[str, Any]) -> int:
    """How many GPUs the run takes; `all` are those the host has, up to what its profile is for."""
    asked = experiment.resources.gpus
    if profile is None and host.batch is not None and asked == "all":
        raise PreflightRefused(
            "resources.gpus is `all`, but nothing says how many a node has", hint="a number, or the host's `profile:`"
        )
    if profile is None and host.batch is not None and isinstance(asked, int):
        return asked
    if profile is None or profile.gpus.count == 0:
        if isinstance(asked, int) and asked > 0 and profile is not None:
            raise PreflightRefused(
                f"resources.gpus is {asked}, but profile {profile.name} is for machines without GPUs",
                hint="choose another --profile, or resources.processes",
            )
        return 0
    if asked is None:
        asked = 0 if experiment.task == "command" else "all"
    if asked == "all":
        there = len(facts["gpus"]) if host.batch is None else 0
        return min(profile.gpus.count, there) or profile.gpus.count
    if asked == 0 and experiment.task != "command":
        raise PreflightRefused(
            f"resources.gpus is 0, but profile {profile.name} trains on GPUs", hint="--profile cpu trains without"
        )
    return asked


def _hub_model(
    session: HostSession, home: HomePaths, experiment: Experiment, variables: dict[str, str]
) -> HubModel | Content | None:
    """The hub's model, where a run cannot fetch it by itself."""
    if session.host.has_internet or not isinstance(experiment.model, str) or experiment.local_model:
        return None
    return find_model(session, home, experiment.model, variables, experiment.secrets)


def _ask_hub(session: HostSession, experiment: Experiment, variables: dict[str, str]) -> HubAnswer | None:
    """What the hub says of a model that the run will fetch itself; None for any other."""
    is_fetched = session.host.has_internet and isinstance(experiment.model, str) and not experiment.local_model
    if variables.get("HF_HUB_OFFLINE", "") not in {"", "0"}:
        return None  # the host's cache has it
    return ask_hub(session, str(experiment.model), variables, experiment.secrets) if is_fetched else None


def _wandb(host: Host, experiment: Experiment, environment: Environment) -> str | None:
    """What `tracking.wandb: auto` means where runs have no internet; None leaves what the experiment says."""
    if host.has_internet or experiment.tracking is None or experiment.tracking.wandb != "auto":
        return None
    return "offline" if has_package(environment.requirements, "wandb") else "off"


def _offline(host: Host, paths: HostPaths, run_id: str) -> dict[str, str]:
    """Spare what would wait minutes for the internet where there is none."""
    if host.has_internet:
        return {}
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
    # Below the run's folder, from where W&B's files come home; a program's own place for them is its work folder.
    return {**dict.fromkeys(names, "1"), "WANDB_MODE": "offline", "WANDB_DIR": str(paths.run(run_id))}


def scheduler_settings(host: Host) -> dict[str, Any] | None:
    """What the agent has to know of the host's batch system; None for `direct`."""
    batch = host.batch
    if batch is None:
        return None
    return {
        "kind": host.scheduler,
        "poll_s": batch.poll_s,
        "max_retries": batch.max_retries,
        "requeue_at_time_limit": batch.requeue_at_time_limit,
        "max_attempts_without_progress": batch.max_attempts_without_progress,
        **({"quota": list(host.quota)} if host.quota else {}),
    }


def job_files(
    host: Host, paths: HostPaths, profile: Profile | None, experiment: Experiment, spec: dict[str, Any]
) -> dict[str, str]:
    """Render what the batch system is handed."""
    from armada.agent_archive import build
    from armada.launch import job_htcondor, job_slurm
    from armada.launch.job_request import job_request

    request = job_request(
        host,
        paths,
        profile,
        experiment.resources,
        run_id=spec["run_id"],
        gpus=spec["gpus"],
        processes=spec["processes"],
        grace_s=experiment.stop_grace_s,
        agent_sha=build()[1],
    )
    if host.scheduler == "slurm":
        return job_slurm.render(request, host.slurm or SlurmSettings())
    return job_htcondor.render(request, host.htcondor or HtcondorSettings())


def ask_scheduler(session: HostSession, host: Host, files: dict[str, str]) -> SchedulerAnswer:
    """Ask the batch system whether this could ever run, and what it would wait for."""
    if host.scheduler == "direct":
        return SchedulerAnswer()
    file = files["launch/job.sbatch" if host.scheduler == "slurm" else "launch/job.sub"]
    answer = session.call("scheduler.check", {"scheduler": host.scheduler, "file": file}, timeout_s=120.0)
    refusal, wait = (
        inert_line(answer[key], 900) if isinstance(answer.get(key), str) else None for key in ("refusal", "wait")
    )
    starts_in_s = answer.get("starts_in_s")
    known = isinstance(starts_in_s, int | float) and 0 <= starts_in_s < _LONGEST_WAIT_S
    return SchedulerAnswer(refusal, wait, float(starts_in_s) if known and starts_in_s is not None else None)


def _refuse_quantization(experiment: Experiment, profile: Profile, gpus: int) -> None:
    wanted = experiment.lora.quantize if experiment.lora is not None else "none"
    if wanted == "none":
        return
    if not gpus:
        raise PreflightRefused(
            f"lora.quantize is {wanted}, which bitsandbytes does on CUDA GPUs, and this run has none",
            hint="leave it out, or launch on a host with GPUs",
        )
    if profile.train.precision != "bf16":
        raise PreflightRefused(
            f"lora.quantize is {wanted}, which is trained in bf16, and profile {profile.name} has {profile.train.precision}",
            hint="leave it out, or take a GPU with bf16 (compute capability 8.0)",
        )


def _watch(experiment: Experiment) -> dict[str, Any] | None:
    """How the host watches a job that tells nothing by itself; None for the bundled payload, which does."""
    if experiment.task == "sft":
        return None
    checkpoint, resume = experiment.checkpoint, experiment.resume
    found = {"pattern": checkpoint.pattern, "quiet_s": checkpoint.quiet_s} if checkpoint else None
    return {"checkpoints": found, "resume": list(resume.arguments) if resume else []}


def _environment(environment: Environment | None, paths: HostPaths) -> dict[str, str] | None:
    if environment is None:
        return None
    place = {"key": environment.key, "path": str(paths.environment(environment.key))}
    return place | ({"flash_attn": environment.flash_attn.why} if environment.flash_attn else {})


def _present(session: HostSession, content: Content) -> bool:
    return bool(find(session, content)["present"])


def _outbox_keep(experiment: Experiment) -> int:
    return max(3, experiment.checkpoint.keep_last) if experiment.checkpoint is not None else 3


def _checkpoint_bytes(experiment: Experiment, contents: list[Content], hub: HubModel | Content | None) -> int:
    """An upper estimate of what checkpoints take on the host; 0 where the model's size is not known here.

    Full fine-tuning saves weights and two fp32 moments: with bf16 weights five times the model's files. LoRA saves a
    few per cent of them.
    """
    model = sum(content.size_bytes for content in contents if content.kind == "models")
    model += hub.size_bytes if isinstance(hub, HubModel) else 0
    each = model * (0.15 if experiment.lora is not None else 5)
    kept = (experiment.checkpoint.keep_last if experiment.checkpoint else 1) + _outbox_keep(experiment)
    return int(each * kept)
