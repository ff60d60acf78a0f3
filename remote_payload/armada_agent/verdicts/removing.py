"""Decide whether a run's folder is still what home judged, right before it, or all of its root, is deleted.

Home reads every byte of its copies first, which may take minutes. Meanwhile another process of home may resume the run.

| the folder has                                              | it is deleted |
|-------------------------------------------------------------|---------------|
| another submission than home judged                         | no            |
| a later attempt: its batch system started its job again     | no            |
| a finished checkpoint that home did not judge               | no            |
| more announced checkpoints than home judged                 | no            |
| none of these                                               | yes           |
"""

from typing import FrozenSet, NamedTuple, Optional

from armada_agent.verdicts.wiping import Refusal


class FolderSeen(NamedTuple):
    """What was seen of a run's folder. None of anything: home did not say what it judged of that.

    `checkpoints`: digests of the finished ones. `announced`: how many others there are.
    """

    submission: Optional[int]
    attempt: Optional[int]
    checkpoints: Optional[FrozenSet[str]]
    announced: Optional[int]


def why_not_since(run_id: str, judged: FolderSeen, now: FolderSeen) -> Optional[Refusal]:
    """Judge what the folder has now, beside what home judged."""
    finished = judged.checkpoints is not None and bool((now.checkpoints or frozenset()) - judged.checkpoints)
    unfinished = judged.announced is not None and (now.announced or 0) > judged.announced
    if judged.submission is not None and now.submission != judged.submission:
        what = "was submitted again"
    elif judged.attempt is not None and (now.attempt or 0) > judged.attempt:
        what = "began again"
    elif finished or unfinished:
        what = "got a checkpoint"
    else:
        return None
    return Refusal("%s %s since it was looked at; nothing was deleted" % (run_id, what), "run the same command again")
