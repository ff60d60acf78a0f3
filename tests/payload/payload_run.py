"""A run's folder as armada would put it on a host, and the payload started in it, with real processes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAYLOAD = Path(__file__).parents[2] / "remote_payload"
_BETWEEN_LOOKS_S = 0.005

TINY = {"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 1, "intermediate_size": 64, "vocab_size": 320}

# What home renders as launch/accelerate.yaml for processes without GPUs. `MULTI_GPU` with `use_cpu` is gloo: accelerate's
# own `--cpu --num_processes 2` starts one process and says nothing. Port 0 is any free one.
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: {distributed_type}
use_cpu: true
debug: false
num_machines: 1
num_processes: {processes}
machine_rank: 0
main_process_port: 0
main_training_function: main
mixed_precision: "no"
enable_cpu_affinity: false
"""


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def chat(question: str, answer: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def chats(count: int) -> list[dict[str, Any]]:
    return [chat(f"What is {n} plus one?" + " Tell me." * (n % 3), f"It is {n + 1}.") for n in range(count)]


def make_training(
    train_file: Path, eval_file: Path | None = None, /, **changes: Mapping[str, Any] | Any
) -> dict[str, Any]:
    """Build spec["training"]; a mapping among the changes is merged into its section, anything else replaces it."""
    training: dict[str, Any] = {
        "model": {"tiny": TINY},
        "data": {"train": [{"path": str(train_file), "weight": 1.0}], "eval": []},
        "batch": {"global": 8, "micro": 4, "accumulation": 2, "processes": 1},
        "train": {
            "max_steps": 20,
            "epochs": None,
            "max_length": 256,
            "learning_rate": 5e-3,
            "warmup_steps": 0,
            "lr_scheduler": "cosine",
            "weight_decay": 0.0,
            "max_grad_norm": 1.0,
            "seed": 5,
            "log_every_steps": 1,
            "eval_every_steps": None,
        },
        "lora": {"r": 8, "alpha": 16, "dropout": 0.0, "dora": False, "rslora": True, "target_modules": "all-linear"},
        "precision": "fp32",
        "attention": "auto",
        "device": "cpu",
        "checkpoint": {"every_steps": 10, "keep_last": 2},
        "tracking": {"wandb": "off", "project": None, "name": "a test", "id": "a-test-1"},
    }
    if eval_file:
        training["data"]["eval"] = [{"path": str(eval_file)}]
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(training[key], dict) and key != "model":
            training[key].update(value)
        else:
            training[key] = value
    return training


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 120) -> None:
    """Look again and again until the condition holds.

    Raises:
        TimeoutError: It never did.
    """
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > give_up_at:
            message = f"waited {deadline_s} s for {what}"
            raise TimeoutError(message)
        time.sleep(_BETWEEN_LOOKS_S)


@dataclass
class Ended:
    """How a payload process ended, and what it printed."""

    code: int
    output: str


@dataclass
class PayloadRun:
    """One run's folder on this machine."""

    path: Path
    python: str
    training: dict[str, Any]
    attempt: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> PayloadRun:
        (self.path / "work").mkdir(parents=True)
        (self.path / "launch").mkdir()
        self.write_spec()
        self.write_accelerate()
        return self

    def write_accelerate(self) -> None:
        processes = self.training["batch"]["processes"]
        distributed_type = "MULTI_GPU" if processes > 1 else "NO"
        self.accelerate_file.write_text(ACCELERATE.format(distributed_type=distributed_type, processes=processes))

    def write_spec(self) -> None:
        spec = {"format": 1, "run_id": "a-test-1", "training": self.training}
        (self.path / "spec.json").write_text(json.dumps(spec))

    @property
    def accelerate_file(self) -> Path:
        return self.path / "launch" / "accelerate.yaml"

    def start(
        self, *, launcher: bool = False, interpreter_options: tuple[str, ...] = (), limit_data_bytes: int | None = None
    ) -> subprocess.Popen[str]:
        """Start the payload, under accelerate or, as one process does as well, on its own.

        `limit_data_bytes` is how much private memory it may ask for, as a container would limit what it may use.
        """
        module = ["armada_train.launch", "--config_file", str(self.accelerate_file)] if launcher else ["armada_train"]
        process = subprocess.Popen(
            [self.python, *interpreter_options, "-m", *module, "--spec", str(self.path / "spec.json")],
            cwd=self.path / "work",
            env={**self._environment(), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if limit_data_bytes is not None:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit_data_bytes, limit_data_bytes))
        return process

    def finish(self, *, launcher: bool = False, interpreter_options: tuple[str, ...] = ()) -> Ended:
        process = self.start(launcher=launcher, interpreter_options=interpreter_options)
        output, _ = process.communicate(timeout=400)
        return Ended(process.returncode, output)

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **kept,
            "PYTHONPATH": str(PAYLOAD),
            "PYTHONSAFEPATH": "1",
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "ARMADA_ATTEMPT": str(self.attempt),
        }

    def lines(self, kind: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["kind"] == kind]

    def losses(self) -> dict[int, float]:
        return {line["step"]: line["loss"] for line in self.lines("train")}

    @property
    def summary(self) -> dict[str, Any]:
        return self.lines("summary")[-1]

    @property
    def failure(self) -> dict[str, str]:
        text = (self.path / "attempts" / str(self.attempt) / "failure.json").read_text()
        failure: dict[str, str] = json.loads(text)
        return failure

    def heartbeat(self, rank: int) -> dict[str, Any]:
        heartbeat: dict[str, Any] = json.loads((self.path / f"heartbeat-{rank}.json").read_text())
        return heartbeat

    def steps_in(self, folder: str, prefix: str) -> list[int]:
        names = [entry.name for entry in (self.path / folder).glob(f"{prefix}*") if entry.is_dir()]
        return sorted(int(name.removeprefix(prefix)) for name in names)
