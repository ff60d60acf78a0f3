"""Look at runs on their hosts and write what was seen into the store: one question per host, all hosts at once."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from armada.errors import ArmadaError, HostUnreachable, NothingThere
from armada.foundation.sanitize import sanitize_line
from armada.foundation.validation import finite, mapping, moment, whole
from armada.monitor.records import read_lines
from armada.rpc.client import Question
from armada.rpc.session import HostSession
from armada.store import checkpoints, metrics, run_sync, runs
from armada.store.database import Database
from armada.units import duration_s
from armada.verdicts import guesses
from armada.verdicts.order import Moment, Order, compare
from armada.verdicts.presence import AWAY_WORDS, There, presence
from armada.verdicts.state import FOLDER_REMOVED, NOT_ON_HOST, decide, of_newest_submission, quiet_for
from armada.verdicts.states import ENDED, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.store.runs import Run

log = logging.getLogger(__name__)

RUNS_PER_QUESTION = 50
ROOT_AWAY = "root_away"
REMOVED_WORDS = " while it ran; none of its processes is there, and it is unknown how it ended"
UNKNOWN_WORDS = "its host shows nothing of it, and an older armada did not note which folder it was put into"
GREETING_S = 8.0
"""How long a glance at all runs waits for a host to greet: seven round trips of 0.6 s, and a slow python3."""

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
        except NothingThere as error:
            answers = [error] * (len(questions) + len(beside))
        except HostUnreachable as error:
            runs.mark_unreachable(database, [run.run_id for run in asked], error.message)
            raise
        answered += answers[len(questions) :]
        beside = []
        by_id: dict[str, dict[str, Any]] = {}
        for question, told in zip(questions, answers, strict=False):
            answer = _nothing(question, told) if isinstance(told, NothingThere) else told
            if isinstance(answer, ArmadaError):
                raise answer
            of_all = {key: answer.get(key) for key in ("root", "wiped", "moment")}
            by_id |= {str(entry.get("run_id")): {**of_all, **entry} for entry in answer.get("runs", [])}
        with database.transaction():  # one wait for the disk, not one for each run; and for those who watch other hosts
            for run in asked:
                if run.run_id in by_id and record_contained(database, run, by_id[run.run_id]):
                    waiting.append(runs.find(database, run.run_id))  # its files hold more than one answer carries
    return answered


def _question(asked: list[Run]) -> Question:
    offsets = [
        {"run_id": run.run_id, "metrics_offset": run.metrics_offset, "events_offset": run.events_offset}
        for run in asked
    ]
    return Question("run.observe", {"runs": offsets}, timeout_s=20.0)


def _nothing(question: Question, error: NothingThere) -> dict[str, Any]:
    """Answer for a host that has nothing of armada's, as its agent would if one were put there."""
    seen = [{"run_id": asked["run_id"], "exists": False} for asked in question.params["runs"]]
    return {"root": error.root.get("id"), "wiped": error.root.get("wiped"), "runs": seen}


def observe_all(
    home: HomePaths, hosts: Mapping[str, Host], wanted: Iterable[Run], *, greeting_s: float = GREETING_S
) -> dict[str, str]:
    """Look at many runs; a host that does not answer delays no other, and nobody for longer than `greeting_s`.

    A host whose agent has greeted is waited for as long as its answer may take.

    Returns:
        Why, by name of each host that could not be asked.
    """
    by_host: dict[str, list[Run]] = {}
    for run in wanted:
        by_host.setdefault(run.host, []).append(run)
    asked = {name: _Look(home, hosts.get(name), name, theirs) for name, theirs in by_host.items()}
    wait([look.answer for look in asked.values()], timeout=greeting_s)
    answers: dict[str, str | None] = {}
    for name, look in asked.items():
        if look.answer.done() or look.has_greeted:
            answers[name] = look.answer.result()
            continue
        answers[name] = f"no answer within {greeting_s:g} s; its runs are shown as they were seen last"
        with Database(home.store) as database:
            runs.mark_unreachable(database, [run.run_id for run in by_host[name]], f"no answer within {greeting_s:g} s")
    return {name: why for name, why in answers.items() if why is not None}


