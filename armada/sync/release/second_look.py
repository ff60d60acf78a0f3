"""What home judged, told to a host that is asked to delete it: the host refuses if it has anything else by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from armada.errors import Conflict
from armada.home import own
from armada.protocol.homes import AskingHome
from armada.protocol.host import JudgedRun, WipeRoot
from armada.protocol.observation import Observe
from armada.protocol.runs import JudgedFolder
from armada.sync.release.judge import Listed, list_run, list_there
from armada.sync.release.meanwhile import digests

if TYPE_CHECKING:
    from armada.protocol.sync import RunListing
    from armada.rpc.session import HostSession
    from armada.sync.context import HostContext, SyncContext


class Ground(NamedTuple):
    """What a host had when home began to judge it.

    Attributes:
        root: The id of its root; None if it could not be told.
        listed: Its runs, and what lies among them.
        wiped: The ids that its root had before it was wiped. The answer to one of these wipes may have been lost.
    """

    root: str | None
    listed: Listed
    wiped: tuple[str, ...] = ()


def see_ground(session: HostSession) -> Ground:
    """List what a host has, and say on which root."""
    seen = session.call(Observe(runs=()))  # first: the runs of another root are then no reason to delete this one
    return Ground(seen.root, list_there(session), tuple(wipe.root for wipe in seen.wiped))


def wipe_of(context: HostContext, ground: Ground) -> WipeRoot:
    """Return the request to delete what home judged. Only what is known is named: an older agent says less."""
    listed = ground.listed
    judged = [_judged(run_id, number, listed.judged.get(run_id)) for run_id, number in listed.submissions.items()]
    request = WipeRoot(home=AskingHome(**own(context.home).as_json()), runs=tuple(judged))
    return request if ground.root is None else WipeRoot(home=request.home, runs=request.runs, root=ground.root)


def _judged(run_id: str, submission: int | None, listing: RunListing | None) -> JudgedRun:
    told: dict[str, Any] = {"submission": submission}
    if listing is not None:
        told |= {"attempt": listing.attempt, "announced": listing.announced}
        told |= {"checkpoints": tuple(sorted(digests(listing)))}
    return JudgedRun(run_id=run_id, **{name: value for name, value in told.items() if value is not None})


def look_again(context: SyncContext, judged: RunListing) -> JudgedFolder:
    """List a run's files once more, after home's copies were read, and return what the host may delete.

    The host compares, too, but only what names checkpoints; and an older agent does not.

    Raises:
        Conflict: Something came since the run was judged.
        HostUnreachable: Nothing can be decided.
    """
    now = list_run(context)
    came = what_came(judged, now) if now is not None else None
    if came is not None:
        what = f"{context.run_id} {came} since it was looked at; nothing was deleted"
        raise Conflict(what, hint="run the same command again", host=context.host)
    numbers = {"submission": judged.submission, "attempt": judged.attempt}
    return JudgedFolder(
        checkpoints=tuple(sorted(digests(judged))),
        announced=judged.announced or 0,
        **{name: number for name, number in numbers.items() if number is not None},
    )


def what_came(before: RunListing, now: RunListing) -> str | None:
    """Say what a run's folder has that it had not when it was listed before; None: nothing."""
    if now.submission != before.submission:
        return "was submitted again"
    if (now.attempt or 0) > (before.attempt or 0):
        return "began again"
    unfinished = [(each.announced or 0) + (each.finishing or 0) for each in (before, now)]
    if digests(now) - digests(before) or unfinished[1] > unfinished[0]:
        return "got a checkpoint"
    if set(now.outputs) - set(before.outputs) or _has_more_others(before, now) or now.problem != before.problem:
        return "wrote files"
    return None


def _has_more_others(before: RunListing, now: RunListing) -> bool:
    """Whether there are more files, or more bytes, of those that no pattern names: these are not listed one by one."""
    pairs = [
        ((each.others.count or 0), (each.others.size_bytes or 0)) if each.others else (0, 0) for each in (before, now)
    ]
    return any(later > earlier for earlier, later in zip(*pairs, strict=True))
