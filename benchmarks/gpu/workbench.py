"""What a check works with: its folder, models and rows, trainings by the payload itself, and the cases that it tells."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.catalogue import FAILED, OOM, PASSED, SKIPPED, TIMEOUT
from benchmarks.gpu.processes import TIMED_OUT, run_to_end
from benchmarks.gpu.results_file import plain
from benchmarks.gpu.rows import write_rows
from benchmarks.gpu.runner import environment
from benchmarks.gpu.shapes import SHAPES

_ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: "NO"
use_cpu: {cpu}
num_machines: 1
num_processes: 1
machine_rank: 0
mixed_precision: "{precision}"
gpu_ids: all
main_process_port: 0
"""
_ROWS = 64
_MARGIN_S = 5.0
_DISK_MARGIN = 1.1
_LEAST_LOSS = 1e-6


class Failed(Exception):
    """The check found something wrong; the message says what."""


class Skipped(Exception):
    """The check cannot run here; the message says why."""


@dataclass(frozen=True)
class Ended:
    """A training that has ended.

    Attributes:
        code: Its exit code.
        seconds: With its start and end.
        folder: The run's.
        result: What a measured training wrote.
        failure: Reason and message of one that failed.
        losses: By step.
        peak: Its peak memory in bytes, by kind.
    """

    code: int
    seconds: float
    folder: Path
    result: Mapping[str, Any] = field(default_factory=dict)
    failure: Mapping[str, Any] = field(default_factory=dict)
    losses: Mapping[int, float] = field(default_factory=dict)
    peak: Mapping[str, int] = field(default_factory=dict)

    @property
    def status(self) -> str:
        if self.code == 0:
            return PASSED
        known = {"oom": OOM, "host_oom": OOM, "timeout": TIMEOUT}
        return known.get(str(self.failure.get("reason")), FAILED)

    @property
    def message(self) -> str:
        if self.code == 0:
            return ""
        return str(self.failure.get("message") or f"it ended with exit code {self.code}").partition("\n")[0][:400]

    @property
    def loss_list(self) -> list[float]:
        return [self.losses[step] for step in sorted(self.losses)]