class _Look:
    """One look at the runs of one host, in a thread that ends with the process where the host never answers.

    Attributes:
        answer: Why the host could not be asked; None: it was.
    """

    def __init__(self, home: HomePaths, host: Host | None, name: str, theirs: list[Run]) -> None:
        self.answer: Future[str | None] = Future()
        self._home, self._name, self._theirs = home, name, theirs
        self._session = HostSession(host, home, patience_s=0) if host is not None else None
        threading.Thread(target=self._work, name=f"look at {name}", daemon=True).start()

    @property
    def has_greeted(self) -> bool:
        return self._session is not None and self._session.has_greeted

    def _work(self) -> None:
        try:
            self.answer.set_result(self._ask())
        except BaseException as error:  # raised where the answer is awaited
            self.answer.set_exception(error)

    def _ask(self) -> str | None:
        run_ids = [run.run_id for run in self._theirs]
        with Database(self._home.store) as database:
            if self._session is None:
                why = "no longer in hosts.yaml"
                runs.mark_unreachable(database, run_ids, why)
                return why
            try:
                with self._session:
                    observe(database, self._session, self._theirs)
            except ArmadaError as error:
                if not isinstance(error, HostUnreachable):
                    runs.mark_unreachable(database, run_ids, error.message)
                return error.message
        return None


def record_contained(database: Database, run: Run, entry: dict[str, Any]) -> bool:
    """Record one run's part of an answer; whatever a job wrote into its files, no other run is harmed, and home asks no second time.

    Returns:
        As `record_entry`.
    """
    if not runs.is_known(database, run.run_id):
        return False  # another armada has forgotten it since we asked
    try:
        with database.part():
            return record_entry(database, run, entry)
    except (ArmadaError, OSError):
        raise  # of home's own
    except Exception as error:
        log.exception("%s: its records cannot be stored", run.run_id)
        with database.part():
            runs.note_unreadable(database, run.run_id, 1, f"{type(error).__name__}: {sanitize_line(error, 200)}")
            for part in ("metrics", "events"):
                _, end = _part(entry, part)
                runs.skip_to(database, run.run_id, part, end)
        return False


def record_entry(database: Database, run: Run, entry: dict[str, Any], *, observed_at: float | None = None) -> bool:
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
    if verdict.reason in (NOT_ON_HOST, FOLDER_REMOVED):
        verdict = _without_folder(run, entry, verdict)
        if where(run, entry) is There.REMOVED:
            checkpoints.record_outbox(database, run.run_id, [])
        if run.ended:
            return False  # what it ended as was seen before
    evidence = of_newest_submission(mapping(entry.get("evidence")))
    state = mapping(evidence.get("state"))
    if entry.get("exists") and entry.get("findings") and whole(state.get("seq")) is None:
        # What could not be read says nothing about the order of records; where it ended, that was seen before.
        if run.ended:
            return False
        verdict = dataclasses.replace(verdict, attempt=run.attempt, seq=run.seq)
    scheduler_status = mapping(evidence.get("scheduler")).get("state")
    places = {"known": (run.attempt, run.seq), "seen": (verdict.attempt, verdict.seq)}
    if guesses.stays(run.state, run.reason, **places, scheduler_status=scheduler_status):
        verdict = dataclasses.replace(verdict, state=run.state, reason=run.reason, message=run.message)
    facts = _facts(run, entry, evidence, verdict)
    facts["observed_at"] = observed_at or time.time()
    facts |= _step_saved(database, run, entry, moment(state.get("started_at")), facts.get("step"))
    order = _order(database, run, entry, verdict, facts)
    if order is Order.WENT_BACK:
        facts |= {"metrics_offset": 0, "events_offset": 0}
        verdict = _after_going_back(run, verdict)
    if not runs.record(database, run.run_id, verdict, went_back=order is Order.WENT_BACK, **facts):
        return False
    if run.ended and (verdict.state not in ENDED or facts.get("submission", run.submission) != run.submission):
        run_sync.reopen(database, run.run_id)  # another home resumed it, or its end was only a guess
    more = _take_lines(database, run, entry)
    checkpoints.record_outbox(database, run.run_id, outbox_entries(entry))
    return more


