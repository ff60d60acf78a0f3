"""Decide whether a host can be destroyed without losing anything, by querying the host and checking home's files."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING

from armada.config.schedulers import cancel_command
from armada.config.sync import settings_of
from armada.errors import NotFound, SchedulerRefused, UnexpectedAnswer
from armada.foundation.validation import mapping
from armada.home import own
from armada.monitor.look import Folder, Look, looks, where
from armada.protocol.host import ForgetSecrets
from armada.protocol.message import Misfit
from armada.protocol.observation import Observe, ObservedRun
from armada.protocol.runs import ListRuns, StopRun
from armada.protocol.sync import ListOutboxes, RunToList
from armada.store import checkpoints, run_sync, runs, transitions
from armada.sync.checkpoints import optimizers
from armada.sync.checkpoints.proof import Prover
from armada.sync.outputs.download import not_at_home
from armada.sync.outputs.listing import coming
from armada.sync.outputs.long_logs import left_there
from armada.sync.release.meanwhile import came_to
from armada.sync.release.unnamed_files import Unnamed, read_unnamed, without_those_at_home
from armada.sync.schedule.due import NOT_WANTED
from armada.verdicts.presence import There
from armada.verdicts.proof import Proof
from armada.verdicts.release import (
    CheckpointThere,
    Item,
    Life,
    OtherHome,
    RunMissing,
    RunThere,
    does_without,
    judge,
    judge_missing,
    life_of,
    may_be_renamed,
    no_run,
    put_there_meanwhile,
    unlisted,
    unseen,
    was_stopped_and_forgotten,
)
from armada.verdicts.state import submission_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from armada.foundation.progress import Progress
    from armada.protocol.homes import EnrolledHome
    from armada.protocol.host import ForgottenSecrets
    from armada.protocol.observation import Observations
    from armada.protocol.records import Evidence
    from armada.protocol.sync import RunListing
    from armada.rpc.session import HostSession
    from armada.store.checkpoints import Checkpoint
    from armada.store.database import Database
    from armada.store.runs import Run
    from armada.sync.context import HostContext, SyncContext

_AT_ONCE = 200
_LOOKS = 30
_LOOK_EVERY_S = 0.3
_BEYOND = 1 << 50
"""An offset beyond the end of any file: requests the evidence only, without metrics and events."""


def judge_host(
    context: HostContext, *, ignore_work: bool = False, progress: Progress | None = None, listed: Listed | None = None
) -> list[Item]:
    """List what destroying the host would lose, and what the user may want to know before.

    Args:
        context: The host.
        ignore_work: Do not count files that runs wrote below work/ and that no `sync.outputs` pattern matches.
        progress: Receives what is read at home.
        listed: What the host has, where the caller listed it before; only that is judged, and what came since is named.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    listed = listed if listed is not None else list_there(context.session)
    items = _judge_listed(context, listed, ignore_work=ignore_work, progress=progress)
    return items + came_since(context, listed)


