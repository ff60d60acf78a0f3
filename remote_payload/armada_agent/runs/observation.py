"""Report evidence about runs: files and processes. Home draws the conclusions."""

import json
import os
import time
from typing import Any, Dict, List, Optional

from armada_agent.engines import allowance
from armada_agent.engines import engine as engines
from armada_agent.errors import AgentError
from armada_agent.foundation import files, parameters, process_identity
from armada_agent.foundation.session import Call
from armada_agent.host import detached, processes, roots, set_aside
from armada_agent.outbox import listing
from armada_agent.paths import RunPaths, newest
from armada_agent.records import forgetting, job_status
from armada_agent.records.ending import ENDED, exit_of
from armada_agent.records.place import is_gone, require_there
from armada_agent.runs import completion, leftover_processes, supervisor_liveness
from armada_agent.verdicts import doubt, following

_TEXT_LIMIT = 65536
_ANSWER_LIMIT = 4 * 1024 * 1024  # all texts of one answer: a slow link must not need longer than a deadline
_LINE_LIMIT = 7 * 1024 * 1024  # home closes the connection at 8 MiB
_RECORD_LIMIT = 64 * 1024  # most records are part of the answer and have a few hundred bytes
_PLAN_LIMIT = 1024 * 1024
_MOST_RUNS = 1000
_MOST_STOPPED = 20


