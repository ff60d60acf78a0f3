"""How the bundled payload trains: its section of the spec, its files and its command line, in final numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armada.launch.accelerate import launch_environment, render_accelerate
from armada.launch.user_files import Facts, read_user_files
from armada.provision.content import Content, take_stock
from armada.provision.hub import HubModel
from armada.provision.model import model_content
from armada.provision.payload import payload_content

if TYPE_CHECKING:
    from pathlib import Path

    from armada.config.experiments import Experiment
    from armada.config.profiles import Profile
    from armada.config.training import DataSource
    from armada.launch.batch import Batch
    from armada.launch.warmstart import Start
    from armada.paths import HostPaths
    from armada.provision.environment import Environment


@dataclass(frozen=True, slots=True)
class Training:
    """What a plan needs to train: `section` is spec["training"], which only the payload reads.

    A script of the user's own has neither `section` nor `batch`: it decides both itself.
    """

    batch: Batch | None
    section: dict[str, Any] | None
    contents: list[Content]
    files: dict[str, str]
    argv: list[str]
    variables: dict[str, str]


def plan_training(
    experiment: Experiment,
    profile: Profile,
    paths: HostPaths,
    environment: Environment,
    batch: Batch,
    *,
    run_id: str,
    name: str,
    gpus: int,
    datasets: list[Path],
    facts: dict[str, Any],
    hub: HubModel | Content | None = None,
    wandb: str | None = None,
    start: Start | None = None,
) -> Training:
    """Render a training for a host.

    `hub` is the hub's model that the experiment names, where runs cannot fetch it by themselves; `wandb` stands in for what
    the experiment says of it.

    Raises:
        PreflightRefused: The profile's accelerate settings say something else than the plan.
        ProvisionFailed: A file that should travel cannot be read.
    """
    payload = payload_content()
    real = {path: path.resolve() for path in datasets}  # people keep links to data; what travels is the file behind it
    data = {path: take_stock("data", file.parent, names_below(file)) for path, file in real.items()}
    model = model_content(experiment.local_model) if experiment.local_model else None
    if isinstance(hub, Content):
        model = hub
    model_path = str(paths.content("models", model.sha)) if model else hub.path if isinstance(hub, HubModel) else None
    places = {path: str(paths.content("data", content.sha) / real[path].name) for path, content in data.items()}
    device = "cuda" if gpus else "cpu"
    files = read_user_files(Facts(experiment, profile, batch.processes, device, batch))
    accelerate = render_accelerate(
        processes=batch.processes,
        device="cuda" if gpus else "cpu",
        precision=profile.train.precision,
        extras=profile.accelerate,
        extras_from=f"profile {profile.name}" + (f" ({profile.origin})" if profile.origin else ""),
        checked=files.accelerate,
    )
    variables = {
        # The payload alone: a project's own datasets.py must not stand in for the library of that name.
        "PYTHONPATH": str(paths.content("code", payload.sha)),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPYCACHEPREFIX": str(paths.bytecode),  # or each start compiles torch's family anew: 14 s
        "PYTHONDONTWRITEBYTECODE": "",  # which whoever logged in may have set
        "TOKENIZERS_PARALLELISM": "false",  # forked workers and the tokenizer's own threads deadlock
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **launch_environment(
            processes=batch.processes, device="cuda" if gpus else "cpu", cpu_count=int(facts["cpu_count"])
        ),
    }
    fetches_kernel = device == "cuda" and profile.train.attention == "auto"
    is_local = experiment.data is None or experiment.data.is_local
    if is_local and (model_path is not None or not isinstance(experiment.model, str)) and not fetches_kernel:
        variables["HF_HUB_OFFLINE"] = "1"  # nothing is to be fetched: 2 s instead of 48 s where there is no internet
    section = _section(
        experiment,
        profile,
        batch,
        places,
        model_path=model_path,
        run_id=run_id,
        name=name,
        device=device,
        wandb=wandb,
    )
    deepspeed = {}
    if files.deepspeed is not None:
        deepspeed = {"launch/deepspeed.json": json.dumps(files.deepspeed, indent=1)}
        section["deepspeed"] = str(paths.launch(run_id) / "deepspeed.json")
    return Training(
        batch=batch,
        section=section | {"prepared": str(paths.prepared), "start_from": _begin(start, paths) if start else None},
        contents=[
            *(payload, *data.values()),
            *([model] if model else []),
            *([start.content] if start and start.content else []),
        ],
        files={"launch/accelerate.yaml": accelerate} | deepspeed,
        argv=[
            str(paths.environment_python(environment.key)),
            *("-m", "armada_train.launch", "--config_file", str(paths.launch(run_id) / "accelerate.yaml")),
            *("--spec", str(paths.run(run_id) / "spec.json")),
        ],
        variables=variables,
    )


def preparing_argv(paths: HostPaths, environment: Environment, run_id: str) -> list[str]:
    """The command that only tokenises; it needs no GPU."""
    python = str(paths.environment_python(environment.key))
    return [python, "-m", "armada_train", "prepare", str(paths.run(run_id) / "spec.json")]


def names_below(source: Path) -> list[str]:
    """What travels of a data file, or of a folder, relative to where it lies."""
    if not source.is_dir():
        return [source.name]
    return sorted(str(file.relative_to(source.parent)) for file in source.rglob("*") if file.is_file())


def _origin(source: DataSource, places: dict[Path, str]) -> dict[str, Any]:
    if source.hub is not None:
        return {
            "hub": {"id": source.hub, **source.model_dump(include={"split", "config", "revision"}, exclude_none=True)}
        }
    return {"hook": source.hook} if source.hook is not None else {"path": places[source.path]} if source.path else {}


def _begin(start: Start, paths: HostPaths) -> dict[str, Any]:
    place = str(paths.content("models", start.content.sha)) if start.content else start.place
    return {"path": place, "optimizer": "moments" if start.moments else False}


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Leave out what is for jobs of the user's own."""
    return {key: value for key, value in values.items() if key not in names}


