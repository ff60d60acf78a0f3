"""Run steps in parallel, each as soon as the steps before it are done. The first failure ends all of them.

    side_by_side.py NAME AFTER COMMAND [NAME AFTER COMMAND ...]

AFTER names the steps that must have passed, separated by blanks. The output of a step is kept in .ci-logs/NAME and
shown after its end; that of the last step is shown while it runs. The end of the output shows the time of each step,
and the number of tests that passed in all of them. A failure, Ctrl-C or SIGTERM leaves no process running.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import FrameType
from typing import BinaryIO

LOGS = Path(".ci-logs")
MARK = "ARMADA_CI_RUN"
_POLL_S = 0.2
_PATIENCE_S = 10.0
_OUTCOME = re.compile(rb"^=*\s*(?=.* in [\d.]+s)(?:\d+ [a-z]+(?:, )?)+ in [\d.]+s.*$", re.MULTILINE)


class Step:
    """One command, in a session of its own."""

    def __init__(self, name: str, after: str, command: str, mark: str) -> None:
        self.name, self.after, self.command = name, after.split(), command
        self.log = LOGS / name
        self.code: int | None = None
        self.wall_s = self.cpu_s = 0.0
        self._mark = mark
        self._begun = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._shown: BinaryIO | None = None

    @property
    def runs(self) -> bool:
        return self._process is not None and self.code is None

    def may_start(self, steps: dict[str, Step]) -> bool:
        return self._process is None and all(steps[name].code == 0 for name in self.after)

    def start(self) -> None:
        self._begun = time.monotonic()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, MARK: self._mark},
            )

    def has_ended(self) -> bool:
        """Return whether the step has ended just now; if so, record its exit code and times."""
        if self._process is None or self.code is not None:
            return False
        pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return False
        self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        self._process.returncode = self.code
        self.wall_s = time.monotonic() - self._begun
        self.cpu_s = used.ru_utime + used.ru_stime  # of all its children that were waited for
        return True

    def show(self) -> None:
        """Print the step's output since the last call."""
        self._shown = self._shown or self.log.open("rb")
        sys.stdout.buffer.write(self._shown.read())
        sys.stdout.flush()

    def stop(self, what: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, what)


class Interrupted(Exception):
    """The user interrupts the steps."""


def main(arguments: list[str]) -> int:
    """Run all steps."""
    if not arguments or len(arguments) % 3:
        print(__doc__)
        return 2
    mark = uuid.uuid4().hex
    listed = [Step(name, after, command, mark) for name, after, command in zip(*[iter(arguments)] * 3, strict=True)]
    LOGS.mkdir(exist_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _interrupt)
    busy_s = _machine_cpu_s()
    begun = time.monotonic()
    try:
        failed = _run(listed)
    except Interrupted as reason:
        failed = f"interrupted by {reason}"
    finally:
        _end(listed, mark)
    _print_table(listed, time.monotonic() - begun, _machine_cpu_s() - busy_s)
    if failed:
        print(f"FAILED: {failed}")
        return 1
    return 0


def _run(listed: list[Step]) -> str | None:
    """Run steps until all have passed (None) or one has failed (the reason)."""
    steps = {step.name: step for step in listed}
    live = listed[-1]
    while any(step.code is None for step in listed):
        for step in listed:
            if step.may_start(steps):
                print(f">>> {step.name} begins: {step.command}", flush=True)
                step.start()
        for step in listed:
            ended = step.has_ended()
            if ended or (step is live and step.runs):
                if ended and step is not live:
                    print(f"<<< {step.name} said:", flush=True)
                step.show()
            if ended:
                print(f"<<< {step.name} ended with {step.code} after {step.wall_s:.0f} s", flush=True)
                if step.code:
                    return f"step {step.name} ({step.command}) ended with {step.code}"
        time.sleep(_POLL_S)
    return None


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number).name)


def _end(listed: list[Step], mark: str) -> None:
    """End running steps: first by their sessions, then every process that left its session but still carries our mark."""
    running = [step for step in listed if step.runs]
    for step in running:
        step.stop(signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE_S
    while any(step.runs and not step.has_ended() for step in running) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    for step in running:
        step.show()
        step.stop(signal.SIGKILL)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def _machine_cpu_s() -> float:
    """Return the CPU seconds of the whole machine since its start, including other users' work; 0 if unknown."""
    try:
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _print_table(listed: list[Step], wall_s: float, machine_s: float) -> None:
    print(f"\n{'step':12} {'wall min':>9} {'CPU min':>9}  outcome")
    for step in listed:
        outcome = "did not run to its end" if step.code is None else "passed" if step.code == 0 else "failed"
        print(f"{step.name:12} {step.wall_s / 60:9.1f} {step.cpu_s / 60:9.1f}  {outcome}")
    print(f"{'all':12} {wall_s / 60:9.1f} {sum(step.cpu_s for step in listed) / 60:9.1f}")
    print(f"the whole machine, with hosts and daemons that no step waits for: {machine_s / 60:.1f} CPU min")
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for step in listed:
        for line in _OUTCOME.findall(step.log.read_bytes())[-1:] if step.wall_s else ():
            for number, word in re.findall(rb"(\d+) ([a-z]+)", line.partition(b" in ")[0]):
                kind = {"error": "failed", "errors": "failed"}.get(word.decode(), word.decode())
                if kind in counts:
                    counts[kind] += int(number)
    if any(counts.values()):
        print(f"tests: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