class Evidence:
    """One observation of one run.

    Attributes:
        submission_number: The number of the newest submission that was claimed, or None without any.
        refused: The number of a later one that its batch system refused, or None.
        job: Its job.json.
        state: state.json.
        attempt: `{"number", "run", "exit"}` of the newest attempt, or None.
        findings: What could not be read, one sentence each.
    """

    def __init__(self, paths: RunPaths, table: Optional[List[processes.Process]] = None) -> None:
        self.findings: List[str] = []
        self._paths = paths
        self._table = table
        self.submission_number = paths.newest_submission()
        number = self.submission_number or 0
        self.claimed = paths.is_claimed(number)
        self.refused = paths.refused_after(number) if number else None
        self.job = self._read(paths.submission(number, "job.json"))
        self._job_damaged = self.job is None and bool(self.findings)
        self.state = self._read(paths.state)
        self.attempt = self._attempt()
        self.settings = self._scheduler()
        self._scheduler_status: Optional[Dict[str, Any]] = None
        self._is_listed = False

    @property
    def supervisor(self) -> str:
        """`alive`, `dead`, `none` (no supervisor has started), or `unknown` (on another machine, or damaged records).

        It is `unknown`, too, if its job ended well and it died before it wrote that: the end is completed (`lacks_end`). So
        it is as long as that cannot be read, whatever a batch system says.
        """
        if self.job is None:
            return "unknown" if self._job_damaged else "none"
        judged = self._judged
        return "unknown" if judged == "dead" and self.may_have_ended_well else judged

    @property
    def _judged(self) -> str:
        """What is to be seen of the supervisor itself, whatever it wrote last of its job."""
        if self.settings is not None:
            return self._supervisor_of_job()
        return supervisor_liveness.judge_supervisor(self._paths, self._supervisor_now())[0]

    @property
    def lacks_end(self) -> bool:
        """Whether the newest attempt's job is recorded to have ended well, and its supervisor died before it wrote the end."""
        try:
            if self.job is None or not self._has_ended_well:
                return False
        except files.UnseenError:
            return False  # the next look sees it
        return self._judged == "dead" or self.is_gone

    @property
    def may_lack_end(self) -> bool:
        """Whether that is so, or may be: the record cannot be read."""
        return self.job is not None and self.may_have_ended_well and (self._judged == "dead" or self.is_gone)

    @property
    def may_have_ended_well(self) -> bool:
        """Whether the newest attempt's job is recorded to have ended well, or that cannot be read, and no end is written."""
        try:
            return self._has_ended_well
        except files.UnseenError as error:
            words = str(error)[:500]
            self.findings += [] if words in self.findings else [words]
            return True

    @property
    def _has_ended_well(self) -> bool:
        """Whether the newest attempt's job is recorded to have ended well, and no end is written.

        Raises:
            files.UnseenError: The record cannot be read now.
        """
        if self.has_ended or self.attempt is None or self.attempt["exit"] is not None:
            return False
        number, begun_by = self.submission_number or 0, (self.attempt["run"] or {}).get("submission")
        if isinstance(begun_by, int) and begun_by != number:
            return False  # an earlier submission's
        return job_status.read_status(self._paths, self.attempt["number"], number) == 0

    @property
    def handed(self) -> engines.Handed:
        """The newest submission, in the form that its batch system's module takes."""
        return engines.Handed(self._paths, self.submission_number or 0, self.job)

    @property
    def scheduler_status(self) -> Optional[Dict[str, Any]]:
        """The batch system's answer about the newest submission; None without a batch system, and for a run that has ended."""
        if self._scheduler_status is None and self.settings is not None and self.job is not None and not self.has_ended:
            poll_s = self.settings.get("poll_s")
            engine = engines.find(self.settings.get("kind"))
            every = float(poll_s) if isinstance(poll_s, (int, float)) else engine.POLL_S
            status = dict(engine.look(self.handed, every))
            self._is_listed = bool(status.pop("listed", False))
            self._scheduler_status = self._with_last_words(status)
        return self._scheduler_status

    @property
    def rebooted(self) -> bool:
        if self.job is None or self.settings is not None:
            return False  # a batch system starts nothing on the login node
        return supervisor_liveness.judge_supervisor(self._paths, self._supervisor_now())[1]

    def _supervisor_now(self) -> Any:
        """Return the supervisor of the newest submission: the first one, or the one that took over from it."""
        over = self._read(self._paths.submission(self.submission_number or 0, "successor.json"))
        return (over or self.job or {}).get("supervisor")

    @property
    def has_ended(self) -> bool:
        """Whether the newest submission has ended. The recorded state may still be an earlier submission's."""
        state = self.state or {}
        if state.get("state") in ENDED and state.get("submission", 0) == (self.submission_number or 0):
            return True
        return self._has_exit(state.get("attempt"))

    def _has_exit(self, attempt: Any) -> bool:
        """Return whether the attempt of the state, or a later one, has ended.

        Who wrote its exit was killed before it wrote the state, or the state is that of a supervisor that was frozen.
        """
        exit_ = (self.attempt or {}).get("exit") or {}
        is_its = self.attempt is not None and isinstance(attempt, int) and attempt <= self.attempt["number"]
        return is_its and exit_.get("submission") == self.submission_number and exit_.get("state") in ENDED

    @property
    def may_still_start(self) -> bool:
        """Whether the newest submission was claimed and nothing says what became of it: it starts, or waits somewhere."""
        return self.claimed and self.job is None and not self.has_ended

    @property
    def is_over(self) -> bool:
        """Whether a batch system has finished with the newest submission, even if no end is recorded."""
        return self.settings is not None and (
            self.has_ended or (self.scheduler_status or {}).get("state") == engines.ENDED
        )

    @property
    def is_gone(self) -> bool:
        """Whether a batch system repeatedly reports that it has no such submission. That only suggests its end."""
        return (self.scheduler_status or {}).get("state") == engines.GONE

    @property
    def may_forget_secrets(self) -> bool:
        """Whether there are secrets to delete that nobody else does: of a refused submission, or of one whose end was only told.

        Who only looks deletes none that were left where the end is recorded: a release does.
        """
        if self.has_ended:
            return self.refused is not None
        status = self.scheduler_status
        if status is None or status["state"] != engines.ENDED or self.may_have_ended_well:
            return False
        return following.may_forget_secrets(
            status["state"], len(self.processes()), self._is_listed, self._stop_wished()
        )

    def processes(self) -> List[processes.Process]:
        run = (self.attempt or {}).get("run") or {}
        return processes.members(self._paths, run.get("process"), self._table)

    def as_json(self) -> Dict[str, Any]:
        submission = None
        if self.submission_number is not None:
            submission = {"number": self.submission_number, "claimed": self.claimed, "job": self.job}
        beat = self._beat()
        members = self.processes()
        return {
            "submission": submission,
            "refused": self.refused,
            "supervisor": self.supervisor,
            "rebooted": self.rebooted,
            "may_have_succeeded": self._may_have_succeeded(),
            "state": self.state,
            "attempt": self.attempt,
            "stop_wished": self._stop_wished(),
            "lacks_end": self.lacks_end,
            "scheduler": self._scheduler_word(),
            "processes": len(members),
            "stopped": _find_stopped(
                members, self._supervisor_now() if self.job is not None and self.settings is None else None
            ),
            "heartbeat": beat and {name: beat.get(name) for name in ("phase", "step", "total_steps", "time", "rank")},
            "quiet_s": self._quiet_s(beat or {}),
            "untouched_s": self._untouched_s(),
            "written_at": _changed_at(self._paths.state) or None,
        }

    def _scheduler_word(self) -> Optional[Dict[str, Any]]:
        """Return the batch system's answer. As long as the end that is recorded of the job is not completed, it is ending."""
        status = self.scheduler_status
        if status is None or status["state"] not in (engines.ENDED, engines.GONE) or not self.may_lack_end:
            return status
        return dict(status, state=engines.ENDING, reason=None, message="its job ended; its end is being completed")

    def _may_have_succeeded(self) -> Optional[bool]:
        """Return whether a job without a recorded exit may have succeeded; None if its exit is known or may still be recorded."""
        exit_ = exit_of((self.attempt or {}).get("exit"), self.submission_number or 0)
        if self.settings is not None or exit_ or self.has_ended or self.supervisor != "dead":
            return None
        if self.attempt is None:  # it waited for its GPUs, unless its state names an attempt that somebody deleted
            return bool((self.state or {}).get("attempt"))
        plan = self._read(self._paths.spec, _PLAN_LIMIT)
        if plan is None:
            return True  # whether it announces its final checkpoint is unknown
        announces = doubt.announces(plan)
        has_final = listing.has_final(self._paths) if announces else False
        # A living supervisor dates its telemetry again and again, and so by the same clock as the job its log.
        supervisor_s = _changed_at(self._paths.telemetry) or max(
            map(_changed_at, (self._paths.state, self._paths.events))
        )
        outlived = doubt.outlived(_changed_at(self._paths.output), supervisor_s)
        return doubt.may_have_succeeded(announces, has_final, self.rebooted, outlived)

    def _stop_wished(self) -> bool:
        """Return whether a stop was requested for this submission or a later one."""
        stop_request = self._read(self._paths.stop)
        number = (stop_request or {}).get("submission")
        return stop_request is not None and (not isinstance(number, int) or (self.submission_number or 0) <= number)

    def _with_last_words(self, scheduler_status: Dict[str, Any]) -> Dict[str, Any]:
        """Add the worker's last output to a status without a recorded end: python3 is missing, or a module does not load."""
        if scheduler_status["reason"] == "ended_silently" and os.path.exists(self._paths.scheduler_log):
            words = files.read_tail(self._paths.scheduler_log, 400).strip()
            return dict(
                scheduler_status,
                message="the worker's last output: %s" % words if words else scheduler_status["message"],
            )
        return scheduler_status

    def _scheduler(self) -> Optional[Dict[str, Any]]:
        """Return the settings of the batch system that has the newest submission; None if none has it.

        Its job's own record names the batch system. The plan, which may be lost or damaged, adds how to ask it.
        """
        kind = self.job.get("scheduler") if self.job is not None else "direct"
        if kind == "direct":
            return None
        settings = (self._read(self._paths.spec, _PLAN_LIMIT) or {}).get("scheduler")
        planned = settings if isinstance(settings, dict) else None
        return dict(planned or {}, kind=kind) if isinstance(kind, str) else planned

    def _supervisor_of_job(self) -> str:
        """Return the supervisor's state on a worker. It lives as long as its job; its pid means nothing on this machine."""
        if self.has_ended:
            return "dead"
        state = (self.scheduler_status or {}).get("state")
        return "alive" if state in engines.LIVING else "dead" if state == engines.ENDED else "unknown"

    def _attempt(self) -> Optional[Dict[str, Any]]:
        number = newest(self._paths.attempts())
        if number is None:
            return None
        run = self._read(self._paths.attempt(number, "run.json"))
        return {"number": number, "run": run, "exit": self._read(self._paths.attempt(number, "exit.json"))}

    def _beat(self) -> Optional[Dict[str, Any]]:
        beats = []
        for path in self._paths.heartbeats():
            beat = self._read(path)
            if beat and _is_time(beat.get("time")):
                beats.append(dict(beat, noted_at=_changed_at(path)))
        return max(beats, key=lambda beat: float(beat["time"])) if beats else None

    def _quiet_s(self, beat: Dict[str, Any]) -> Optional[float]:
        """Return the seconds since the last progress of any rank, by this machine's clock; None if no job runs.

        A worker of a batch system has a clock of its own, which may be wrong. There the times of the files count, which
        the file system sets.
        """
        state = self.state or {}
        began = state.get("started_at")
        if state.get("state") != "running" or self.has_ended or not _is_time(began):
            return None
        noted = beat.get("time") if beat.get("attempt") == state.get("attempt") else None
        if self.settings is not None:
            number = state.get("attempt")
            run = self._paths.attempt(number, "run.json") if isinstance(number, int) else self._paths.state
            began = _changed_at(run) or began
            noted = noted and (beat["noted_at"] or noted)
        return max(0.0, time.time() - max(float(began or 0), float(noted or 0)))

    def _untouched_s(self) -> Optional[float]:
        """Return the seconds since a job that was lost, or its supervisor, last wrote a file; None if it is not lost."""
        if (self.state or {}).get("state") != "running" or self.has_ended or self.supervisor == "alive":
            return None
        names = [self._paths.state, self._paths.telemetry, self._paths.output, *self._paths.heartbeats()]
        written_at = max(map(_changed_at, names))
        return max(0.0, time.time() - written_at) if written_at else None

    def _read(self, path: str, limit: int = _RECORD_LIMIT) -> Optional[Dict[str, Any]]:
        try:
            return files.read_json(path, limit=limit)
        except files.UnreadableError as error:
            self.findings.append(str(error)[:500])
            return None