def judge_and_forget_secrets(
    context: HostContext,
    *,
    ignore_work: bool = False,
    progress: Progress | None = None,
    judged: Callable[[], None] = lambda: None,
    listed: Listed | None = None,
) -> tuple[list[Item], ForgottenSecrets]:
    """Judge a host as `judge_host` does, and delete there the secrets that nothing needs any more.

    What the host has is listed once more when everything else is done: nothing that was launched until then goes unsaid.

    Args:
        context: The host.
        ignore_work: As `judge_host`.
        progress: As `judge_host`.
        judged: Called before secrets are deleted.
        listed: As `judge_host`.

    Returns:
        The list, and the runs whose secrets were deleted or kept.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    listed = listed if listed is not None else list_there(context.session)
    items = _judge_listed(context, listed, ignore_work=ignore_work, progress=progress)
    judged()
    secrets = context.session.call(ForgetSecrets(leaves=not losses(items), runs=tuple(listed.submissions)))
    items += came_since(context, listed)
    if not losses(items) and not ignore_work:  # what a person gives up once is still there the next time
        run_sync.nothing_is_left(
            context.database, [run.run_id for run in runs.every(context.database, host=context.host)]
        )
    return items, secrets


def list_run(context: SyncContext) -> RunListing | None:
    """Return what a run's host has of it now; None if it has no folder of it.

    Raises:
        HostUnreachable: Nothing can be decided.
        UnexpectedAnswer: The host's answer about the run cannot be read.
    """
    outputs = tuple(settings_of(_spec(context.database, context.run_id) or {}).outputs)
    asked = ListOutboxes(runs=(RunToList(run_id=context.run_id, outputs=outputs),))
    try:
        answer = context.session.call(asked, timeout_s=300.0).runs
    except NotFound:  # nothing of armada's is there any more
        return None
    listed = [each for each in answer if not isinstance(each, Misfit)]
    entry = next((each for each in listed if each.run_id == context.run_id), None)
    if entry is None:
        what = f"{context.host} does not say what it has of {context.run_id}: its answer about it cannot be read"
        raise UnexpectedAnswer(what, hint=f"armada hosts check {context.host}", host=context.host)
    return entry if entry.exists else None


def judge_run(context: SyncContext, entry: RunListing, progress: Progress | None = None) -> list[Item]:
    """List what this home would lose with one run's folder on its host, by the same rules as `judge_host`.

    Whether its job lives and what other homes lack is not listed: the host refuses to delete such a run.

    Args:
        context: The run, which home knows.
        entry: What its host has of it.
        progress: Receives what is read at home.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    prover = Prover(context.database, progress)
    spec = _spec(context.database, context.run_id)
    unnamed = without_those_at_home(context, prover, settings_of(spec or {}).outputs, read_unnamed(entry))
    seen = _gather(context, prover, entry, spec, Life.NONE, unnamed)
    return losses(judge(dataclasses.replace(seen, others=())))


def judge_scraps(context: SyncContext) -> list[Item]:
    """List what may go on of a run whose folder on its host lacks its submission: its job made it anew, or the disk was reset.

    The host cannot refuse to delete such a folder: it does not know whose job it was.

    Args:
        context: The run, which home knows.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    answer = context.session.call(_only_evidence([context.run_id]), timeout_s=60.0)
    told = looks(answer).get(context.run_id)
    scraps = _scraps(context.database, Prover(context.database), context.run_id, answer, told)
    return losses(judge_missing(scraps)) if scraps is not None else []


def judge_absent(context: SyncContext) -> list[Item]:
    """List what may go on of a run whose folder its host does not have, on the root that it was submitted to.

    Args:
        context: The run, which home knows.

    Raises:
        HostUnreachable: Nothing can be decided.
    """
    run = runs.find(context.database, context.run_id)
    try:
        answer = context.session.call(_only_evidence([run.run_id]), timeout_s=60.0)
    except NotFound:  # nothing of armada's is there any more: its root is away
        return []
    look = looks(answer).get(run.run_id)
    if isinstance(look, Look) and look.run.exists:
        return [unlisted(run.run_id, context.host)]
    seen = _missing(context.database, Prover(context.database), run, answer, look)
    if seen.there is not There.REMOVED:
        return []
    listed = context.session.call(ListRuns())
    ids = [each.run_id for each in listed.runs if not isinstance(each, Misfit)]
    others = [*listed.strange, *(each for each in ids if not runs.is_known(context.database, each))]
    renamed = [may_be_renamed(run.run_id, name) for name in others if run.run_id in name]
    return losses(judge_missing(seen)) + renamed


def lacking_elsewhere(context: SyncContext, entry: RunListing) -> list[Item]:
    """List what other homes that registered for a run have not fetched of it."""
    others = [_other(home, entry) for home in entry.homes if home.id != own(context.home).id]
    return losses(judge(RunThere(context.run_id, context.host, known=True, life=Life.NONE, others=others)))


def _judge_listed(context: HostContext, listed: Listed, *, ignore_work: bool, progress: Progress | None) -> list[Item]:
    prover = Prover(context.database, progress)
    run_ids = list(listed.submissions)
    items = _not_there(context, prover, run_ids, ignore_work=ignore_work)
    for start in range(0, len(run_ids), _AT_ONCE):
        items += _judge_some(context, prover, listed, run_ids[start : start + _AT_ONCE], ignore_work=ignore_work)
    return items + list(map(no_run, listed.strange))


def came_since(context: HostContext, listed: Listed) -> list[Item]:
    """List what is there that was not listed before it was judged: reading every byte at home took time."""
    before, now = listed.submissions, list_there(context.session)
    came = [run_id for run_id, number in now.submissions.items() if run_id not in before or number != before[run_id]]
    items = [put_there_meanwhile(run_id, context.host) for run_id in came]
    judged = [run_id for run_id in listed.judged if run_id not in came]
    for start in range(0, len(judged), _AT_ONCE):
        answer = context.session.call(_only_evidence(judged[start : start + _AT_ONCE]), timeout_s=60.0)
        for run_id, look in looks(answer).items():
            known = listed.judged.get(run_id)
            words = came_to(known, look.run) if isinstance(look, Look) and known is not None else None
            items += [put_there_meanwhile(run_id, context.host, words)] if words is not None else []
    return items + [no_run(name) for name in now.strange if name not in listed.strange]


def settle_stopped(session: HostSession, *, sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Record the end of runs that the user stopped and whose batch system then forgot their jobs, as a second stop would.

    Args:
        session: A session with the host.
        sleep: Waits this many seconds between two polls.

    Returns:
        The ids of the runs.

    Raises:
        HostUnreachable: The host does not answer.
    """
    listed = runs_there(session)
    found = [run_id for run_id, life in _evidence(session, listed).items() if was_stopped_and_forgotten(life)]
    for run_id in found:
        with contextlib.suppress(SchedulerRefused, NotFound):  # the verdict reports what is left of it
            session.call(StopRun(run_id=run_id, grace_s=0.0), timeout_s=60.0)
    for _ in range(_LOOKS if found else 0):  # a separate process writes the end
        if not any(was_stopped_and_forgotten(life) for life in _evidence(session, found).values()):
            break
        sleep(_LOOK_EVERY_S)
    return found


