"""Decide whether a run's folder is still what home judged, right before it is deleted.

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
    """What was seen of a run's folder. None of a submission or an attempt: home did not say which one it judged.

    `checkpoints`: digests of the finished ones. `announced`: how many others there are.
    """

    submission: Optional[int]
    attempt: Optional[int]
    checkpoints: FrozenSet[str]
    announced: int


def why_not_since(run_id: str, judged: FolderSeen, now: FolderSeen) -> Optional[Refusal]:
    """Judge what the folder has now, beside what home judged."""
    if judged.submission is not None and now.submission != judged.submission:
        what = "was submitted again"
    elif judged.attempt is not None and (now.attempt or 0) > judged.attempt:
        what = "began again"
    elif now.checkpoints - judged.checkpoints or now.announced > judged.announced:
        what = "got a checkpoint"
    else:
        return None
    return Refusal("%s %s since it was looked at; nothing was deleted" % (run_id, what), "run the same command again")
