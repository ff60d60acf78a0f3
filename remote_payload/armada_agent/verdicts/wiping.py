"""Decide whether all of armada's files on a host may be deleted, from what two looks at them saw.

The first look sees the runs where they are. Then the folder of runs is set aside, where nothing is added by name any
more, and the second look sees what is to be deleted.

| home's own judgement, before both, did not see                 | all is deleted |
|----------------------------------------------------------------|----------------|
| this root, and it records no wipe of the judged one            | no             |
| this root, and it records such a wipe, and has runs            | no             |
| this root, and it records such a wipe, and has no run          | yes            |
| a run, or the submission of a run, that the first look saw     | no             |
| what a run has beside that: by the table in `removing.py`      | no             |

The row with `yes` is a home that asks again, because the answer was lost.

| either look saw                                                | all is deleted |
|----------------------------------------------------------------|----------------|
| a run whose supervisor or job lives here, or may live          | no             |
| processes of a run that has no folder                          | no             |
| a sweep whose dispatcher lives                                 | no             |
| a submission that was claimed, and nothing says more about it  | no             |
| another home that would lose something                         | no             |

| only the second look saw                                       | all is deleted |
|----------------------------------------------------------------|----------------|
| a run, or anything else among the runs                         | no             |
| a later submission of a run                                    | no             |
| another checkpoint of a run                                    | no             |
| none of these                                                  | yes            |

Silence permits nothing: a home that is not registered is not asked, and so whatever came since the first look stays.
"""

from typing import Collection, FrozenSet, List, Mapping, NamedTuple, Optional

_NAMED = 5
_AGAIN = "run the same command again: it checks that, too"


class RunSeen(NamedTuple):
    """What one look saw of a run.

    `lacking`: a sentence for each other home that would lose something. `submission`: the number of the newest one.
    `checkpoints`: digests of the finished ones, and names of the announced ones.
    """

    run_id: str
    alive: bool
    may_start: bool
    lacking: List[str]
    submission: Optional[int]
    checkpoints: FrozenSet[str]


class Seen(NamedTuple):
    """What one look saw of a host.

    `without_folder`: ids of runs that have processes and no folder. `dispatchers`: sweeps whose dispatchers live.
    `strange`: names among the runs that are no runs. `came`: names in a folder of runs that was made anew since the
    former one was set aside.
    """

    runs: List[RunSeen]
    without_folder: List[str]
    dispatchers: List[str]
    strange: FrozenSet[str]
    came: List[str]


class Refusal(NamedTuple):
    """Why nothing is deleted, and what to do."""

    what: str
    hint: str


def why_not(seen: Seen) -> Optional[Refusal]:
    """Judge what one look saw. None: nothing of it keeps the host."""
    alive = [run.run_id for run in seen.runs if run.alive] + seen.without_folder + seen.dispatchers
    if alive:
        return Refusal("%s is still alive" % _named(alive), "stop it first")
    waiting = [run.run_id for run in seen.runs if run.may_start]
    if waiting:
        return Refusal("%s may still start" % _named(waiting), "stop it first")
    lacking = [words for run in seen.runs for words in run.lacking]
    if lacking:
        return Refusal(
            "; ".join(lacking[:_NAMED]), "sync there first; or, if that home is gone, armada hosts forget-home"
        )
    return None


def is_repeated(judged: Optional[str], wiped: Collection[str], runs: Collection[str]) -> bool:
    """Whether a home asks again for a wipe that was done: its answer was lost, and the home reconnected.

    Args:
        judged: The id of the root that home judged; None: it does not say.
        wiped: The former ids of this root, as it records them.
        runs: The names of the runs that it has by now.
    """
    return judged is not None and judged in wiped and not runs


def why_not_this_root(
    judged: Optional[str], now: Optional[str], wiped: Collection[str] = (), runs: Collection[str] = ()
) -> Optional[Refusal]:
    """Judge the root by its id, beside the one that home judged. None as the latter: home does not say which.

    `wiped` and `runs` as for `is_repeated`.
    """
    if judged is None or judged == now or is_repeated(judged, wiped, runs):
        return None
    what = "another root is here than the one that was checked: a disk was mounted or unmounted; nothing was deleted"
    return Refusal(what, _AGAIN)


def why_not_unjudged(judged: Optional[Mapping[str, Optional[int]]], seen: Seen) -> Optional[Refusal]:
    """Judge the first look, beside the runs that home judged, with their submissions as far as it knows these.

    None instead of the runs: home does not say which it judged.
    """
    if judged is None:
        return None
    came = [run.run_id for run in seen.runs if run.run_id not in judged]
    if came:
        return Refusal("%s was put here while the host was checked; nothing was deleted" % _named(came), _AGAIN)
    again = [run.run_id for run in seen.runs if judged[run.run_id] not in (None, run.submission)]
    if again:
        return Refusal("%s was submitted again while the host was checked; nothing was deleted" % _named(again), _AGAIN)
    return None


def why_not_since(before: Seen, now: Seen) -> Optional[Refusal]:
    """Judge the second look, beside the first one."""
    known = {run.run_id: run for run in before.runs}
    came = now.came + [run.run_id for run in now.runs if run.run_id not in known] + sorted(now.strange - before.strange)
    if came:
        return Refusal("%s was put here while the host was checked; nothing was deleted" % _named(came), _AGAIN)
    again = [run.run_id for run in now.runs if run.submission != known[run.run_id].submission]
    if again:
        return Refusal("%s was submitted again while the host was checked; nothing was deleted" % _named(again), _AGAIN)
    saved = [run.run_id for run in now.runs if run.checkpoints - known[run.run_id].checkpoints]
    if saved:
        return Refusal("%s got a checkpoint while the host was checked; nothing was deleted" % _named(saved), _AGAIN)
    return why_not(now)


def why_not_the_rest(came: List[str]) -> Optional[Refusal]:
    """Judge whether the agent and the root's name go, too: what was put there after the second look needs them."""
    if not came:
        return None
    return Refusal(
        "%s was put here while older files were deleted; it stays, and so does the agent" % _named(came), _AGAIN
    )


def _named(names: List[str]) -> str:
    return ", ".join(names[:_NAMED])
