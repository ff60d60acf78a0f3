"""What a finding is carried out on: a home of its own, a host of its own, and the command line of one checkout."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import Armada
from tests.fleet import machines
from tests.fleet.conftest import Fleet
from tests.leftovers import end_all
from tests.waiting import eventually

log = logging.getLogger(__name__)

HOST = "audit"
ROOT = "/home/researcher/root"
ENDS = ("succeeded", "failed", "cancelled")
PATIENCE_S = 400.0
"""How long a command may take: the first release waited 93 s for a stop, on a quiet machine."""

SAVES = """
import json, os, sys, time
outbox = os.path.join(os.environ["ARMADA_RUN_DIR"], "outbox")
open("pid-" + os.environ["ARMADA_ATTEMPT"], "w").write(str(os.getpid()))
step = 1
while not os.path.exists("end") or os.path.exists("save-%d" % step):
    if not os.path.exists("save-%d" % step):
        time.sleep(0.05)
        continue
    part = os.path.join(outbox, ".part-%d" % step)
    os.makedirs(part)
    open(os.path.join(part, "weights.bin"), "w").write("step %d, " % step * 2000)
    announcement = {"step": step, "kind": "periodic", "time": time.time(), "metrics": {}}
    open(os.path.join(part, ".announce.json"), "w").write(json.dumps(announcement))
    os.rename(part, os.path.join(outbox, ".new-%d" % step))
    print("saved step", step, flush=True)
    step += 1
os.makedirs("results")
open("results/table.csv", "w").write("accuracy,0.93" * 100)
"""
"""A job that announces a checkpoint for each `save-STEP` in its work folder, and ends well once there is an `end`."""


def weights(step: int) -> bytes:
    """What `SAVES` writes at a step."""
    return b"step %d, " % step * 2000


@dataclass(frozen=True, slots=True)
class Ending:
    """How a finding ended.

    Attributes:
        said: What armada said last.
        truth: What was so on the disks and among the processes.
        is_wrong: Whether data were lost, or armada said what was not so.
    """

    said: str
    truth: str
    is_wrong: bool


Finding = Callable[["Stage"], Ending]


@dataclass(frozen=True)
class Stage:
    """One finding's home and host.

    Attributes:
        armada: The command line of the checkout, in the home.
        fleet: Where hosts come from.
    """

    armada: Armada
    fleet: Fleet

    @property
    def home(self) -> Path:
        return self.armada.folder / "home"

    def shell(self, script: str, *, user: str | None = "researcher") -> str:
        """Run a script on the host, not over SSH."""
        return self.fleet.run(HOST, script, user=user)

    def is_so(self, test: str) -> bool:
        """Whether a shell test holds on the host."""
        return self.shell(f"if {test}; then echo so; fi").strip() == "so"

    def launch(self, script: str, *words: str, name: str, **more: Any) -> str:
        """Launch a job that is a Python script; its run id."""
        file = self.armada.command("python3", "-c", script, *words, name=name, **more)
        done = self.armada.run("launch", "--host", HOST, file, "--json", timeout_s=PATIENCE_S)
        if done.returncode:
            raise AssertionError(f"the launch failed: {done.stdout}{done.stderr}")
        return str(json.loads(done.stdout)["run_id"])

    def tell(self, run_id: str, *names: str) -> None:
        """Put files that the job waits for into its work folder."""
        self.shell(f"cd {self.folder(run_id)}/work && touch {' '.join(names)}")

    def save(self, run_id: str, step: int) -> None:
        """Have `SAVES` save a step, and wait until it was hashed."""
        before = self.announced(run_id)
        self.tell(run_id, f"save-{step}")
        eventually(lambda: step in self.announced(run_id), f"step {step} beside {before}")

    def announced(self, run_id: str) -> list[int]:
        """The steps of the checkpoints in the run's outbox that were hashed."""
        found = self.shell(f"cat {self.folder(run_id)}/outbox/*/MANIFEST.json 2>/dev/null || true")
        return sorted(int(step) for step in re.findall(r'"step":\s*(\d+)', found))

    @staticmethod
    def folder(run_id: str) -> str:
        return f"{ROOT}/runs/{run_id}"

    def record(self, run_id: str, name: str) -> dict[str, Any]:
        """A record of the run's folder on the host; empty where there is none."""
        text = self.shell(f"cat {self.folder(run_id)}/{name} 2>/dev/null || true")
        found: dict[str, Any] = json.loads(text) if text.strip() else {}
        return found

    def await_state(self, run_id: str, *states: str) -> None:
        """Wait for what the run's supervisor writes."""
        eventually(lambda: self.record(run_id, "state.json").get("state") in states, f"{run_id} is {states}")

    def pid(self, run_id: str, attempt: int = 1) -> int:
        """The process that the run's job is, on the host."""
        place = f"{self.folder(run_id)}/work/pid-{attempt}"
        return int(eventually(lambda: self.shell(f"cat {place} 2>/dev/null || true").strip(), "the job's process"))

    def lives(self, pid: int) -> bool:
        return self.is_so(f"kill -0 {pid} 2>/dev/null")

    def kill_watchers(self, run_id: str, *names: str, submission: int = 1) -> None:
        """Kill what sees to a run: its `supervisor`, or the `guardian` that stands behind it, where there is one."""
        job = self.record(run_id, f"submissions/{submission}/job.json")
        pids = [str(job[name]["pid"]) for name in names if job.get(name)]
        self.shell(f"kill -9 {' '.join(pids)}")

    @contextlib.contextmanager
    def daemon(self) -> Iterator[None]:
        """Have a daemon, during a block."""
        process = self.armada.start("daemon", "run")
        try:
            yield
        finally:
            process.terminate()
            process.communicate()

    def run(self, *words: str) -> Answer:
        """Have the command line answer."""
        return Answer.of(self.armada, *words)

    def state(self, run_id: str) -> str:
        """What `ps` says of the run, after a look at its host: `failed (supervisor_lost)`."""
        found = self.armada.run("ps", "--all", "--json", timeout_s=PATIENCE_S)
        try:
            run = next(run for run in json.loads(found.stdout) if run["run_id"] == run_id)
        except (ValueError, StopIteration):
            return f"nothing: {Answer(('ps',), found.returncode, found.stdout + found.stderr).last}"
        return f"{run['state']} ({run['reason']})" if run["reason"] else str(run["state"])

    def places(self, content: bytes, folder: Path | None = None) -> list[str]:
        """Where these very bytes lie: `home`, `host` or both.

        Args:
            content: The whole file.
            folder: Where to look at home, by default below the home.
        """
        found = ["home"] if _has(folder or self.home, content) else []
        digest = hashlib.sha256(content).hexdigest()
        # A supervisor may move or delete a file while they are hashed.
        sums = (
            f"[ ! -d {ROOT} ] || find {ROOT} -type f -size {len(content)}c -exec sha256sum {{}} + 2> /dev/null || true"
        )
        if digest in self.shell(sums):
            found.append("host")
        return found