def _find_stopped(members: List[processes.Process], supervisor: Any) -> List[int]:
    """List the run's processes, including its supervisor, that SIGSTOP has suspended: they live but make no progress."""
    found = {member.pid for member in members if member.stat.state == "T"}
    if supervisor is not None and process_identity.judge(supervisor) == "alive":
        stat = process_identity.read_stat(supervisor["pid"])
        found |= {stat.pid} if stat is not None and stat.state == "T" else set()
    return sorted(found)[:_MOST_STOPPED]


def observe(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Observe many runs in one answer, with one scan of the process table."""
    asked = parameters.sequence(params, "runs")
    if len(asked) > _MOST_RUNS:
        raise AgentError("bad_request", "at most %d runs per request" % _MOST_RUNS)
    limit = min(_TEXT_LIMIT, parameters.integer(params, "limit_bytes", default=_TEXT_LIMIT, least=1024))
    set_aside.put_back_left(call.root)
    table, root = processes.scan(), roots.identify(call.root)
    budget, filled = _ANSWER_LIMIT, 0
    answers = []
    for question in asked:
        if not isinstance(question, dict):
            raise AgentError("bad_request", "each of `runs` must be an object")
        paths = RunPaths(call.root, question.get("run_id"))
        offsets = {name: parameters.integer(question, name + "_offset") for name in ("metrics", "events")}
        try:
            answer = _observe_run(call, paths, offsets, table, min(limit, budget))
        except Exception as error:  # one damaged folder must not hide the other runs
            answer = _unreadable(paths, offsets, error)
        size = len(json.dumps(answer))  # the size in transit: a NUL takes six bytes
        if filled + size > _LINE_LIMIT:
            answer = _unreadable(paths, offsets, ValueError("together they are %d bytes" % size))
            size = len(json.dumps(answer))
        filled += size
        budget = max(0, budget - size)
        answers.append(answer)
    return dict(roots.describe(call.root, root), time=time.time(), moment=process_identity.moment(), runs=answers)


def _observe_run(
    call: Call, paths: RunPaths, offsets: Dict[str, int], table: List[processes.Process], limit: int
) -> Dict[str, Any]:
    if is_gone(paths):
        return dict(_nothing(paths, offsets), remains=leftover_processes.describe(paths, table))
    events = _lines(paths.events, offsets["events"], limit)
    evidence = Evidence(paths, table)
    metrics = _lines(
        paths.metrics, offsets["metrics"], limit
    )  # after the evidence: an ended run has then written everything
    if evidence.may_forget_secrets and os.path.exists(paths.secrets):
        forgetting.forget(paths, evidence.submission_number or 0, must=False)
    if evidence.lacks_end:
        completion.start(call, paths, evidence.submission_number or 0)
    if evidence.is_over and allowance.lacks_after(paths, evidence.submission_number or 0):
        detached.start("quota", call.session.agent_path, paths, evidence.submission_number or 0)
    return {
        "run_id": paths.run_id,
        "exists": True,
        "evidence": evidence.as_json(),
        "findings": evidence.findings,
        "metrics": metrics,
        "events": events,
        "unreadable": listing.find_unreadable(paths),
        "outbox": listing.list_finished(paths),
        "log_size_bytes": _size(paths.output),
    }


def _unreadable(paths: RunPaths, offsets: Dict[str, int], error: Exception) -> Dict[str, Any]:
    """Return the answer for a run whose records cannot be read."""
    told = "its records on the host cannot be read: %s: %s" % (type(error).__name__, error)
    return dict(_nothing(paths, offsets), exists=True, findings=[told[:500]])


def _nothing(paths: RunPaths, offsets: Dict[str, int]) -> Dict[str, Any]:
    """Return the answer for a run without any evidence."""
    return {
        "run_id": paths.run_id,
        "exists": False,
        "evidence": None,
        "findings": [],
        "metrics": {"text": "", "next_offset": offsets["metrics"]},
        "events": {"text": "", "next_offset": offsets["events"]},
        "outbox": [],
        "log_size_bytes": 0,
    }


def read_log(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return part of a job's output.

    Offsets count bytes. The text ends at a whole character. With `tail_lines`, the text starts that many lines before
    the end, but at most `limit_bytes` before it.

    Raises:
        AgentError: `not_found`.
    """
    paths = RunPaths(call.root, params.get("run_id"))
    require_there(paths)
    limit = min(_TEXT_LIMIT, parameters.integer(params, "limit_bytes", default=_TEXT_LIMIT, least=4))
    lines = params.get("tail_lines")
    size = _size(paths.output)
    start = max(0, size - limit) if lines is not None else min(size, parameters.integer(params, "offset"))
    block = _read_block(paths.output, start, limit)
    if lines is not None:
        skipped = _before_last_lines(block, parameters.integer(params, "tail_lines"))
        start, block = start + skipped, block[skipped:]
    block = whole_characters(block) if start + len(block) < size else block
    text = block.decode("utf-8", "replace")
    return {"offset": start, "text": text, "next_offset": start + len(block), "size_bytes": size}


def whole_characters(block: bytes) -> bytes:
    """Remove the first bytes of a character whose last bytes are missing."""
    for back in range(1, min(4, len(block)) + 1):
        byte = block[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return block[:-back] if back < needed and len(block) > back else block
        if byte < 0x80:
            break
    return block


def _before_last_lines(block: bytes, count: int) -> int:
    position = len(block) - 1 if block.endswith(b"\n") else len(block)
    for _ in range(count):
        position = block.rfind(b"\n", 0, max(0, position))
        if position < 0:
            return 0
    return position + 1 if count else len(block)


def _read_block(path: str, start: int, limit: int) -> bytes:
    try:
        with files.open_regular(path) as stream:
            stream.seek(start)
            return stream.read(limit)
    except OSError:
        return b""


def _lines(path: str, offset: int, limit: int) -> Dict[str, Any]:
    text, began, next_offset = files.read_lines(path, offset, limit) if limit else ("", offset, offset)
    lines: Dict[str, Any] = {"text": text, "next_offset": next_offset}
    return lines if began == offset else dict(lines, offset=began)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
