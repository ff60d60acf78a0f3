"""A whole `armada launch --host local` on this GPU: once undisturbed, once killed in the middle and resumed.

The environment that armada would build is this Python: a link under the name that the launch looks for. The two runs must
end alike: to the bit where the GPU's kernels repeat themselves, else within a tolerance.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.catalogue import FAILED, PASSED
from benchmarks.gpu.processes import end_all_of, processes_of
from benchmarks.gpu.runner import environment
from benchmarks.gpu.workbench import Failed, Skipped, Workbench, differ

_STEPS, _EVERY, _KILL_AT = (120, 20, 50)
_TINY_STEPS, _TINY_EVERY, _TINY_KILL_AT = (24, 6, 14)
_FIRST_DIFFERS, _LAST_DIFFERS = 1e-3, 0.05
"""Of the first loss after the resume, against what it was before the kill, and of the last, against the other run's.

Kernels that add up in any order do not repeat themselves to the bit, and over many steps the difference grows.
"""
_ENDS = ("succeeded", "failed", "cancelled")
_LOOK_EVERY_S = 0.02
_COMMAND_S = 120


def run(bench: Workbench) -> None:
    home = Home(bench)
    try:
        home.prepare()
        straight = home.launch("straight")
        home.wait_for_end(straight)
        disturbed = home.launch("disturbed")
        home.kill_at(disturbed)
        state, killed = home.wait_for_end(disturbed), home.losses(disturbed, attempt=1)
        if state != "failed":
            raise Failed(f"the run was killed and is {state}, not failed")
        home.call("resume", disturbed, "--no-daemon")
        state = home.wait_for_end(disturbed, attempt=2)
        told = home.json("show", disturbed)
        judge(bench, home.losses(straight), killed, home.losses(disturbed, attempt=2), state)
        bench.tell("show", PASSED, state=told.get("state"), attempt=told.get("attempt"))
        home.call("sync", "now", disturbed)
        kept = [entry for entry in (home.folder / "home").rglob("MANIFEST.json") if "local" not in entry.parts]
        bench.tell("checkpoints at home", PASSED if kept else FAILED, "" if kept else "none came", count=len(kept))
    finally:
        end_all_of(bench.folder / "home")


class Home:
    """armada with a home of its own, and this machine as its host.

    Args:
        bench: The check's.

    Raises:
        Skipped: No Python here has what armada at home needs.
    """

    def __init__(self, bench: Workbench) -> None:
        if bench.home_python == sys.executable and (missing := bench.machine["missing_home"]):
            raise Skipped(f"armada at home needs {', '.join(missing)}")
        self._bench = bench
        self.folder = bench.folder
        self._steps, self._every, self._kill_at = (
            (_TINY_STEPS, _TINY_EVERY, _TINY_KILL_AT) if bench.tiny else (_STEPS, _EVERY, _KILL_AT)
        )

    def prepare(self) -> None:
        """Put this Python where the launch will look for its environment."""
        self._bench.short_rows()
        model = {"hidden_size": 64, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate_size": 128, "vocab_size": 320}
        experiment = {
            "name": "gpu-kit",
            "task": "sft",
            "model": {"tiny": model},
            "data": {"train": [{"path": "rows.jsonl"}]},
            "train": {
                "global_batch_size": 8,
                "micro_batch_size": 4,
                "max_steps": self._steps,
                "max_length": 64,
                "learning_rate": 5e-3,
                "seed": 5,
            },
            "lora": {"r": 8, "alpha": 16},
            "checkpoint": {"every_steps": self._every, "keep_last": 2},
            "resources": {"processes": 1} if self._bench.tiny else {"gpus": 1},
            "tracking": {"wandb": "off"},
        }
        (self.folder / "exp.yaml").write_text(json.dumps(experiment), encoding="utf-8")  # JSON is YAML
        spec = self.json("launch", "--host", "local", "exp.yaml", "--dry-run")["spec"]
        self._bench.tell("plan", profile=spec["profile"], environment=spec["environment"]["key"], gpus=spec["gpus"])
        place = Path(spec["environment"]["path"])
        (place / "bin").mkdir(parents=True)
        program = place / "bin" / "python"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        (place / "READY").write_text(json.dumps({"key": spec["environment"]["key"]}), encoding="utf-8")

    def launch(self, name: str) -> str:
        """Launch the experiment and return its run's id."""
        started: dict[str, Any] = self.json("launch", "--host", "local", "exp.yaml", "--no-daemon", "--name", name)
        return str(started["run_id"])

    def kill_at(self, run_id: str) -> None:
        """Kill the job's processes with signal 9 when it has gone far enough."""

        def reached() -> bool:
            return max(self.losses(run_id), default=0) >= self._kill_at

        self._wait(lambda: reached() or self._has_ended(run_id), f"step {self._kill_at} of {run_id}")
        jobs = processes_of(self.folder / "home", f"ARMADA_RUN_ID={run_id}")
        trains = [pid for pid in jobs if b"armada_train" in _command(pid)]
        if not trains:
            raise Failed(f"{run_id} has no process to kill: it ended before step {self._kill_at}")
        for pid in trains:
            os.kill(pid, signal.SIGKILL)

    def wait_for_end(self, run_id: str, attempt: int = 1) -> str:
        """Wait until the supervisor has written the run's end; return the state."""

        def ended() -> bool:
            return self._has_ended(run_id) and len(self._attempts(run_id)) >= attempt

        self._wait(ended, f"the end of {run_id}")
        return str(self._state(run_id))

    def losses(self, run_id: str, attempt: int = 1) -> dict[int, float]:
        """Return an attempt's losses by step."""
        found: dict[int, float] = {}
        try:
            lines = (self._runs / run_id / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        except OSError:
            return found
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # it is just being written
                continue
            if (entry.get("kind"), entry.get("attempt")) == ("train", attempt) and "loss" in entry:
                found[int(entry["step"])] = float(entry["loss"])
        return found

    def json(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.call(*words, "--json"))
        return answer

    def call(self, *words: str) -> str:
        """Run a command of armada and return what it prints.

        Raises:
            Failed: Its exit code is not 0.
        """
        env = environment(self._bench.machine, tiny=self._bench.tiny) | {
            "ARMADA_HOME": str(self.folder / "home"),
            "ARMADA_NO_DAEMON": "1",
        }
        if not self._bench.tiny:
            del env["CUDA_VISIBLE_DEVICES"]  # armada chooses the GPU
        argv = [self._bench.home_python, "-m", "armada", *words]
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S,
            check=False,
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip())[-400:]
            raise Failed(f"armada {' '.join(words[:2])} ended with {done.returncode}: {said}")
        return done.stdout

    @property
    def _runs(self) -> Path:
        return self.folder / "home" / "state" / "local" / "runs"

    def _state(self, run_id: str) -> str | None:
        try:
            state = json.loads((self._runs / run_id / "state.json").read_text(encoding="utf-8")).get("state")
        except (OSError, ValueError):
            return None
        return str(state)

    def _has_ended(self, run_id: str) -> bool:
        return self._state(run_id) in _ENDS

    def _attempts(self, run_id: str) -> list[Path]:
        return [entry for entry in (self._runs / run_id / "attempts").glob("*") if entry.name.isdecimal()]

    def _wait(self, look: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + self._bench.left_s - _LOOK_EVERY_S
        while not look():
            if time.monotonic() > until:
                raise Failed(f"{what} did not come")
            time.sleep(_LOOK_EVERY_S)


def judge(
    bench: Workbench, straight: dict[int, float], killed: dict[int, float], resumed: dict[int, float], state: str
) -> None:
    """Compare the losses of the undisturbed run, of the killed attempt and of the one that resumed."""
    wrong = [] if state == "succeeded" else [f"the resumed run is {state}"]
    both = sorted(killed.keys() & resumed.keys())
    last = max(straight, default=0)
    if not both or last not in resumed:
        wrong.append(f"it resumed with {len(resumed)} steps, of which the killed attempt had done {len(both)}")
        bench.tell("resume", FAILED, "; ".join(wrong))
        return
    first_differs = differ(resumed[both[0]], killed[both[0]])
    last_differs = differ(resumed[last], straight[last])
    is_exact = all(resumed[step] == straight[step] for step in resumed) and all(
        killed[step] == straight[step] for step in killed
    )
    if not first_differs <= _FIRST_DIFFERS:
        wrong.append(
            f"the first loss after the resume, of step {both[0]}, differs by {first_differs:.2%} from what it was"
        )
    if not last_differs <= _LAST_DIFFERS:
        wrong.append(f"the last loss differs by {last_differs:.2%} from that of the run that was not disturbed")
    if bench.tiny and not is_exact:
        wrong.append("the losses are not those of the run that was not disturbed, to the bit")
    bench.tell(
        "resume",
        FAILED if wrong else PASSED,
        "; ".join(wrong),
        resumed_at=both[0] - 1,
        killed_at=max(killed),
        to_the_bit=is_exact,
        first_differs=first_differs,
        last_differs=last_differs,
    )


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
