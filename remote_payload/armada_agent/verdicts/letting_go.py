"""Decide whether a checkpoint may be deleted on its host, from what each home has reported about it.

| it is the newest | the home that asks                | the other homes that registered for the run | it     |
|------------------|-----------------------------------|---------------------------------------------|--------|
| yes              | any                               | any                                         | stays  |
| no               | has not reported that it holds it | any                                         | stays  |
| no               | holds it                          | one has reported nothing about it           | stays  |
| no               | holds it                          | each holds it, or does not want it          | may go |

A home that reports nothing may be offline for a month, so its silence never permits a deletion. Only a person can
remove a home from the decision, by name (`armada hosts forget-home`). A home of the first release has no name: an
acknowledgement without a name suffices for it.
"""

from typing import FrozenSet, List, NamedTuple, Optional


class Words(NamedTuple):
    """What homes reported about one checkpoint, by the homes' ids.

    `registered`: the homes that want to hear of the run. `acknowledged`: some home, named or not, reported that it
    holds the checkpoint.
    """

    registered: FrozenSet[str]
    held_by: FrozenSet[str]
    unwanted_by: FrozenSet[str]
    acknowledged: bool


class Verdict(NamedTuple):
    """Whether the checkpoint may be deleted; if not, which homes lack it, or the other reason."""

    goes: bool
    lacking: List[str]
    reason: Optional[str]


def lacking(words: Words, asker: Optional[str] = None) -> List[str]:
    """List the registered homes, except the one that asks, that have reported nothing about the checkpoint."""
    return sorted(words.registered - words.held_by - words.unwanted_by - {asker})


def may_go(words: Words, asker: Optional[str], is_newest: bool) -> Verdict:
    """Judge one home's request to delete a checkpoint.

    Args:
        words: What homes reported.
        asker: The home that asks; None for one of the first release.
        is_newest: Whether the checkpoint is the newest of its run.
    """
    if is_newest:
        return Verdict(False, [], "it is the newest on this host")
    if not (words.acknowledged if asker is None else asker in words.held_by):
        return Verdict(False, [], "no home has confirmed that it has it")
    silent = lacking(words, asker)
    return Verdict(not silent, silent, None)