def _named_model(model: str, path: str | None) -> dict[str, str]:
    """Where the host has the model, and what home calls it where that is something else: adapters name their base so."""
    return {"path": model} if path is None or path == model else {"path": path, "name": model}


def _section(
    experiment: Experiment,
    profile: Profile,
    batch: Batch,
    places: dict[Path, str],
    *,
    model_path: str | None,
    run_id: str,
    name: str,
    device: str,
    wandb: str | None,
) -> dict[str, Any]:
    values = experiment.model_dump(mode="json")
    model = values["model"]
    decided = ("global_batch_size", "micro_batch_size")  # they are in `batch`, solved
    train = {key: value for key, value in values["train"].items() if key not in decided}
    data = experiment.data
    return {
        "model": model if isinstance(model, dict) else _named_model(model, model_path),
        "data": {
            "train": [{**_origin(s, places), "weight": s.weight} for s in (data.train if data else ())],
            "eval": [_origin(s, places) for s in (data.eval if data else ())],
            "workers": data.workers if data else 0,
        },
        "batch": {
            "global": batch.global_,
            "micro": batch.micro,
            "accumulation": batch.accumulation,
            "processes": batch.processes,
        },
        "train": {**train, "activation_checkpointing": profile.train.activation_checkpointing},
        "lora": values["lora"],
        "precision": profile.train.precision,
        "attention": profile.train.attention,
        "device": device,
        "checkpoint": _without(values["checkpoint"], "pattern", "quiet_s"),
        "resume": _without(values["resume"], "arguments"),
        "evaluation": values["evaluation"],
        "peak_flops": profile.peak_flops if device == "cuda" else None,
        "tracking": {**values["tracking"], **({"wandb": wandb} if wandb else {}), "name": name, "id": run_id},
    }
