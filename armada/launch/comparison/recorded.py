"""Read from the store how fast earlier trainings were, as `armada.launch.estimates.speed` compares them."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pydantic import ValidationError

from armada.config.profiles import load_profile
from armada.errors import ArmadaError
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import mapping
from armada.launch.comparison.content import has_same_content
from armada.launch.estimates.speed import Measured, Workload
from armada.launch.training.model_facts import training_shape
from armada.protocol.recorded import recorded_facts
from armada.protocol.spec import TrainingSection
from armada.store import hosts as host_records
from armada.store.queries.trainings import newest_runs, read_speed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from armada.config.profiles import Profile
    from armada.launch.estimates.shape import ModelShape
    from armada.launch.plans.plan import Plan
    from armada.paths import HomePaths
    from armada.protocol.spec import TrainedData
    from armada.store.database import Database
    from armada.store.queries.trainings import RecordedRun

CPU = "cpu"
_MOST_MEASURED = 20
_MOST_STEPS = 2**31
_COUNTED = ("max_steps", "epochs", "max_length", "packing", "long_samples", "seed")
"""Of `train`. The seed decides how packing fills rows."""

_LONGEST_S = 366 * 86_400.0
"""A host whose clock was wrong tells of runs of fifty years."""


def gpu_kind(profile: Profile | None, name: str | None) -> str | None:
    """Return the kind of a GPU in the form in which kinds are compared.

    Equal GPUs have several names (`A100-SXM4-80GB`, `A100 80GB PCIe`), and a rented machine is gone after its run, so
    the profile's name counts, if the GPU is what the profile is for.

    Args:
        profile: The run's profile.
        name: The GPU's name, as nvidia-smi prints it; None if it is not known.
    """
    model = profile.gpus.model if profile is not None else None
    if name is None:
        return model.lower() if model is not None else None
    if profile is not None and model is not None and any(word.lower() in name.lower() for word in profile.match):
        return model.lower()
    return sanitize_line(name, 80).lower().removeprefix("nvidia").strip()


def gpu_of(plan: Plan) -> str | None:
    """Return the kind of GPU that a planned run trains on, `cpu` without one; None if the login node does not show it."""
    if not plan.gpus:
        return CPU
    shown = plan.facts.gpus[0].name if plan.host.batch is None and plan.facts.gpus else None
    return gpu_kind(plan.profile, shown)


_ALIKE = ("sft", "pretrain")
"""Tasks that compute the same for each token; others are compared with earlier runs of the same experiment alone.

A distillation of the data's answers computes the same, and a forward pass of its teacher.
"""


def workload_of_plan(plan: Plan) -> Workload | None:
    """Return what decides the speed of a planned training; None for other tasks, or an unknown kind of GPU."""
    trained = plan.subject.trained if plan.subject is not None else None
    gpu = gpu_of(plan)
    if trained is None or gpu is None or plan.spec.task not in (*_ALIKE, "distill"):
        return None
    teacher = trained.teacher.shape if trained.teacher is not None else None
    if plan.spec.task == "distill" and (teacher is None or (trained.section.objective or {}).get("lmbda")):
        return None  # how fast the student writes is another question
    return _workload(
        trained.section,
        plan.spec.experiment,
        gpu=gpu,
        host=plan.host.name,
        gpus=plan.gpus,
        shape=trained.facts.shape,
        code=plan.spec.job.code,
        teacher=teacher,
    )


def measured_speeds(database: Database, home: HomePaths, wanted: Workload) -> list[Measured]:
    """Return the speeds of earlier trainings on the same kind of GPU, newest first."""
    found: list[Measured] = []
    gpus = _Gpus(database, home)
    for run in newest_runs(database, "sft", timed=True):
        gpu = gpus.of_run(run)
        if gpu is None or gpu != wanted.gpu:
            continue
        workload = _workload_of_run(run, gpu)
        if workload is None or workload.training.method != wanted.training.method:
            continue
        speed = read_speed(database, run.run_id)
        if speed is None:
            continue
        variance = max(0.0, speed.square_s2 - speed.step_s * speed.step_s)  # `**` raises what is too large
        found.append(
            Measured(
                run.run_id,
                workload,
                speed.points,
                speed.step_s,
                speed.tokens_per_s,
                speed.samples_per_s,
                math.sqrt(variance) / speed.step_s if speed.step_s else 0.0,
                speed.mfu,
                speed.eval_s,
            )
        )
        if len(found) == _MOST_MEASURED:
            break
    return found


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run of the same experiment that succeeded on the same kind and number of GPUs.

    Attributes:
        took_s: From its start to its end, in seconds.
        is_same: Whether it had the same code and data too: other code or other data may take any time.
    """

    run_id: str
    took_s: float
    is_same: bool