def _only_evidence(run_ids: Sequence[str]) -> Observe:
    asked = (ObservedRun(run_id=run_id, metrics_offset=_BEYOND, events_offset=_BEYOND) for run_id in run_ids)
    return Observe(runs=tuple(asked))


def _evidence(session: HostSession, run_ids: Sequence[str]) -> dict[str, Evidence | None]:
    found: dict[str, Evidence | None] = {}
    for start in range(0, len(run_ids), _AT_ONCE):
        answer = session.call(_only_evidence(run_ids[start : start + _AT_ONCE]), timeout_s=60.0)
        found |= {each.run_id: each.evidence for each in answer.runs if not isinstance(each, Misfit) and each.exists}
    return found


def _not_there(context: HostContext, prover: Prover, there: Sequence[str], *, ignore_work: bool) -> list[Item]:
    """Judge the runs that home submitted to this host and that it does not show now. If its root changed, they may be on another disk."""
    database, session = context.database, context.session
    missing = [run for run in runs.every(database, host=session.host.name) if run.run_id not in there]
    if not missing:
        return []
    items: list[Item] = []
    for start in range(0, len(missing), _AT_ONCE):
        some = missing[start : start + _AT_ONCE]
        answer = session.call(_only_evidence([run.run_id for run in some]), timeout_s=60.0)
        told = looks(answer)
        for run in some:
            look = told.get(run.run_id)
            if not (was_there(database, run) or _shows_processes(look)):
                continue
            if isinstance(look, Look) and look.run.exists:
                items.append(unlisted(run.run_id, context.host))
                continue
            seen = _missing(database, prover, run, answer, look)
            items += judge_missing(seen, ignore_work=ignore_work)
    return items


def was_there(database: Database, run: Run) -> bool:
    """Whether home submitted a run to its host, or may have: one whose launch broke off before left nothing there."""
    # A stop may find that it never was on its host; then nothing has shown it there since.
    never_came = run.state == "cancelled" and not transitions.was_seen(database, run.run_id)
    return run.root_id is not None or (run.observed_at is not None and not never_came)


def _shows_processes(told: Look | Misfit | None) -> bool:
    """Whether processes live of a run whose folder is not on the host: a recovery that broke off has not recorded that it was."""
    return isinstance(told, Look) and told.run.remains is not None and bool(told.run.remains.processes)


