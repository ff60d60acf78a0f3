"""Run checks one after the other, and write each result as it comes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu import results_file
from benchmarks.gpu.catalogue import FAILED, FINAL, NOT_RUN, OOM, PASSED, SKIPPED, TIMEOUT, Check
from benchmarks.gpu.processes import TIMED_OUT, run_to_end

ROOT = Path(__file__).parents[2]
HOOKS = Path(__file__).parent / "hooks"
_STATES = (PASSED, FAILED, OOM, SKIPPED, TIMEOUT)
_TAIL_LINES = 25
_LEAST_S = 5.0


@dataclass(frozen=True)
class Setting:
    """What all checks of a run share.

    Attributes:
        python: With torch, and with what the payload needs.
        home_python: With what armada at home needs.
        machine: What `machine.py` says.
        work: Folder for models, data and logs.
        results: The file.
        tiny: Tiny shapes, without a GPU.
        commit: Of the code.
    """

    python: str
    home_python: str
    machine: Mapping[str, Any]
    work: Path
    results: Path
    tiny: bool
    commit: str

    @property
    def gpu(self) -> str:
        return str(self.machine.get("gpu") or "CPU")


class Runner:
    """Runs checks within a budget of time.

    Args:
        setting: Shared by all.
        budget_s: For all checks together.
        say: Prints a line.
        clock: In seconds.
    """

    def __init__(
        self,
        setting: Setting,
        budget_s: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._setting = setting
        self._say = say
        self._clock = clock
        self._until = clock() + budget_s

    def run(self, checks: Sequence[Check], *, again: bool) -> dict[str, str]:
        """Run what has no final result yet, or all of them again; return each one's state."""
        before = results_file.read(self._setting.results)["checks"]
        states: dict[str, str] = {}
        waiting: list[Check] = []
        for check in checks:
            had = before.get(check.name, {}).get("status")
            if had in FINAL and not again:
                states[check.name] = had
                self._say(f"{check.name}: {had}, as measured before (--again measures it anew)")
            else:
                waiting.append(check)
        for check in waiting:
            states[check.name] = self._run(check, before.get(check.name))
        return states

    def _run(self, check: Check, had: Mapping[str, Any] | None) -> str:
        left_s = self._until - self._clock()
        if left_s < (_LEAST_S if self._setting.tiny else min(check.needs_s, check.limit_s)):
            sentence = f"{max(0, left_s):.0f} s of the budget are left, and it takes about {check.needs_s:.0f} s"
            self._say(f"{check.name}: {NOT_RUN}: {sentence}")
            if had is None or had.get("status") == NOT_RUN:  # an earlier figure is worth more
                self._record(check, {"status": NOT_RUN, "message": sentence, "cases": [], "seconds": 0.0})
            return NOT_RUN
        self._say(f"{check.name}: {check.what}")
        began = self._clock()
        folder = self._setting.work / "kit-checks" / check.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        limit_s = min(check.limit_s, left_s)
        self._write_order(check, folder, limit_s)
        code = run_to_end(
            [self._setting.python, "-m", "benchmarks.gpu.check", str(folder / "order.json")],
            folder=folder,
            log=folder / "log",
            environment=environment(self._setting.machine, tiny=self._setting.tiny),
            limit_s=limit_s,
            clock=self._clock,
        )
        entry = read_outcome(folder, code, limit_s)
        if entry["status"] == TIMEOUT and limit_s < check.limit_s:
            entry["message"] += ", which was all that was left of the budget"
        entry["seconds"] = self._clock() - began
        for case in entry["cases"]:
            self._say(f"  {describe_case(case)}")
        said = f": {entry['message']}" if entry["message"] else ""
        self._say(f"{check.name}: {entry['status']} in {entry['seconds']:.0f} s{said}")
        if entry["status"] in (FAILED, TIMEOUT):
            self._say(_tail(folder / "log"))
        self._record(check, entry)
        return str(entry["status"])

    def _write_order(self, check: Check, folder: Path, limit_s: float) -> None:
        order = {
            "name": check.name,
            "module": check.module,
            "folder": str(folder),
            "shared": str(self._setting.work / "kit-models"),
            "tiny": self._setting.tiny,
            "home_python": self._setting.home_python,
            "limit_s": limit_s,
            "machine": self._setting.machine,
        }
        (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")

    def _record(self, check: Check, entry: Mapping[str, Any]) -> None:
        machine = self._setting.machine
        about = {
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "commit": self._setting.commit,
            "driver": machine.get("driver"),
            "python": machine.get("python"),
            "packages": machine.get("packages"),
        }
        results_file.record(self._setting.results, self._setting.gpu, check.name, {**about, **entry})


def environment(machine: Mapping[str, Any], *, tiny: bool) -> dict[str, str]:
    """Return the variables of a check: this process's, one GPU, and nothing that reaches the network."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("ARMADA_", "WANDB_", "HF_", "PYTHON"))
    }
    return kept | {
        "PYTHONPATH": os.pathsep.join(map(str, (HOOKS, ROOT, ROOT / "remote_payload"))),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "" if tiny else str(machine.get("index", 0)),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def read_outcome(folder: Path, code: int, limit_s: float) -> dict[str, Any]:
    """Read what a check told: its cases as far as they came, and how it ended."""
    cases = []
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / "cases.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):  # a kill cut it off
                cases.append(json.loads(line))
    cases = [case for case in cases if isinstance(case, dict)]
    if code == TIMED_OUT:
        message = f"it did not end within {limit_s:.0f} s"
        return {"status": TIMEOUT, "message": message, "cases": cases}
    try:
        end = json.loads((folder / "end.json").read_text(encoding="utf-8"))
        status, message = end["status"], str(end["message"])
    except (OSError, ValueError, KeyError, TypeError):
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        status, message = FAILED, f"it ended with {how} before it had said its result"
    if status not in _STATES:
        status, message = FAILED, f"it said {status!r}, which is no result"
    return {"status": status, "message": message, "cases": cases}


def describe_case(case: Mapping[str, Any]) -> str:
    """Say a case in one line."""
    told = case.get("figures")
    figures = told if isinstance(told, dict) else {}
    shown = ", ".join(f"{name} {figure(value)}" for name, value in figures.items())
    said = "; ".join(filter(None, (str(case.get("message") or ""), shown)))
    return f"{case.get('name')}: {case.get('status')}{': ' if said else ''}{said}"


def figure(value: Any) -> str:
    """Show a number with four digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
    except OSError:
        return ""
    return "\n".join(f"    {line[:300]}" for line in lines)
