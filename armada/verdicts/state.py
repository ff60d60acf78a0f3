"""Decide a run's state from evidence. No other module does.

A host shows files and processes; it never says "failed". What they mean together is this table, tried from the top
(`because` of the verdict names the row, and `armada ps --why` shows it):

| evidence                                                        | state      | reason             |
|-----------------------------------------------------------------|------------|--------------------|
| the supervisor wrote an end (state.json, or the attempt's exit) | as written | as written         |
| no folder of the run on the host, processes of it live there    | running    | folder_removed     |
| nothing of the run on the host                                  | unknown    | not_on_host        |
| its records there cannot be read                                | unknown    | unreadable         |
| no submission claimed                                           | preparing  |                    |
| claimed, no supervisor has started it                             | submitted  |                    |
| supervisor alive                                                | as written |                    |
| … and wrote “running”, and no progress for `stall_after`     | running    | stalled            |
| its batch system: it waits, or waits again                      | queued     | as written         |
| its batch system said so before its supervisor began            | running    |                    |
| its batch system: held                                          | queued     | held               |
| its batch system: it runs, or is about to end                   | running    |                    |
| its batch system: it ended, and no end was written              | see below  | the engine's       |
| its batch system, several times: there is no such job           | failed     | gone: a guess      |
| its batch system does not say                                   | as before  |                    |
| liveness cannot be known from here                              | as written |                    |
| the host was rebooted since                                     | failed     | host_rebooted      |
| supervisor dead, processes of the run alive                     | running    | supervisor_lost    |
| supervisor dead, none alive, its end was asked for              | cancelled  | killed_by_user     |
| supervisor dead, none alive, no attempt begun                   | failed     | never_started      |
| supervisor dead, none alive                                     | failed     | supervisor_lost    |

A job that its batch system ended without a word of its supervisor's was removed (cancelled), or ran out of time or memory, or
lost its node (failed). Where a batch system does not answer, the last known state stays, and its age shows. Its word reaches home
corrected: a host holds it against the job's signs of life (`armada_agent/verdicts/liveness.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from armada.foundation.sanitize import last_states, sanitize_line
from armada.foundation.validation import mapping, whole
from armada.units import span
from armada.verdicts.states import ENDED, STATES, Verdict

NOT_ON_HOST = "not_on_host"
FOLDER_REMOVED = "folder_removed"


def decide(observed: dict[str, Any], stall_after_s: float | None = None) -> Verdict:
    """Turn one run's part of a `run.observe` answer into its state.

    Args:
        observed: `exists` and `evidence`, as protocol.json defines them.
        stall_after_s: After how long without a heartbeat a running job is called stalled; None never.
    """
    verdict = _decide(observed)
    evidence = mapping(observed.get("evidence"))
    if verdict.state == "running" and isinstance(evidence.get("stopped"), list) and evidence["stopped"]:
        words = f"SIGSTOP has stopped {len(evidence['stopped'])} of its processes"
        message = verdict.message or f"{words}{_woken_by(evidence['stopped'])}"
        verdict = dataclasses.replace(verdict, message=message, because=f"{verdict.because}; {words}")
    quiet_s = quiet_for(observed)
    if verdict.state != "running" or verdict.reason or stall_after_s is None or quiet_s < stall_after_s:
        return verdict
    message = f"no progress for {span(quiet_s)}{_beat(evidence)}"
    return dataclasses.replace(verdict, reason="stalled", message=message, because=f"{verdict.because}; {message}")


def _woken_by(pids: list[Any]) -> str:
    numbers = [str(pid) for pid in pids[:5] if isinstance(pid, int) and pid > 0]
    return f": kill -CONT {' '.join(numbers)} on its host continues them" if numbers else ""


def quiet_for(observed: dict[str, Any]) -> float:
    """Seconds since a running job last got on, by its host's clock; 0 where nobody can say."""
    quiet_s = mapping(observed.get("evidence")).get("quiet_s")
    return float(quiet_s) if isinstance(quiet_s, int | float) and 0 < quiet_s < float("inf") else 0.0