def find_earlier(database: Database, home: HomePaths, plan: Plan) -> Earlier | None:
    """Find the newest run of the same experiment, code and data; else the newest with other code or data, else None."""
    gpu = gpu_of(plan)
    gpus = _Gpus(database, home)
    wanted = json.loads(json.dumps(plan.spec.experiment))
    changed = None
    for run in newest_runs(database, plan.spec.task, timed=False):
        took_s = (run.ended_at or 0.0) - (run.started_at or 0.0)
        if not run.started_at or not 0 < took_s < _LONGEST_S:
            continue
        if run.spec.get("experiment") != wanted or run.spec.get("gpus") != plan.gpus:
            continue
        there = gpus.of_run(run)
        if there is None or there != gpu or (gpu == CPU and run.host != plan.host.name):
            continue
        if has_same_content(plan, run, home):
            return Earlier(run.run_id, took_s, is_same=True)
        changed = changed or Earlier(run.run_id, took_s, is_same=False)
    return changed


def recorded_steps(database: Database, plan: Plan) -> tuple[str, int] | None:
    """Find a run of the same model, data and schedule: it has counted the steps that only a host can count.

    Returns:
        Its id and its number of steps; None if there is none.
    """
    section = plan.subject.trained.section if plan.subject is not None and plan.subject.trained is not None else None
    if section is None:
        return None
    wanted = _schedule(section, plan.spec.experiment)
    for run in newest_runs(database, plan.spec.task, timed=True):
        try:
            found = TrainingSection.model_validate(run.spec.get("training"))
        except ValidationError:
            continue
        experiment = run.spec.get("experiment")
        if not isinstance(experiment, dict) or not 0 < (run.total_steps or 0) < _MOST_STEPS:
            continue
        if run.total_steps and _schedule(found, experiment) == wanted:
            return run.run_id, run.total_steps
    return None


def _schedule(section: TrainingSection, experiment: Mapping[str, object]) -> list[object]:
    """Return what the number of steps depends on."""
    sources = [(_data_name(source), source.weight) for source in section.data.train]
    settings = [section.train.get(key) for key in _COUNTED]
    return [_model_name(experiment), sorted(sources), section.batch.global_, *settings]


def _model_name(experiment: Mapping[str, object]) -> str:
    return json.dumps(experiment.get("model"), sort_keys=True)


def _workload_of_run(run: RecordedRun, gpu: str) -> Workload | None:
    """Return a recorded training; None if its plan, maybe of another armada, cannot be read."""
    experiment, gpus = run.spec.get("experiment"), run.spec.get("gpus")
    try:
        section = TrainingSection.model_validate(run.spec.get("training"))
    except ValidationError:
        return None
    if not isinstance(experiment, dict) or not isinstance(gpus, int):
        return None
    code = mapping(run.spec.get("job")).get("code")
    return _workload(section, experiment, gpu=gpu, host=run.host, gpus=gpus, shape=None, code=code)


def _workload(
    section: TrainingSection,
    experiment: Mapping[str, object],
    *,
    gpu: str,
    host: str,
    gpus: int,
    shape: ModelShape | None,
    code: object,
    teacher: ModelShape | None = None,
) -> Workload:
    return Workload(
        model=_model_name(experiment),
        shape=shape,
        training=training_shape(section, (), teacher=teacher),
        gpu=gpu,
        host=host,
        devices=gpus or section.batch.processes,
        data=frozenset(_data_name(source, code) for source in section.data.train),
        packing=bool(section.train.get("packing")),
        attention=section.attention,
    )


def _data_name(source: TrainedData, code: object = None) -> str:
    """Name a source so that equal data has equal names: files lie in folders named by their contents.

    Args:
        source: The source.
        code: The folder of the run's code, which is named by its content too: a hook of other code makes other data.
    """
    if source.hub is not None:
        return json.dumps(["hub", source.hub.id, source.hub.split, source.hub.config, source.hub.revision])
    if source.hook:
        return json.dumps(["hook", source.hook, PurePosixPath(str(code)).name])
    return "/".join(source.path.split("/")[-2:])


class _Gpus:
    """Knows on which kind of GPU recorded runs were, asking each file and record once."""

    def __init__(self, database: Database, home: HomePaths) -> None:
        self._database, self._home = database, home
        self._hosts: dict[str, tuple[object, str | None]] = {}
        self._profiles: dict[str, Profile | None] = {}

    def of_run(self, run: RecordedRun) -> str | None:
        """Return the kind of GPU of a run; None if neither its host nor its profile says it."""
        if run.spec.get("gpus") == 0:
            return CPU
        root_id, name = self._of_host(run.host)
        is_same_machine = run.root_id in (None, root_id) and run.spec.get("scheduler") is None
        profile = run.spec.get("profile")
        return gpu_kind(self._profile(profile) if isinstance(profile, str) else None, name if is_same_machine else None)

    def _of_host(self, host: str) -> tuple[object, str | None]:
        """Return the id of a host's root and the name of its first GPU, as it described itself last."""
        if host not in self._hosts:
            record = host_records.find(self._database, host)
            facts = record.facts if record is not None else None
            names = (gpu.name for gpu in recorded_facts(facts).gpus or () if gpu.name)
            self._hosts[host] = ((facts or {}).get("root_id"), next(names, None))
        return self._hosts[host]

    def _profile(self, name: str) -> Profile | None:
        if name not in self._profiles:
            self._profiles[name] = None
            with contextlib.suppress(ArmadaError):
                self._profiles[name] = load_profile(name, self._home)
        return self._profiles[name]
