"""Observe runs on their hosts and record the evidence in the store: one request per host, all hosts at once."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Literal

from armada.errors import ArmadaError, HostUnreachable, NothingThere, UnexpectedAnswer
from armada.foundation.sanitize import sanitize_line
from armada.monitor.facts import Facts, add_step_saved, alive_at, facts_of
from armada.monitor.look import TIMEOUT_S, Look, looks, nothing_there, question, where, wiped_by
from armada.monitor.records import read_lines
from armada.protocol.message import Misfit
from armada.rpc.client import Call
from armada.rpc.session import HostSession
from armada.store import checkpoints, metrics, run_sync, runs, transitions
from armada.store.database import Database
from armada.units import duration_s
from armada.verdicts import guesses
from armada.verdicts.order import Moment, Order, compare
from armada.verdicts.presence import AWAY_WORDS, There, began_since
from armada.verdicts.state import (
    FOLDER_REMOVED,
    NOT_ON_HOST,
    PUT_BACK,
    decide,
    of_newest_submission,
    of_put_back,
    of_unsubmitted,
    quiet_for,
    shows_no_more,
    submission_shown,
    was_refused,
)
from armada.verdicts.states import ENDED, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from armada.config.hosts import Host
    from armada.paths import HomePaths
    from armada.protocol.observation import Lines, Observation
    from armada.protocol.records import Evidence
    from armada.store.runs import Run

log = logging.getLogger(__name__)

RUNS_PER_QUESTION = 50
ROOT_AWAY = "root_away"
REMOVED_WORDS = " while it ran; none of its processes is there, and it is unknown how it ended"
UNTOLD_WORDS = " while it ran; it is unknown whether processes of it live there"
MISFIT = "its host's answer does not fit"
GREETING_S = 8.0
"""How long a status of all runs waits for a host's agent to greet, in seconds: seven round trips of 0.6 s, and a slow python3."""

SHORTEST_STALL_S = 10.0
"""The shortest `stall_after` that an experiment can set, in seconds."""


def observe(
    database: Database, session: HostSession, wanted: Iterable[Run], also: Sequence[Call[Any]] = ()
) -> list[Any]:
    """Observe runs of one host, and record the answers: one round trip, unless a run's new lines do not fit into one.

    Args:
        database: The store.
        session: A session with the host.
        wanted: The runs.
        also: Other requests to send at the same time.

    Returns:
        The answers to `also`: the model of each, or the error that refused it.

    Raises:
        HostUnreachable: The store then records that these runs cannot be observed.
    """
    waiting, beside = list(wanted), list(also)
    answered: list[Any] = []
    while waiting or beside:
        asked, waiting = waiting, []
        questions = [
            question(asked[start : start + RUNS_PER_QUESTION]) for start in range(0, len(asked), RUNS_PER_QUESTION)
        ]
        flight: list[Call[Any]] = [*(Call.of(each, TIMEOUT_S) for each in questions), *beside]
        try:
            answers = session.call_all(flight)
        except NothingThere as error:
            answers = [error] * len(flight)
        except HostUnreachable as error:
            runs.mark_unreachable(database, [run.run_id for run in asked], error.message)
            raise
        answered += answers[len(questions) :]
        beside = []
        by_id: dict[str, Look | Misfit] = {}
        for each, told in zip(questions, answers, strict=False):
            answer = nothing_there(each, told) if isinstance(told, NothingThere) else told
            if isinstance(answer, ArmadaError):
                raise answer
            by_id |= looks(answer)
        with database.transaction():  # one wait for the disk, not one per run
            for run in asked:
                if run.run_id in by_id and record_contained(database, run, by_id[run.run_id]):
                    waiting.append(runs.find(database, run.run_id))  # its files contain more than one answer holds
    return answered


def observe_all(
    home: HomePaths, hosts: Mapping[str, Host], wanted: Iterable[Run], *, greeting_s: float = GREETING_S
) -> dict[str, str]:
    """Observe many runs. A host that does not answer delays no other host, and this call by at most `greeting_s`.

    If a host's agent has greeted, this waits as long as its answer may take.

    Returns:
        The reason for each host that could not be queried, by its name.
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
        with Database(home.store, existing=True) as database:
            runs.mark_unreachable(database, [run.run_id for run in by_host[name]], f"no answer within {greeting_s:g} s")
    return {name: why for name, why in answers.items() if why is not None}


class _Look:
    """One observation of the runs of one host, in a daemon thread, because the host may never answer.

    Attributes:
        answer: Why the host could not be queried; None if it was.
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
        except BaseException as error:  # raised again in the waiting thread
            self.answer.set_exception(error)

    def _ask(self) -> str | None:
        run_ids = [run.run_id for run in self._theirs]
        with Database(self._home.store, existing=True) as database:
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