def of_newest_submission(evidence: dict[str, Any]) -> dict[str, Any]:
    """The evidence without what an earlier submission wrote; which attempts there were, and the order of records, stay."""
    number = mapping(evidence.get("submission")).get("number")
    state = mapping(evidence.get("state"))
    attempt = mapping(evidence.get("attempt"))
    kept = dict(evidence)
    if _is_earlier(state, number):
        kept["state"] = {key: state[key] for key in ("attempt", "seq") if key in state}
    if _is_earlier(mapping(attempt.get("run")), number):
        kept["attempt"] = {"number": attempt.get("number"), "run": None, "exit": None}
    return kept


def _is_earlier(record: dict[str, Any], number: object) -> bool:
    own = record.get("submission")
    return isinstance(own, int) and isinstance(number, int) and own < number


def _decide(observed: dict[str, Any]) -> Verdict:
    evidence = of_newest_submission(mapping(observed.get("evidence")))
    state = mapping(evidence.get("state"))
    attempt = mapping(evidence.get("attempt"))
    number = _count(attempt.get("number")) or _count(state.get("attempt"))
    seq = _count(state.get("seq"))

    def verdict(because: str, word: str, reason: object = None, message: object = None) -> Verdict:
        if word not in STATES:
            reason = reason or "newer_armada"
            message = f"its supervisor wrote “{sanitize_line(word, 40)}”, a state of a newer armada than this one: update armada here"
            word = "unknown"
        return Verdict(
            word,
            sanitize_line(reason, 60) if reason else None,
            sanitize_line(last_states(str(message))) if message else None,
            number,
            seq,
            because,
        )

    if state.get("state") in ENDED:
        return verdict("its supervisor wrote the end", state["state"], state.get("reason"), state.get("message"))
    exit_ = mapping(attempt.get("exit"))
    if exit_.get("state") in ENDED:
        because = f"the exit of attempt {number} is written"
        return verdict(because, exit_["state"], exit_.get("reason"), exit_.get("message"))
    if not observed.get("exists") and (left := _count(mapping(observed.get("remains")).get("processes"))):
        because = f"its folder is not on the host; {left} of its processes are alive there"
        return verdict(
            because, "running", FOLDER_REMOVED, "its folder on the host was removed while it ran; the job continues"
        )
    if not observed.get("exists"):
        because = "nothing of the run is on the host"
        return verdict(because, "unknown", NOT_ON_HOST, "the host has no folder of this run")
    if observed.get("evidence") is None:
        return verdict("its records on the host cannot be read", "unknown", "unreadable", _first_finding(observed))
    submission = mapping(evidence.get("submission"))
    if not submission.get("claimed"):
        return verdict("its folder is on the host; no submission was claimed", "preparing")
    if not submission.get("job"):
        because = f"submission {_count(submission.get('number'))} is claimed; no supervisor has started it"
        return verdict(because, "submitted", None, "claimed on the host, not started yet")
    if isinstance(scheduler_status := evidence.get("scheduler"), dict):
        return verdict(*_by_scheduler(scheduler_status, state, evidence))
    written = str(state.get("state") or "submitted")
    supervisor = evidence.get("supervisor")
    if supervisor not in ("dead", "none"):
        alive = "its supervisor lives" if supervisor == "alive" else "it is unknown whether its supervisor is alive"
        wrote = f"{alive} and wrote “{sanitize_line(written, 20)}”{_beat(evidence)}"
        return verdict(wrote, written, state.get("reason"), state.get("message"))
    if evidence.get("rebooted"):
        because = "the host was restarted since its supervisor began; no exit was written"
        return verdict(because, "failed", "host_rebooted", "the host was restarted while the run was on it")
    if alive_count := _count(evidence.get("processes")):
        because = f"its supervisor is dead; {alive_count} of the run's processes live"
        return verdict(because, "running", "supervisor_lost", "its supervisor died; the job itself continues")
    if evidence.get("stop_wished"):
        because = "its supervisor is dead, its end was asked for, none of its processes lives"
        return verdict(because, "cancelled", "killed_by_user", "stopped after its supervisor had died")
    if not attempt:
        because = "its supervisor is dead; it had begun no attempt"
        return verdict(because, "failed", "never_started", "its supervisor died before the job was started")
    if not attempt.get("run"):
        because = f"its supervisor is dead; attempt {number} was begun, no process was recorded and none lives"
        said = "its supervisor died while it started the job; it is unknown whether the job began"
        return verdict(because, "failed", "supervisor_lost", said)
    message = "its supervisor and its processes are gone; no exit was recorded"
    because = f"its supervisor is dead, none of its processes lives, attempt {number} has no exit"
    return verdict(because, "failed", "supervisor_lost", message)


