"""Plan `armada bench`: the cells of a grid as one run, in one environment and with one hand-over."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from armada.config.training import Evaluation
from armada.errors import ArmadaError, PreflightRefused
from armada.launch.plans.bundled import BundledTask
from armada.launch.plans.machine import count_gpus
from armada.protocol.spec import BenchCell, BenchRequest, BenchSection, MeasurementSection, TrainingSection
from armada.provision.hub import HubModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from armada.config.profiles import Profile
    from armada.config.tasks.bundled import BundledTraining
    from armada.launch.bench.grid import GridCell
    from armada.launch.checks.subject import Trained
    from armada.launch.plans.task import Order, Parts, Place
    from armada.provision.content import Content
    from armada.provision.environment import Environment
    from armada.provision.hub import HubAnswer

_ENDLESS = 100_000
"""Steps that no cell reaches: its measurement ends it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long each cell is measured.

    Attributes:
        warmup_steps: Before the measured ones.
        steps: The fewest measured ones.
        seconds: The shortest measured time.
        timeout_s: The longest that a cell may take, with loading.
    """

    warmup_steps: int = 3
    steps: int = 10
    seconds: float = 30.0
    timeout_s: float = 1800.0


class BenchTask(BundledTask):
    """Several trainings that only measure.

    Args:
        cells: At least one.
        order: Where.
        pace: How long.
    """

    def __init__(self, cells: Sequence[GridCell], order: Order, pace: Pace) -> None:
        self.cells = cells
        self.pace = pace
        largest = max(cells, key=lambda cell: _appetite(cell.experiment))
        settings = _only_measured(cells[0].experiment)
        super().__init__(settings.model_copy(update={"resources": largest.experiment.resources}), order)

    @property
    def kind(self) -> str:
        return "bench"

    @property
    def title(self) -> str:
        return self.order.name or f"{self.settings.name}: bench"

    @cached_property
    def _tasks(self) -> list[_CellTask]:
        once = _Once()
        tasks = [_CellTask(_only_measured(cell.experiment), self.order, once) for cell in self.cells]
        for task in tasks:
            same = _files_of(task.settings) == _files_of(self.settings)
            task.take_over(self.read_for_all() if same else {"snapshot": self.snapshot})
        return tasks

    def read(self) -> None:
        super().read()
        for task in self._tasks:
            task.read()

    def parts(self, place: Place) -> Parts:
        found = [self._parts(cell, task, place) for cell, task in zip(self.cells, self._tasks, strict=True)]
        base, parts = found[0]
        hubs = {each.hub for _, each in found if isinstance(each.hub, HubModel)}
        if len(hubs) > 1:
            raise PreflightRefused(
                "the cells have several models of the hub, and the host fetches one for a run",
                hint="run one bench for each model",
                host=place.host.name,
            )
        variables = base.variables | parts.variables
        files: dict[str, str] = {}
        cells = []
        for cell, (own, each) in zip(self.cells, found, strict=True):
            section = each.training
            if not isinstance(section, TrainingSection):
                raise TypeError(type(section))
            names = {name: _numbered(name, cell.number) for name in each.files}
            files |= {names[name]: text for name, text in each.files.items()}
            below = place.paths.launch(place.run_id)
            if (deepspeed := names.get("launch/deepspeed.json")) is not None:
                section = section.model_copy(update={"deepspeed": str(below / deepspeed.removeprefix("launch/"))})
            its = own.variables | each.variables
            cells.append(
                BenchCell(
                    number=cell.number,
                    label=cell.label,
                    values=dict(cell.values),
                    training=section.model_copy(update={"measurement": self._measurement}),
                    env={
                        name: its.get(name, "") for name in {**variables, **its} if its.get(name) != variables.get(name)
                    },
                    accelerate=str(below / names["launch/accelerate.yaml"].removeprefix("launch/")),
                )
            )
        python = parts.argv[0]
        spec = str(place.paths.run(place.run_id) / "spec.json")
        return dataclasses.replace(
            parts,
            argv=[python, "-m", "armada_train.bench", "--spec", spec],
            contents=tuple(dict.fromkeys(content for _, each in found for content in each.contents)),
            files=files,
            training=BenchSection(bench=BenchRequest(timeout_s=self.pace.timeout_s, cells=tuple(cells))),
            batch=None,
            hub=next(iter(hubs), None),
            checkpoint_bytes=0,
            trained=min((each.trained for _, each in found if each.trained is not None), key=_load),
        )

    @property
    def _measurement(self) -> MeasurementSection:
        pace = self.pace
        return MeasurementSection(warmup_steps=pace.warmup_steps, steps=pace.steps, seconds=pace.seconds)

    def _parts(self, cell: GridCell, task: _CellTask, place: Place) -> tuple[Place, Parts]:
        """Plan one cell as a training.

        Raises:
            ArmadaError: It cannot be; the message names the cell.
        """
        try:
            profile = _with(place.need_profile(), cell.machine)
            resources = task.settings.resources
            gpus = count_gpus(resources, place.host, profile, place.facts, takes_gpus=True)
            processes = gpus or resources.processes or 1
            own = dataclasses.replace(
                place,
                profile=profile,
                gpus=gpus,
                processes=processes,
                variables=task.variables(profile, place.run_id),
            )
            task.settings = _whole_batches(task.settings, profile, processes)
            return own, task.parts(own)
        except ArmadaError as error:
            error.message = f"cell {cell.number} ({cell.label}): {error.message}"
            error.args = (error.message,)
            raise


class _CellTask(BundledTask):
    """A cell, planned as a training. What is the same for all cells is asked for once."""

    def __init__(self, settings: BundledTraining, order: Order, once: _Once) -> None:
        super().__init__(settings, order)
        self._once = once

    def plan_environment(self, place: Place) -> Environment:
        found: Environment = self._once("environment", lambda: super(_CellTask, self).plan_environment(place))
        return found

    def _find_model(self, place: Place) -> HubModel | Content | None:
        found: HubModel | Content | None = self._once(
            f"model {self.settings.hub_model}", lambda: super(_CellTask, self)._find_model(place)
        )
        return found

    def _ask_hub(self, place: Place, name: str | None) -> HubAnswer:
        found: HubAnswer = self._once(f"answer {name}", lambda: super(_CellTask, self)._ask_hub(place, name))
        return found


class _Once:
    """Remembers answers."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, ask: Callable[[], Any]) -> Any:
        if name not in self._known:
            self._known[name] = ask()
        return self._known[name]