def record_contained(database: Database, run: Run, look: Look | Misfit) -> bool:
    """Record one run's part of an answer. Whatever a job wrote into its files, other runs are unaffected, and it is not requested again.

    Returns:
        As in `record_look`.
    """
    if not runs.is_known(database, run.run_id):
        return False  # another process has forgotten the run meanwhile
    if isinstance(look, Misfit):
        # The run keeps its last known state. This is recorded once, not with every poll.
        if run.unreadable is None:
            runs.note_unreadable(database, run.run_id, 1, f"{MISFIT}: {look.problem}")
        return False
    try:
        with database.part():
            return record_look(database, run, look)
    except (ArmadaError, OSError):
        raise  # an error of home, not of the answer
    except Exception as error:
        log.exception("%s: its records cannot be stored", run.run_id)
        with database.part():
            runs.note_unreadable(database, run.run_id, 1, f"{type(error).__name__}: {sanitize_line(error, 200)}")
            for part, lines in _parts(look.run):
                runs.skip_to(database, run.run_id, part, lines.next_offset)
        return False


def record_look(database: Database, run: Run, look: Look, *, observed_at: float | None = None) -> bool:
    """Record one observation of a run.

    Args:
        database: The store.
        run: The run as the store had it when the request was sent.
        look: The evidence from the host, or from its files at home.
        observed_at: When it was observed, unix time; now by default.

    Returns:
        Whether the host's files contain more lines than this answer.
    """
    seen = look.run
    # Only for a quiet run: parsing its spec takes time, and most runs make progress every second.
    verdict = decide(seen, _stall_after_s(database, run) if quiet_for(seen) >= SHORTEST_STALL_S else None)
    if run.ended and not (run.is_guess or run.is_only_told) and shows_no_more(seen.evidence, verdict):
        verdict = _with_known_end(run, verdict, run.message)  # such as that its submission was refused
    elif verdict.state == "preparing" and seen.evidence is not None and transitions.was_seen(database, run.run_id):
        verdict = of_unsubmitted(seen.evidence, verdict)
    elif verdict.reason in (NOT_ON_HOST, FOLDER_REMOVED):
        verdict = _without_folder(run, look, verdict, came=transitions.was_seen(database, run.run_id))
        if where(run, look.folder) is There.REMOVED:
            checkpoints.record_outbox(database, run.run_id, ())
        if run.ended and not began_since(seen.remains, attempt=run.attempt, submission=run.submission):
            return False  # its end was recorded before
    newest = of_newest_submission(seen.evidence)
    if seen.exists and seen.findings and newest.seq is None:
        # Unreadable records say nothing about order; if the run had ended, its end was recorded before.
        if run.ended:
            return False
        verdict = dataclasses.replace(verdict, attempt=run.attempt, seq=run.seq)
    if _stays(run, seen.evidence, verdict):
        verdict = _with_known_end(run, verdict, run.message)
    facts = facts_of(run, look, newest, verdict)
    facts.observed_at = observed_at or time.time()
    facts.alive_at = alive_at(run, seen, verdict, facts.observed_at)
    add_step_saved(database, run, seen, facts)
    order = _order(database, run, look, verdict, facts)
    if order is Order.WENT_BACK:
        verdict, facts = _after_going_back(run, seen.evidence, verdict, facts)
    _note_who_told(run, verdict, facts)
    if not runs.record(database, run.run_id, verdict, went_back=order is Order.WENT_BACK, **facts.columns()):
        return False
    known, now = _places(run, facts.submission, verdict)
    if run.ended and guesses.begins_anew(verdict.state, was_told=run.is_only_told, known=known, seen=now):
        run_sync.reopen(database, run.run_id)  # another home resumed it, or nobody had recorded its end
    more = _take_lines(database, run, seen)
    if seen.exists and seen.evidence is not None:  # else nobody read the outbox: what it had is not gone
        checkpoints.record_outbox(database, run.run_id, seen.outbox, unreadable=seen.unreadable)
    return more