def _facts(run: Run, entry: dict[str, Any], evidence: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    """Collect what the store keeps of a look beside the verdict."""
    state = mapping(evidence.get("state"))
    beat = mapping(evidence.get("heartbeat"))
    facts: dict[str, Any] = {
        "unreachable_since": None,
        "unreachable_why": None,
    }
    if (began := moment(state.get("started_at"))) is not None:
        facts["started_at"] = began
    facts |= {key: whole(beat[key]) for key in ("step", "total_steps") if whole(beat.get(key)) is not None}
    if isinstance(beat.get("phase"), str):
        facts["phase"] = sanitize_line(beat["phase"], 20)
    # The exit is written before state.json repeats it; between the two it knows more.
    ending = mapping(mapping(evidence.get("attempt")).get("exit")) or state
    if verdict.state not in ENDED:
        facts |= {"ended_at": None, "exit_code": None}  # of a submission before this one
    elif (ended := moment(ending.get("ended_at"))) is not None:
        facts["ended_at"] = ended
    if verdict.state in ENDED and ending.get("exit_code") in range(256):
        facts["exit_code"] = ending["exit_code"]
    if number := whole(mapping(evidence.get("submission")).get("number")):
        facts["submission"] = number
    if isinstance(state.get("gpus"), list):
        facts["gpus"] = json.dumps([gpu for gpu in state["gpus"][:64] if whole(gpu) is not None])
    if (size := whole(entry.get("log_size_bytes"))) is not None:
        facts["log_size_bytes"] = size
    if entry.get("exists"):
        facts["root_id"] = _root(entry) or run.root_id
    return facts


def _step_saved(
    database: Database, run: Run, entry: dict[str, Any], began: float | None, step: object
) -> dict[str, int]:
    """The step of the newest checkpoint of this attempt, where its heartbeat ended before it was saved."""
    if began is None:
        return {}
    saved = [each["step"] for each in outbox_entries(entry) if each["created_at"] >= began]
    newest = max([*saved, checkpoints.newest_step(database, run.run_id, since=began)])
    return {"step": newest} if newest > (step if isinstance(step, int) else -1) and whole(newest) is not None else {}


def _order(database: Database, run: Run, entry: dict[str, Any], verdict: Verdict, facts: dict[str, Any]) -> Order:
    """Say whether a look is newer than what is known; adds the moment of the look to `facts`."""
    if (seen_at := _moment(entry)) is None:
        return Order.NEWER
    order = compare(
        seen=(verdict.attempt, verdict.seq),
        known=(run.attempt, run.seq),
        seen_at=seen_at,
        known_at=_known(run.seen_boot, run.seen_at_s),
        less_since=_known(run.less_boot, run.less_since_s),
    )
    if order is Order.DOUBTFUL:
        runs.note_less(database, run.run_id, seen_at.boot, seen_at.seconds)
    facts |= {"seen_boot": seen_at.boot, "seen_at_s": seen_at.seconds, "less_boot": None, "less_since_s": None}
    return order


def _take_lines(database: Database, run: Run, entry: dict[str, Any]) -> bool:
    """Store the metrics and events of a look; says whether the host's files hold more of them."""
    more = False
    for part, offset, take in (
        ("metrics", run.metrics_offset, metrics.record_metrics),
        ("events", run.events_offset, metrics.record_events),
    ):
        text, end = _part(entry, part)
        if end > offset:
            lines = read_lines(text, part)
            take(database, run.run_id, lines.records, offset=offset, next_offset=end)
            if lines.unreadable:
                runs.note_unreadable(database, run.run_id, lines.unreadable, lines.first)
            more = more or len(text) > 32_768
    return more


def _without_folder(run: Run, entry: dict[str, Any], verdict: Verdict) -> Verdict:
    """Say of a run whose folder is not seen whether it was removed; processes alone do not prove that it was."""
    # Nothing is there to be numbered: this is as new as what we knew when we asked.
    verdict = dataclasses.replace(verdict, attempt=run.attempt, seq=run.seq)
    there = where(run, entry)
    if there is There.REMOVED:
        ran = run.state == "running" and run.reason not in (NOT_ON_HOST, ROOT_AWAY)
        message = wiped_by(run, entry) or f"its folder on {run.host} was removed"
        if verdict.reason == FOLDER_REMOVED:
            message += f" while it ran; the job continues: armada stop {run.run_id} ends it"
        elif ran or run.message == message + REMOVED_WORDS:
            message += REMOVED_WORDS
        return dataclasses.replace(verdict, message=message)
    message = AWAY_WORDS if run.root_id is not None else "the host has no folder of this run"
    if verdict.reason == FOLDER_REMOVED:
        message += "; processes of it are alive there"
    reason = ROOT_AWAY if run.root_id is not None else NOT_ON_HOST
    return dataclasses.replace(verdict, state="unknown", reason=reason, message=message)


def ask_about(session: HostSession, run: Run) -> dict[str, Any]:
    """Ask a host about one run, as `observe` does, and record nothing: its part of the answer."""
    question = _question([run])
    try:
        answer = session.call(question.method, question.params, timeout_s=question.timeout_s)
    except NothingThere as error:
        answer = _nothing(question, error)
    entries = answer.get("runs")
    return {"root": answer.get("root"), **mapping(entries[0] if isinstance(entries, list) and entries else None)}


def where(run: Run, entry: dict[str, Any]) -> There:
    """Where the run's folder is, by one look of its host's."""
    wiped = [wipe["root"] for wipe in _wipes(entry)]
    wiped += [run.wiped_root] if run.wiped_root is not None else []
    return presence(exists=bool(entry.get("exists")), seen_root=_root(entry), known_root=run.root_id, wiped=wiped)


def wiped_by(run: Run, entry: dict[str, Any]) -> str | None:
    """Who wiped the root that a run was put into, and when, by one look of its host's; None where nobody said so."""
    for wipe in _wipes(entry):
        if wipe["root"] == run.root_id:
            at = moment(wipe.get("time"))
            when = time.strftime(" on %Y-%m-%d at %H:%M", time.localtime(at)) if at is not None else ""
            return f"its host was wiped by {sanitize_line(wipe.get('by') or 'another home', 200)}{when}"
    return "its host was wiped by this home" if run.wiped_root is not None and run.wiped_root == run.root_id else None


def _wipes(entry: dict[str, Any]) -> list[dict[str, Any]]:
    listed = entry.get("wiped")
    found = [wipe for wipe in listed[:100] if isinstance(wipe, dict)] if isinstance(listed, list) else []
    return [wipe for wipe in found if isinstance(wipe.get("root"), str)]


def _root(entry: dict[str, Any]) -> str | None:
    root = entry.get("root")
    return root if isinstance(root, str) and 0 < len(root) <= 64 else None


def _moment(entry: dict[str, Any]) -> Moment | None:
    told = entry.get("moment")
    boot, seconds = (told.get("boot"), finite(told.get("seconds"))) if isinstance(told, dict) else (None, None)
    return Moment(boot[:300], seconds) if isinstance(boot, str) and seconds is not None else None


def _known(boot: str | None, seconds: float | None) -> Moment | None:
    return None if boot is None or seconds is None else Moment(boot, seconds)


def _after_going_back(run: Run, verdict: Verdict) -> Verdict:
    """A run that has been seen to end has ended, whatever an older copy of its host's disk shows."""
    words = "its host shows an older state of it than before; its disk may have been restored from a snapshot"
    if run.ended and not run.is_guess:
        return dataclasses.replace(verdict, state=run.state, reason=run.reason, message=words)
    return dataclasses.replace(verdict, message=verdict.message or words, because=f"{verdict.because}; {words}")


def _stall_after_s(database: Database, run: Run) -> float | None:
    text = runs.setting(database, run.run_id, "stall_after")
    return duration_s(text) if isinstance(text, str) and text != "never" else None


def _part(entry: dict[str, Any], name: str) -> tuple[str, int]:
    part = mapping(entry.get(name))
    text, end = part.get("text"), whole(part.get("next_offset"))
    return (text, end) if isinstance(text, str) and end is not None else ("", 0)


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
