"""A cluster whose batch system says what a test makes it say, beside a job that writes or is silent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from armada_agent.engines import htcondor, slurm
from armada_agent.engines.engine import Handed
from armada_agent.paths import RunPaths

from tests.agent.conversation import spec_of

# Writes as a supervisor and its job do, each time it is told to, and says when that is done.
JOB = """
import sys
telemetry, output = sys.argv[1:]
for line in sys.stdin:
    for path in (telemetry, output):
        with open(path, "a") as stream:
            stream.write("{}\\n")
    print("written", flush=True)
"""
PROGRAM = """#!/bin/sh
cat {folder}/{name}.err >&2
cat {folder}/{name}.out
exit $(cat {folder}/{name}.code)
"""
# As scontrol of Slurm 24.05 prints it, shortened.
SHOWN = (
    "JobId=11 JobName={name} UserId=researcher(1000) GroupId=researcher(1000) MCS_label=N/A Priority=1 Nice=0 "
    "JobState={state} Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 "
    "RunTime=00:12:01 TimeLimit=01:00:00 NodeList=n1 BatchHost=n1 Comment=armada.a-1.1\n"
)
INVALID = "slurm_load_jobs error: Invalid job id specified\n"
SILENT = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
MINE = "11|{}|None|n1|armada.a-1.1\n"
OTHERS = "7|RUNNING|None|n2|armada.b-1.1\n8|PENDING|Priority||my notebook\n"


class Clock:
    """A machine's, counted from its boot."""

    def __init__(self, boot: str = "one") -> None:
        self.boot = boot
        self.seconds = 1000.0

    def __call__(self) -> dict[str, Any]:
        return {"boot": self.boot, "seconds": self.seconds}


class DoubtedJob:
    """A run that its batch system has begun, programs that say what a test makes them say, and a job that writes."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder = folder / "bin"
        self.folder.mkdir()
        for name in ("squeue", "sacct", "scontrol", "scancel", "condor_q", "condor_history", "condor_rm"):
            (self.folder / name).write_text(PROGRAM.format(folder=self.folder, name=name))
            (self.folder / name).chmod(0o755)
            self.say(name, "", code=0 if name == "squeue" else 1)
        self.engine = engine
        self.paths = RunPaths(str(folder / "root"), "a-1")
        self.clock = Clock()
        job = {"submission": 1, "scheduler": engine, "job_id": "11" if engine == "slurm" else "3.0", "time": 1.0}
        self._write("spec.json", spec_of("a-1", "true", scheduler={"kind": engine, "poll_s": 0.0}))
        self._write("submissions/1/job.json", job)
        self.handed = Handed(self.paths, 1, job)
        self._write("state.json", {"state": "running", "submission": 1, "attempt": 1, "seq": 4})
        self._write("attempts/1/run.json", {"attempt": 1, "submission": 1})
        self._job = subprocess.Popen(
            [sys.executable, "-S", "-c", JOB, self.paths.telemetry, self.paths.output],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def _write(self, name: str, value: object) -> None:
        path = Path(self.paths.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    def leave(self) -> None:
        """Have the supervisor write that it gave the attempt back."""
        self._write("attempts/1/exit.json", {"state": "requeued", "reason": "preempted"})
        self._write("state.json", {"state": "queued", "reason": "preempted", "submission": 1, "attempt": 1, "seq": 6})

    def say_state(self, **state: object) -> None:
        self._write("state.json", state)

    def say_attempt(self, exit_state: str | None, submission: int, exit_of: int | None = None, **more: str) -> None:
        """Have a supervisor write how an attempt began and ended; `exit_of`: the submission that its exit names."""
        self._write("attempts/1/run.json", {"attempt": 1, "submission": submission})
        if exit_state is not None:
            named = {"submission": exit_of} if exit_of is not None else {}
            self._write("attempts/1/exit.json", {"state": exit_state, **named, **more})

    def never_begin(self) -> None:
        (Path(self.paths.folder) / "attempts/1/run.json").unlink()
        (Path(self.paths.folder) / "attempts/1").rmdir()
        (Path(self.paths.folder) / "state.json").unlink()

    def say(self, name: str, text: str, code: int = 0, beside: str = "") -> None:
        for end, content in (("out", text), ("code", str(code)), ("err", beside)):
            (self.folder / f"{name}.{end}").write_text(content)

    def log(self, text: str) -> None:
        Path(self.handed.file("job.log")).write_text(text)

    def beat(self) -> None:
        assert self._job.stdin is not None
        assert self._job.stdout is not None
        self._job.stdin.write("write\n")
        self._job.stdin.flush()
        assert self._job.stdout.readline() == "written\n"

    def look(self, clock: Clock | None = None) -> dict[str, Any]:
        engine = slurm if self.engine == "slurm" else htcondor
        seen: dict[str, Any] = engine.look(self.handed, 0.0, clock or self.clock)
        return seen

    def live(self, seconds: int, every_s: int = 20) -> list[str]:
        """Look every while at a job that writes; what was believed each time."""
        return self._watch(seconds, every_s, beats=True)

    def be_silent(self, seconds: int, every_s: int = 20) -> list[str]:
        return self._watch(seconds, every_s, beats=False)

    def _watch(self, seconds: int, every_s: int, *, beats: bool) -> list[str]:
        seen = []
        for _ in range(0, seconds, every_s):
            self.clock.seconds += every_s
            if beats:
                self.beat()
            seen.append(self.look()["state"])
        return seen

    def end(self) -> None:
        self._job.kill()
        self._job.communicate()