def _places(run: Run, submission: int | None, verdict: Verdict) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return (submission, attempt, number) of the last record that was known of a run, and of the last one that was seen."""
    seen = (submission or run.submission, verdict.attempt, verdict.seq)
    return (run.submission, run.attempt, run.seq), seen


def _stays(run: Run, evidence: Evidence | None, verdict: Verdict) -> bool:
    """Whether the known end of a run stays, which no process recorded."""
    if evidence is None:
        return False
    known, seen = _places(run, submission_shown(evidence, run.submission), verdict)
    return guesses.stays(
        run.state,
        run.reason,
        is_told=run.is_only_told,
        known=known,
        seen=seen,
        scheduler_status=evidence.scheduler.state if evidence.scheduler is not None else None,
        processes=evidence.processes or 0,
    )


def _with_known_end(run: Run, verdict: Verdict, message: str | None) -> Verdict:
    """Keep the known end of a run, with a message."""
    return dataclasses.replace(verdict, state=run.state, reason=run.reason, message=message, only_told=run.is_only_told)


def _note_who_told(run: Run, verdict: Verdict, facts: Facts) -> None:
    """Record since when only its batch system has told a run's end, and when such an end was revised."""
    if verdict.only_told:
        facts.told_at = facts.observed_at if run.told_at is None else run.told_at
    elif run.is_only_told and verdict.state not in ENDED and (facts.submission or run.submission) == run.submission:
        facts.revised_at = facts.observed_at


def _order(database: Database, run: Run, look: Look, verdict: Verdict, facts: Facts) -> Order:
    """Decide whether an observation is newer than what is known; add its time to `facts`."""
    known, seen = _places(run, facts.submission, verdict)
    if look.moment is None:
        if seen > known:
            facts.cleared += ("seen_boot", "seen_at_s")  # the time noted before is that of a lower place
        facts.cleared += ("less_boot", "less_since_s")
        return Order.NEWER
    seen_at = Moment(look.moment.boot, look.moment.seconds)
    order = compare(
        seen=seen,
        known=known,
        seen_at=seen_at,
        known_at=_known(run.seen_boot, run.seen_at_s),
        less_since=_known(run.less_boot, run.less_since_s),
    )
    if order is Order.DOUBTFUL:
        runs.note_less(database, run.run_id, seen_at.boot, seen_at.seconds)
    facts.seen_boot, facts.seen_at_s = seen_at.boot, seen_at.seconds
    facts.cleared += ("less_boot", "less_since_s")
    return order


def _parts(seen: Observation) -> Iterator[tuple[Literal["metrics", "events"], Lines]]:
    """Yield the lines of its files that came with an observation."""
    if seen.metrics is not None:
        yield "metrics", seen.metrics
    if seen.events is not None:
        yield "events", seen.events


def _take_lines(database: Database, run: Run, seen: Observation) -> bool:
    """Store an observation's metrics and events; return whether the host's files contain more."""
    more = False
    known = {"metrics": run.metrics_offset, "events": run.events_offset}
    take = {"metrics": metrics.record_metrics, "events": metrics.record_events}
    for part, piece in _parts(seen):
        # A file that its job began anew is shorter. Its first lines, too, are new, or replace those of the same steps.
        began_anew = piece.offset is not None and piece.offset < known[part]
        if piece.next_offset > known[part] or began_anew:
            lines = read_lines(piece.text, part)
            take[part](database, run.run_id, lines.records, offset=known[part], next_offset=piece.next_offset)
            if lines.unreadable:
                runs.note_unreadable(database, run.run_id, lines.unreadable, lines.first)
            more = more or len(piece.text) > 32_768
    return more


