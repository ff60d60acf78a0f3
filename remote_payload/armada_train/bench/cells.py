"""The cells of a bench, from spec.json; each is a training's specification with a measurement."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from armada_train.runfolder import RunFolder
from armada_train.specification.parser import parse_training
from armada_train.specification.section import Section, bad_spec, read_section
from armada_train.specification.values import Measurement, Training

FOLDER = "bench"
"""Below the run's folder; each cell has a folder in it."""


@dataclass(frozen=True)
class Cell:
    """One cell.

    Attributes:
        number: From 1.
        label: What differs from other cells, in words.
        content: spec["training"] of its training.
        training: The same, parsed.
        environment: Variables, over those of the job.
        accelerate: The file of accelerate's settings.
    """

    number: int
    label: str
    content: Mapping[str, Any]
    training: Training
    environment: Mapping[str, str]
    accelerate: str

    @property
    def processes(self) -> int:
        return self.training.batch.processes

    @property
    def asked(self) -> Measurement:
        if self.training.measurement is None:
            raise bad_spec(f"cell {self.number} has no `measurement`")
        return self.training.measurement

    def folder(self, run: RunFolder) -> Path:
        return run.path / FOLDER / str(self.number)

    @property
    def machine(self) -> tuple[str, int]:
        """What of the machine it uses: on CPUs, more processes leave fewer threads for each."""
        return (self.training.device, 0 if self.training.device == "cuda" else self.processes)

    def write(self, run: RunFolder, asked: Measurement) -> Path:
        """Make the cell's folder with its spec.json, and return it."""
        folder = self.folder(run)
        folder.mkdir(parents=True)
        training = {**self.content, "measurement": asdict(asked)}
        spec = {"format": 1, "run_id": f"{run.path.name}-{self.number}", "training": training}
        (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        return folder

    def clear(self, run: RunFolder) -> None:
        """Delete what an earlier try of the cell left."""
        if self.folder(run).exists():
            shutil.rmtree(self.folder(run))

    def variables(self) -> dict[str, str]:
        """The environment of the cell: the job's, with its own over it, and no more GPUs than it has processes."""
        environment = {**os.environ, **self.environment}
        if self.training.device == "cuda" and (visible := environment.get("CUDA_VISIBLE_DEVICES")):
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(visible.split(",")[: self.processes])
        elif self.training.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(self.processes)))
        return environment


@dataclass(frozen=True)
class Bench:
    """A bench.

    Attributes:
        cells: In the order in which they are measured.
        timeout_s: Of one cell.
    """

    cells: tuple[Cell, ...]
    timeout_s: float


def read_bench(spec: Path) -> Bench:
    """Read and check spec.json.

    Raises:
        PayloadFailure: `bad_spec`, naming the key.
    """
    section = read_section(spec, "bench")
    cells = tuple(_read_cell(item) for item in section.sections("cells"))
    bench = Bench(cells, section.number("timeout_s", above=True))
    section.close()
    if not cells:
        raise bad_spec("`training.bench.cells` is empty")
    if len({cell.number for cell in cells}) < len(cells):
        raise bad_spec("`training.bench.cells` has two cells of one number")
    return bench


def _read_cell(section: Section) -> Cell:
    content = section.get("training")
    training = parse_training(section.section("training"))
    environment = section.get("env", {})
    if not isinstance(environment, dict) or not all(isinstance(value, str) for value in environment.values()):
        raise section.wrong("env", "an object of texts", environment)
    section.get("values", None)  # for home
    cell = Cell(
        number=section.integer("number", minimum=1),
        label=section.text("label"),
        content=content,
        training=training,
        environment=environment,
        accelerate=section.text("accelerate"),
    )
    section.close()
    if training.measurement is None:
        raise bad_spec(f"`{section.where}.training.measurement` is missing")
    return cell