def _files_of(experiment: BundledTraining) -> tuple[object, ...]:
    """What a cell reads at home: its data, its model, and the models beside it."""
    return experiment.data, experiment.model, experiment.companions


def _only_measured(experiment: BundledTraining) -> BundledTraining:
    """Leave out what is not measured: evaluation, W&B, the start from another training."""
    train = experiment.train.model_copy(
        update={
            "max_steps": _ENDLESS,
            "epochs": None,
            "eval_every_steps": None,
            "stop_early": None,
            "best_metric": None,
            "log_every_steps": 1,
        }
    )
    return experiment.model_copy(
        update={
            "train": train,
            "data": experiment.data.model_copy(update={"eval": ()}),
            "evaluation": Evaluation(),
            "tracking": experiment.tracking.model_copy(update={"wandb": "off"}),
            "start_from": None,
        }
    )


def _whole_batches(experiment: BundledTraining, profile: Profile, processes: int) -> BundledTraining:
    """Round the global batch up where it does not divide: micro batches and GPUs are what a bench varies."""
    train = experiment.train
    micro = 1 if train.micro_batch_size == "auto" else train.micro_batch_size
    if train.micro_batch_size == "auto" and train.global_batch_size % processes:
        micro = profile.train.micro_batch_size
    step = micro * processes
    whole = -(-train.global_batch_size // step) * step
    return experiment.model_copy(update={"train": train.model_copy(update={"global_batch_size": whole})})


def _with(profile: Profile, machine: Mapping[str, Any]) -> Profile:
    return profile.model_copy(update={"train": profile.train.model_copy(update=dict(machine))})


def _appetite(experiment: BundledTraining) -> float:
    """How many GPUs or processes a cell takes; by default all."""
    resources = experiment.resources
    if isinstance(resources.gpus, int) and resources.gpus:
        return resources.gpus
    return float("inf") if resources.gpus == "all" or resources.processes is None else resources.processes


def _load(trained: Trained) -> float:
    """The order of cells by memory, about: one that needs too much is a result, and only the smallest is checked."""
    length = trained.section.train.get("max_length")
    return trained.section.batch.micro * (length if isinstance(length, int) else 1)


def _numbered(name: str, number: int) -> str:
    folder, _, file = name.rpartition("/")
    return f"{folder}/cell-{number}-{file}"
