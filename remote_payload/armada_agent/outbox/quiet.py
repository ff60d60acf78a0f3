"""When the files of checkpoints were seen to change, by a clock that nobody sets.

The dates of files say when they changed by the file system's clock. The machine's clock may be ahead of it, and jumps
when it is set: it would make a file that was written just now look an hour old.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from armada_agent.outbox.inventory import INCOMPLETE, Inventory, Survey


class Sighting(NamedTuple):
    """What is known of a checkpoint's changes; all times in monotonic seconds.

    Attributes:
        inventory: Its files, at the newest look.
        signature: Of these.
        since: The look since which nothing of it changed, nor a file that a link in it leads to.
        own_since: The look since which none of its own files changed.
        own_after: The last look before that change; None if nobody saw it change.
    """

    inventory: Inventory
    signature: str
    since: float
    own_since: float
    own_after: Optional[float]


class Sightings:
    """The looks at a run's checkpoints."""

    def __init__(self) -> None:
        self._seen: Dict[str, Sighting] = {}
        self._looked_at: Optional[float] = None

    def note(self, found: List[Tuple[str, Survey]], now: float) -> Dict[str, Sighting]:
        """Note a look, and return what is known now, by path."""
        seen = {}
        for path, survey in found:
            signature, inventory = survey.signature, survey.inventory
            before = self._seen.get(path)
            if before is None or before.signature != signature:
                seen[path] = Sighting(inventory, signature, now, now, self._looked_at)
            else:
                since = before.since if before.inventory == inventory else now
                seen[path] = before._replace(inventory=inventory, since=since)
        self._seen, self._looked_at = seen, now
        return seen

    def was_quiet(self, path: str, ended: float, quiet_s: float, by_date: bool) -> bool:
        """Return whether a checkpoint had not changed for a while when its job ended.

        Args:
            path: The checkpoint.
            ended: When the job ended, monotonic seconds.
            quiet_s: How long a while is.
            by_date: What the dates of its files say. That counts where the looks do not tell: nobody saw it change, or
                there was no look for long.
        """
        known = self._seen.get(path)
        if known is None:
            return by_date
        if ended - known.own_since >= quiet_s:
            return True
        return by_date and (known.own_after is None or ended - known.own_after >= quiet_s)


def why_left(path: str, survey: Survey, quiet_s: float) -> str:
    """Say why a checkpoint is not taken whose job has ended."""
    if survey.is_marked:
        return "%s is not whole, as its %s says: it is not taken" % (path, INCOMPLETE)
    return "%s was still being written to less than %g s before the job ended: it is not taken" % (path, quiet_s)
