"""Look at runs on their hosts and write what was seen into the store: one question per host, all hosts at once."""

from __future__ import annotations

import dataclasses
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from armada.agent import Question
from armada.errors import ArmadaError, HostUnreachable
from armada.inert import inert_line
from armada.monitor.state import NOT_ON_HOST, decide, of_newest_submission, quiet_for
from armada.plausible import moment, whole
from armada.session import HostSession
from armada.store import checkpoints, metrics, runs
from armada.store.database import Database
from armada.units import duration_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.store.runs import Run

RUNS_PER_QUESTION = 50
SHORTEST_STALL_S = 10.0
"""Below which no experiment can call a run stalled."""


def observe(
    database: Database, session: HostSession, wanted: Iterable[Run], also: Sequence[Question] = ()
) -> list[dict[str, Any] | ArmadaError]:
    """Ask one host about runs of its, and record the answers: one round trip, unless a run has more to tell than fits.

    Args:
        database: The store.
        session: With the host.
        wanted: Its runs.
        also: What else to ask in the same breath.

    Returns:
        The answers to `also`.

    Raises:
        HostUnreachable: After noting in the store that these runs cannot be seen.
    """
    waiting, beside = list(wanted), list(also)
    answered: list[dict[str, Any] | ArmadaError] = []
    while waiting or beside:
        asked, waiting = waiting, []
        questions = [
            _question(asked[start : start + RUNS_PER_QUESTION]) for start in range(0, len(asked), RUNS_PER_QUESTION)
        ]
        try:
            answers = session.call_all([*questions, *beside])
        except HostUnreachable as error:
            runs.mark_unreachable(database, [run.run_id for run in asked], error.message)
            raise
        answered += answers[len(questions) :]
        beside = []
        by_id: dict[str, dict[str, Any]] = {}
        for answer in answers[: len(questions)]:
            if isinstance(answer, ArmadaError):
                raise answer
            by_id |= {str(entry.get("run_id")): entry for entry in answer.get("runs", [])}
        with database.transaction():  # one wait for the disk, not one for each run; and for those who watch other hosts
            for run in asked:
                if run.run_id in by_id and take_entry(database, run, by_id[run.run_id]):
                    waiting.append(runs.find(database, run.run_id))  # its files hold more than one answer carries
    return answered


def _question(asked: list[Run]) -> Question:
    offsets = [
        {"run_id": run.run_id, "metrics_offset": run.metrics_offset, "events_offset": run.events_offset}
        for run in asked
    ]
    return Question("run.observe", {"runs": offsets}, timeout_s=20.0)


def observe_all(
    home: HomePaths, hosts: Mapping[str, Host], wanted: Iterable[Run], *, patience_s: float = 0.0
) -> dict[str, str]:
    """Look at many runs; a host that does not answer delays no other.

    Returns:
        Why, by name of each host that could not be asked.
    """
    by_host: dict[str, list[Run]] = {}
    for run in wanted:
        by_host.setdefault(run.host, []).append(run)

    def look(name: str) -> str | None:
        with Database(home.store) as database:
            if name not in hosts:
                why = "no longer in hosts.yaml"
                runs.mark_unreachable(database, [run.run_id for run in by_host[name]], why)
                return why
            try:
                with HostSession(hosts[name], home, patience_s=patience_s) as session:
                    observe(database, session, by_host[name])
            except ArmadaError as error:
                if not isinstance(error, HostUnreachable):
                    runs.mark_unreachable(database, [run.run_id for run in by_host[name]], error.message)
                return error.message
            return None

    if not by_host:
        return {}
    with ThreadPoolExecutor(max_workers=min(32, len(by_host))) as pool:
        answers = dict(zip(by_host, pool.map(look, by_host), strict=True))
    return {name: why for name, why in answers.items() if why is not None}


