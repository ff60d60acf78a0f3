"""The payload against TRL's own script on the same model and rows, in turn: losses, tokens a second, memory.

Both truncate the same rows to the same length, train LoRA with SDPA, and log every few steps. Time is when a line of the log
arrives; the lines before the first one that counts are the warm-up.
"""

from __future__ import annotations

import ast
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.runner import environment
from benchmarks.gpu.workbench import Workbench, differ, read_peak

_AIM_SPEED, _AIM_MEMORY = 0.97, 1.05
_DIFFERS = 0.01
_LOG_EVERY = 5


@dataclass(frozen=True, slots=True)
class Pair:
    """What both train."""

    length: int
    micro: int
    steps: int
    rounds: int


PAIRS = {"0.5b": Pair(2048, 4, 25, 2), "7b": Pair(2048, 2, 15, 1)}
_TINY = Pair(64, 2, 10, 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One training: seconds between the lines that count, losses by line, peak memory."""

    seconds: float
    losses: list[float]
    peak: Mapping[str, int]


def run(bench: Workbench) -> None:
    name = bench.name.removeprefix("trl-")
    pair = _TINY if bench.tiny else PAIRS[name]
    model, rows = bench.model(name), bench.rows(pair.length)
    ours: list[Outcome] = []
    theirs: list[Outcome] = []
    for number in range(pair.rounds):
        for is_ours in (True, False) if number % 2 else (False, True):
            label = f"{'payload' if is_ours else 'trl'}-{number + 1}"
            outcome = (_payload if is_ours else _trl)(bench, label, pair, model, rows)
            if outcome is None:
                return
            (ours if is_ours else theirs).append(outcome)
    tokens = pair.micro * pair.length * (pair.steps - _LOG_EVERY)
    speed = statistics.median(b.seconds / a.seconds for a, b in zip(ours, theirs, strict=True))
    kind = "rss_bytes" if bench.tiny else "reserved_bytes"
    memory = [
        a.peak[kind] / b.peak[kind] for a, b in zip(ours, theirs, strict=True) if b.peak.get(kind) and kind in a.peak
    ]
    differs = max(differ(a, b) for a, b in zip(ours[0].losses, theirs[0].losses, strict=True))
    notes = [f"tokens/s {speed:.3f}×, the aim of {_AIM_SPEED}× is {'met' if speed >= _AIM_SPEED else 'missed'}"]
    if not differs <= _DIFFERS:
        notes.append(f"the losses differ by {differs:.2%}")
    bench.tell(
        "against trl sft",
        FAILED if not differs <= _DIFFERS else PASSED,
        "; ".join(notes),
        speed_of_trl=speed,
        memory_of_trl=statistics.median(memory) if memory else None,
        aim_speed=_AIM_SPEED,
        aim_memory=_AIM_MEMORY,
        tokens_per_s=tokens / statistics.median(each.seconds for each in ours),
        losses_differ=differs,
    )


def _payload(bench: Workbench, label: str, pair: Pair, model: Path, rows: Path) -> Outcome | None:
    section = bench.section(
        {"path": str(model)},
        rows,
        length=pair.length,
        steps=pair.steps,
        micro=pair.micro,
        attention="sdpa",
        train={"log_every_steps": _LOG_EVERY},
    )
    ended = bench.train(label, section)
    times = {}
    for line in _lines(ended.folder / "metrics.jsonl"):
        with contextlib.suppress(ValueError, KeyError):
            entry = json.loads(line)
            if entry["kind"] == "train":
                times[entry["step"]] = entry["time"]
    if ended.status != PASSED:
        bench.tell(label, ended.status, ended.message)
        return None
    return _outcome(bench, label, pair, [times[step] for step in sorted(times)], ended.loss_list, ended.peak)


def _trl(bench: Workbench, label: str, pair: Pair, model: Path, rows: Path) -> Outcome | None:
    folder = bench.folder / label
    folder.mkdir()
    argv = [sys.executable, "-m", "trl.scripts.sft", *arguments(bench, pair, model, rows, folder / "out")]
    env = environment(bench.machine, tiny=bench.tiny) | {
        "ARMADA_GPU_PEAKS": str(folder),
        "ARMADA_GPU_FOLDER": str(folder),
        "HF_HOME": str(folder / "hf"),
    }
    times: list[float] = []
    losses: list[float] = []
    with (
        (folder / "log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            argv, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            if (loss := read_loss(line)) is not None:
                times.append(time.time())
                losses.append(loss)
    if process.returncode:
        text = (folder / "log").read_text(errors="replace")
        last = (text.strip().splitlines() or ["?"])[-1][:300]
        status = "oom" if "out of memory" in text else FAILED
        bench.tell(label, status, f"exit code {process.returncode}: {last}")
        return None
    return _outcome(bench, label, pair, times, losses, read_peak(folder))


def arguments(bench: Workbench, pair: Pair, model: Path, rows: Path, out: Path) -> list[str]:
    """Return the arguments of TRL's script that mean what the payload's section means."""
    words: dict[str, Any] = {
        "model_name_or_path": model,
        "dataset_name": rows.parent,
        "output_dir": out,
        "dtype": "float32" if bench.precision == "fp32" else {"bf16": "bfloat16", "fp16": "float16"}[bench.precision],
        "bf16": bench.precision == "bf16",
        "fp16": bench.precision == "fp16",
        "use_cpu": bench.tiny,
        "attn_implementation": "sdpa",
        "max_length": pair.length,
        "assistant_only_loss": True,
        "per_device_train_batch_size": pair.micro,
        "gradient_accumulation_steps": 1,
        "max_steps": pair.steps,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "linear",
        "seed": 5,
        "data_seed": 5,
        "logging_steps": _LOG_EVERY,
        "logging_first_step": True,
        "disable_tqdm": True,
        "gradient_checkpointing": False,
        "save_strategy": "no",
        "eval_strategy": "no",
        "report_to": "none",
        "use_peft": True,
        "lora_r": 16,
        "lora_alpha": 32,
        "lora_dropout": 0.0,
        "use_rslora": True,
        "lora_target_modules": "all-linear",
        "lora_task_type": "CAUSAL_LM",
    }
    return [text for key, value in words.items() for text in (f"--{key}", str(value))]


def read_loss(line: str) -> float | None:
    """Return the loss of a line of the Trainer's log; its summary at the end is none."""
    if not line.startswith("{") or "'train_runtime'" in line:
        return None
    try:
        said = ast.literal_eval(line.strip())
        return float(said["loss"])
    except (ValueError, SyntaxError, KeyError, TypeError):
        return None


def _outcome(
    bench: Workbench, label: str, pair: Pair, times: list[float], losses: list[float], peak: Mapping[str, int]
) -> Outcome | None:
    expected = 1 + pair.steps // _LOG_EVERY  # the first step's line, then every few steps
    if len(times) != expected or len(losses) != expected:
        bench.tell(label, FAILED, f"{len(times)} lines of its log with a loss came, not {expected}")
        return None
    seconds = times[-1] - times[1]
    bench.tell(label, PASSED, seconds=seconds, last_loss=losses[-1], peak_reserved_bytes=peak.get("reserved_bytes"))
    return Outcome(seconds, losses, peak)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
