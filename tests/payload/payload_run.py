"""A run's folder as armada would put it on a host, and the payload started in it, with real processes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.payload.interpreter import Ended, Interpreter, Process, wait_for_end
from tests.waiting import eventually

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

# What home adds for `train.sharding: fsdp`.
FSDP = """\
fsdp_config:
  fsdp_version: 2
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
  fsdp_cpu_ram_efficient_loading: true
  fsdp_activation_checkpointing: {recomputes}
"""
HYBRID = """\
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: {half}
"""


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
        if isinstance(value, Mapping) and isinstance(training.get(key), dict) and key != "model":
            training[key].update(value)
        else:
            training[key] = value
    return training


@dataclass
class PayloadRun:
    """One run's folder on this machine."""

    path: Path
    python: Interpreter
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
        train = self.training["train"]
        shards = processes > 1 and str(train.get("sharding")).startswith("fsdp")
        distributed_type = "FSDP" if shards else "MULTI_GPU" if processes > 1 else "NO"
        text = ACCELERATE.format(distributed_type=distributed_type, processes=processes)
        if shards:
            recomputes = bool(train.get("activation_checkpointing")) and self.training["lora"] is None
            text += FSDP.format(recomputes=str(recomputes).lower())
            text += HYBRID.format(half=processes // 2) if train["sharding"] == "fsdp-hybrid" else ""
        self.accelerate_file.write_text(text)

    def write_spec(self) -> None:
        spec = {"format": 1, "run_id": "a-test-1", "training": self.training}
        self.spec_file.write_text(json.dumps(spec))

    @property
    def spec_file(self) -> Path:
        return self.path / "spec.json"

    @property
    def accelerate_file(self) -> Path:
        return self.path / "launch" / "accelerate.yaml"

    def start(
        self, *, launcher: bool = False, fresh: bool = False, interpreter_options: tuple[str, ...] = ()
    ) -> Process:
        """Start the payload, under accelerate or, as one process does as well, on its own; forked unless it shall be fresh."""
        module = ["armada_train.launch", "--config_file", str(self.accelerate_file)] if launcher else ["armada_train"]
        return self.start_python(*interpreter_options, "-m", *module, "--spec", str(self.spec_file), fresh=fresh)

    def start_python(self, *arguments: str, fresh: bool = False) -> Process:
        """Start any program of Python as a process of this run."""
        environment = {"ARMADA_ATTEMPT": str(self.attempt), **self.environment}
        return self.python.start(*arguments, fresh=fresh, cwd=self.path / "work", environment=environment)

    def finish(self, **options: Any) -> Ended:
        return wait_for_end(self.start(**options))

    def finish_python(self, *arguments: str, fresh: bool = False) -> Ended:
        return wait_for_end(self.start_python(*arguments, fresh=fresh))

    def train(self, **options: Any) -> Ended:
        """Let it run to its end, which is a success."""
        ended = self.finish(**options)
        assert ended.code == 0, ended.output
        return ended

    def lines(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in read_jsonl(self.path / "metrics.jsonl") if line["kind"] == kind]

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

    def wait_for(self, process: Process, look: Callable[[], Any], what: str) -> Any:
        """Wait for something that the running payload does; its own end is a failure."""

        def seen() -> Any:
            found = look()
            assert found or process.poll() is None, f"it ended before {what}: {process.communicate()[0]}"
            return found

        return eventually(seen, what)

    def wait_for_step(self, process: Process, step: int) -> None:
        def reached() -> bool:
            path = self.path / "metrics.jsonl"
            return path.exists() and f'"train", "step": {step},' in path.read_text()

        self.wait_for(process, reached, f"step {step}")


def says_who_exchanged(run: PayloadRun) -> None:
    """Each line of a run on two ranks says how long they exchanged, and which of them was slowest."""
    for line in run.lines("train"):
        assert min(line["time/communication"], line["time/backward"], line["time/forward"]) > 0
        assert line["time/slowest_rank"] in {0, 1}
        assert line["time/waits_for_it"] >= 0
        assert line["time/data_slowest"] >= line["time/data"]


class Gate:
    """Holds a training at its second evaluation, however fast the machine is.

    samples.jsonl is a pipe with room for one line: the first evaluation, before any step, writes it; the second one waits.
    """

    SETTINGS: ClassVar = {"samples": 1, "sample_tokens": 1}
    """What `evaluation` must be."""
    _ROOM_BYTES = 300  # a line is 190 to 230 long

    def __init__(self, run: PayloadRun) -> None:
        os.mkfifo(run.path / "samples.jsonl")
        self._run = run
        self._pipe = os.open(run.path / "samples.jsonl", os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, 4096)
        os.write(self._pipe, b" " * (fcntl.fcntl(self._pipe, fcntl.F_GETPIPE_SZ) - self._ROOM_BYTES))

    def wait(self, process: Process, step: int) -> None:
        """Wait until the training evaluates after this step."""
        place = {"phase": "evaluating", "step": step}

        def is_there() -> bool:
            return (self._run.path / "heartbeat-0.json").exists() and place.items() <= self._run.heartbeat(0).items()

        self._run.wait_for(process, is_there, f"the evaluation of step {step}")

    def open(self) -> None:
        """Let this evaluation and some more go on."""
        os.read(self._pipe, 1 << 16)

    def remove(self) -> None:
        """Leave no pipe to the next attempt."""
        os.close(self._pipe)
        (self._run.path / "samples.jsonl").unlink()