def _by_scheduler(
    scheduler_status: dict[str, Any], state: dict[str, Any], evidence: dict[str, Any]
) -> tuple[str, str, object, object]:
    """What a batch system's word means for a run whose supervisor has written no end: (because, state, reason, message)."""
    job = mapping(evidence.get("submission")).get("job")
    engine = sanitize_line(job.get("scheduler") if isinstance(job, dict) else "the scheduler", 20)
    seen, detail = scheduler_status.get("state"), sanitize_line(scheduler_status.get("detail") or "", 60)
    said = f"{engine} says {detail or seen}"
    written = str(state.get("state") or "queued")
    message = scheduler_status.get("message")
    if seen == "pending" and written == "running" and _later(state.get("started_at"), scheduler_status.get("seen_at")):
        return f"its supervisor wrote “running” after {engine}'s last word ({detail or seen})", written, None, None
    if seen == "pending":
        again = state.get("reason") if written == "queued" else None
        told = [state.get("message") if again or not message else None, message]
        words = "; ".join(str(each) for each in told if each)
        return f"{said}; its supervisor waits with it", "queued", again or scheduler_status.get("reason"), words
    if seen == "held":
        return (
            f"{said}: it waits until somebody releases it",
            "queued",
            scheduler_status.get("reason") or "held",
            message,
        )
    if seen in ("running", "ending"):
        if written == "running":
            beat = _beat(evidence)
            return (
                f"{message or said} and its supervisor wrote “running”{beat}",
                written,
                None,
                message or state.get("message"),
            )
        where = sanitize_line(scheduler_status.get("node") or "a worker", 100)
        return f"{said}; its supervisor has not written yet", "running", None, f"starting on {where}"
    if seen == "ended":
        reason = str(scheduler_status.get("reason") or "ended_silently")
        if reason == "removed" or evidence.get("stop_wished"):
            return (
                f"{said}; its supervisor wrote no end",
                "cancelled",
                "killed_by_user",
                message or "removed from the queue",
            )
        return f"{said}; its supervisor wrote no end", "failed", reason, message
    if seen == "gone":
        because = (
            f"{engine} lists it neither in its queue nor by its id; the job's files do not change; no end was written"
        )
        if evidence.get("stop_wished"):
            return because, "cancelled", "killed_by_user", "no longer in the queue"
        how = "how it ended" if evidence.get("attempt") else "that it ever began"
        return because, "failed", "gone", f"{engine} no longer lists the job, and no record shows {how}"
    problem = sanitize_line(scheduler_status.get("error") or message or "no answer yet", 200)
    return (
        f"{engine} does not say ({problem}); its supervisor wrote “{sanitize_line(written, 20)}”",
        written,
        None,
        problem,
    )


def _first_finding(observed: dict[str, Any]) -> str:
    findings = observed.get("findings")
    return str(findings[0]) if isinstance(findings, list) and findings else "its records on the host cannot be read"


def _later(one: object, other: object) -> bool:
    return isinstance(one, int | float) and isinstance(other, int | float) and one > other


def _beat(evidence: dict[str, Any]) -> str:
    """What the newest heartbeat adds to a living supervisor's word."""
    beat = mapping(evidence.get("heartbeat"))
    phase, step = beat.get("phase"), beat.get("step")
    if not isinstance(phase, str):
        return ""
    where = f", step {step}" if isinstance(step, int) else ""
    return f"; rank {_count(beat.get('rank'))} last said {sanitize_line(phase, 20)}{where}"


def _count(value: object) -> int:
    return whole(value) or 0