def _without_folder(run: Run, look: Look, verdict: Verdict, *, came: bool) -> Verdict:
    """Decide whether a run's folder that is not seen was removed; processes alone do not prove that.

    Args:
        run: As the store has it.
        look: What its host showed.
        verdict: Of that.
        came: It was submitted to the host, or seen there.
    """
    # There are no records to compare, so this counts as recent as what was known when the request was sent.
    verdict = dataclasses.replace(verdict, attempt=run.attempt, seq=run.seq)
    there = where(run, look.folder)
    if there is There.REMOVED:
        ran = run.state == "running" and run.reason not in (NOT_ON_HOST, ROOT_AWAY)
        message = wiped_by(run, look.folder) or (
            f"its folder on {run.host} was removed" if came else f"its launch was interrupted before {run.host} had it"
        )
        if verdict.reason == FOLDER_REMOVED:
            message += f" while it ran; the job continues: armada stop {run.run_id} ends it"
        elif ran or run.message in (message + REMOVED_WORDS, message + UNTOLD_WORDS):
            told = look.run.remains is not None and look.run.remains.processes is not None
            message += REMOVED_WORDS if told else UNTOLD_WORDS
        return dataclasses.replace(verdict, message=message)
    message = AWAY_WORDS if run.root_id is not None else "the host has no folder of this run"
    if verdict.reason == FOLDER_REMOVED:
        message += "; processes of it are alive there"
    reason = ROOT_AWAY if run.root_id is not None else NOT_ON_HOST
    return dataclasses.replace(verdict, state="unknown", reason=reason, message=message)


def ask_about(session: HostSession, run: Run) -> Look:
    """Query a host about one run, as `observe` does, without recording anything.

    Raises:
        UnexpectedAnswer: The host's answer about the run is invalid.
    """
    asked = question([run])
    try:
        answer = session.call(asked, timeout_s=TIMEOUT_S)
    except NothingThere as error:
        answer = nothing_there(asked, error)
    look = looks(answer).get(run.run_id)
    if look is None or isinstance(look, Misfit):
        problem = look.problem if look is not None else f"{run.run_id} is not in it"
        raise UnexpectedAnswer(f"the answer to {asked.method} does not fit: {problem}", host=run.host)
    return look


def _known(boot: str | None, seconds: float | None) -> Moment | None:
    return None if boot is None or seconds is None else Moment(boot, seconds)


def _after_going_back(run: Run, evidence: Evidence | None, verdict: Verdict, facts: Facts) -> tuple[Verdict, Facts]:
    """Keep a run ended that was seen to end, whatever an older copy of its host's disk shows.

    A submission that the host refused was never made. Another one that was not seen to end stays known if its job may
    live. What was seen of an end, or of such a job, stays known, so that the next answer shows less, too.
    """
    known, now = _places(run, facts.submission, verdict)
    if evidence is not None and was_refused(evidence, run.state, run.reason, known=known, seen=now):
        because = f"{verdict.because}; its host refused submission {run.submission}, which was claimed before"
        return dataclasses.replace(verdict, because=because), facts
    words = "its host shows an older state of it than before; its disk may have been restored from a snapshot"
    if not run.ended and evidence is not None and (facts.submission or run.submission) < run.submission:
        judged = of_put_back(evidence, verdict, submission=run.submission, attempt=run.attempt, seq=run.seq)
        if judged.reason == PUT_BACK:
            return judged, _only_seen(facts)
    if run.ended and not run.is_guess and not _lives(evidence):
        because = f"it was seen to end ({run.state}); {words}"
        verdict = dataclasses.replace(verdict, attempt=run.attempt, seq=run.seq, because=because)
        known_words = run.message or words
        message = known_words if known_words.endswith(words) else f"{known_words}; {words}"
        return _with_known_end(run, verdict, message), _only_seen(facts, root_id=facts.root_id)
    facts.metrics_offset = facts.events_offset = 0
    message = verdict.message or words
    return dataclasses.replace(verdict, message=message, because=f"{verdict.because}; {words}"), facts


def _only_seen(facts: Facts, *, root_id: str | None = None) -> Facts:
    """Keep of an observation when it was made, and nothing that an older copy of a disk shows of a run."""
    cleared = tuple(name for name in facts.cleared if name not in ("ended_at", "exit_code"))
    return Facts(
        observed_at=facts.observed_at,
        seen_boot=facts.seen_boot,
        seen_at_s=facts.seen_at_s,
        root_id=root_id,
        cleared=cleared,
    )


def _lives(evidence: Evidence | None) -> bool:
    """Whether anything but the files of its folder shows that a run lives."""
    if evidence is None:
        return False
    job = evidence.submission.job if evidence.submission is not None else None
    told = evidence.scheduler
    return guesses.outlives_its_disk(
        job.scheduler if job is not None else None,
        scheduler_status=told.state if told is not None else None,
        detail=told.detail if told is not None else None,
        processes=evidence.processes or 0,
    )


def _stall_after_s(database: Database, run: Run) -> float | None:
    text = runs.setting(database, run.run_id, "stall_after")
    return duration_s(text) if isinstance(text, str) and text != "never" else None