def take_entry(database: Database, run: Run, entry: dict[str, Any], *, observed_at: float | None = None) -> bool:
    """Record one run's part of an answer.

    Args:
        database: The store.
        run: As the store knew it when the question was asked.
        entry: The host's words, or its files' that came home.
        observed_at: When it was seen; now by default.

    Returns:
        Whether the host's files hold more than this answer carried.
    """
    # Only of who is quiet: a spec is long, and most runs get on every second.
    verdict = decide(entry, _stall_after_s(database, run) if quiet_for(entry) >= SHORTEST_STALL_S else None)
    if verdict.reason == NOT_ON_HOST:
        if run.ended:
            checkpoints.take_outbox(database, run.run_id, [])
            return False  # its folder was removed, or the host made anew; what it ended as was seen before
        # Nothing is there to be numbered: this is as new as what we knew when we asked.
        verdict = dataclasses.replace(verdict, attempt=run.attempt, seq=run.seq)
    evidence = of_newest_submission(entry.get("evidence") or {})
    state: dict[str, Any] = evidence.get("state") or {}
    beat: dict[str, Any] = evidence.get("heartbeat") or {}
    facts: dict[str, Any] = {
        "observed_at": observed_at or time.time(),
        "unreachable_since": None,
        "unreachable_why": None,
    }
    if (began := moment(state.get("started_at"))) is not None:
        facts["started_at"] = began
    facts |= {key: whole(beat[key]) for key in ("step", "total_steps") if whole(beat.get(key)) is not None}
    if isinstance(beat.get("phase"), str):
        facts["phase"] = inert_line(beat["phase"], 20)
    # The exit is written before state.json repeats it; between the two it knows more.
    ending = (evidence.get("attempt") or {}).get("exit") or state
    if verdict.state not in runs.ENDED:
        facts |= {"ended_at": None, "exit_code": None}  # of a submission before this one
    elif (ended := moment(ending.get("ended_at"))) is not None:
        facts["ended_at"] = ended
    if verdict.state in runs.ENDED and ending.get("exit_code") in range(256):
        facts["exit_code"] = ending["exit_code"]
    if number := whole((evidence.get("submission") or {}).get("number")):
        facts["submission"] = number
    if isinstance(state.get("gpus"), list):
        facts["gpus"] = json.dumps([gpu for gpu in state["gpus"][:64] if whole(gpu) is not None])
    if (size := whole(entry.get("log_size_bytes"))) is not None:
        facts["log_size_bytes"] = size
    runs.record(database, run.run_id, verdict, **facts)
    more = False
    for part, offset, take in (
        ("metrics", run.metrics_offset, metrics.take_metrics),
        ("events", run.events_offset, metrics.take_events),
    ):
        text, end = _part(entry, part)
        if end > offset:
            take(database, run.run_id, _lines(text), offset=offset, next_offset=end)
            more = more or len(text) > 32_768
    checkpoints.take_outbox(database, run.run_id, outbox_entries(entry))
    return more


def _stall_after_s(database: Database, run: Run) -> float | None:
    text = runs.setting(database, run.run_id, "stall_after")
    return duration_s(text) if isinstance(text, str) and text != "never" else None


def _part(entry: dict[str, Any], name: str) -> tuple[str, int]:
    part = entry.get(name) or {}
    text, end = part.get("text"), whole(part.get("next_offset"))
    return (text, end) if isinstance(text, str) and end is not None else ("", 0)


def _lines(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue  # a line torn by a full disk: the next ones are whole
        if isinstance(value, dict):
            found.append(value)
    return found


def outbox_entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The checkpoints a host lists, without what is not one."""
    whole = {"digest": str, "step": int, "size_bytes": int, "file_count": int, "created_at": int | float}
    listed = entry.get("outbox")
    return [
        item
        for item in (listed if isinstance(listed, list) else [])[:10_000]
        if isinstance(item, dict)
        and all(
            isinstance(item.get(key), kind) and 0 <= item[key] < 1 << 62
            for key, kind in whole.items()
            if key != "digest"
        )
        and isinstance(item.get("digest"), str)
        and len(item["digest"]) == 64
        and set(item["digest"]) <= set("0123456789abcdef")
    ]
