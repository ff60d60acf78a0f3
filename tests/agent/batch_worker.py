"""Supervisors as a batch system's job file starts them, with stand-ins for the batch system's programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.agent.conversation import Host, check
from tests.waiting import WITHIN_S, eventually

RESUME = {"checkpoints": {"pattern": "out/step-*", "quiet_s": 0.0}, "resume": ["--resume", "{checkpoint}"]}
NO_RESUME: dict[str, Any] = {"checkpoints": None, "resume": []}
# The time is up when the test says so, however slow the machine.
SUPERVISE = """
import os, sys
root, run, up, code, kind, submission = sys.argv[1:]
sys.path.insert(0, code)
from armada_agent.supervisor import time_limit
def is_reached(limit):
    if "PREEMPTED" in os.environ:  # its signal comes while it looks whether to begin at all
        os.kill(os.getpid(), 15)
    return os.path.exists(up)
time_limit.TimeLimit.is_reached = property(is_reached)
if kind == "direct":
    from armada_agent.supervisor.supervise import supervise
    sys.exit(supervise(root, run, int(submission)))
from armada_agent.supervisor import batch
from armada_agent.supervisor.batch import supervise
batch._FENCE_S = float(os.environ["FENCE_S"])
sys.exit(supervise(root, run, int(submission), os.environ["JOB"]))
"""
SAVING = (
    "trap 'exit 85' TERM; echo $@; step=$(($ARMADA_ATTEMPT * 600));"
    "if [ ! -e stuck ]; then mkdir -p out/step-$step; echo w > out/step-$step/w; fi;"
    "touch up-$ARMADA_ATTEMPT; while :; do sleep 0.05; done"
)


class Worker:
    """Starts supervisors the way a batch system's job file does, one attempt after the other."""

    def __init__(self, host: Host, code: Path, folder: Path, kind: str) -> None:
        self.host, self.kind, self.folder = host, kind, folder
        self._code = code
        self._up = folder / "time-is-up"
        self.begun: list[subprocess.Popen[bytes]] = []
        self.fence_s = 0.5
        self.environment: dict[str, str] = {}
        self.preface = ""
        """Lines that a supervisor runs first."""
        folder.mkdir()
        self.say_of_scontrol(0)

    def say_of_scontrol(self, code: int) -> None:
        program = self.folder / "scontrol"
        program.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/calls\necho refused\nexit {code}\n')
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """What scontrol was asked."""
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def hand_over(self, run_id: str, script: str, **changes: Any) -> None:
        more = changes.pop("scheduler", {})
        scheduler = {"kind": self.kind, "poll_s": 1.0, "max_retries": 0, "requeue_at_time_limit": True, **more}
        changes.setdefault("time_limit_s", 86400.0)
        changes["scheduler"] = None if self.kind == "direct" else scheduler
        self.host.create(run_id, "sh", "-c", script, "sh", **changes)
        self.claim(run_id, 1)

    def claim(self, run_id: str, submission: int) -> None:
        claim = self.host.folder(run_id) / f"submissions/{submission}/claim.json"
        claim.parent.mkdir(parents=True)
        claim.write_text('{"time": 1, "by": "test"}')

    def begin(
        self,
        run_id: str,
        python: str = sys.executable,
        *,
        submission: int = 1,
        job: int | None = None,
        in_time: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start a supervisor; without `in_time`, its time is up from the beginning."""
        self._up.unlink(missing_ok=True)
        if not in_time:
            self._up.touch()
        argv = [
            python,
            "-c",
            self.preface + SUPERVISE,
            str(self.host.root),
            run_id,
            str(self._up),
            str(self._code),
            self.kind,
        ]
        argv.append(str(submission))
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"}
        environment |= self.environment | {
            "FENCE_S": str(self.fence_s),
            "JOB": str(6 + submission if job is None else job),
        }
        self.begun.append(subprocess.Popen(argv, env=environment))
        return self.begun[-1]

    def to_the_limit(self, run_id: str, attempt: int, python: str = sys.executable) -> int:
        """Run one attempt until its job has done all it does, then let its time be up; the exit code."""
        supervisor = self.begin(run_id, python)
        eventually((self.host.folder(run_id) / f"work/up-{attempt}").exists)
        self._up.touch()
        return supervisor.wait(WITHIN_S)

    def read(self, run_id: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.host.folder(run_id) / name).read_text())
        return found

    def exit_of(self, run_id: str, attempt: int) -> dict[str, Any]:
        found = self.read(run_id, f"attempts/{attempt}/exit.json")
        check(found, "files", "attempts/<n>/exit.json")
        return found


def told(worker: Worker, run_id: str) -> tuple[str, str | None]:
    state = worker.read(run_id, "state.json")
    check(state, "files", "state.json")
    return state["state"], state["reason"]