def _has(folder: Path, content: bytes) -> bool:
    """Whether these very bytes lie in a file below a folder, where a daemon may move or delete anything meanwhile."""
    for above, _, names in os.walk(folder):
        for path in (Path(above, name) for name in names):
            with contextlib.suppress(FileNotFoundError):
                is_plain = path.is_file() and not path.is_symlink()
                if is_plain and path.stat().st_size == len(content) and path.read_bytes() == content:
                    return True
    return False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    words: tuple[str, ...]
    code: int
    text: str

    @classmethod
    def of(cls, armada: Armada, *words: str) -> Answer:
        """Run a command to its end."""
        done = armada.run(*words, timeout_s=PATIENCE_S)
        log.debug("$ armada %s\n%s%s[%d]", shlex.join(words), done.stdout, done.stderr, done.returncode)
        return cls(words, done.returncode, done.stdout + done.stderr)

    @property
    def last(self) -> str:
        """Its last line that says something."""
        lines = [" ".join(line.split()) for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else "nothing"

    def line(self, *words: str) -> str:
        """The first line that holds one of these words; the last line where none does."""
        lines = [" ".join(line.split()) for line in self.text.splitlines()]
        return next((line for line in lines if any(word in line for word in words)), self.last)

    def told(self, *words: str) -> str:
        """The command, its exit code and what it said, for the table."""
        return f"`{shlex.join(self.words)}` ends with {self.code}: {self.line(*words) if words else self.last}"


def where(places: list[str]) -> str:
    """`at home and on the host`, or `nowhere`."""
    return " and ".join({"home": "at home", "host": "on the host"}[place] for place in places) or "nowhere"


def why_not() -> str | None:
    """Say what keeps the findings from being carried out on this machine, or None."""
    return machines.why_not()


def _machine() -> machines.Machine:
    """A host that nobody else uses: each finding starts it on an empty disk."""
    own = machines.MACHINES["a100-2"]  # each test process has one at an address of its own
    address = own.address.replace("127.0.2.", "127.0.4.")
    return dataclasses.replace(own, name=HOST, address=address, user="researcher", gpus="none:0:0")


@contextlib.contextmanager
def stage(checkout: Path | None, *, host: bool, fleet: Fleet | None = None) -> Iterator[Stage]:
    """Make a home and start a host; afterwards nothing of either is left.

    Args:
        checkout: Whose command line carries the finding out; None for the one that is imported here.
        host: Whether it takes place on a plain host; otherwise the finding adds a batch system's by itself.
        fleet: Where hosts come from, where there is one already.
    """
    machine = machines.MACHINES[HOST] = _machine()
    folder = Path(tempfile.mkdtemp(prefix="armada-audit-"))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ARMADA_", "WANDB_", "HF_"))}
    kept |= {"ARMADA_HOME": str(folder / "home"), "COLUMNS": "160", "ARMADA_NO_DAEMON": "1"}
    if checkout is not None:
        kept["PYTHONPATH"] = str(checkout)
    made = Stage(Armada(folder, kept), fleet or Fleet())
    try:
        if host:
            _forget(machine)
            machines.start([machine])
            words = [
                "hosts",
                "add",
                HOST,
                machine.target,
                "--identity",
                str(machines.IDENTITY),
                "--root",
                ROOT,
                "--yes",
            ]
            added = made.run(*words)
            assert added.code == 0, added.text
        yield made
    finally:
        end_all(folder)
        if host:
            _forget(machine)
        subprocess.run(["chmod", "-R", "u+w", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _forget(machine: machines.Machine) -> None:
    machines.kill(machine)
    shutil.rmtree(machine.place, ignore_errors=True)