def _missing(
    database: Database, prover: Prover, run: Run, answer: Observations, told: Look | Misfit | None
) -> RunMissing:
    """Build the evidence about a run that the host does not have, from its part of a `run.observe` answer."""
    kind = mapping(mapping(_spec(database, run.run_id)).get("scheduler")).get("kind")
    may_wait = kind and (not run.ended or run.is_guess) and transitions.was_seen(database, run.run_id)
    remains = told.run.remains if isinstance(told, Look) else None
    known = 0 if run.ended and not run.is_guess else None
    return RunMissing(
        run.run_id,
        where(run, Folder(exists=False, root=answer.root, wiped=answer.wiped)),
        settled=_is_settled(database, prover, run.run_id),
        processes=remains.processes if remains is not None and remains.processes is not None else known,
        queued=cancel_command(str(kind), run.run_id, run.submission) if may_wait else None,
        left=run_sync.find(database, run.run_id).left_there,
    )


def _is_settled(database: Database, prover: Prover, run_id: str) -> bool:
    """Whether everything of a run came home, and what its host had last is proven to be here still."""
    known = checkpoints.of_run(database, run_id)
    left = [c for c in known if c.on_host and not _is_unwanted(prover, c, known)]
    if runs.find(database, run_id).is_guess:
        return False
    return run_sync.find(database, run_id).final_done and prover.are_proven(left)


def runs_there(session: HostSession) -> list[str]:
    """Return the ids of the runs that a host has."""
    return list(list_there(session).submissions)


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """What a host has at one moment.

    Attributes:
        submissions: How often each run was submitted, by id; None: it is not said.
        strange: Names of what lies among the runs and is none: a run's folder that somebody renamed, or somebody's files.
        judged: What was listed of each run when it was judged, by id; filled by whoever judges.
    """

    submissions: Mapping[str, int | None]
    strange: tuple[str, ...]
    judged: dict[str, RunListing] = dataclasses.field(default_factory=dict)


def list_there(session: HostSession) -> Listed:
    """List the runs that a host has, and what lies among them."""
    answer = session.call(ListRuns())
    found = {run.run_id: run.submission for run in answer.runs if not isinstance(run, Misfit)}
    return Listed(found, tuple(answer.strange))


def losses(items: Sequence[Item]) -> list[Item]:
    return [item for item in items if item.lost]


def _judge_some(
    context: HostContext, prover: Prover, listed: Listed, run_ids: Sequence[str], *, ignore_work: bool
) -> list[Item]:
    database, session = context.database, context.session
    specs = {run_id: _spec(database, run_id) for run_id in run_ids}
    to_list = (RunToList(run_id=r, outputs=tuple(settings_of(specs[r] or {}).outputs)) for r in run_ids)
    try:
        # In this order: what no longer lives writes nothing after its files were listed.
        evidence = session.call(_only_evidence(run_ids), timeout_s=60.0)
        listings = session.call(ListOutboxes(runs=tuple(to_list)), timeout_s=300.0)
    except UnexpectedAnswer:
        return [unseen(run_id, context.host) for run_id in run_ids]
    looked = {each.run_id: each for each in listings.runs if not isinstance(each, Misfit) and each.exists}
    told = looks(evidence)
    items: list[Item] = []
    for run_id in run_ids:
        look = told.get(run_id)
        scraps = _scraps(database, prover, run_id, evidence, look)
        exists = isinstance(look, Look) and look.run.exists
        if run_id not in looked or not (exists or scraps is not None):
            remains = look.run.remains if isinstance(look, Look) else None
            lives = remains is not None and remains.processes != 0
            is_none = run_id in looked and not lives and not runs.is_known(database, run_id)
            items.append(no_run(run_id) if is_none else unseen(run_id, context.host))
            continue
        listed.judged[run_id] = looked[run_id]
        items += judge_missing(scraps, ignore_work=ignore_work) if scraps is not None else []
        life = life_of(look.run.evidence) if isinstance(look, Look) and exists else Life.NONE
        unnamed = read_unnamed(looked[run_id])
        if specs[run_id] is not None and not ignore_work:
            outputs = settings_of(specs[run_id] or {}).outputs
            unnamed = without_those_at_home(context.of_run(run_id), prover, outputs, unnamed)
        seen = _gather(context.of_run(run_id), prover, looked[run_id], specs[run_id], life, unnamed)
        items += judge(seen, ignore_work=ignore_work)
    return items


