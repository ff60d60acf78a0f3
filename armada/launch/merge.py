"""A run that merges another run's adapter into its base: what it needs, where that lies, and its plan."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from armada.config.experiments import Experiment
from armada.config.profiles import choose_profile, load_profile
from armada.config.sync import SyncSettings
from armada.errors import NotFound, PreflightRefused
from armada.launch.job_request import time_limit_s
from armada.launch.plan import (
    OUTBOX_FLOOR_BYTES,
    SPEC_FORMAT,
    Plan,
    ask_scheduler,
    job_files,
    scheduler_settings,
)
from armada.launch.preflight import check_launch
from armada.paths import HostPaths, new_run_id
from armada.provision.content import Content, find, take_stock
from armada.provision.environment import plan_environment
from armada.provision.model import model_content
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from armada.paths import HomePaths
    from armada.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.runs import Run

_NEEDED_SECRET = "HF_TOKEN"  # noqa: S105  # a name; a gated base cannot be fetched without it


@dataclass(frozen=True, slots=True)
class Source:
    """What is merged: a run, its plan, and one of its checkpoints."""

    run: Run
    spec: dict[str, Any]
    checkpoint: Checkpoint

    @property
    def title(self) -> str:
        return f"{self.spec['name']} merged"


def refuse_unmergeable(run: Run, spec: dict[str, Any]) -> None:
    """Say at once that there is nothing to merge.

    Raises:
        PreflightRefused: The run was no LoRA training.
    """
    if spec.get("task") != "sft":
        raise PreflightRefused(
            f"{run.run_id} is a {spec.get('task')}, not a training of armada's own", hint="only those can be merged"
        )
    if not (spec.get("training") or {}).get("lora"):
        raise PreflightRefused(
            f"{run.run_id} trained every weight: there is no adapter to merge",
            hint=f"armada pull {run.run_id} --to DIR",
        )


def choose_host(run: Run, checkpoint: Checkpoint) -> str:
    """Merge where the checkpoint lies: on its host, or at home where that is all there is."""
    return run.host if checkpoint.on_host or checkpoint.home_path is None else "local"


def plan_merge(
    session: HostSession,
    home: HomePaths,
    source: Source,
    *,
    dtype: str,
    name: str | None = None,
    run_id: str | None = None,
    launch_key: str | None = None,
) -> Plan:
    """Resolve a merge for the session's host; changes nothing there.

    Args:
        session: With the host that merges.
        home: Where profiles are.
        source: What to merge.
        dtype: Of the merged weights, or `auto`.
        name: Instead of one made of the training's.
        run_id: Of a launch that broke off.
        launch_key: What the merge is recognised by when it is asked for again.

    Raises:
        NotFound: The checkpoint, or the base model, can be had neither there nor here.
        HostUnreachable: The host does not answer.
    """
    facts = session.call("host.facts", {})
    paths, host = session.paths, session.host
    is_there = host.name == source.run.host
    training = source.spec["training"]
    named = source.spec.get("profile") if is_there else host.profile
    # A cluster's own GPUs cannot be seen from here, and a merge needs none.
    profile = load_profile(named or ("cpu" if host.batch is not None else choose_profile(facts, home)), home)
    environment = plan_environment(session, profile, facts)
    contents = [payload_content()]
    request = {
        "adapter": _adapter(source, paths, contents, is_there=is_there),
        "base": _base(source, paths, contents, is_there=is_there),
        "precision": training["precision"],
        "quantized": (training["lora"].get("quantize") or "none") != "none",
        "dtype": dtype,
        "step": source.checkpoint.step,
        "rows": _rows(source, paths, contents, is_there=is_there),
        "memory_bytes": facts.get("memory_bytes"),
    }
    title = name or source.title
    run_id = run_id or new_run_id(title)
    argv = [
        *(str(paths.environment_python(environment.key)), "-m", "armada_train.merge"),
        *("--spec", str(paths.run(run_id) / "spec.json")),
    ]
    asked = [*source.spec["job"]["secrets"]]
    secrets = tuple(name for name in asked if name == _NEEDED_SECRET and os.environ.get(name))
    experiment = Experiment(
        name=title,
        task="command",
        command=tuple(argv),
        secrets=secrets,
        sync=SyncSettings.model_validate_json(json.dumps(source.spec.get("sync") or {})),
    )
    variables = {
        "PYTHONPATH": str(paths.content("code", contents[0].sha)),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPYCACHEPREFIX": str(paths.bytecode),
        "PYTHONDONTWRITEBYTECODE": "",  # which whoever logged in may have set
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    spec = {
        "format": SPEC_FORMAT,
        "run_id": run_id,
        "name": title,
        "task": "merge",
        "created_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "host": host.name,
        "profile": profile.name,
        "job": {"argv": argv, "env": variables, "code": None, "secrets": list(secrets)},
        "gpus": 0,
        "processes": 1,
        "environment": {"key": environment.key, "path": str(paths.environment(environment.key))},
        "scheduler": scheduler_settings(host),
        "stop_grace_s": experiment.stop_grace_s,
        "time_limit_s": time_limit_s(host, experiment.resources),
        "outbox": {"keep": 1, "disk_floor_bytes": OUTBOX_FLOOR_BYTES},
        "watch": None,
        "training": {"merge": request},
        "sync": json.loads(experiment.sync.model_dump_json()),
        "experiment": {"merge": {"run": source.run.run_id, "checkpoint": source.checkpoint.digest, "dtype": dtype}},
        "project": None,
        "launch_key": launch_key,
    }
    missing = tuple(content for content in contents if not find(session, content)["present"])
    command = {"argv": argv, "cwd": str(paths.work(run_id)), "env": variables}
    files = {"launch/command.json": json.dumps(command, indent=1)}
    if host.batch is not None:
        files |= job_files(host, paths, profile, experiment, spec)
    checks = check_launch(
        experiment=experiment,
        host=host,
        profile=profile,
        facts=facts,
        gpus=0,
        processes=1,
        precision=None,
        travelling_bytes=sum(content.size_bytes for content in missing),
        environment_missing=not environment.ready,
        checkpoint_bytes=3 * source.checkpoint.size_bytes,
        snapshot=None,
        scheduler=ask_scheduler(session, host, files),
    )
    return Plan(
        run_id=run_id,
        experiment=experiment,
        host=host,
        profile=profile,
        gpus=0,
        batch=None,
        environment=environment,
        contents=tuple(contents),
        missing=missing,
        spec=spec,
        files=files,
        checks=checks,
        dataset_rows=0,
        counts_on_host=False,
        facts=facts,
    )


def _adapter(source: Source, paths: HostPaths, contents: list[Content], *, is_there: bool) -> str:
    checkpoint = source.checkpoint
    if is_there and checkpoint.on_host:
        return str(paths.outbox(source.run.run_id, checkpoint.digest))
    if checkpoint.home_path is None:
        raise NotFound(
            f"checkpoint-{checkpoint.step} of {source.run.run_id} is not at home, from where it would be sent",
            hint=f"armada pull {source.run.run_id} --checkpoint {checkpoint.step}",
        )
    folder = checkpoint.home_path
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    # Optimizer and random states are two thirds of a checkpoint, and nothing to merge.
    wanted = [name for name in names if not name.startswith(("optimizer", "rng_state", "scheduler"))]
    content = take_stock("models", folder, wanted)
    contents.append(content)
    return str(paths.content("models", content.sha))


def _base(source: Source, paths: HostPaths, contents: list[Content], *, is_there: bool) -> str | None:
    """The base model on the merging host; None for one made on the spot, which travels beside its adapter."""
    path: str | None = source.spec["training"]["model"].get("path")
    if path is None or is_there or not path.startswith("/"):
        return path
    given = source.spec["experiment"].get("model")
    if not isinstance(given, str) or not (Path(given) / "config.json").is_file():
        raise NotFound(
            f"the base model of {source.run.run_id} lies on {source.run.host}, and not here (it was {given})",
            hint=f"--host {source.run.host} merges there",
        )
    content = model_content(Path(given))
    contents.append(content)
    return str(paths.content("models", content.sha))


def _rows(source: Source, paths: HostPaths, contents: list[Content], *, is_there: bool) -> list[str]:
    """Files to compare the two models on: the evaluation's, else the training's; none is no hindrance."""
    data: dict[str, Any] = source.spec["training"]["data"] if is_there else source.spec["experiment"]["data"]
    named = [item["path"] for part in ("eval", "train") for item in data.get(part) or () if item.get("path")]
    if is_there:
        return named
    places = []
    for file in map(Path, named[:1]):
        if file.is_file():
            real = file.resolve()
            content = take_stock("data", real.parent, [real.name])
            contents.append(content)
            places.append(str(paths.content("data", content.sha) / real.name))
    return places
