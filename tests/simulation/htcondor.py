"""A simulated HTCondor: the event logs that it writes into runs' folders, and what its programs answer."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from armada_agent.engines import htcondor_log
from armada_agent.engines.engine import EngineError
from armada_agent.engines.htcondor import REQUEUE_EXIT_CODE
from armada_agent.verdicts.liveness import ALIVE_S

from tests.simulation.batch_system import BatchJob, BatchSystem

_SUBMITTED, _EXECUTES, _EVICTED, _TERMINATED, _REMOVED, _HELD, _RELEASED, _DISCONNECTED, _NOT_AGAIN = (
    0, 1, 4, 5, 9, 12, 13, 22, 24,
)  # fmt: skip
_HEADLINES = {
    _SUBMITTED: "Job submitted from host: <10.0.0.1:9618>",
    _EXECUTES: "Job executing on host: <10.0.0.2:9618>",
    _EVICTED: "Job was evicted.",
    _TERMINATED: "Job terminated.",
    _REMOVED: "Job was aborted.",
    _HELD: "Job was held.",
    _RELEASED: "Job was released.",
    _DISCONNECTED: "Job disconnected, attempting to reconnect",
    _NOT_AGAIN: "Job reconnection failed",
}
_CONSTRAINT = re.compile(
    r"ClusterId == (?P<cluster>\d+) && "
    r'(?:ProcId == (?P<process>\d+) && ArmadaSubmission == "(?P<name>[^"]+)"|ArmadaArray == "(?P<array>[^"]+)")'
)


@dataclass(eq=False)
class SimHtcondor(BatchSystem):
    """A pool's schedd and its shadows.

    It may not answer; have an empty queue; write its events late; only half of one; see its log deleted, or put back to what it was;
    and say of a job that runs that it was evicted, removed or held, because it lost sight of its node.
    """

    LIES: ClassVar = ("error", "empty", "late", "half", "deleted", "old", "evicted", "removed", "held")
    PROGRAMS: ClassVar = frozenset({"condor_submit", "condor_q", "condor_rm", "condor_history"})

    old: dict[str, str] = field(default_factory=dict)
    unwritten: dict[str, str] = field(default_factory=dict)
    has_lied: bool = False
    to_come: list[BatchJob] = field(default_factory=list)
    """Jobs of an array that it puts into the queue when others of it have ended."""

    # What is true.

    def end(self, job: BatchJob, state: str) -> None:
        super().end(job, state)
        if self.to_come and not job.forgotten and _cluster_of(job.id) == _cluster_of(self.to_come[0].id):
            self._materialize(self.to_come.pop(0))

    def _materialize(self, job: BatchJob) -> None:
        self.jobs.append(job)
        self._tell(job, _SUBMITTED, "DAG Node: none")

    def of_run(self, run_id: str) -> list[BatchJob]:
        return super().of_run(run_id) + [job for job in self.to_come if job.run_id == run_id]

    def start(self, job: BatchJob) -> None:
        if job.state == "HELD":
            self._tell(job, _RELEASED, "via condor_release (by user me)")
        self._tell(job, _EXECUTES, "SlotName: slot1@n1")
        super().start(job)

    def left(self, job: BatchJob, code: int) -> None:
        if job.forgotten:
            job.state, job.ended_at = "LOST", self.cluster.world.clock
        elif job.cancelled:
            self._tell(job, _REMOVED, "via condor_rm (by user me)")
            self.end(job, "REMOVED")
        elif job.goes_back:
            self._tell(job, _EVICTED, "(0) Job was not checkpointed.")
            job.state, job.goes_back = "PENDING", False
        elif code == REQUEUE_EXIT_CODE:
            self._tell(job, _EVICTED, "(0) Job terminated and was requeued")
            job.state = "PENDING"
        else:
            self._tell(job, _TERMINATED, f"(1) Normal termination (return value {code})")
            self.end(job, "COMPLETED")

    def hold(self, job: BatchJob) -> None:
        self._tell_held(job)
        job.state = "HELD"

    def remove(self, job: BatchJob) -> None:
        self._tell(job, _REMOVED, "via condor_rm (by user root)")
        self.end(job, "REMOVED")

    def lose_node(self, job: BatchJob, *, for_good: bool) -> None:
        if job.forgotten:  # nobody puts back what its schedd does not know
            self.left(job, 1)
            return
        self._tell_lost(job)
        if for_good:
            self._tell_held(job)
        job.state = "HELD" if for_good else "PENDING"

    # What it says.

    def remember(self) -> None:
        self.old = {job.id: self._path(job).read_text() for job in self.jobs if self._path(job).is_file()}

    def set_lie(self, lie: str | None) -> None:
        if self.lie in ("late", "half"):
            for job in self.jobs:
                self._write(job, self.unwritten.pop(job.id, ""))
        self.lie = lie
        self.has_lied |= lie in ("evicted", "removed", "held")
        for job in self.jobs:
            path = self._path(job)
            if lie == "deleted":
                path.unlink(missing_ok=True)
            elif lie == "old" and path.is_file():
                path.write_text(self.old.get(job.id, ""))
                self._date(path)
            elif job.state == "RUNNING" and lie == "evicted":
                self._tell_lost(job)
            elif job.state == "RUNNING" and lie == "removed":
                self._tell(job, _REMOVED, "via condor_rm -forcex (by user root)")
            elif job.state == "RUNNING" and lie == "held":
                self._tell_held(job)

    def believed_after_s(self) -> float | None:
        return ALIVE_S if self.has_lied else None  # a log takes nothing back

    def hides_end(self, run_id: str) -> bool:
        """Whether a log that was restored shows that a job waits which ended.

        A waiting job's log looks the same for days. The agent asks the schedd about those that do for an hour.
        """
        ended = [job for job in self.jobs if job.run_id == run_id and job.ended_at is not None]
        return any(self._shows_waiting(job) for job in ended)

    def _shows_waiting(self, job: BatchJob) -> bool:
        path = self._path(job)
        return path.is_file() and htcondor_log.follow({}, path.read_text(), job.id).get("state") in ("pending", "held")

    def _path(self, job: BatchJob) -> Path:
        folders = self.cluster.folders(job.run_id)
        folder = next((at for at in folders if at.exists()), folders[0])
        return folder / "submissions" / str(job.number) / "job.log"

    def _tell(self, job: BatchJob, number: int, *body: str) -> None:
        cluster, _, process = job.id.partition(".")
        head = f"{number:03d} ({int(cluster):03d}.{int(process):03d}.000) 2027-01-15 08:00:00 {_HEADLINES[number]}"
        text = "".join(f"{line}\n" for line in (head, *(f"\t{line}" for line in body), "..."))
        if self.lie == "half" and job.id not in self.unwritten:
            self._write(job, text[: len(text) // 2])
            text = text[len(text) // 2 :]
        if self.lie in ("late", "half"):
            self.unwritten[job.id] = self.unwritten.get(job.id, "") + text
        else:
            self._write(job, text)

    def _tell_lost(self, job: BatchJob) -> None:
        self._tell(job, _DISCONNECTED, "Socket between submit and execute hosts closed unexpectedly")
        self._tell(job, _NOT_AGAIN, "Job lease expired; rescheduling job")

    def _tell_held(self, job: BatchJob) -> None:
        self._tell(job, _HELD, "The system macro SYSTEM_PERIODIC_HOLD evaluated to TRUE", "Code 26 Subcode 0")

    def _write(self, job: BatchJob, text: str) -> None:
        if text and self._path(job).parent.is_dir():
            with self._path(job).open("a") as stream:
                stream.write(text)
            self._date(self._path(job))

    def _date(self, path: Path) -> None:
        """Date a log by the cluster's clock, as its file system does."""
        now = self.cluster.world.clock + self.cluster.clock_offset
        os.utime(path, (now, now))

    def _condor_submit(self, words: list[str]) -> str:
        if any(word.startswith("armada_array=") for word in words):
            return self._submit_array(words)
        number = next(word.partition("=")[2] for word in words if word.startswith("armada_submission="))
        run_id = Path(words[-1]).parents[1].name
        self.refuse()
        job = self.submit(f"{100 + len(self.jobs)}.0", f"armada.{run_id}.{number}")
        self._tell(job, _SUBMITTED, "DAG Node: none")
        if self.loses_answers:
            self.loses_answers = False
            raise EngineError("ERROR: Failed to commit transaction: connection to the schedd was lost")
        return f"{job.id} - {job.id}\n"

    def _submit_array(self, words: list[str]) -> str:
        cluster, run_ids = 100 + len(self.jobs), (Path(words[-1]).parent / "cells.txt").read_text().split()
        self.to_come = [
            BatchJob(f"{cluster}.{index}", f"armada.{each}.1", each, 1) for index, each in enumerate(run_ids)
        ]
        limits = [int(word.partition("=")[2]) for word in words if word.startswith("max_materialize=")]
        for _ in range(limits[0] if limits else len(run_ids)):
            self._materialize(self.to_come.pop(0))
        return f"{cluster}.0 - {cluster}.{len(run_ids) - 1}\n"

    def _wanted(self, words: list[str]) -> list[BatchJob]:
        name = next(word for word in words if "ArmadaSubmission" in word).split('"')[1]
        return [job for job in self.jobs if job.name == name and not job.forgotten]

    def _condor_q(self, words: list[str]) -> str:
        if words[-1] == "JobMaterializeNextProcId":
            return "".join(f"{job.id.partition('.')[2]}\n" for job in self.to_come[:1])
        if self.lie == "empty":
            return ""
        if words[-1] == "ArmadaSubmission":
            return "".join(f"{job.name}\n" for job in self.jobs if job.lives and not job.forgotten)
        shown = [job for job in self._wanted(words) if job.lives]
        if words[-1] == "JobStatus":
            return "".join({"PENDING": "1\n", "RUNNING": "2\n", "HELD": "5\n"}[job.state] for job in shown)
        return "".join(f"{job.id.replace('.', ' ')}\n" for job in shown)

    def _condor_history(self, words: list[str]) -> str:
        if not self.has_accounting:
            raise EngineError("Error: No history file is defined")
        ended = [job for job in self._wanted(words) if job.ended_at is not None]
        return "".join({"REMOVED": "3\n", "COMPLETED": "4\n"}[job.state] for job in ended[-1:])

    def _condor_rm(self, words: list[str]) -> str:
        found = _CONSTRAINT.fullmatch(words[-1])
        if found is None:
            raise EngineError(f"the simulated condor_rm cannot parse {words[-1]}", refused=True)
        chosen = [
            job
            for job in self.jobs
            if job.lives and not (job.forgotten or job.cancelled or self.lie == "empty") and _is_chosen(job, found)
        ]
        if found["array"] and self.lie != "empty":
            self.to_come = [job for job in self.to_come if not _is_chosen(job, found)]
        elif not chosen:
            raise EngineError(f"Couldn't find/remove all jobs matching constraint ({words[-1]})", refused=True)
        for job in chosen:
            self._take_out(job)
        return f"All jobs matching constraint ({words[-1]}) have been marked for removal"

    def _take_out(self, job: BatchJob) -> None:
        if job.waits:
            self._tell(job, _REMOVED, "via condor_rm (by user me)")
            self.end(job, "REMOVED")
        else:
            job.cancelled = True
            self.cluster.signal_batch(job, 15)


def _is_chosen(job: BatchJob, found: re.Match[str]) -> bool:
    """Return whether a constraint of condor_rm chooses a job. All jobs of one cluster are one array's."""
    cluster, _, process = job.id.partition(".")
    if int(cluster) != int(found["cluster"]):
        return False
    return found["array"] is not None or (int(process) == int(found["process"]) and job.name == found["name"])


def _cluster_of(job_id: str) -> str:
    return job_id.partition(".")[0]