class Workbench:
    """The surroundings of one check.

    Args:
        order: What the runner wrote.
        clock: In seconds.
    """

    def __init__(self, order: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self.order = order
        self.name: str = order["name"]
        self.module: str = order["module"]
        self.folder = Path(order["folder"])
        self.shared = Path(order["shared"])
        self.tiny: bool = order["tiny"]
        self.home_python: str = order["home_python"]
        self.machine: Mapping[str, Any] = order["machine"]
        self._clock = clock
        self._until = clock() + order["limit_s"] - _MARGIN_S
        self._statuses: list[str] = []

    @classmethod
    def read(cls, path: Path) -> Workbench:
        return cls(json.loads(path.read_text(encoding="utf-8")))

    @property
    def device(self) -> str:
        return "cpu" if self.tiny else "cuda"

    @property
    def precision(self) -> str:
        """What the payload trains in here: 16 bits where the GPU has them."""
        if self.tiny:
            return "fp32"
        return "bf16" if self.capability >= (8, 0) else "fp16"

    @property
    def capability(self) -> tuple[int, int]:
        major, _, minor = str(self.machine.get("capability") or "0.0").partition(".")
        return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)

    @property
    def left_s(self) -> float:
        return max(1.0, float(self._until - self._clock()))

    def tell(self, name: str, status: str = PASSED, message: str = "", **figures: Any) -> None:
        """Write a case down at once: what comes later may run out of time."""
        self._statuses.append(status)
        case = plain({"name": name, "status": status, "message": message, "figures": figures})
        with (self.folder / "cases.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(case) + "\n")

    def verdict(self) -> tuple[str, str]:
        """Return the state of the whole check by its cases."""
        for status in (FAILED, TIMEOUT, OOM, SKIPPED):
            count = self._statuses.count(status)
            if status == FAILED and count:
                return FAILED, f"{count} of {len(self._statuses)} cases failed"
            if status == TIMEOUT and count:
                return TIMEOUT, f"{count} of {len(self._statuses)} cases did not end in time"
            if self._statuses and count == len(self._statuses):
                return status, ""
        return PASSED, ""

    def need_package(self, module: str, name: str) -> None:
        """Skip the check where a package is missing."""
        import importlib.util

        if importlib.util.find_spec(module) is None:
            raise Skipped(f"{name} is not installed")

    def need_gpu(self, what: str) -> None:
        if self.tiny:
            raise Skipped(f"{what} needs a GPU")

    def rows(self, longest: int) -> Path:
        """Return rows of at least `longest` tokens each, for trainings that truncate them; the same for all checks."""
        self.shared.mkdir(parents=True, exist_ok=True)
        path = self.shared / f"rows-{longest}" / "train.jsonl"  # TRL's script takes a folder
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            write_rows(path, _ROWS, longest + 8, longest + 8)
        return path

    def short_rows(self, count: int = 256) -> Path:
        """Return rows of 10 to 40 words."""
        path = self.folder / "rows.jsonl"
        return path if path.exists() else write_rows(path, count, 10, 40)

    def model(self, shape: str) -> Path:
        """Return the folder of a model with random weights, which is made once for all checks.

        Raises:
            Failed: It cannot be made.
        """
        shape = "tiny" if self.tiny else shape
        folder = self.shared / f"model-{shape}"
        if not folder.exists():
            self.shared.mkdir(parents=True, exist_ok=True)
            self._need_disk(shape)
            order = {"config": SHAPES[shape], "folder": str(folder), "rows": str(self.rows(256)), "device": self.device}
            file, log = self.folder / "model.json", self.folder / "model.log"
            file.write_text(json.dumps(order), encoding="utf-8")
            code = self.run("benchmarks.gpu.random_model", str(file), log=log)
            if code:
                last = (log.read_text(errors="replace").strip().splitlines() or [f"exit code {code}"])[-1]
                raise Failed(f"the model of shape {shape} cannot be made: {last[:300]}")
        return folder

    def _need_disk(self, shape: str) -> None:
        """Skip the check where the weights, of 16 bits each, do not fit on the disk."""
        from armada.launch.estimates.parameters import count_parameters
        from armada.launch.estimates.shape import read_shape

        size = 2 * count_parameters(read_shape(SHAPES[shape]))
        free = shutil.disk_usage(self.shared).free
        if free < size * _DISK_MARGIN:
            raise Skipped(f"the model takes {size / 1e9:.1f} GB in {self.shared}, where {free / 1e9:.1f} GB are free")

    def section(
        self, model: Mapping[str, Any], rows: Path, *, length: int, steps: int, micro: int = 4, **changes: Any
    ) -> dict[str, Any]:
        """Return spec["training"]; a mapping among the changes is merged into its section, anything else replaces it."""
        section: dict[str, Any] = {
            "model": dict(model),
            "data": {"train": [{"path": str(rows)}], "eval": []},
            "batch": {"global": micro, "micro": micro, "accumulation": 1, "processes": 1},
            "train": {
                "max_steps": steps,
                "epochs": None,
                "max_length": length,
                "long_samples": "truncate",
                "learning_rate": 1e-3,
                "lr_scheduler": "linear",
                "seed": 5,
                "log_every_steps": 1,
                "activation_checkpointing": False,
            },
            "lora": {
                "r": 16,
                "alpha": 32,
                "dropout": 0.0,
                "dora": False,
                "rslora": True,
                "target_modules": "all-linear",
            },
            "precision": self.precision,
            "attention": "auto",
            "device": self.device,
            "checkpoint": {"every_steps": 1_000_000, "keep_last": 1},
            "tracking": {"wandb": "off", "name": self.name, "id": self.name},
            "prepared": str(self.shared / "prepared"),
        }
        if peak := self.machine.get("peak_flops"):
            section["peak_flops"] = peak
        for key, value in changes.items():
            if isinstance(value, Mapping) and isinstance(section.get(key), dict) and key != "model":
                section[key].update(value)
            else:
                section[key] = value
        return section

    def measured(self, *args: Any, warmup_steps: int = 3, seconds: float = 4.0, **changes: Any) -> dict[str, Any]:
        """Return the section of a training that measures its speed and saves nothing, as a cell of `armada bench`."""
        measurement = {
            "warmup_steps": warmup_steps,
            "steps": 2 if self.tiny else 5,
            "seconds": 0 if self.tiny else seconds,
        }
        return self.section(*args, steps=100_000, measurement=measurement, **changes)

    def train(
        self,
        name: str,
        section: Mapping[str, Any],
        *,
        memory_bytes: int | None = None,
        visible: str | None = None,
        script: str | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Ended:
        """Train by the payload's own launcher, and wait for the end.

        Args:
            name: Of the run, in the check's folder.
            section: spec["training"].
            memory_bytes: Of address space, to make a CPU run out of memory.
            visible: The GPUs that it sees, where not the one that is measured.
            script: Runs the payload, instead of the launcher itself.
            more: Variables.
        """
        run = self.folder / name
        (run / "work").mkdir(parents=True)
        config, spec = run / "accelerate.yaml", run / "spec.json"
        precision = str(section["precision"]).replace("fp32", "no")
        config.write_text(_ACCELERATE.format(cpu=str(section["device"] == "cpu").lower(), precision=precision))
        plan = {"format": 1, "run_id": name, "gpus": 0 if self.tiny else 1, "training": section}
        spec.write_text(json.dumps(plan), encoding="utf-8")
        variables = dict(more or {})
        variables |= {} if memory_bytes is None else {"ARMADA_GPU_ADDRESS_SPACE": str(memory_bytes)}
        variables |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        began = self._clock()
        words = ["armada_train.launch", "--config_file", str(config), "--spec", str(spec)]
        words += [] if script is None else ["--script", script, "--", "--spec", str(spec)]
        code = self.run(*words, log=run / "log", folder=run, more=variables)
        return read_end(run, code, self._clock() - began)

    def run(
        self,
        module: str,
        *words: str,
        log: Path,
        folder: Path | None = None,
        more: Mapping[str, str] | None = None,
    ) -> int:
        """Run a module of this Python to its end and return the exit code; its peak memory goes into its folder."""
        folder = folder or self.folder
        env = environment(self.machine, tiny=self.tiny) | {
            "ARMADA_GPU_PEAKS": str(folder),
            "HF_HOME": str(self.shared / "hf"),
            **(more or {}),
        }
        argv = [sys.executable, "-m", module, *words]
        return run_to_end(argv, folder=folder, log=log, environment=env, limit_s=self.left_s, clock=self._clock)


def differ(value: float, base: float) -> float:
    """Return by which share of the base a value differs; not a number stays none."""
    return abs(value - base) / max(abs(base), _LEAST_LOSS)


def read_end(run: Path, code: int, seconds: float) -> Ended:
    """Read what a training left in its folder."""
    failures = sorted(run.glob("attempts/*/failure.json"))
    failure = _read(failures[-1]) if failures else {}
    if code == TIMED_OUT:
        failure = {"reason": "timeout", "message": f"it did not end within {seconds:.0f} s"}
    losses = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("kind") == "train" and isinstance(entry.get("loss"), int | float):
                    losses[int(entry["step"])] = float(entry["loss"])
    if code and not failure:
        lines = (run / "log").read_text(errors="replace").strip().splitlines()
        failure = {"message": f"exit code {code}: {lines[-1] if lines else ''}"}
    return Ended(code, seconds, run, _read(run / "result.json"), failure, losses, read_peak(run))


def read_peak(folder: Path) -> dict[str, int]:
    """Return the most that any of a folder's processes held, by kind of memory."""
    peak: dict[str, int] = {}
    for file in folder.glob("peak-*.json"):
        for name, value in _read(file).items():
            if isinstance(value, int):
                peak[name] = max(peak.get(name, 0), value)
    return peak


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
