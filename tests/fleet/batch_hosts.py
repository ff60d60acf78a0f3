"""The fleet's two clusters as tests see them: one interface over what a person would type on their login nodes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conftest import Armada, eventually
from tests.fleet import machines
from tests.fleet.conftest import Fleet

ROOT = "/home/researcher/.armada"
SELDOM_S = 5.0
"""Between two looks at a run for who waits minutes for a verdict: each costs home and host half a second of a core."""
SETTINGS = {"slurm": {"poll": "1s"}, "htcondor": {"poll": "1s"}}


@dataclass(frozen=True)
class Cluster:
    """One of them.

    Attributes:
        host: What the test calls it.
        engine: `slurm` or `htcondor`.
    """

    armada: Armada
    fleet: Fleet
    host: str
    engine: str

    def shell(self, script: str) -> str:
        """Run a shell script on the login node, as the user."""
        return self.fleet.run(self.host, script, user="researcher")

    def root_shell(self, script: str) -> str:
        return self.fleet.run(self.host, script)

    def launch(self, *words: str, rc: int = 0) -> str:
        """Launch the experiment that the test wrote last; its run id."""
        done = self.armada.run("launch", "--host", self.host, "exp.yaml", "--json", *words)
        assert done.returncode == rc, done.stdout + done.stderr
        return str(json.loads(done.stdout)["run_id"]) if rc == 0 else done.stderr

    def look(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.armada.json("show", run_id)
        return found

    def becomes(self, run_id: str, *states: str, within_s: float = 120.0) -> dict[str, Any]:
        """Wait until the run is in one of these states."""

        def seen() -> dict[str, Any] | None:
            run = self.look(run_id)
            return run if run["state"] in states else None

        return eventually(seen, within_s=within_s, longest_pause_s=SELDOM_S) or {}

    def says(self, run_id: str, words: str, within_s: float = 120.0) -> None:
        """Wait until the run's log holds something."""
        eventually(lambda: words in self.armada.run("logs", run_id).stdout, within_s=within_s)

    def job_ids(self, run_id: str) -> list[str]:
        """Every job of a run that the batch system knows, also those that ended a while ago."""
        if self.engine == "slurm":
            said = self.shell("squeue --noheader --states=all --format='%A %j'")
            return [line.split()[0] for line in said.splitlines() if f"armada.{run_id}." in line]
        ask = f"-constraint 'ArmadaSubmission == \"armada.{run_id}.1\"' -autoformat ClusterId"
        queued = self.shell(f"condor_q {ask}").split()
        # One that leaves between the two questions is in both answers.
        return queued + [job for job in self.shell(f"condor_history {ask}").split() if job not in queued]

    def job_id(self, run_id: str) -> str:
        (found,) = self.job_ids(run_id)
        return found

    def preempt(self, run_id: str) -> None:
        """Take the run's node away, as a job of more right would."""
        job = self.job_id(run_id)
        self.shell(f"scontrol requeue {job}" if self.engine == "slurm" else f"condor_vacate_job {job}")

    def hurry(self, run_id: str) -> None:
        """Spare a requeued job the two minutes that Slurm makes it wait; HTCondor makes nobody wait."""
        if self.engine != "slurm":
            return
        job = self.job_id(run_id)

        def waits() -> bool:
            # It is PENDING, then FAILED, then PENDING with its two minutes anew, before its node is cleared.
            state, start = self.shell(f"squeue --noheader --jobs={job} --format='%T %S'").split() or ("", "")
            if state == "PENDING" and start > self.shell("date -d '+9 seconds' +%FT%T").strip():
                # slurmd refuses a job that starts in the second in which its earlier start was revoked.
                self.shell(f"scontrol update JobId={job} StartTime=now+2seconds || true")
            return state in ("PENDING", "FAILED", "COMPLETING")

        eventually(waits)
        eventually(lambda: not waits())

    def occupy(self) -> str:
        """Fill every core, so that others wait; an id for `leave`."""
        if self.engine == "slurm":
            wide = "sbatch --parsable --nodes=2 --exclusive --output=/dev/null --wrap='sleep 600'"
            job = self.shell(wide).strip()
            eventually(lambda: "RUNNING" in self.shell(f"squeue --noheader --jobs={job} --format=%T"))
            return job
        # A job for each core: one for all of them would wait until whatever an earlier test left there has ended.
        lines = "executable=/bin/sleep\narguments=600\ntransfer_executable=False\nshould_transfer_files=NO\nrequest_cpus=1\n"
        jobs = self.shell(f"cd; printf '{lines}queue 8\\n' | condor_submit -terse -").partition(".")[0]
        free = "condor_status -constraint PartitionableSlot -autoformat Cpus"
        eventually(lambda: set(self.shell(free).split()) == {"0"})
        return jobs

    def leave(self, job: str) -> None:
        self.shell(f"scancel {job}" if self.engine == "slurm" else f"condor_rm {job}")

    def answers(self) -> bool:
        """Whether its controller does."""
        try:
            self.shell({"slurm": "squeue", "htcondor": "condor_q"}[self.engine] + " > /dev/null 2>&1")
        except subprocess.CalledProcessError:
            return False
        return True

    def is_ready(self) -> None:
        """Wait until its controller answers and has heard from every node."""
        nodes = {"slurm": "sinfo --noheader --Node --format=%T", "htcondor": "condor_status -autoformat State"}
        wrong = ("*", "unk", "down")

        def heard() -> bool:
            if not self.answers():
                return False
            if self.engine == "slurm":
                # A controller that forgot a job in its crash drains the node that still had it.
                self.root_shell("scontrol update NodeName=ALL State=RESUME 2>/dev/null || true")
            said = self.shell(nodes[self.engine])
            return bool(said.strip()) and not any(word in said for word in wrong)

        eventually(heard, within_s=120)

    def starts(self, run_id: str) -> int:
        """How often the run's job began, by its own count."""
        return int(self.shell(f"cat {ROOT}/runs/{run_id}/work/starts 2>/dev/null | wc -l"))


def add_cluster(armada: Armada, fleet: Fleet, engine: str, *, on: str | None = None, **settings: Any) -> Cluster:
    """Add one of the fleet's clusters the way a user would, then write more about it into hosts.yaml.

    Args:
        on: Which host, where the engine's usual one is not meant.
    """
    host = on or {"slurm": "slurm", "htcondor": "condor"}[engine]
    up = fleet.host(host)
    if host == "slurm":
        fleet.host("slurm-2")
    words = ["hosts", "add", host, up.target, "--identity", str(machines.IDENTITY), "--scheduler", engine, "--yes"]
    done = armada.run(*words, "--profile", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    file = armada.folder / "home" / "config" / "hosts.yaml"
    more = json.dumps(SETTINGS[engine] | settings)
    file.write_text(re.sub(r"(?m)^(\s*)scheduler: .*$", rf"\g<0>\n\g<1>{engine}: {more}", file.read_text()))
    return Cluster(armada, fleet, host, engine)


MakeCluster = Callable[..., Cluster]
