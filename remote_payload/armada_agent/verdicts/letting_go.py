"""Decide whether a checkpoint may be deleted on its host, from what each home has said about it.

| it is the newest | the home that asks                | the other homes that registered for the run  | it       |
|------------------|-----------------------------------|----------------------------------------------|----------|
| yes              | whatever it said                  | whatever they said                           | stays    |
| no               | has not said that it holds it     | whatever they said                           | stays    |
| no               | holds it                          | one has said nothing about it                | stays    |
| no               | holds it                          | each holds it, or does not want it           | may go   |

A home that says nothing may be away for a month; its silence lets nothing go. Only a person ends its say, by name
(`armada hosts forget-home`). A home of the first release has no name: it may go by an acknowledgement that has none.
"""

from typing import FrozenSet, List, NamedTuple, Optional


class Words(NamedTuple):
    """What homes said about one checkpoint, by the homes' ids.

    `registered` are those that want to hear of the run. `acknowledged`: some home said that it holds it, named or not.
    """

    registered: FrozenSet[str]
    held_by: FrozenSet[str]
    unwanted_by: FrozenSet[str]
    acknowledged: bool


class Verdict(NamedTuple):
    """Whether it may go; where not, which homes lack it, or why else."""

    goes: bool
    lacking: List[str]
    reason: Optional[str]


def lacking(words: Words, asker: Optional[str] = None) -> List[str]:
    """List the registered homes, but for the one that asks, that have said nothing about a checkpoint."""
    return sorted(words.registered - words.held_by - words.unwanted_by - {asker})


def may_go(words: Words, asker: Optional[str], is_newest: bool) -> Verdict:
    """Judge what one home asks to delete.

    Args:
        words: What homes said.
        asker: The home that asks; None for one of the first release.
        is_newest: Whether it is the newest of its run.
    """
    if is_newest:
        return Verdict(False, [], "it is the newest on this host")
    if not (words.acknowledged if asker is None else asker in words.held_by):
        return Verdict(False, [], "no home has confirmed that it has it")
    silent = lacking(words, asker)
    return Verdict(not silent, silent, None)