def _scraps(
    database: Database, prover: Prover, run_id: str, answer: Observations, told: Look | Misfit | None
) -> RunMissing | None:
    """Return what may still live of a run whose folder was deleted, made anew by its job, or reset; None if none of that is seen.

    A folder made anew shows no submission of a run that home has seen submitted; one that was reset, an earlier one.
    """
    if not isinstance(told, Look) or not runs.is_known(database, run_id):
        return None
    run, evidence = runs.find(database, run_id), told.run.evidence
    if not told.run.exists:
        return _missing(database, prover, run, answer, told) if told.run.remains is not None else None
    shown = submission_shown(evidence, run.submission)
    if evidence is None or (shown or 0) >= run.submission or not transitions.was_seen(database, run_id):
        return None
    # What lives of a folder that is there is in its evidence.
    return dataclasses.replace(_missing(database, prover, run, answer, told), processes=0, shown=shown)


def _gather(
    context: SyncContext,
    prover: Prover,
    entry: RunListing,
    spec: dict[str, object] | None,
    life: Life,
    unnamed: Unnamed,
) -> RunThere:
    """Build the evidence about a run from its part of a `sync.look` answer and from home's own disk."""
    run_id = context.run_id
    listing, skipped = coming(context.home, run_id, entry, settings_of(spec or {}).log_limit_bytes)
    missing = not_at_home(context, listing) if spec is not None else []
    return RunThere(
        run_id=run_id,
        host=context.host,
        known=spec is not None,
        life=life,
        others=[_other(home, entry) for home in entry.homes if home.id != own(context.home).id],
        checkpoints=list(_checkpoints(context.database, prover, entry, spec)),
        announced=entry.announced or 0,
        finishing=entry.finishing or 0,
        outside=(entry.outside.count or 0, entry.outside.examples) if entry.outside is not None else (0, ()),
        stale=[(item.path, item.size_bytes) for item in missing],
        unnameable=skipped,
        log_left=left_there(listing) if spec is not None else (0, 0),
        problem=entry.problem,
        truncated=entry.truncated,
        unnamed=(unnamed.count, unnamed.size_bytes, unnamed.examples),
        dirty=bool(mapping((spec or {}).get("project")).get("dirty")),
    )


def _checkpoints(
    database: Database, prover: Prover, entry: RunListing, spec: dict[str, object] | None
) -> Iterator[CheckpointThere]:
    known = checkpoints.of_run(database, entry.run_id) if spec is not None else []
    here = {c.digest: c for c in known}
    lacking = {c.digest for c in optimizers.lacking(known, settings_of(spec or {}))}
    there: list[tuple[str, int | None, int | None, str | None]] = [
        (each.digest, each.step, each.size_bytes, None) for each in entry.outbox
    ]
    for digest in entry.unreadable:
        found = here.get(digest)
        told = (found.step, found.size_bytes) if found is not None else (None, None)
        there.append((digest, *told, f"outbox/{digest}"))
    for digest, step, size_bytes, unreadable in there:
        found = here.get(digest)
        proof = Proof.MISSING if found is None else prover.prove(found)
        unwanted = found is not None and _is_unwanted(prover, found, known)
        yield CheckpointThere(step, size_bytes, proof, unwanted, digest in lacking, unreadable)


def _is_unwanted(prover: Prover, checkpoint: Checkpoint, known: Sequence[Checkpoint]) -> bool:
    if checkpoint.trouble != NOT_WANTED:
        return False
    return does_without([prover.prove(c) for c in known if c.home_path is not None])


def _other(home: EnrolledHome, entry: RunListing) -> OtherHome:
    missing = {*(checkpoint.digest for checkpoint in entry.outbox), *entry.unreadable} - home.spoken_of
    return OtherHome(home.id, home.named, home.seen_at, len(missing), home.settled)


def _spec(database: Database, run_id: str) -> dict[str, object] | None:
    try:
        return runs.spec(database, runs.find(database, run_id).run_id) if runs.is_known(database, run_id) else None
    except NotFound:
        return None
